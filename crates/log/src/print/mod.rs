//! Answers as text and as Parquet, batch by batch: what is printed may be larger than the memory.

mod table;

use super::{LogError, QueryResult};
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::csv;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonFormat, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parking_lot::Mutex;
use parquet::arrow::ArrowWriter;
use std::io::Write;
use std::sync::Arc;
use table::TablePrinter;

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

/// Prints `answer` to `out`: the standard output, or a file that the caller opened.
pub fn print(answer: &QueryResult, format: AnswerFormat, out: &mut dyn Write) -> Result<(), LogError> {
    let mut printer = printer(format, &answer.schema, out)?;
    for batch in &answer.batches {
        printer.rows(batch)?;
    }
    printer.end()
}

/// Takes an answer bit by bit.
pub(super) trait Printer {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), LogError>;
    /// Whether more rows would change nothing.
    fn enough(&self) -> bool {
        false
    }
    fn end(self: Box<Self>) -> Result<(), LogError>;
}

/// Prints rows of this schema.
pub(super) fn printer<'a>(format: AnswerFormat, schema: &SchemaRef, out: &'a mut dyn Write) -> Result<Box<dyn Printer + 'a>, LogError> {
    Ok(match format {
        AnswerFormat::Table => Box::new(TablePrinter::new(schema, out)),
        AnswerFormat::Csv => Box::new(Csv::new(schema, out)?),
        AnswerFormat::Json => Box::new(WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonLines>(out)),
        AnswerFormat::Parquet => {
            let bytes = SharedBuffer::default();
            Box::new(Parquet { writer: ArrowWriter::try_new(bytes.clone(), schema.clone(), None)?, bytes, out })
        }
    })
}

/// A reader that closed its end early (`| head`) is distinguished from rows that can't be printed.
fn broken(e: ArrowError) -> LogError {
    match e {
        ArrowError::IoError(_, e) => LogError::Output(e),
        e => LogError::Arrow(e),
    }
}

/// An array with each object on a line of its own: one `json.load` for a program, one line a row for a person.
#[derive(Debug, Default)]
struct JsonLines {}

impl JsonFormat for JsonLines {
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

impl Printer for arrow::json::Writer<&mut dyn Write, JsonLines> {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), LogError> {
        expressible(rows)?;
        self.write(rows).map_err(broken)
    }
    fn end(mut self: Box<Self>) -> Result<(), LogError> {
        self.finish().map_err(broken)
    }
}

/// Lists are written as text, which CSV has no other form for.
struct Csv<'a> {
    writer: csv::Writer<&'a mut dyn Write>,
    schema: SchemaRef,
    nested: Vec<bool>,
}

impl<'a> Csv<'a> {
    fn new(schema: &SchemaRef, out: &'a mut dyn Write) -> Result<Csv<'a>, LogError> {
        let nested: Vec<bool> = schema.fields().iter().map(|f| f.data_type().is_nested()).collect();
        let text = |f: (&Arc<Field>, &bool)| if *f.1 { Arc::new(Field::new(f.0.name(), DataType::Utf8, true)) } else { f.0.clone() };
        let schema = Arc::new(Schema::new(schema.fields().iter().zip(&nested).map(text).collect::<Vec<_>>()));
        let mut writer = csv::Writer::new(out);
        // The header is there even if no row is.
        writer.write(&RecordBatch::new_empty(schema.clone())).map_err(broken)?;
        Ok(Csv { writer, schema, nested })
    }
}

impl Printer for Csv<'_> {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), LogError> {
        let column = |(column, nested): (&ArrayRef, &bool)| if *nested { as_text(column) } else { Ok(column.clone()) };
        let columns = rows.columns().iter().zip(&self.nested).map(column).collect::<Result<Vec<_>, ArrowError>>()?;
        self.writer.write(&RecordBatch::try_new(self.schema.clone(), columns)?).map_err(broken)
    }
    fn end(self: Box<Self>) -> Result<(), LogError> {
        Ok(())
    }
}

/// Insists that every time has a text: Arrow's writer puts the words of its error in the place of one that is too far
/// away, such as `date 'infinity'`.
fn expressible(rows: &RecordBatch) -> Result<(), LogError> {
    let times = rows.columns().iter().filter(|column| column.data_type().is_temporal());
    Ok(times.map(as_text).try_for_each(|texts| texts.map(drop))?)
}

fn as_text(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::new();
    let cells = ArrayFormatter::try_new(column, &options)?;
    let cell = |i| column.is_valid(i).then(|| cells.value(i).try_to_string()).transpose();
    let cells: Vec<Option<String>> = (0..column.len()).map(cell).collect::<Result<_, _>>()?;
    Ok(Arc::new(StringArray::from(cells)))
}

/// What a writer has written that isn't printed yet: Parquet's own takes only what can be sent to another thread.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// So many bytes of rows are kept until they become a row group.
const GROUP: usize = 64 << 20;

struct Parquet<'a> {
    writer: ArrowWriter<SharedBuffer>,
    bytes: SharedBuffer,
    out: &'a mut dyn Write,
}

impl Parquet<'_> {
    fn pass_on(&mut self) -> Result<(), LogError> {
        let bytes = std::mem::take(&mut *self.bytes.0.lock());
        Ok(self.out.write_all(&bytes)?)
    }
}

impl Printer for Parquet<'_> {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), LogError> {
        self.writer.write(rows)?;
        if self.writer.in_progress_size() > GROUP {
            self.writer.flush()?;
            self.pass_on()?;
        }
        Ok(())
    }
    fn end(mut self: Box<Self>) -> Result<(), LogError> {
        self.writer.finish()?;
        self.pass_on()
    }
}
