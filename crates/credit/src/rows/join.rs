//! Rows that have travelled different ways, brought together by their names.

use arrow::array::RecordBatch;
use flow_core::row::{RowError, View, NAME};

/// Why rows can't be brought together.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// An input without rows beside one with rows.
    #[error("one input has rows and another has none")]
    Missing,
    /// Rows that have no partner.
    #[error("the inputs hold different rows: `{name}` differs ({first} rows and {other})")]
    Different {
        /// The first column by which they differ.
        name: &'static str,
        /// Rows of the first input.
        first: usize,
        /// Rows of the other one.
        other: usize,
    },
    /// A column is missing or of another type.
    #[error(transparent)]
    Row(#[from] RowError),
}

/// These columns of `other`, row by row those of `first`: both are sorted by name and hold the same rows, or it fails.
pub(super) fn partners(first: &View, other: &View, columns: &[&str]) -> Result<RecordBatch, JoinError> {
    for name in NAME.into_iter().filter(|name| first.has(name)) {
        if first.column(name)? != other.column(name)? {
            return Err(JoinError::Different { name, first: first.len(), other: other.len() });
        }
    }
    Ok(other.read(columns)?)
}

/// The batches of `rows` with these columns of `part`, which holds the same rows with fewer columns, in any order.
pub fn rejoin(rows: &[RecordBatch], part: &[RecordBatch], columns: &[&str]) -> Result<Vec<RecordBatch>, JoinError> {
    let (view, part) = match (View::sorted(rows)?, View::sorted(part)?) {
        (Some(view), Some(part)) => (view, part),
        (None, None) => return Ok(vec![]),
        _ => return Err(JoinError::Missing),
    };
    let partners = partners(&view, &part, columns)?;
    let columns = columns.iter().zip(partners.columns()).map(|(name, column)| (*name, column.clone())).collect();
    Ok(view.with(columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float32Array, UInt32Array};
    use flow_core::row;
    use std::sync::Arc;

    fn rows(turns: &[u32], rewards: &[f32]) -> RecordBatch {
        let turns = Arc::new(UInt32Array::from(turns.to_vec())) as ArrayRef;
        row::batch(vec![("turn", turns), ("reward", Arc::new(Float32Array::from(rewards.to_vec())))]).unwrap()
    }

    #[test]
    fn what_travelled_comes_back_to_its_row() {
        let (stayed, travelled) = ([rows(&[3, 1], &[0.0; 2]), rows(&[2], &[0.0])], [rows(&[1, 2, 3], &[0.1, 0.2, 0.3])]);
        let joined = rejoin(&stayed, &travelled, &["reward"]).unwrap();
        assert_eq!(joined, [rows(&[3, 1], &[0.3, 0.1]), rows(&[2], &[0.2])]);
        assert!(matches!(rejoin(&stayed, &[rows(&[1, 2, 4], &[0.0; 3])], &["reward"]), Err(JoinError::Different { name: "turn", .. })));
        assert!(matches!(rejoin(&stayed, &[], &["reward"]), Err(JoinError::Missing)));
        assert!(rejoin(&[], &[], &["reward"]).unwrap().is_empty());
    }
}
