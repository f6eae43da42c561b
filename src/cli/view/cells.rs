//! The rows of an answer as JSON. Numbers keep their digits: one that a browser can't hold is a text.

use crate::cli::error::Result;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use flow_log::QueryResult;
use serde_json::{json, Value};

/// The largest whole number that a browser's numbers tell from its neighbours.
const SAFE: u64 = (1 << 53) - 1;

/// The longest list that is part of an answer: no page draws the tokens of a long prompt as numbers.
const LONGEST: usize = 4096;

/// An answer: the question, the columns' names and the rows, at most `most` of them.
pub fn table(sql: &str, answer: &QueryResult, most: usize) -> Result<Value> {
    let columns: Vec<&str> = answer.schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut rows = Vec::new();
    for batch in &answer.batches {
        for i in 0..batch.num_rows().min(most - rows.len()) {
            rows.push(Value::Array(batch.columns().iter().map(|column| cell(column, i)).collect::<Result<_>>()?));
        }
    }
    let all: usize = answer.batches.iter().map(|batch| batch.num_rows()).sum();
    Ok(json!({ "sql": sql, "columns": columns, "rows": rows, "more": all > most }))
}

/// One value.
pub fn cell(column: &ArrayRef, i: usize) -> Result<Value> {
    if column.is_null(i) {
        return Ok(Value::Null);
    }
    Ok(match column.data_type() {
        DataType::Boolean => json!(column.as_boolean().value(i)),
        DataType::UInt32 => json!(column.as_primitive::<UInt32Type>().value(i)),
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(i)),
        DataType::UInt64 => integer(column.as_primitive::<UInt64Type>().value(i)),
        DataType::Int64 => match column.as_primitive::<Int64Type>().value(i) {
            small if small.unsigned_abs() <= SAFE => json!(small),
            large => json!(large.to_string()),
        },
        // The digits of the narrow number, not those of the wide one that is nearest to it.
        DataType::Float32 => float(&column.as_primitive::<Float32Type>().value(i).to_string()),
        DataType::Float64 => float(&column.as_primitive::<Float64Type>().value(i).to_string()),
        DataType::Utf8 => json!(column.as_string::<i32>().value(i)),
        DataType::List(_) => {
            let values = column.as_list::<i32>().value(i);
            if values.len() > LONGEST {
                return Ok(json!(format!("{} values: ask for them in SQL", values.len())));
            }
            Value::Array((0..values.len()).map(|i| cell(&values, i)).collect::<Result<_>>()?)
        }
        _ => json!(ArrayFormatter::try_new(column, &FormatOptions::default())?.value(i).to_string()),
    })
}

fn integer(number: u64) -> Value {
    if number <= SAFE {
        json!(number)
    } else {
        json!(number.to_string())
    }
}

/// A number from its digits; what is no number is a text.
fn float(digits: &str) -> Value {
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).map_or_else(|| json!(digits), |number| json!(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, UInt64Array};
    use std::sync::Arc;

    #[test]
    fn a_browser_reads_the_digits_that_were_logged() {
        let hashes: ArrayRef = Arc::new(UInt64Array::from(vec![7, 17_601_217_246_546_084_661]));
        assert_eq!((cell(&hashes, 0).unwrap(), cell(&hashes, 1).unwrap()), (json!(7), json!("17601217246546084661")));
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.1, f32::NAN]));
        assert_eq!((cell(&floats, 0).unwrap(), cell(&floats, 1).unwrap()), (json!(0.1), json!("NaN")));
    }
}
