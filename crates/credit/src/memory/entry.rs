//! An entry, the changes of a memory, and both as rows.

use arrow::array::{ArrayRef, Float32Array, Float32Builder, Int32Array, ListBuilder, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field};
use flow_core::row::{self, Kind, Name, RowError};
use flow_core::seed;
use std::sync::Arc;

/// What a memory holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// [`Entry::id_of`] its source and its place there: the same on every machine.
    pub id: u64,
    /// Where it lives; entries of one bucket share a capacity.
    pub bucket: u64,
    /// What it is found by.
    pub key: String,
    /// The key as a point of the unit sphere; empty where keys are compared as they are.
    pub embedding: Vec<f32>,
    /// How good it is.
    pub score: f32,
    /// Its text.
    pub text: String,
    /// The row that it came from. Of two entries the one whose source comes first is the older one.
    pub source: Name,
    /// Which of the entries of that row it is, from 0.
    pub ordinal: u32,
    /// What it is, such as `warning`; empty where the memory has no kinds.
    pub kind: String,
    /// How general it is, such as `principle`; empty where the memory has no levels.
    pub level: String,
}

impl Entry {
    /// Where it stands in the order of age.
    pub fn place(&self) -> (&Name, u32) {
        (&self.source, self.ordinal)
    }

    /// Whom it shares a capacity with: those of its bucket that are of its kind and level.
    pub fn shelf(&self) -> u64 {
        match (self.kind.as_str(), self.level.as_str()) {
            ("", "") => self.bucket,
            (kind, level) => seed::mix(self.bucket, seed::mix(seed::text(kind), seed::text(level))),
        }
    }

    /// The id of an entry that comes from this row: of its first one a hash of the row's name, of the others of their
    /// number as well.
    pub fn id_of(source: &Name, ordinal: u32) -> u64 {
        let place = [source.iteration, u64::from(source.sample) << 32 | u64::from(source.attempt), u64::from(source.turn)];
        let name = place.into_iter().fold(seed::text(&source.task), seed::mix);
        let first = seed::mix(name, seed::text(&source.phase));
        if ordinal == 0 {
            first
        } else {
            seed::mix(first, u64::from(ordinal))
        }
    }
}

/// An entry that came, or one that left.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub iteration: u64,
    /// 1 or -1.
    pub change: i32,
    pub entry: Entry,
}

/// The columns of a change's row. With `source` as the iteration, `task` to `phase` name the row that the entry came
/// from.
pub const COLUMNS: &[&str] = &[
    "iteration",
    "task",
    "sample",
    "attempt",
    "turn",
    "phase",
    "id",
    "change",
    "bucket",
    "key",
    "embedding",
    "score",
    "text",
    "source",
    "ordinal",
    "kind",
    "level",
];

/// Changes as rows, in their order.
///
/// # Errors
/// If Arrow refuses: the batch is too large.
pub fn table(changes: &[Change]) -> Result<RecordBatch, RowError> {
    let texts = |of: fn(&Change) -> &str| Arc::new(StringArray::from_iter_values(changes.iter().map(of))) as ArrayRef;
    let u64s = |of: fn(&Change) -> u64| Arc::new(UInt64Array::from_iter_values(changes.iter().map(of))) as ArrayRef;
    let u32s = |of: fn(&Change) -> u32| Arc::new(UInt32Array::from_iter_values(changes.iter().map(of))) as ArrayRef;
    let mut points = ListBuilder::new(Float32Builder::new()).with_field(Field::new("item", DataType::Float32, false));
    for change in changes {
        points.values().append_slice(&change.entry.embedding);
        points.append(true);
    }
    row::batch(vec![
        ("iteration", u64s(|c| c.iteration)),
        ("task", texts(|c| &c.entry.source.task)),
        ("sample", u32s(|c| c.entry.source.sample)),
        ("attempt", u32s(|c| c.entry.source.attempt)),
        ("turn", u32s(|c| c.entry.source.turn)),
        ("phase", texts(|c| &c.entry.source.phase)),
        ("id", u64s(|c| c.entry.id)),
        ("change", Arc::new(Int32Array::from_iter_values(changes.iter().map(|c| c.change)))),
        ("bucket", u64s(|c| c.entry.bucket)),
        ("key", texts(|c| &c.entry.key)),
        ("embedding", Arc::new(points.finish())),
        ("score", Arc::new(Float32Array::from_iter_values(changes.iter().map(|c| c.entry.score)))),
        ("text", texts(|c| &c.entry.text)),
        ("source", u64s(|c| c.entry.source.iteration)),
        ("ordinal", u32s(|c| c.entry.ordinal)),
        ("kind", texts(|c| &c.entry.kind)),
        ("level", texts(|c| &c.entry.level)),
    ])
}

/// The values of a column of texts or of u64 as keys.
///
/// # Errors
/// If the column is missing, or of another type.
pub fn keys<'a>(rows: &'a RecordBatch, column: &str) -> Result<Box<dyn Fn(usize) -> String + 'a>, RowError> {
    Ok(if row::kind(column) == Some(Kind::U64) {
        let values = row::u64s(rows, column)?;
        Box::new(|i| values.value(i).to_string())
    } else {
        let values = row::texts(rows, column)?;
        Box::new(|i| values.value(i).to_owned())
    })
}

impl Change {
    /// Where it stands in the order of changes. Removals go before additions: an entry in both has a new score.
    pub fn order(&self) -> (u64, &Name, u32, i32) {
        (self.iteration, &self.entry.source, self.entry.ordinal, self.change)
    }

    /// The changes that these rows tell, in their order.
    ///
    /// # Errors
    /// If a column of [`COLUMNS`] is missing or isn't of its type.
    pub fn read(rows: &RecordBatch) -> Result<Vec<Change>, RowError> {
        let (iterations, tasks, phases) = (row::u64s(rows, "iteration")?, row::texts(rows, "task")?, row::texts(rows, "phase")?);
        let (samples, attempts, turns) = (row::u32s(rows, "sample")?, row::u32s(rows, "attempt")?, row::u32s(rows, "turn")?);
        let (ids, changes, buckets) = (row::u64s(rows, "id")?, row::i32s(rows, "change")?, row::u64s(rows, "bucket")?);
        let (keys, points, scores) = (row::texts(rows, "key")?, row::lists(rows, "embedding")?, row::f32s(rows, "score")?);
        let (texts, sources) = (row::texts(rows, "text")?, row::u64s(rows, "source")?);
        let (ordinals, kinds, levels) = (row::u32s(rows, "ordinal")?, row::texts(rows, "kind")?, row::texts(rows, "level")?);
        let change = |i: usize| Change {
            iteration: iterations.value(i),
            change: changes.value(i),
            entry: Entry {
                id: ids.value(i),
                bucket: buckets.value(i),
                key: keys.value(i).into(),
                embedding: row::f32_list(points, i),
                score: scores.value(i),
                text: texts.value(i).into(),
                source: Name {
                    iteration: sources.value(i),
                    task: tasks.value(i).into(),
                    sample: samples.value(i),
                    attempt: attempts.value(i),
                    turn: turns.value(i),
                    phase: phases.value(i).into(),
                },
                ordinal: ordinals.value(i),
                kind: kinds.value(i).into(),
                level: levels.value(i).into(),
            },
        };
        Ok((0..ids.len()).map(change).collect())
    }
}
