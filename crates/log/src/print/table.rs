//! Aligned columns for a person.

use super::{LogError, Printer};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
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
        let names = schema.fields().iter().map(|f| cut(f.name()).0).collect();
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
            let cells = cells.iter().map(|c| c.value(i).try_to_string().map(|text| cut(&text))).collect::<Result<Vec<_>, _>>()?;
            self.cut |= cells.iter().any(|(_, cut)| *cut);
            self.lines.push(cells.into_iter().map(|(text, _)| text).collect());
        }
        Ok(())
    }

    fn enough(&self) -> bool {
        self.rows > COUNTED
    }

    fn end(self: Box<Self>) -> Result<(), LogError> {
        let TablePrinter { out, lines, right, rows, cut } = *self;
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
        match rows {
            1 => writeln!(out, "1 row")?,
            n if n > COUNTED => writeln!(out, "more than {COUNTED} rows, the first {shown} shown: --format csv gives all")?,
            n if n > shown => writeln!(out, "{n} rows, the first {shown} shown: --format csv gives all")?,
            n => writeln!(out, "{n} rows")?,
        }
        if cut {
            writeln!(out, "longer texts end with …: --format csv gives them whole")?;
        }
        Ok(())
    }
}

/// One line of at most [`WIDTH`] characters, and whether that isn't all: a board's line ends show as a mark.
fn cut(text: &str) -> (String, bool) {
    let line: String = printable(text).chars().map(|c| if c == '\n' { '⏎' } else { c }).collect();
    if line.chars().count() <= WIDTH {
        return (line, false);
    }
    (line.chars().take(WIDTH - 1).chain(['…']).collect(), true)
}
