//! The tables of a study for another program: what its page says in Markdown, without the verdicts.

use crate::cell::cell;
use crate::error::Result;
use crate::plan::{sides, SeededRun};
use crate::values::StudyValues;
use serde_json::{json, Value};

/// All tables, with the runs behind each row.
///
/// # Errors
/// If a log can't be read.
pub fn tables(values: &StudyValues) -> Result<Value> {
    let (study, mut tables) = (values.study, Vec::new());
    for table in &study.tables {
        let mut rows = Vec::new();
        for row in &table.rows {
            let text = |column| Ok(cell(values, table, row, column)?.text(column.digits, table.spread));
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
    let title = study.title.as_ref().unwrap_or(&study.study);
    Ok(
        json!({ "title": title, "about": study.about, "page": study.page.display().to_string(), "home": study.home().display().to_string(), "tables": tables }),
    )
}
