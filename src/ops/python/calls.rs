//! The calls of a function: the rows of an iteration, in groups, to its process, and what it makes of them back.

use super::description::Description;
use super::process::PythonProcess;
use super::settings::{Check, PythonSettings};
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use flow_core::row::{self, keys, RowError, View, NAME};
use flow_core::seed::{mix, text};
use flow_dataflow::context::RunState;
use flow_dataflow::{Context, Failed};
use serde_json::{json, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The column with a function's state for the next iteration.
pub const STATE: &str = "function_state";

/// What to do after an error of a function.
const AGAIN: &str = "\na resumed run calls the same text, which it keeps: to mend the function, begin another run, from these weights by `models: { NAME: { load: RUN } }`";

/// Calls a function, on one worker.
pub struct Calls {
    with: Arc<PythonSettings>,
    description: Description,
    node: String,
    /// The columns that are sent, the names of rows among them; none for all.
    columns: Option<Vec<String>>,
    ctx: CallContext,
    process: Option<PythonProcess>,
    state: Value,
    /// Whether a second call has shown something: one whose values weren't all the same.
    checked: bool,
}

/// What the calls know of the run.
struct CallContext {
    shared: RunState,
    seed: u64,
    prints: Option<PathBuf>,
}

impl Calls {
    /// Those of a node.
    pub fn new(node: &str, with: Arc<PythonSettings>, description: Description, prints: Option<PathBuf>, ctx: &Context) -> Calls {
        let columns = columns(&with, &description);
        let ctx = CallContext { shared: ctx.shared.clone(), seed: ctx.seed, prints };
        Calls { with, description, node: node.into(), columns, ctx, process: None, state: Value::Null, checked: false }
    }

    /// Takes what earlier iterations of a resumed run kept.
    pub fn resume(&mut self, past: &[RecordBatch]) -> Result<(), Failed> {
        let Some(view) = View::sorted(past)? else { return Ok(()) };
        let states = view.read(&[STATE])?;
        let states = row::texts(&states, STATE)?;
        let last = (0..states.len()).rev().map(|i| states.value(i)).find(|state| !state.is_empty());
        self.state = last.map_or(Ok(Value::Null), serde_json::from_str)?;
        Ok(())
    }

    /// What the function makes of these rows.
    ///
    /// # Errors
    /// What it raised, or what is wrong with its rows; or its process ended.
    pub fn of(&mut self, iteration: u64, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>, Failed> {
        let Some(view) = View::sorted(rows)? else { return Ok(vec![]) };
        let rows = self.columns.as_ref().map_or_else(|| view.batch(), |columns| view.read(columns))?;
        let seed = mix(mix(self.ctx.seed, text(&self.node)), iteration);
        let (rows, groups) = self.grouped(nullable(&rows)?, seed)?;
        let process = match &mut self.process {
            Some(process) => process,
            none => {
                let started = PythonProcess::start(&self.with.function, &self.ctx.shared.programs, self.ctx.prints.as_deref());
                none.insert(started.map_err(|error| self.with.function.named(&error))?.0)
            }
        };
        let check = match self.with.check {
            Check::Once => !self.checked,
            Check::Always => true,
            Check::Never => false,
        };
        let header = json!({
            "do": "run", "settings": self.with.function.settings, "seed": seed, "iteration": iteration, "groups": groups, "state": self.state,
            "check": check,
        });
        let limit = Duration::try_from_secs_f64(self.with.function.seconds).unwrap_or(Duration::MAX);
        let start = Instant::now();
        let (mut answer, made) = process.ask(&header, Some(&rows), limit).map_err(|error| self.with.function.named(&error) + AGAIN)?;
        self.ctx.shared.add(iteration, &self.node, "rows_in", rows.num_rows() as f64);
        self.ctx.shared.add(iteration, &self.node, "function_seconds", start.elapsed().as_secs_f64());
        self.checked |= check && answer["varied"].as_bool().unwrap_or(true);
        self.state = answer["state"].take();
        let made = match made.filter(|made| made.num_rows() > 0) {
            Some(made) => made,
            None if self.description.state => {
                return Err(self.with.function.named("it keeps a state and no row, and the state stands in a row's column: keep one row at least, or drop rows in a node without a state").into())
            }
            None => return Ok(vec![]),
        };
        Ok(vec![self.checked(&made)?])
    }

    /// The rows with those of a group together, and the groups: where each ends, its seed by the iteration's, and its name for people.
    fn grouped(&self, rows: RecordBatch, seed: u64) -> Result<(RecordBatch, Vec<Value>), RowError> {
        let by = &self.with.by;
        let group = |end: usize, key: u64, name: String| json!({ "end": end, "seed": mix(seed, key), "name": name });
        let count = rows.num_rows();
        if by.is_empty() {
            return Ok((rows, vec![group(count, 0, String::new())]));
        }
        let mut key_of = keys(&rows, by);
        let mut order: Vec<u32> = (0..count as u32).collect();
        // Rows of a group stay in the order of their names.
        order.sort_by_key(|i| key_of[*i as usize]);
        let rows = take_record_batch(&rows, &UInt32Array::from(order.clone()))?;
        key_of = order.iter().map(|i| key_of[*i as usize]).collect();
        let ends = (1..=count).filter(|end| *end == count || key_of[*end] != key_of[end - 1]);
        let values = |i: usize| {
            let value = |column: &String| Some(format!("{column} {}", array_value_to_string(rows.column_by_name(column)?, i).ok()?));
            by.iter().filter_map(value).collect::<Vec<_>>().join(", ")
        };
        let groups = ends.map(|end| group(end, key_of[end - 1], values(end - 1))).collect();
        Ok((rows, groups))
    }

    /// The answer's rows as flow has them: each column of its type, with the function's state.
    fn checked(&self, made: &RecordBatch) -> Result<RecordBatch, Failed> {
        let schema = made.schema();
        let column = |(field, values): (&Arc<Field>, &ArrayRef)| {
            let kind = row::kind(field.name()).ok_or_else(|| RowError::Missing(field.name().clone()))?;
            if values.null_count() > 0 {
                return Err(Failed::from(format!("the function gives no value for `{}` of some row", field.name())));
            }
            Ok((field.name().clone(), cast(values, &kind.arrow())?))
        };
        let mut columns = schema.fields().iter().zip(made.columns()).map(column).collect::<Result<Vec<_>, _>>()?;
        if self.description.state {
            let kept = self.state.to_string();
            let states = (0..made.num_rows()).map(|i| if i == 0 { kept.as_str() } else { "" });
            columns.push((STATE.into(), Arc::new(StringArray::from_iter_values(states))));
        }
        Ok(row::batch(columns.iter().map(|(name, values)| (name.as_str(), values.clone())).collect())?)
    }
}

/// The rows with columns that could hold nulls, as those of other tables do: a function may put them together.
fn nullable(rows: &RecordBatch) -> Result<RecordBatch, RowError> {
    let one = |(field, column): (&Arc<Field>, &ArrayRef)| {
        let data = match field.data_type() {
            DataType::List(item) => DataType::List(Arc::new(item.as_ref().clone().with_nullable(true))),
            other => other.clone(),
        };
        Ok((Field::new(field.name(), data.clone(), true), cast(column, &data)?))
    };
    let columns = rows.schema().fields().iter().zip(rows.columns()).map(one).collect::<Result<Vec<_>, RowError>>()?;
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The columns that are sent to the function: its needs, its groups' columns and the names of rows; none for all that
/// rows have.
pub fn columns(with: &PythonSettings, description: &Description) -> Option<Vec<String>> {
    let needs = description.needs()?;
    let names = NAME.iter().map(|name| name.to_string());
    Some(row::in_order(&names.chain(needs.iter().cloned()).chain(with.by.iter().cloned()).collect::<Vec<_>>()))
}
