//! Query results with typed columns.

use crate::cli::error::{Error, Result};
use crate::log::{self, Run};
use crate::row::{self, Kind};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float64Type, UInt64Type};

/// The rows that a query gave.
pub struct TypedRows(RecordBatch);

/// Asks the log of a run.
pub fn ask(run: &Run, sql: &str) -> Result<TypedRows> {
    let answer = log::query(run, sql)?;
    Ok(TypedRows(concat_batches(&answer.schema, &answer.batches)?))
}

impl TypedRows {
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    fn column(&self, name: &str, kind: &DataType) -> Result<ArrayRef> {
        let column = self.0.column_by_name(name).ok_or_else(|| Error::Request(format!("the answer has no column `{name}`")))?;
        cast(column, kind).map_err(|e| Error::from(e).at(format!("column `{name}`")))
    }

    /// Whole numbers; 0 where there is none.
    pub fn u64s(&self, name: &str) -> Result<Vec<u64>> {
        let column = self.column(name, &DataType::UInt64)?;
        Ok(column.as_primitive::<UInt64Type>().iter().map(Option::unwrap_or_default).collect())
    }

    /// Numbers, if there are any.
    pub fn f64s(&self, name: &str) -> Result<Vec<Option<f64>>> {
        let column = self.column(name, &DataType::Float64)?;
        Ok(column.as_primitive::<Float64Type>().iter().map(|x| x.filter(|x| x.is_finite())).collect())
    }

    /// Tokens, a list a row; empty where there is none.
    pub fn tokens(&self, name: &str) -> Result<Vec<Vec<u32>>> {
        let column = self.column(name, &Kind::U32List.arrow())?;
        let lists = column.as_list::<i32>();
        Ok((0..lists.len()).map(|i| if lists.is_null(i) { vec![] } else { row::u32_list(lists, i) }).collect())
    }

    /// Texts, if there are any.
    pub fn texts(&self, name: &str) -> Result<Vec<Option<String>>> {
        let column = self.column(name, &DataType::Utf8)?;
        Ok(column.as_string::<i32>().iter().map(|text| text.map(String::from)).collect())
    }
}
