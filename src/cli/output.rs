//! What goes to standard output.

use super::colours::YELLOW;
use super::error::Result;
use crate::printable::{printable, Printable};
use clap::ValueEnum;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// What a verb ends with: an exit code, or what to say on the way to exit code 1.
pub type Outcome = Result<ExitCode>;

/// How a verb answers.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

/// Prints to standard output what a terminal may show; a reader that went away (`| head`) is no error.
pub fn answer(text: &str) {
    raw(&printable(text));
}

/// Warns on standard error.
pub fn warn(text: &str) {
    anstream::eprintln!("{YELLOW}warning:{YELLOW:#} {}", printable(text));
}

/// Prints to standard output as it is, control characters and all: only text of our own making.
pub fn raw(text: &str) {
    write(&mut io::stdout().lock(), text);
}

/// Prints to standard output text of our own making, in its colours where that is a terminal that has them.
pub fn paint(text: &str) {
    write(&mut anstream::stdout().lock(), text);
}

fn write(out: &mut dyn Write, text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // A reader that went away is nobody to tell.
    let _ = out.write_all(text.as_bytes()).and_then(|_| out.write_all(end.as_bytes()));
}

/// Lets `print` write to standard output as much as it wants, and makes it printable; a reader that goes away (`| head`) ends it
/// quietly.
pub fn printed(print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Outcome {
    exactly(|out| {
        let mut out = Printable::new(out);
        print(&mut out)?;
        Ok(out.flush()?)
    })
}

/// The same for another program to read: byte for byte, unless it is a terminal that would read it.
pub fn handed(print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Outcome {
    match io::stdout().is_terminal() {
        true => printed(print),
        false => exactly(print),
    }
}

fn exactly(print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Outcome {
    let mut out = BufWriter::new(Pipe { gone: false });
    let wrote = print(&mut out).and_then(|()| Ok(out.flush()?));
    match wrote {
        Err(error) if !out.into_parts().0.gone => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Standard output, and whether its reader is gone: that can't be told from the errors of everything between.
struct Pipe {
    gone: bool,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).inspect_err(|e| self.gone |= e.kind() == ErrorKind::BrokenPipe)
    }
    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().inspect_err(|e| self.gone |= e.kind() == ErrorKind::BrokenPipe)
    }
}
