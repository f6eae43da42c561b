//! The tables of a study, as Markdown.

use super::file::{Column, Row, Spread, Study, Table};
use super::plan::{sides, Measuring, Training};
use super::work::{command_line, measured, standing, Standing};
use crate::cli::error::{Error, Result};
use crate::log;
use crate::stats::over_seeds;
use serde_json::Value;

/// From this heading on, a page is its authors'.
const NOTES: &str = "## What came out";

/// One cell: a value a seed, in the order of the seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub seeds: Vec<(u64, f64)>,
    /// Seeds that aren't measured yet.
    pub missing: usize,
}

/// The cell's values, as far as they are there.
pub fn cell(study: &Study, table: &Table, row: &Row, column: &Column) -> Result<Cell> {
    let mut both: Vec<Cell> = Vec::new();
    for (run, measurement) in sides(table, row) {
        let mut cell = Cell::default();
        for seed in study.runs.get(run).map_or(&[][..], |run| study.seeds(run)) {
            let of = Training { run: run.into(), seed: *seed };
            match value(study, &of, measurement, column).map_err(|e| e.at(format!("`{}` of `{}`", column.name, row.name)))? {
                Some(value) => cell.seeds.push((*seed, column.scale * value)),
                None => cell.missing += 1,
            }
        }
        both.push(cell);
    }
    let mut sides = both.into_iter();
    let whole = sides.next().unwrap_or_default();
    let Some(less) = sides.next() else { return Ok(whole) };
    // Seed by seed where both have the seed; a side of one seed, such as a warm start, is taken from each.
    let of = |seed: u64| match less.seeds[..] {
        [(_, only)] => Some(only),
        _ => less.seeds.iter().find(|(s, _)| *s == seed).map(|(_, value)| *value),
    };
    let seeds: Vec<(u64, f64)> = whole.seeds.iter().filter_map(|(seed, value)| Some((*seed, value - of(*seed)?))).collect();
    let missing = whole.missing + whole.seeds.len() - seeds.len();
    Ok(Cell { seeds, missing })
}

/// The column's value of one run of one seed; none while it isn't there, or the run isn't finished.
fn value(study: &Study, of: &Training, measurement: Option<&str>, column: &Column) -> Result<Option<f64>> {
    if standing(study, of)? != Standing::Finished {
        return Ok(None);
    }
    if let Some(sql) = &column.query {
        return Ok(Some(log::number(&log::Run::open(&study.folder(of))?, sql)?));
    }
    let (Some(expression), Some(measurement)) = (&column.value, measurement) else { return Ok(None) };
    let Some(answer) = measured(study, &Measuring { measurement: measurement.into(), of: of.clone() }) else { return Ok(None) };
    Ok(Some(log::value_of(&figures(&answer), expression)?))
}

/// The figures of an answer of `flow eval`, by name.
fn figures(answer: &Value) -> Vec<(String, f64)> {
    let pass = answer["pass"].as_array().into_iter().flatten();
    let pass = pass.filter_map(|p| Some((format!("pass@{}", p["k"].as_u64()?), p["share"].as_f64()?)));
    let rest = answer.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    pass.chain(rest).collect()
}

impl Cell {
    /// The mean over the seeds that are there.
    fn mean(&self) -> Option<f64> {
        let n = self.seeds.len();
        (n > 0).then(|| self.seeds.iter().map(|(_, value)| value).sum::<f64>() / n as f64)
    }

    /// Mean over seeds, and how much they differ where there are several.
    pub fn text(&self, digits: usize, spread: Spread) -> String {
        let values: Vec<f64> = self.seeds.iter().map(|(_, value)| *value).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let text = match (values.len(), spread, over_seeds(&values)) {
            (0, ..) => return "-".into(),
            (_, Spread::Interval, Some(i)) => format!("{mean:.digits$} ({:.digits$} to {:.digits$})", i.low, i.high),
            (_, Spread::Deviation, Some(_)) => {
                let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
                format!("{mean:.digits$} ({deviation:.digits$})")
            }
            _ => format!("{mean:.digits$}"),
        };
        // A mean over fewer seeds than the study has must not look like one over all.
        let all = self.seeds.len() + self.missing;
        if self.missing > 0 {
            format!("{text} [{} of {all} seeds]", self.seeds.len())
        } else {
            text
        }
    }
}

/// The page: what the study makes, then what its authors wrote below.
pub fn page(study: &Study, file: &str, before: &str) -> Result<String> {
    let title = study.title.as_ref().unwrap_or(&study.study);
    let mut text = format!("# {title}\n\nMade by `flow study {file}`.\n");
    if !study.about.is_empty() {
        text += &format!("\n{}\n", study.about.trim());
    }
    for table in &study.tables {
        text += &format!("\n{}", markdown(study, table)?);
    }
    if let Some((_, notes)) = before.split_once(NOTES) {
        text += &format!("\n{NOTES}{notes}");
    }
    Ok(text)
}

fn markdown(study: &Study, table: &Table) -> Result<String> {
    let paper = table.rows.iter().any(|row| row.paper.is_some());
    let mut text = format!("## {}\n\n", table.title);
    if !table.about.is_empty() {
        text += &format!("{}\n\n", table.about.trim());
    }
    text += match table.spread {
        Spread::Deviation => "Mean over seeds, in brackets their standard deviation.\n\n",
        Spread::Interval => "Mean over seeds, in brackets its 95% interval by Student's t.\n\n",
    };
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    let last = if paper { " *paper* |" } else { "" };
    text += &format!("| | {} |{last}\n", names.join(" | "));
    text += &format!("| --- |{}{}\n", " ---: |".repeat(names.len()), if paper { " ---: |" } else { "" });
    for row in &table.rows {
        let cells = table.columns.iter().map(|c| Ok(cell(study, table, row, c)?.text(c.digits, table.spread)));
        let cells = cells.collect::<Result<Vec<String>>>()?;
        let paper = if paper { format!(" {} |", row.paper.as_ref().map_or("".into(), |p| format!("*{p}*"))) } else { String::new() };
        text += &format!("| {} | {} |{paper}\n", row.name, cells.join(" | "));
    }
    if let Some(column) = table.columns.iter().find(|c| Some(&c.name) == table.picture.as_ref()) {
        let bars = table.rows.iter().map(|row| Ok((row.name.as_str(), cell(study, table, row, column)?.mean())));
        let bars: Vec<(&str, Option<f64>)> = bars.collect::<Result<_>>()?;
        text += &picture(&column.name, column.digits, bars.into_iter().filter_map(|(name, mean)| Some((name, mean?))));
    }
    Ok(text)
}

/// Bars side by side, one a row; nothing without any.
fn picture<'a>(column: &str, digits: usize, bars: impl Iterator<Item = (&'a str, f64)>) -> String {
    let (names, values): (Vec<String>, Vec<String>) =
        bars.map(|(name, value)| (format!("\"{}\"", name.replace('"', "'")), format!("{value:.digits$}"))).unzip();
    if names.is_empty() {
        return String::new();
    }
    let (names, values) = (names.join(", "), values.join(", "));
    format!("\n```mermaid\nxychart-beta horizontal\n  x-axis [{names}]\n  y-axis \"{}\"\n  bar [{values}]\n```\n", column.replace('"', "'"))
}

/// Where a cell comes from: for each seed the commands that made it, what was asked, and what came out.
pub fn origin(study: &Study, title: &str, name: &str, column: &str) -> Result<String> {
    let unknown =
        |what: &str, name: &str, known: Vec<&str>| Error::Asked(format!("there is no {what} `{name}`; there are: {}", known.join(", ")));
    let tables = || study.tables.iter().map(|t| t.title.as_str()).collect();
    let table = study.tables.iter().find(|t| t.title == title).ok_or_else(|| unknown("table", title, tables()))?;
    let rows = || table.rows.iter().map(|r| r.name.as_str()).collect();
    let row = table.rows.iter().find(|r| r.name == name).ok_or_else(|| unknown("row", name, rows()))?;
    let columns = || table.columns.iter().map(|c| c.name.as_str()).collect();
    let column = table.columns.iter().find(|c| c.name == column).ok_or_else(|| unknown("column", column, columns()))?;
    let cell = cell(study, table, row, column)?;
    let mut text = format!("{}\n", cell.text(column.digits, table.spread));
    for (seed, value) in &cell.seeds {
        text += &format!("  seed {seed}: {value:.4}\n");
    }
    for (side, (run, measurement)) in sides(table, row).enumerate() {
        text += if side == 0 { "\nmade by\n" } else { "\nless\n" };
        for seed in study.runs.get(run).map_or(&[][..], |run| study.seeds(run)) {
            let of = Training { run: run.into(), seed: *seed };
            text += &format!("  {}\n", command_line(&study.train(&of)));
            match (&column.query, measurement) {
                (Some(sql), _) => {
                    let query = ["query".into(), study.folder(&of).into_os_string(), sql.into()];
                    text += &format!("  {}\n", command_line(&query));
                }
                (None, Some(m)) => text += &format!("  {}\n", command_line(&study.measure(&Measuring { measurement: m.into(), of }))),
                _ => (),
            }
        }
    }
    if let Some(value) = &column.value {
        text += &format!("\nthe value of {value}, times {}\n", column.scale);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_how_sure_it_is() {
        let cell = |values: &[f64], missing| Cell { seeds: (1..).zip(values.iter().copied()).collect(), missing };
        // 60, 70, 80: deviation 10; 4.303 * 10 / sqrt(3) = 24.84.
        assert_eq!(cell(&[60.0, 70.0, 80.0], 0).text(1, Spread::Deviation), "70.0 (10.0)");
        assert_eq!(cell(&[60.0, 70.0, 80.0], 0).text(1, Spread::Interval), "70.0 (45.2 to 94.8)");
        assert_eq!(cell(&[60.0, 80.0], 1).text(0, Spread::Deviation), "70 (14) [2 of 3 seeds]");
        assert_eq!(cell(&[60.0], 0).text(1, Spread::Interval), "60.0");
        assert_eq!(cell(&[], 3).text(1, Spread::Deviation), "-");
    }

    #[test]
    fn a_column_is_drawn_as_bars() {
        let drawn = picture("recovered", 1, [("LaMer, told \"notes\"", 47.25), ("GiGPO", 21.0)].into_iter());
        let wanted = "\n```mermaid\nxychart-beta horizontal\n  x-axis [\"LaMer, told 'notes'\", \"GiGPO\"]\n  y-axis \"recovered\"\n  bar [47.2, 21.0]\n```\n";
        assert_eq!(drawn, wanted);
        assert_eq!(picture("recovered", 1, std::iter::empty()), "", "nothing is measured yet");
        let cell = |seeds: &[(u64, f64)]| Cell { seeds: seeds.to_vec(), missing: 0 }.mean();
        assert_eq!((cell(&[(1, 60.0), (2, 80.0)]), cell(&[])), (Some(70.0), None));
    }

    #[test]
    fn figures_of_an_evaluation_have_names() {
        let answer = serde_json::json!({ "pass": [{ "k": 1, "share": 0.5 }, { "k": 3, "share": 0.75 }], "return": 2.5, "panel": "x", "diversity": null });
        let found = figures(&answer);
        assert_eq!(found[..2], [("pass@1".to_string(), 0.5), ("pass@3".to_string(), 0.75)]);
        assert!(found.contains(&("return".to_string(), 2.5)) && found.len() == 3, "{found:?}");
        // The share of first failures that were recovered.
        assert_eq!(log::value_of(&found, r#"("pass@3" - "pass@1") / (1 - "pass@1")"#).unwrap(), 0.5);
    }
}
