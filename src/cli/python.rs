//! Work that a module of the repository's Python does for a verb.

use super::error::{Error, Result};
use flow_core::child::find_module;
use std::io;
use std::process::Command;

/// Runs a module as `python3 -m` does, but without the working folder among the places to import from: a `json.py` there
/// would be Python's, and run.
const START: &str = "import sys; sys.path[:] = [path for path in sys.path if path]; del sys.argv[0]; import runpy; \
                     runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)";

/// A module of the repository's Python, with this program's own environment.
///
/// # Errors
/// If the repository's folder can't be named in PYTHONPATH.
pub fn command(module: &str) -> Result<Command> {
    let mut command = Command::new("python3");
    find_module(module.split('.').next().unwrap_or(module), &mut command).map_err(Error::Request)?;
    command.args(["-c", START, module]);
    Ok(command)
}

/// Why Python can't be started.
pub fn start_error(error: io::Error) -> Error {
    Error::Request(format!("`python3` can't be started: {error}")).help("this verb does a part of its work in Python")
}

/// What a command of Python prints.
///
/// # Errors
/// If it can't be started, or fails: then with its last line.
pub fn printed(command: &mut Command) -> Result<String> {
    let ran = command.output().map_err(start_error)?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("python3 failed without a message");
    Err(Error::request(last.trim_start_matches("error: ")))
}
