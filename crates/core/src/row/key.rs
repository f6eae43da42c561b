//! A fixed hash of some of a row's columns: what rows are routed and grouped by.

use crate::seed::{mix, text};
use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Float32Type, UInt32Type, UInt64Type};

/// A hash of each row's values in `columns`, in their order: the same on every machine, so a group has one id
/// everywhere. A column that isn't there is passed over; one of a type that no key has (a list) counts as 0.
pub fn keys<C: AsRef<str>>(rows: &RecordBatch, columns: &[C]) -> Vec<u64> {
    let mut keys = vec![0u64; rows.num_rows()];
    for array in columns.iter().filter_map(|name| rows.column_by_name(name.as_ref())) {
        match array.data_type() {
            DataType::UInt64 => fold(&mut keys, array.as_primitive::<UInt64Type>().values().iter().copied()),
            DataType::UInt32 => fold(&mut keys, array.as_primitive::<UInt32Type>().values().iter().map(|v| u64::from(*v))),
            DataType::Boolean => fold(&mut keys, array.as_boolean().values().iter().map(u64::from)),
            DataType::Utf8 => fold(&mut keys, hashes(array.as_string())),
            DataType::Float32 => fold(&mut keys, array.as_primitive::<Float32Type>().values().iter().map(|v| u64::from(v.to_bits()))),
            _ => fold(&mut keys, std::iter::repeat(0)),
        }
    }
    keys
}

fn fold(keys: &mut [u64], column: impl Iterator<Item = u64>) {
    keys.iter_mut().zip(column).for_each(|(key, value)| *key = mix(*key, value));
}

/// The hash of each text. Rows that follow one another often hold the same one, whose hash serves again.
fn hashes(texts: &StringArray) -> impl Iterator<Item = u64> + '_ {
    let (mut last, mut hash) = ("", text(""));
    (0..texts.len()).map(move |i| {
        let next = texts.value(i);
        if next != last {
            (last, hash) = (next, text(next));
        }
        hash
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float32Array, UInt32Array, UInt64Array};
    use std::sync::Arc;

    #[test]
    fn a_key_is_the_columns_mixed_in_their_order() {
        let rows = crate::row::batch(vec![
            ("task", Arc::new(StringArray::from(vec!["a", "a", "b"])) as arrow::array::ArrayRef),
            ("sample", Arc::new(UInt32Array::from(vec![0, 1, 0]))),
            ("state", Arc::new(UInt64Array::from(vec![7, 7, 7]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, false, true]))),
            ("reward", Arc::new(Float32Array::from(vec![0.5, 0.5, -0.0]))),
        ])
        .unwrap();
        let all = keys(&rows, &["task", "sample", "state", "valid", "reward", "turn"]);
        for (i, (task, sample, valid, reward)) in [("a", 0, 1, 0.5f32), ("a", 1, 0, 0.5), ("b", 0, 1, -0.0)].into_iter().enumerate() {
            let expected = [text(task), sample, 7, valid, u64::from(reward.to_bits())].into_iter().fold(0, mix);
            assert_eq!(all[i], expected, "row {i}; the column that isn't there is passed over");
        }
        let task = keys(&rows, &["task"]);
        assert!(task[0] == task[1] && task[1] != task[2]);
        assert_ne!(keys(&rows, &["task", "sample"]), keys(&rows, &["sample", "task"]));
        assert_eq!(keys::<&str>(&rows, &[]), [0; 3], "no columns: all rows are one group");
    }
}
