//! Answers as text, and as Parquet.

use super::{Answer, LogError};
use std::io::Write;

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for a person; wide cells are cut, and only the first rows of many are shown.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// A JSON array with one object a line.
    Json,
    /// One Parquet file.
    Parquet,
}

/// Prints `answer` to `out`: the standard output, or a file that the caller opened.
pub fn print(answer: &Answer, format: Format, out: &mut dyn Write) -> Result<(), LogError> {
    let _ = (answer, format, out);
    Err(LogError::Sql("not there yet".into()))
}
