//! The agent that `flow new` begins with: a program that calls a language model and has a calculator, and its tasks.

use crate::cli::error::{Error, Result};
use flow_core::files;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The program and its tasks: names and texts.
pub const PROGRAM: (&str, &str) = ("calculator.py", include_str!("../../../examples/agents/calculator.py"));
pub const TASKS: (&str, &str) = ("calculator.jsonl", include_str!("../../../datasets/calculator.jsonl"));

/// Writes both into the working folder.
///
/// # Errors
/// If a file of that name is there and is another one, or can't be written.
pub fn write() -> Result<()> {
    let there = |(name, text): (&str, &str)| files::text(Path::new(name), 1 << 20).is_ok_and(|read| read == text);
    for (name, text) in [PROGRAM, TASKS].into_iter().filter(|file| !there(*file)) {
        let path = Path::new(name);
        // An existing file is somebody's work.
        let created = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = created.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Error::request(format!("{name} is there already, and isn't the agent that this pipeline begins with"))
                    .help("begin in another folder, or with your own agent: --program COMMAND --tasks FILE.jsonl")
            }
            _ => Error::file(path)(error),
        })?;
        file.write_all(text.as_bytes()).map_err(Error::file(path))?;
    }
    Ok(())
}
