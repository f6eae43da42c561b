//! The tables of a study for another program: what its page says in Markdown, without the verdicts, and where each cell
//! comes from.

use super::cell::cell;
use super::file::Study;
use super::page::origin;
use super::plan::{sides, SeededRun};
use super::values::StudyValues;
use crate::cli::error::Result;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};

/// A study that is shown.
pub struct ShownStudy(Study);

impl ShownStudy {
    /// Reads the study's file.
    ///
    /// # Errors
    /// If it has mistakes.
    pub fn read(file: &Path) -> Result<ShownStudy> {
        Ok(ShownStudy(flow_pipeline::document(file, "the study", &[], Study::mistakes)?))
    }

    /// The folder of its runs.
    pub fn home(&self) -> PathBuf {
        self.0.home()
    }

    /// All tables, with the runs behind each row.
    ///
    /// # Errors
    /// If a log can't be read.
    pub fn tables(&self) -> Result<Value> {
        let (study, values) = (&self.0, StudyValues::new(&self.0));
        let mut tables = Vec::new();
        for table in &study.tables {
            let mut rows = Vec::new();
            for row in &table.rows {
                let text = |column| Ok(cell(&values, table, row, column)?.text(column.digits, table.spread));
                let cells = table.columns.iter().map(text).collect::<Result<Vec<String>>>()?;
                let runs = sides(table, row).flat_map(|(run, _)| {
                    let seeds = study.runs.get(run).map_or(&[][..], |spec| study.seeds(spec));
                    seeds.iter().map(move |seed| study.folder(&SeededRun { run: run.into(), seed: *seed }).display().to_string())
                });
                rows.push(json!({ "name": row.name, "paper": row.paper, "cells": cells, "runs": runs.collect::<Vec<_>>() }));
            }
            let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            tables.push(json!({ "title": table.title, "about": table.about, "columns": columns, "rows": rows }));
        }
        Ok(
            json!({ "title": study.title.as_ref().unwrap_or(&study.study), "about": study.about, "page": study.page.display().to_string(), "tables": tables }),
        )
    }

    /// Where a cell comes from: for each seed its commands, its query, and the answer.
    ///
    /// # Errors
    /// If there is no such cell, or a log can't be read.
    pub fn origin(&self, table: &str, row: &str, column: &str) -> Result<Value> {
        Ok(json!({ "text": origin(&StudyValues::new(&self.0), table, row, column)? }))
    }
}
