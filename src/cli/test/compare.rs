//! Compares expected rows with actual ones, by name.

use arrow::array::RecordBatch;
use flow_core::row::lines::Line;
use flow_core::row::{self, Cell, Name, NAME};
use std::collections::BTreeMap;

/// One row of a node: expected, actual, or both.
pub struct RowComparison {
    pub node: String,
    pub name: Name,
    pub presence: Presence,
    /// The columns that the expected row names, its name aside. Empty unless the row is there and expected.
    pub columns: Vec<ColumnComparison>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presence {
    Both,
    Missing,
    Extra,
}

/// One expected value and the actual one; none where the rows have no such column.
pub struct ColumnComparison {
    pub name: String,
    pub expected: Cell,
    pub got: Option<Cell>,
    pub agrees: bool,
}

impl RowComparison {
    pub fn agrees(&self) -> bool {
        self.presence == Presence::Both && self.columns.iter().all(|c| c.agrees)
    }
}

/// Every row of either side, ordered by name. `actual` may hold a name twice, as no operator should: then the second is
/// extra.
pub fn compare(node: &str, expected: &[Line], actual: Option<&RecordBatch>, tolerance: f64) -> Vec<RowComparison> {
    let mut missing: BTreeMap<&Name, &Line> = expected.iter().map(|line| (&line.name, line)).collect();
    let compared = |name: Name, presence, columns| RowComparison { node: node.to_owned(), name, presence, columns };
    let mut all = Vec::new();
    for (rows, i) in actual.iter().flat_map(|rows| (0..rows.num_rows()).map(move |i| (rows, i))) {
        let name = Name::of(rows, i);
        match missing.remove(&name) {
            Some(line) => all.push(compared(name, Presence::Both, columns(line, rows, i, tolerance))),
            None => all.push(compared(name, Presence::Extra, Vec::new())),
        }
    }
    all.extend(missing.into_keys().map(|name| compared(name.clone(), Presence::Missing, Vec::new())));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn columns(line: &Line, rows: &RecordBatch, i: usize, tolerance: f64) -> Vec<ColumnComparison> {
    let given: Vec<String> = line.cells.keys().filter(|name| !NAME.contains(&name.as_str())).cloned().collect();
    let column = |name: String| {
        let (expected, kind) = (line.cells.get(&name)?.clone(), row::kind(&name)?);
        let got = rows.column_by_name(&name).and_then(|values| Cell::of(kind, values, i));
        let agrees = got.as_ref().is_some_and(|got| expected.agrees(got, tolerance));
        Some(ColumnComparison { name, expected, got, agrees })
    };
    row::in_order(&given).into_iter().filter_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::row::lines;
    use std::collections::BTreeMap;

    fn rows(text: &str) -> RecordBatch {
        row::sorted(&[lines::batch("made", &lines::parse("made", text).unwrap(), &BTreeMap::new()).unwrap().unwrap()]).unwrap().unwrap()
    }

    #[test]
    fn rows_meet_by_name_in_any_order() {
        let expected = lines::parse(
            "e",
            "{\"task\": \"b\", \"reward\": 1}\n{\"task\": \"a\", \"turn\": 1, \"reward\": 2, \"used\": \"no\"}\n{\"task\": \"c\"}",
        )
        .unwrap();
        let actual =
            rows("{\"task\": \"a\", \"turn\": 1, \"reward\": 2.5}\n{\"task\": \"b\", \"reward\": 1}\n{\"task\": \"d\", \"reward\": 0}");
        let all = compare("n", &expected, Some(&actual), 1e-6);
        let outcomes: Vec<_> = all.iter().map(|c| (c.name.task.as_str(), c.presence, c.agrees())).collect();
        use Presence::*;
        assert_eq!(outcomes, [("a", Both, false), ("b", Both, true), ("c", Missing, false), ("d", Extra, false)]);
        let a: Vec<_> = all[0].columns.iter().map(|c| (c.name.as_str(), c.got.clone(), c.agrees)).collect();
        assert_eq!(a, [("reward", Some(Cell::F32(2.5)), false), ("used", None, false)], "a column that isn't there doesn't agree");
        assert!(compare("n", &[], None, 0.0).is_empty(), "no rows expected, none made");
        assert_eq!(compare("n", &expected, None, 0.0).iter().filter(|c| c.presence == Missing).count(), 3);
    }
}
