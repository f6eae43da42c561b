//! Texts made of rows: a template over the columns of a row and of the turns beside it.

use super::template::{Placeholders, PromptTemplate, TemplateError};
use arrow::array::{ArrayRef, RecordBatch};
use flow_core::row::{self, Cell, Kind, RowError, View};
use minijinja::Value;
use std::collections::BTreeSet;

/// What a template over rows can ask for.
pub const PLACES: Placeholders = &[
    ("row", "the columns of the row, by name: `row.observation`"),
    ("before", "those of the turn before in the same attempt; in a first turn texts are empty and numbers 0"),
    ("after", "those of the turn after; in a last turn `after.observation` is the outcome, other texts are empty and numbers 0"),
    ("history", "the turns before it in the same attempt, oldest first: `observation` and `action` of each"),
    ("task", "what the environment says is to be done"),
    ("gold", "the task's right answer, where the environment says it"),
];

/// What `history` tells of a turn, as it does in an agent's prompt.
const PAST: [&str; 2] = ["observation", "action"];

/// The columns that `task` and `gold` are; the first turn of an attempt has them.
const FIRST: [(&str, &str); 2] = [("task", "instruction"), ("gold", "gold")];

/// The column of the first turn that stands at `place`.
fn first_column(place: &str) -> Option<&'static str> {
    FIRST.iter().find(|(name, _)| *name == place).map(|(_, column)| *column)
}

/// The columns that say which rows are turns of one attempt.
const ATTEMPT: [&str; 5] = ["iteration", "task", "sample", "attempt", "phase"];

/// A compiled template over rows.
#[derive(Clone, Debug)]
pub struct RowText {
    template: PromptTemplate,
    /// The columns that it asks for at each of [`PLACES`].
    columns: Vec<(&'static str, BTreeSet<String>)>,
}

impl RowText {
    /// The template of a setting: the text itself, or a file.
    ///
    /// # Errors
    /// If it can't be read, or uses a name that no row has.
    pub fn new(setting: &str) -> Result<RowText, TemplateError> {
        let template = PromptTemplate::read(setting, PLACES)?;
        let fields = template.fields();
        let of = |place: &'static str| {
            let asked = fields.iter().any(|field| field.split('.').next() == Some(place));
            let columns: Vec<&str> = match place {
                // A loop's variable has no name here, so that all that it could ask for is read.
                "history" if asked => PAST.into(),
                _ if asked && first_column(place).is_some() => first_column(place).into_iter().collect(),
                _ => fields.iter().filter_map(|field| field.strip_prefix(place)?.strip_prefix('.')?.split('.').next()).collect(),
            };
            (place, columns.into_iter().map(str::to_owned).collect())
        };
        Ok(RowText { template, columns: PLACES.iter().map(|(place, _)| of(place)).collect() })
    }

    /// The columns that rows must have for it.
    pub fn needs(&self) -> BTreeSet<String> {
        let mut needs: BTreeSet<String> = self.columns.iter().flat_map(|(_, columns)| columns.clone()).collect();
        if self.columns.iter().any(|(place, columns)| *place == "after" && columns.contains("observation")) {
            needs.insert("outcome".into());
        }
        needs
    }

    /// A text for each row of a view that is in the order of the rows' names.
    ///
    /// # Errors
    /// If a column is missing, or the template can't be filled with a row.
    pub fn texts(&self, view: &View) -> Result<Vec<String>, RowTextError> {
        let needs: Vec<String> = self.needs().into_iter().collect();
        let rows = view.read(&needs)?;
        let attempts = row::keys(&view.read(&ATTEMPT)?, &ATTEMPT);
        let neighbour = |i: usize, other: Option<usize>| other.filter(|&other| attempts.get(other) == Some(&attempts[i]));
        let text = |i: usize| {
            let filled = self.template.fill(|place| {
                let own = self.columns.iter().find(|(name, _)| *name == place);
                let value = |from: Option<usize>| {
                    let value = |column: &String| (column.clone(), cell(&rows, place, column, from, i));
                    own.map_or(Value::UNDEFINED, |(_, columns)| Value::from_pairs(columns.iter().map(value)))
                };
                let first = || (0..i).rev().take_while(|&other| attempts.get(other) == Some(&attempts[i])).last().unwrap_or(i);
                if let Some(column) = first_column(place) {
                    return cell(&rows, place, column, Some(first()), i);
                }
                if place == "history" {
                    let first = first();
                    return (first..i).map(|past| value(Some(past))).collect();
                }
                let from = match place {
                    "before" => neighbour(i, i.checked_sub(1)),
                    "after" => neighbour(i, Some(i + 1)),
                    _ => Some(i),
                };
                value(from)
            });
            filled.map_err(RowTextError::from)
        };
        (0..view.len()).map(text).collect()
    }
}

/// The value of a column in the row `from`; without one, the value at the end of row `i`, or nothing.
fn cell(rows: &RecordBatch, place: &str, column: &str, from: Option<usize>, i: usize) -> Value {
    let read = |column: &str, i: usize| {
        let array: &ArrayRef = rows.column_by_name(column)?;
        Cell::of(row::kind(column)?, array, i)
    };
    let cell = match from {
        Some(from) => read(column, from),
        None if place == "after" && column == "observation" => read("outcome", i),
        None => None,
    };
    match (cell, row::kind(column)) {
        (Some(cell), _) => value(cell),
        (None, Some(Kind::Text)) => "".into(),
        (None, Some(Kind::U64 | Kind::U32 | Kind::F32 | Kind::I32)) => 0.into(),
        (None, Some(Kind::Bool)) => false.into(),
        (None, _) => Value::from(Vec::<Value>::new()),
    }
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::Text(text) => text.into(),
        Cell::U64(number) => number.into(),
        Cell::U32(number) => number.into(),
        Cell::I32(number) => number.into(),
        Cell::F32(number) => number.into(),
        Cell::Bool(yes) => yes.into(),
        Cell::List(items) => items.into_iter().map(value).collect(),
    }
}

/// Why rows have no text.
#[derive(Debug, thiserror::Error)]
pub enum RowTextError {
    /// Rows lack a column.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A template can't be filled with a row.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, StringArray, UInt32Array, UInt64Array};
    use std::sync::Arc;

    /// Two attempts: of three turns and of one.
    fn rows() -> RecordBatch {
        let texts = |texts: [&str; 4]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0; 4])) as ArrayRef),
            ("task", texts(["a"; 4])),
            ("sample", Arc::new(UInt32Array::from(vec![0, 0, 0, 1]))),
            ("attempt", Arc::new(UInt32Array::from(vec![0; 4]))),
            ("turn", Arc::new(UInt32Array::from(vec![0, 1, 2, 0]))),
            ("phase", texts(["play"; 4])),
            ("instruction", texts(["find the door", "", "", "stay"])),
            ("gold", texts(["the attic", "", "", "here"])),
            ("observation", texts(["hall", "attic", "hall", "hall"])),
            ("action", texts(["up", "down", "open", "wait"])),
            ("outcome", texts(["", "", "behind the door", "lost"])),
            ("answer_memory", texts(["", "red", "red", ""])),
            ("reward", Arc::new(Float32Array::from(vec![0.0, 0.5, 1.0, 0.0]))),
        ])
        .unwrap()
    }

    fn texts(template: &str) -> Vec<String> {
        let rows = [rows()];
        RowText::new(template).unwrap().texts(&View::sorted(&rows).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_text_tells_of_the_turns_beside_it() {
        assert_eq!(
            texts("{{ before.answer_memory }}|{{ row.observation }}|{{ after.observation }}"),
            ["|hall|attic", "|attic|hall", "red|hall|behind the door", "|hall|lost"]
        );
        assert_eq!(texts("{{ before.reward }} {{ after.turn }}"), ["0 1", "0.0 2", "0.5 0", "0 0"]);
    }

    #[test]
    fn a_text_tells_of_all_turns_before_it_in_its_attempt() {
        assert_eq!(
            texts("{% for past in history %}{{ past.observation }}: {{ past.action }}, {% endfor %}{{ history[-1:] | length }} {{ row.turn }}"),
            ["0 0", "hall: up, 1 1", "hall: up, attic: down, 1 2", "0 0"]
        );
    }

    #[test]
    fn every_turn_of_an_attempt_can_be_told_the_task() {
        assert_eq!(texts("{{ gold }}"), ["the attic", "the attic", "the attic", "here"]);
        assert_eq!(texts("{{ task }}: {{ row.turn }}"), ["find the door: 0", "find the door: 1", "find the door: 2", "stay: 0"]);
    }

    /// What EAPO's pipeline scores for exploring: the door on a note is new; a room without a note leaves the memory as
    /// it was.
    #[test]
    fn exploring_is_worth_what_a_note_names_and_nothing_else() {
        let source = flow_pipeline::contents("../../papers/eapo/eapo.yaml".as_ref()).unwrap();
        let template = source["nodes"]["score"]["with"]["targets"]["exploration"].as_str().unwrap();
        let seen = ["attic\nnote: none", "attic\nnote: red", "attic\nnote: dark", "hall"];
        let texts = |texts: &[&str]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let mut rows = rows();
        for (column, values) in [("outcome", &seen), ("answer_memory", &[""; 4]), ("answer_explore", &[""; 4])] {
            rows = row::with(&rows, column, texts(values)).unwrap();
        }
        rows = row::with(&rows, "sample", Arc::new(UInt32Array::from(vec![0, 1, 2, 3]))).unwrap();
        let filled = RowText::new(template).unwrap().texts(&View::sorted(&[rows]).unwrap().unwrap()).unwrap();
        let memories: Vec<&str> = filled.iter().map(|text| text.split_once("<memory>").unwrap().1).collect();
        assert_eq!(memories, ["</memory>", "red</memory>", "</memory>", "</memory>"]);
    }

    #[test]
    fn it_says_which_columns_it_needs() {
        let needs = |text: &str| RowText::new(text).unwrap().needs().into_iter().collect::<Vec<_>>();
        assert_eq!(needs("{{ after.observation }} {{ row.turn }}"), ["observation", "outcome", "turn"]);
        assert_eq!(needs("{{ row.turn }}{{ history | length }}"), ["action", "observation", "turn"]);
        assert_eq!(needs("{{ task }}"), ["instruction"]);
        assert_eq!(needs("{{ gold }}"), ["gold"]);
        assert_eq!(needs("{% if before.answer_memory %}x{% endif %}"), ["answer_memory"]);
        assert!(RowText::new("{{ state }}").unwrap_err().to_string().contains("there is no `state` for a template"));
    }
}
