//! Processes that flow starts: what they print, and the Python modules that they find.

use crate::python_package;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
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

/// A Python with the packages of a part of flow.
#[derive(Clone, Copy)]
pub struct Python {
    /// The variable that names it.
    pub variable: &'static str,
    /// The folder of the virtual environment that it is looked for in, where nothing names one.
    pub folder: &'static str,
    /// What `pip install` brings into it.
    pub packages: &'static str,
}

impl Python {
    /// That of the SDK of Tinker's protocol.
    pub const TINKER: Python = Python { variable: "FLOW_TINKER_PYTHON", folder: ".flow/tinker", packages: "tinker==0.25.0 numpy" };

    /// Its path.
    ///
    /// # Errors
    /// If there is none, and how to make one.
    pub fn find(&self) -> Result<PathBuf, String> {
        let Python { variable, folder, packages } = self;
        let named = std::env::var_os(variable).filter(|python| !python.is_empty()).map(PathBuf::from);
        let python = named.clone().unwrap_or_else(|| Path::new(folder).join("bin/python"));
        if python.exists() {
            return Ok(python);
        }
        let there = match named {
            Some(_) => format!("{variable} names {}, which isn't there", python.display()),
            None => format!("there is no Python with {}", packages.replace(' ', ", ")),
        };
        Err(format!("{there}: `python3 -m venv {folder} && {folder}/bin/pip install {packages}` makes one, or let {variable} name yours"))
    }
}

/// The value of PYTHONPATH with which a Python finds the repository's module; none where the package is installed and it
/// needs no help.
///
/// # Errors
/// If a path can't be named in PYTHONPATH.
pub fn module_path(module: &str) -> Result<Option<OsString>, String> {
    let Some(package) = python_package::holding(module) else { return Ok(None) };
    let path = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let others = std::env::split_paths(&path).filter(|path| path != Path::new(""));
    std::env::join_paths(std::iter::once(package).chain(others)).map(Some).map_err(|e| e.to_string())
}

/// Has the Python that `command` starts find the repository's module.
///
/// # Errors
/// Those of [`module_path()`].
pub fn find_module(module: &str, command: &mut Command) -> Result<(), String> {
    module_path(module)?.map(|path| command.env("PYTHONPATH", path));
    Ok(())
}
