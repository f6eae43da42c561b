//! What goes to standard output.

use super::colours::YELLOW;
use super::error::Result;
use clap::ValueEnum;
use flow_core::printable::{printable, Printable};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// The result of a verb: an exit code, or an error that is printed before the process ends with exit code 1.
pub type CommandResult = Result<ExitCode>;

/// How a verb answers.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum OutputFormat {
    Text,
    Json,
}

/// Prints to standard output what a terminal may show; a reader that went away (`| head`) is no error.
pub fn answer(text: &str) {
    raw(&printable(text));
}

/// Prints the last text of a verb that succeeded.
pub fn finish(text: &str) -> CommandResult {
    answer(text);
    Ok(ExitCode::SUCCESS)
}

/// Warns on standard error.
pub fn warn(text: &str) {
    anstream::eprintln!("{YELLOW}warning:{YELLOW:#} {}", printable(text));
}

/// Prints to standard output unescaped, control characters included: only for text that the program itself composed.
pub fn raw(text: &str) {
    write(&mut io::stdout().lock(), text);
}

/// Prints text that the program itself composed to standard output, in colour if that is a terminal with colours.
pub fn paint(text: &str) {
    write(&mut anstream::stdout().lock(), text);
}

fn write(out: &mut dyn Write, text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // If the reader has gone, the error can't be reported.
    let _ = out.write_all(text.as_bytes()).and_then(|_| out.write_all(end.as_bytes()));
}

/// Lets `print` write to standard output, with control characters escaped; a reader that goes away (`| head`) is no
/// error.
pub fn printed(print: impl FnOnce(&mut dyn Write) -> Result<()>) -> CommandResult {
    exactly(|out| {
        let mut out = Printable::new(out);
        print(&mut out)?;
        Ok(out.flush()?)
    })
}

/// The same for another program to read: byte for byte, unless standard output is a terminal.
pub fn printed_raw(print: impl FnOnce(&mut dyn Write) -> Result<()>) -> CommandResult {
    match io::stdout().is_terminal() {
        true => printed(print),
        false => exactly(print),
    }
}

fn exactly(print: impl FnOnce(&mut dyn Write) -> Result<()>) -> CommandResult {
    let mut out = BufWriter::new(Pipe { gone: false });
    let wrote = print(&mut out).and_then(|()| Ok(out.flush()?));
    match wrote {
        Err(error) if !out.into_parts().0.gone => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Standard output, and whether its reader is gone: the errors of the layers above don't tell.
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
