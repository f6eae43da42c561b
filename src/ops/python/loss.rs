//! A function of the user's own as the surrogate of an update: `surrogate: { call: my_loss.py:loss }`.

use super::description::Form;
use super::inquiry::{description, kept};
use super::process::PythonProcess;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, RecordBatch, UInt32Array};
use arrow::datatypes::Float32Type;
use flow_env::process::Programs;
use flow_model::{FunctionSettings, LossFunction, LossTokens, LossValues, TokenLoss};
use flow_pipeline::{Mistake, Node, With};
use parking_lot::Mutex;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// The setting that may name a function.
const SETTING: &str = "surrogate";

/// The function that computes the surrogate of an update, if one does.
pub fn function(with: &With) -> Option<FunctionSettings> {
    let setting = &with.raw()[SETTING];
    setting.is_object().then(|| serde_json::from_value(setting.clone()).ok())?
}

/// The settings of an update as a run keeps them: with the texts of its function's files.
pub fn kept_by_update(with: &With) -> Option<Value> {
    let mut raw = with.raw().clone();
    raw[SETTING] = kept(&function(with)?, &raw[SETTING])?;
    Some(raw)
}

/// What is wrong with the function of an update.
pub fn mistakes(node: &Node) -> Vec<Mistake> {
    let Some(function) = function(&node.with) else { return Vec::new() };
    let of_call = |message: String| Mistake::in_node(node, &["with", SETTING, "call"], message);
    match description(&function) {
        Err(why) => vec![of_call(function.named(&why))],
        Ok(spec) if spec.form != Form::Loss => {
            let help = "decorate it with `@flow_op.loss()`; a function of rows stands in a node of its own, by `op: python`";
            vec![of_call(format!("`{}` computes no loss", function.name())).help(help)]
        }
        Ok(spec) => super::settings_mistakes(node, &["with", SETTING, "settings"], &function, &spec),
    }
}

/// The function of an update, ready to be called.
///
/// # Errors
/// In words: it can't be asked what it is.
pub fn prepared(with: &With, programs: &Programs, prints: Option<PathBuf>) -> Result<Option<LossFunction>, String> {
    let Some(function) = function(with) else { return Ok(None) };
    let spec = description(&function).map_err(|why| function.named(&why))?;
    let loss = PythonLoss {
        function,
        entropy: spec.entropy,
        programs: programs.clone(),
        prints,
        process: Mutex::default(),
        checked: false.into(),
    };
    Ok(Some(LossFunction(Arc::new(loss))))
}

/// A loss in a process of its own, which the threads of an update ask one after the other.
struct PythonLoss {
    function: FunctionSettings,
    entropy: bool,
    programs: Programs,
    prints: Option<PathBuf>,
    process: Mutex<Option<PythonProcess>>,
    /// Whether it was held against itself, row by row.
    checked: AtomicBool,
}

impl TokenLoss for PythonLoss {
    fn reads_entropy(&self) -> bool {
        self.entropy
    }

    fn values(&self, tokens: &LossTokens) -> Result<LossValues, String> {
        let f32s = |values: &[f32]| Arc::new(Float32Array::from(values.to_vec())) as ArrayRef;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("new", f32s(&tokens.new)),
            ("old", f32s(&tokens.old)),
            ("acted", f32s(&tokens.acted)),
            ("advantage", f32s(&tokens.advantage)),
            ("entropy", f32s(&tokens.entropy)),
            ("row", Arc::new(UInt32Array::from(tokens.row.clone()))),
            ("part", f32s(&tokens.part)),
            ("weight", f32s(&tokens.weight)),
        ];
        let rows = RecordBatch::try_from_iter(columns).map_err(|error| error.to_string())?;
        let named = |error: String| self.function.named(&error);
        let mut process = self.process.lock();
        if process.is_none() {
            *process = Some(PythonProcess::start(&self.function, &self.programs, self.prints.as_deref()).map_err(named)?.0);
        }
        let Some(process) = process.as_ref() else { return Err(named("its process is gone".into())) };
        let check = !self.checked.swap(true, Ordering::Relaxed);
        let header = json!({ "do": "loss", "settings": self.function.settings, "check": check });
        let limit = Duration::try_from_secs_f64(self.function.seconds).unwrap_or(Duration::MAX);
        let (_, made) = process.ask(&header, Some(&rows), limit).map_err(named)?;
        let made = made.ok_or_else(|| named("its answer has no values".into()))?;
        let numbers = |name: &str| {
            let column = made.column_by_name(name)?.as_primitive_opt::<Float32Type>()?;
            (column.null_count() == 0).then(|| column.values().to_vec())
        };
        let lacks = |name: &str| named(format!("its answer has no numbers `{name}`"));
        Ok(LossValues {
            loss: numbers("loss").ok_or_else(|| lacks("loss"))?,
            by_new: numbers("by_new").ok_or_else(|| lacks("by_new"))?,
            by_entropy: if self.entropy { numbers("by_entropy").ok_or_else(|| lacks("by_entropy"))? } else { vec![] },
            clipped: made.column_by_name("clipped").and_then(|column| column.as_boolean_opt()).map_or(vec![], flags),
        })
    }
}

/// The values of a column of yes and no.
fn flags(column: &BooleanArray) -> Vec<bool> {
    column.iter().map(|value| value.unwrap_or(false)).collect()
}
