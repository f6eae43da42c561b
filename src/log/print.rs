//! Answers as text, and as Parquet.

use super::{Answer, LogError};
use crate::printable::printable;
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::csv;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonFormat, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use std::io::Write;
use std::sync::Arc;

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Aligned columns for a person; wide cells are cut, and only the first rows of many are shown.
    Table,
    /// Comma-separated values with a header. Lists are written as text.
    Csv,
    /// A JSON array with one object a line. A NaN is null.
    Json,
    /// One Parquet file.
    Parquet,
}

/// The widest cell and the most rows that a table shows.
const WIDTH: usize = 48;
const ROWS: usize = 200;

/// Prints `answer` to `out`: the standard output, or a file that the caller opened.
pub fn print(answer: &Answer, format: AnswerFormat, out: &mut dyn Write) -> Result<(), LogError> {
    match format {
        AnswerFormat::Table => table(answer, out),
        AnswerFormat::Csv => to_csv(answer, out),
        AnswerFormat::Json => {
            let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, Lines>(out);
            answer.batches.iter().try_for_each(|b| writer.write(b)).and_then(|()| writer.finish()).map_err(broken)
        }
        AnswerFormat::Parquet => {
            let mut writer = ArrowWriter::try_new(Vec::new(), answer.schema.clone(), None)?;
            answer.batches.iter().try_for_each(|b| writer.write(b))?;
            Ok(out.write_all(&writer.into_inner()?)?)
        }
    }
}

/// A reader that closed its end early (`| head`) is told apart from rows that can't be printed.
fn broken(e: ArrowError) -> LogError {
    match e {
        ArrowError::IoError(_, e) => LogError::Output(e),
        e => LogError::Arrow(e),
    }
}

/// An array with each object on a line of its own: one `json.load` for a program, one line a row for a person.
#[derive(Debug, Default)]
struct Lines {}

impl JsonFormat for Lines {
    fn start_stream<W: Write>(&self, out: &mut W) -> Result<(), ArrowError> {
        Ok(out.write_all(b"[\n")?)
    }
    fn start_row<W: Write>(&self, out: &mut W, first: bool) -> Result<(), ArrowError> {
        if first {
            Ok(())
        } else {
            Ok(out.write_all(b",\n")?)
        }
    }
    fn end_stream<W: Write>(&self, out: &mut W) -> Result<(), ArrowError> {
        Ok(out.write_all(b"\n]\n")?)
    }
}

fn to_csv(answer: &Answer, out: &mut dyn Write) -> Result<(), LogError> {
    let mut writer = csv::Writer::new(out);
    let nested: Vec<bool> = answer.schema.fields().iter().map(|f| f.data_type().is_nested()).collect();
    let text = |f: (&Arc<Field>, &bool)| if *f.1 { Arc::new(Field::new(f.0.name(), DataType::Utf8, true)) } else { f.0.clone() };
    let schema = Arc::new(Schema::new(answer.schema.fields().iter().zip(&nested).map(text).collect::<Vec<_>>()));
    if answer.batches.is_empty() {
        return writer.write(&RecordBatch::new_empty(schema)).map_err(broken);
    }
    for batch in &answer.batches {
        let column = |(column, nested): (&ArrayRef, &bool)| if *nested { as_text(column) } else { Ok(column.clone()) };
        let columns = batch.columns().iter().zip(&nested).map(column).collect::<Result<Vec<_>, ArrowError>>()?;
        writer.write(&RecordBatch::try_new(schema.clone(), columns)?).map_err(broken)?;
    }
    Ok(())
}

fn as_text(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::new();
    let cells = ArrayFormatter::try_new(column, &options)?;
    let cell = |i| column.is_valid(i).then(|| cells.value(i).to_string());
    Ok(Arc::new((0..column.len()).map(cell).collect::<StringArray>()))
}

fn table(answer: &Answer, out: &mut dyn Write) -> Result<(), LogError> {
    let options = FormatOptions::new().with_null("-");
    let names: Vec<String> = answer.schema.fields().iter().map(|f| cut(f.name())).collect();
    let right: Vec<bool> = answer.schema.fields().iter().map(|f| f.data_type().is_numeric()).collect();
    let total: usize = answer.batches.iter().map(RecordBatch::num_rows).sum();
    let mut lines: Vec<Vec<String>> = vec![names];
    for batch in &answer.batches {
        let cells = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options)).collect::<Result<Vec<_>, _>>()?;
        let wanted = batch.num_rows().min(ROWS + 1 - lines.len());
        for i in 0..wanted {
            lines.push(cells.iter().map(|c| c.value(i).try_to_string().map(|text| cut(&text))).collect::<Result<_, _>>()?);
        }
    }
    let widths: Vec<usize> = (0..right.len()).map(|c| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0)).collect();
    for (n, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .zip(widths.iter().zip(&right))
            .map(|(text, (width, right))| if *right { format!("{text:>width$}") } else { format!("{text:<width$}") })
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
        if n == 0 {
            writeln!(out, "{}", widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>().join("  "))?;
        }
    }
    let shown = lines.len() - 1;
    match total {
        1 => writeln!(out, "1 row")?,
        n if n > shown => writeln!(out, "{n} rows, the first {shown} shown: --format csv gives all")?,
        n => writeln!(out, "{n} rows")?,
    }
    Ok(())
}

/// One line of at most [`WIDTH`] characters: a board's line ends show as a mark.
fn cut(text: &str) -> String {
    let line: String = printable(text).chars().map(|c| if c == '\n' { '⏎' } else { c }).collect();
    if line.chars().count() <= WIDTH {
        return line;
    }
    line.chars().take(WIDTH - 1).chain(['…']).collect()
}
