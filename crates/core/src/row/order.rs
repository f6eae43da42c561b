//! The order of rows: that of their names.

use super::{RowError, NAME};
use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use std::cmp::Ordering;

/// The columns of a batch that name its rows.
pub(super) struct SortKeys<'a>(Vec<SortKey<'a>>);

enum SortKey<'a> {
    Long(&'a [u64]),
    Short(&'a [u32]),
    Text(&'a StringArray),
}

impl<'a> SortKeys<'a> {
    /// The columns of `first`.
    pub(super) fn new(batch: &'a RecordBatch, first: &RecordBatch) -> Result<SortKeys<'a>, RowError> {
        let there = NAME.into_iter().filter(|name| first.column_by_name(name).is_some());
        let key = |name: &'static str| {
            let column = batch.column_by_name(name).ok_or_else(|| RowError::Missing(name.into()))?;
            Ok(match column.data_type() {
                DataType::UInt64 => SortKey::Long(column.as_primitive::<UInt64Type>().values()),
                DataType::UInt32 => SortKey::Short(column.as_primitive::<UInt32Type>().values()),
                _ => SortKey::Text(super::texts(batch, name)?),
            })
        };
        there.map(key).collect::<Result<_, _>>().map(SortKeys)
    }

    /// How row `row` of this batch stands to row `other_row` of the other one.
    pub(super) fn compare(&self, row: usize, other: &SortKeys, other_row: usize) -> Ordering {
        for pair in self.0.iter().zip(&other.0) {
            let order = match pair {
                (SortKey::Long(a), SortKey::Long(b)) => a[row].cmp(&b[other_row]),
                (SortKey::Short(a), SortKey::Short(b)) => a[row].cmp(&b[other_row]),
                (SortKey::Text(a), SortKey::Text(b)) => a.value(row).cmp(b.value(other_row)),
                // Batches of one edge have one schema.
                _ => Ordering::Equal,
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}
