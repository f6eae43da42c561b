//! Processes that flow starts: what they print, and the Python modules that they find.

use crate::python_package;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;

/// The beginning of each line that a process prints, until it ends.
pub fn each_line(stream: impl Read, mut each: impl FnMut(String)) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    // A line of any length.
    while matches!(io::Read::by_ref(&mut stream).take(1 << 16).read_until(b'\n', &mut line), Ok(read) if read > 0) {
        each(String::from_utf8_lossy(&line).trim_end().chars().take(400).collect());
        line.clear();
    }
}

/// Has the Python that `command` starts find the repository's module; where the package is installed it needs no help.
///
/// # Errors
/// If a path can't be named in PYTHONPATH.
pub fn find_module(module: &str, command: &mut Command) -> Result<(), String> {
    if let Some(package) = python_package::holding(module) {
        let path = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let paths = std::iter::once(package).chain(std::env::split_paths(&path).filter(|path| path != Path::new("")));
        command.env("PYTHONPATH", std::env::join_paths(paths).map_err(|e| e.to_string())?);
    }
    Ok(())
}
