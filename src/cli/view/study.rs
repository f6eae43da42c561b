//! The tables of a study, as the program `flow-study` makes them.

use crate::cli::error::{Error, Result};
use crate::cli::external::{self, STUDY};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// A study that is shown.
pub struct ShownStudy {
    file: PathBuf,
    home: PathBuf,
}

impl ShownStudy {
    /// Reads the study's file.
    ///
    /// # Errors
    /// If it has mistakes, or its tables can't be made.
    pub fn read(file: &Path) -> Result<ShownStudy> {
        let mut shown = ShownStudy { file: file.into(), home: PathBuf::new() };
        shown.home = shown.tables()?["home"].as_str().unwrap_or_default().into();
        Ok(shown)
    }

    /// The folder of its runs.
    pub fn home(&self) -> PathBuf {
        self.home.clone()
    }

    /// All tables, with the runs behind each row.
    ///
    /// # Errors
    /// If a log can't be read.
    pub fn tables(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.answer(&["--json"])?)?)
    }

    /// Where a cell comes from: for each seed its commands, its query, and the answer.
    ///
    /// # Errors
    /// If there is no such cell, or a log can't be read.
    pub fn origin(&self, table: &str, row: &str, column: &str) -> Result<Value> {
        Ok(json!({ "text": self.answer(&["--cell", table, row, column])? }))
    }

    fn answer(&self, arguments: &[&str]) -> Result<String> {
        let output = external::command(STUDY)?.arg(&self.file).args(arguments).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(Error::request(text(&output.stderr).trim_end().trim_start_matches("error: "))),
        }
    }
}
