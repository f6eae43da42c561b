//! Aligned columns for a person.

use super::{LogError, Printer};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use flow_core::columns::{aligned, cut, widths};
use flow_core::printable::printable;
use std::io::Write;

/// The widest cell and the most rows that a table shows.
const WIDTH: usize = 48;
const ROWS: usize = 200;
/// Rows are counted up to here.
const COUNTED: usize = 1_000_000;

/// The first rows, and how many there are.
pub(super) struct TablePrinter<'a> {
    out: &'a mut dyn Write,
    /// The header, then the rows that are shown.
    lines: Vec<Vec<String>>,
    /// Which columns are aligned to the right.
    right: Vec<bool>,
    rows: usize,
    /// Whether a cell shows less than it has.
    cut: bool,
}

impl<'a> TablePrinter<'a> {
    pub fn new(schema: &SchemaRef, out: &'a mut dyn Write) -> TablePrinter<'a> {
        let names = schema.fields().iter().map(|f| shortened(f.name()).0).collect();
        let right = schema.fields().iter().map(|f| f.data_type().is_numeric()).collect();
        TablePrinter { out, lines: vec![names], right, rows: 0, cut: false }
    }
}

impl Printer for TablePrinter<'_> {
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), LogError> {
        self.rows += rows.num_rows();
        let options = FormatOptions::new().with_null("-");
        let cells = rows.columns().iter().map(|c| ArrayFormatter::try_new(c, &options)).collect::<Result<Vec<_>, _>>()?;
        let shown = rows.num_rows().min(ROWS + 1 - self.lines.len());
        for i in 0..shown {
            let cells = cells.iter().map(|c| c.value(i).try_to_string().map(|text| shortened(&text))).collect::<Result<Vec<_>, _>>()?;
            self.cut |= cells.iter().any(|(_, cut)| *cut);
            self.lines.push(cells.into_iter().map(|(text, _)| text).collect());
        }
        Ok(())
    }

    fn enough(&self) -> bool {
        self.rows > COUNTED
    }

    fn end(self: Box<Self>) -> Result<(), LogError> {
        let TablePrinter { out, lines, right, rows, cut: some_cut } = *self;
        let rule = widths(&lines, right.len()).into_iter().map(|width| "-".repeat(width)).collect::<Vec<_>>().join("  ");
        for (n, line) in aligned(&lines, &right).iter().enumerate() {
            writeln!(out, "{line}")?;
            if n == 0 {
                writeln!(out, "{rule}")?;
            }
        }
        let shown = lines.len() - 1;
        match rows {
            1 => writeln!(out, "1 row")?,
            n if n > COUNTED => writeln!(out, "more than {COUNTED} rows, the first {shown} shown: --format csv gives all")?,
            n if n > shown => writeln!(out, "{n} rows, the first {shown} shown: --format csv gives all")?,
            n => writeln!(out, "{n} rows")?,
        }
        if some_cut {
            writeln!(out, "longer texts end with …: --format csv gives them whole")?;
        }
        Ok(())
    }
}

/// The text on one line, and whether that isn't all.
fn shortened(text: &str) -> (String, bool) {
    let text = printable(text);
    (cut(&text, WIDTH), text.chars().count() > WIDTH)
}
