//! One value of a row, as people write it and as Arrow keeps it.

use super::Kind;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Int32Array, ListArray, StringArray, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Float32Type, Int32Type, UInt32Type, UInt64Type};
use serde_json::{json, Value};
use std::fmt;
use std::sync::Arc;

/// A value of one of the [`Kind`]s. Floats keep their written value, so that the nearest `f32` is no difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Of [`Kind::U64`].
    U64(u64),
    /// Of [`Kind::U32`].
    U32(u32),
    /// Of [`Kind::F32`].
    F32(f64),
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Text`].
    Text(String),
    /// Of [`Kind::I32`].
    I32(i32),
    /// Of the kinds of lists.
    List(Vec<Cell>),
}

/// Why a value can't stand in a column. Reads on after the column's name: `` `reward` must be a number, found a list
/// ``.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// It is of another kind, or out of range.
    #[error("must be {expected}, found {actual}")]
    Mismatch {
        /// What the column holds, in words.
        expected: String,
        /// The cell's content, in words.
        actual: String,
    },
    /// The same of one item of a list.
    #[error("has a wrong item {number}: it {error}")]
    Item {
        /// Which item, from 1.
        number: usize,
        /// What is wrong with it.
        error: Box<CellError>,
    },
}

impl Cell {
    /// The value as a column of this kind holds it, or what is wrong with it.
    pub fn read(kind: Kind, value: &Value) -> Result<Cell, CellError> {
        let mismatch = |expected: &str| CellError::Mismatch { expected: expected.into(), actual: called(value) };
        let list = |item: Kind, expected: &str| {
            let items = value.as_array().ok_or_else(|| mismatch(expected))?.iter().enumerate();
            let within = |i: usize, error: CellError| CellError::Item { number: i + 1, error: Box::new(error) };
            items.map(|(i, value)| Cell::read(item, value).map_err(|e| within(i, e))).collect::<Result<_, _>>().map(Cell::List)
        };
        match kind {
            Kind::U64 => u64_of(value).map(Cell::U64),
            Kind::U32 => u32_of(value).map(Cell::U32),
            Kind::F32 => f32_of(value).map(Cell::F32),
            Kind::Bool => value.as_bool().map(Cell::Bool).ok_or_else(|| mismatch("`true` or `false`")),
            Kind::Text => value.as_str().map(|text| Cell::Text(text.into())).ok_or_else(|| mismatch("a text")),
            Kind::I32 => i32_of(value).map(Cell::I32),
            Kind::U64List => list(Kind::U64, "a list of whole numbers"),
            Kind::U32List => list(Kind::U32, "a list of whole numbers"),
            Kind::F32List => list(Kind::F32, "a list of numbers"),
        }
    }

    /// Row `i` of a column of this kind; none if the column isn't one.
    pub fn of(kind: Kind, column: &ArrayRef, i: usize) -> Option<Cell> {
        if column.data_type() != &kind.arrow() || i >= column.len() {
            return None;
        }
        let list = |item: Kind| {
            let items = column.as_list::<i32>().value(i);
            Cell::List((0..items.len()).filter_map(|i| Cell::of(item, &items, i)).collect())
        };
        Some(match kind {
            Kind::U64 => Cell::U64(column.as_primitive::<UInt64Type>().value(i)),
            Kind::U32 => Cell::U32(column.as_primitive::<UInt32Type>().value(i)),
            Kind::F32 => Cell::F32(column.as_primitive::<Float32Type>().value(i).into()),
            Kind::Bool => Cell::Bool(column.as_boolean().value(i)),
            Kind::Text => Cell::Text(column.as_string::<i32>().value(i).into()),
            Kind::I32 => Cell::I32(column.as_primitive::<Int32Type>().value(i)),
            Kind::U64List => list(Kind::U64),
            Kind::U32List => list(Kind::U32),
            Kind::F32List => list(Kind::F32),
        })
    }

    /// Whether `got` equals the expected value. A float may be off by `tolerance`, or, where more than 1 is expected,
    /// by `tolerance` times that; the nearest `f32` always agrees. Everything else must be equal.
    pub fn agrees(&self, got: &Cell, tolerance: f64) -> bool {
        match (self, got) {
            (Cell::F32(e), Cell::F32(g)) => *e as f32 == *g as f32 || (g - e).abs() <= tolerance * e.abs().max(1.0),
            (Cell::List(e), Cell::List(g)) => e.len() == g.len() && e.iter().zip(g).all(|(e, g)| e.agrees(g, tolerance)),
            _ => self == got,
        }
    }

    /// `got` less the expected value, where that is a number.
    pub fn difference(&self, got: &Cell) -> Option<f64> {
        match (self, got) {
            (Cell::F32(e), Cell::F32(g)) => Some(g - e),
            (Cell::U32(e), Cell::U32(g)) => Some(f64::from(*g) - f64::from(*e)),
            (Cell::I32(e), Cell::I32(g)) => Some(f64::from(*g) - f64::from(*e)),
            // Hashes differ by nothing that means anything, and counts stay small.
            (Cell::U64(e), Cell::U64(g)) if e.max(g) < &(1 << 53) => Some(*g as f64 - *e as f64),
            _ => None,
        }
    }

    /// As JSON; what isn't finite has no JSON and becomes a text.
    pub fn json(&self) -> Value {
        match self {
            Cell::U64(n) => json!(n),
            Cell::U32(n) => json!(n),
            Cell::F32(f) if f.is_finite() => json!(shortest(*f)),
            Cell::F32(f) => json!(f.to_string()),
            Cell::Bool(b) => json!(b),
            Cell::Text(text) => json!(text),
            Cell::I32(n) => json!(n),
            Cell::List(list) => list.iter().map(Cell::json).collect(),
        }
    }
}

/// The shortest number that is the same `f32`: 0.1, where the `f32` next to it is 0.10000000149.
fn shortest(f: f64) -> f64 {
    (f as f32).to_string().parse().unwrap_or(f)
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) if text.is_empty() => f.write_str("an empty text"),
            Cell::Text(text) => f.write_str(text),
            other => f.write_str(&other.json().to_string()),
        }
    }
}

/// A column of this kind; cells of another kind are an error of the caller's and count as 0.
pub fn column(kind: Kind, cells: &[Cell]) -> ArrayRef {
    let floats = |cell: &Cell| if let Cell::F32(f) = cell { *f as f32 } else { 0.0 };
    let list = |item: Kind| {
        let lists: Vec<&[Cell]> = cells.iter().map(|c| if let Cell::List(l) = c { l.as_slice() } else { &[] }).collect();
        let lengths = OffsetBuffer::from_lengths(lists.iter().map(|l| l.len()));
        Arc::new(ListArray::new(Arc::new(Field::new("item", item.arrow(), false)), lengths, column(item, &lists.concat()), None))
    };
    match kind {
        Kind::U64 => Arc::new(UInt64Array::from_iter_values(cells.iter().map(|c| if let Cell::U64(n) = c { *n } else { 0 }))),
        Kind::U32 => Arc::new(UInt32Array::from_iter_values(cells.iter().map(|c| if let Cell::U32(n) = c { *n } else { 0 }))),
        Kind::F32 => Arc::new(Float32Array::from_iter_values(cells.iter().map(floats))),
        Kind::Bool => Arc::new(BooleanArray::from_iter(cells.iter().map(|c| Some(c == &Cell::Bool(true))))),
        Kind::Text => Arc::new(StringArray::from_iter_values(cells.iter().map(|c| if let Cell::Text(t) = c { t.as_str() } else { "" }))),
        Kind::I32 => Arc::new(Int32Array::from_iter_values(cells.iter().map(|c| if let Cell::I32(n) = c { *n } else { 0 }))),
        Kind::U64List => list(Kind::U64),
        Kind::U32List => list(Kind::U32),
        Kind::F32List => list(Kind::F32),
    }
}

fn u64_of(value: &Value) -> Result<u64, CellError> {
    value.as_u64().ok_or_else(|| CellError::Mismatch { expected: "a whole number of at least 0".into(), actual: called(value) })
}

fn i32_of(value: &Value) -> Result<i32, CellError> {
    let small = value.as_i64().and_then(|n| i32::try_from(n).ok());
    small
        .ok_or_else(|| CellError::Mismatch { expected: format!("a whole number from {} to {}", i32::MIN, i32::MAX), actual: called(value) })
}

fn u32_of(value: &Value) -> Result<u32, CellError> {
    let small = value.as_u64().and_then(|n| u32::try_from(n).ok());
    small.ok_or_else(|| CellError::Mismatch { expected: format!("a whole number from 0 to {}", u32::MAX), actual: called(value) })
}

fn f32_of(value: &Value) -> Result<f64, CellError> {
    let mismatch = |expected: &str| CellError::Mismatch { expected: expected.into(), actual: called(value) };
    let number = value.as_f64().ok_or_else(|| mismatch("a number"))?;
    let fits = (number as f32).is_finite();
    fits.then_some(number).ok_or_else(|| mismatch("a number that an f32 can hold"))
}

/// What a reader would call the value.
pub fn called(value: &Value) -> String {
    match value {
        Value::Null => "`null`".into(),
        Value::Bool(b) => format!("`{b}`"),
        Value::Number(n) => format!("the number {n}"),
        Value::String(text) if text.chars().count() > 40 => "a long text".into(),
        Value::String(text) => format!("the text {}", Value::String(text.clone())),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_agree_within_the_tolerance_and_nothing_else_does() {
        let f = Cell::F32;
        assert!(f(0.866024).agrees(&f(0.866_024_5), 1e-6) && !f(0.866024).agrees(&f(0.866_026), 1e-6));
        assert!(f(1000.0).agrees(&f(1000.0005), 1e-6) && !f(1000.0).agrees(&f(1000.002), 1e-6), "relative above 1");
        assert!(f(0.1).agrees(&f(0.1f32.into()), 0.0), "the nearest f32 is what can be had");
        assert!(!f(1.0).agrees(&f(f64::NAN), 1.0) && !f(1.0).agrees(&f(f64::INFINITY), 1.0));
        let list = |numbers: &[f64]| Cell::List(numbers.iter().copied().map(f).collect());
        assert!(list(&[1.0, 2.0]).agrees(&list(&[1.0, 2.1]), 0.2));
        assert!(!list(&[1.0]).agrees(&list(&[1.0, 2.0]), 9.0));
        assert!(!Cell::U32(3).agrees(&Cell::U32(4), 9.0) && Cell::U32(3).agrees(&Cell::U32(3), 0.0));
        assert!(!Cell::Text("yes".into()).agrees(&Cell::Text("no".into()), 9.0));
    }

    #[test]
    fn differences_are_got_less_expected() {
        assert_eq!(Cell::F32(0.5).difference(&Cell::F32(0.25)), Some(-0.25));
        assert_eq!(Cell::U32(1).difference(&Cell::U32(3)), Some(2.0));
        assert_eq!(Cell::U64(u64::MAX).difference(&Cell::U64(1)), None);
        assert_eq!(Cell::Bool(true).difference(&Cell::Bool(false)), None);
    }

    #[test]
    fn cells_come_back_out_of_a_column() {
        let list = |cells: &[Cell]| Cell::List(cells.to_vec());
        let floats = vec![list(&[]), list(&[Cell::F32(0.5), Cell::F32(-2.0)])];
        let numbers = vec![list(&[Cell::U32(7)]), list(&[])];
        for (kind, cells) in [
            (Kind::U64, vec![Cell::U64(u64::MAX), Cell::U64(0)]),
            (Kind::U32, vec![Cell::U32(u32::MAX), Cell::U32(0)]),
            (Kind::F32, vec![Cell::F32(0.5), Cell::F32(-2.0)]),
            (Kind::Bool, vec![Cell::Bool(true), Cell::Bool(false)]),
            (Kind::Text, vec![Cell::Text("a".into()), Cell::Text(String::new())]),
            (Kind::I32, vec![Cell::I32(-1), Cell::I32(i32::MAX)]),
            (Kind::U64List, vec![list(&[Cell::U64(u64::MAX), Cell::U64(0)]), list(&[])]),
            (Kind::U32List, numbers),
            (Kind::F32List, floats),
        ] {
            let array = column(kind, &cells);
            assert_eq!(array.data_type(), &kind.arrow());
            assert_eq!([0, 1].map(|i| Cell::of(kind, &array, i).unwrap()).to_vec(), cells);
            assert_eq!(cells.iter().map(|c| Cell::read(kind, &c.json()).unwrap()).collect::<Vec<_>>(), cells);
            assert_eq!(Cell::of(kind, &array, 2), None);
        }
    }

    #[test]
    fn a_wrong_value_is_told_with_what_is_wanted() {
        let error = |kind, value: Value| Cell::read(kind, &value).unwrap_err().to_string();
        assert_eq!(error(Kind::F32, json!([1])), "must be a number, found a list");
        assert_eq!(error(Kind::F32, json!(1e300)), "must be a number that an f32 can hold, found the number 1e+300");
        assert_eq!(error(Kind::U32, json!(-1)), "must be a whole number from 0 to 4294967295, found the number -1");
        assert_eq!(error(Kind::U64, json!(1.5)), "must be a whole number of at least 0, found the number 1.5");
        assert_eq!(error(Kind::Bool, json!(1)), "must be `true` or `false`, found the number 1");
        assert_eq!(error(Kind::Text, Value::Null), "must be a text, found `null`");
        assert_eq!(error(Kind::U32List, json!(3)), "must be a list of whole numbers, found the number 3");
        assert_eq!(error(Kind::F32List, json!([1, "x"])), "has a wrong item 2: it must be a number, found the text \"x\"");
    }
}
