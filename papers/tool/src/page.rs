//! The tables of a study, as Markdown.

use crate::cell::{cell, TableCell};
use crate::covered::{covered, power, without_repeats};
use crate::error::{Error, Result};
use crate::file::{RowSpec, TableSpec};
use crate::lines::{self, Line};
use crate::plan::{sides, SeededMeasurement, SeededRun};
use crate::values::StudyValues;
use crate::verdict::{Comparisons, Direction};
use crate::work::command_line;
use std::collections::BTreeSet;

/// From this heading on, a page belongs to its authors.
const NOTES: &str = "## What came out";

/// A page and the pictures in it, by their files' names.
pub struct StudyPage {
    pub text: String,
    pub pictures: Vec<(String, String)>,
}

/// The page: what the study makes, then what its authors wrote below.
pub fn page(values: &StudyValues, command: &str, before: &str) -> Result<StudyPage> {
    let study = values.study;
    let title = study.title.as_ref().unwrap_or(&study.study);
    let mut text = format!("# {title}\n\nMade by `{command}`.\n");
    if !study.about.is_empty() {
        text += &format!("\n{}\n", study.about.trim());
    }
    let mut pictures = Vec::new();
    let stem = study.page.file_stem().map_or("study".into(), |stem| stem.to_string_lossy());
    let comparisons = Comparisons::of(values)?;
    let mut printed = BTreeSet::new();
    for (place, table) in study.tables.iter().enumerate() {
        text += &format!("\n{}", markdown(values, &comparisons, place, table, &mut printed)?);
        if let Some(picture) = line_picture(values, table)? {
            let name = format!("{stem}-{}.svg", pictures.len() + 1);
            text += &format!("\n![{}]({name})\n", table.title);
            pictures.push((name, picture));
        }
    }
    if let Some((_, notes)) = before.split_once(NOTES) {
        text += &format!("\n{NOTES}{notes}");
    }
    Ok(StudyPage { text, pictures })
}

/// The rows as lines over the columns, if the table asks for it.
fn line_picture(values: &StudyValues, table: &TableSpec) -> Result<Option<String>> {
    let Some(axis) = &table.lines else { return Ok(None) };
    let line = |row: &RowSpec| {
        let point = |column| cell(values, table, row, column).map(|cell| (cell.mean(), cell.interval()));
        Ok(Line { name: row.name.clone(), points: table.columns.iter().map(point).collect::<Result<_>>()? })
    };
    let lines = table.rows.iter().map(line).collect::<Result<Vec<Line>>>()?;
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    lines::svg(axis, &columns, &lines).map_err(|e| Error::request(format!("the picture of `{}` can't be drawn: {e}", table.title)))
}

/// A table below its sentences; `printed` has the rules that the page has said.
fn markdown(
    values: &StudyValues,
    comparisons: &Comparisons,
    place: usize,
    table: &TableSpec,
    printed: &mut BTreeSet<String>,
) -> Result<String> {
    let paper = table.rows.iter().any(|row| row.paper.is_some());
    let mut text = format!("## {}\n\n", table.title);
    if !table.about.is_empty() {
        text += &format!("{}\n\n", table.about.trim());
    }
    let mut cells: Vec<Vec<TableCell>> = Vec::new();
    for row in &table.rows {
        cells.push(table.columns.iter().map(|column| cell(values, table, row, column)).collect::<Result<_>>()?);
    }
    let sentences = [covered(values.study, table, &cells, comparisons.count), power(comparisons, place, table)];
    text += &format!("{}\n\n", without_repeats(&sentences.concat(), printed));
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    let last = if paper { " *paper* |" } else { "" };
    text += &format!("| | {} |{last}\n", names.join(" | "));
    text += &format!("| --- |{}{}\n", " ---: |".repeat(names.len()), if paper { " ---: |" } else { "" });
    for (r, (row, cells)) in table.rows.iter().zip(&cells).enumerate() {
        let cells = cells.iter().enumerate().map(|(c, cell)| cell_text(comparisons, table, [place, r, c], cell)).collect::<Vec<String>>();
        let paper = if paper { format!(" {} |", row.paper.as_ref().map_or("".into(), |p| format!("*{p}*"))) } else { String::new() };
        text += &format!("| {} | {} |{paper}\n", row.name, cells.join(" | "));
    }
    if let Some(column) = table.columns.iter().find(|c| Some(&c.name) == table.picture.as_ref()) {
        let at = table.columns.iter().position(|c| c.name == column.name).unwrap_or_default();
        let bars: Vec<(&str, Option<f64>)> =
            table.rows.iter().zip(&cells).map(|(row, cells)| (row.name.as_str(), cells[at].mean())).collect();
        text += &picture(&column.name, column.digits, bars.into_iter().filter_map(|(name, mean)| Some((name, mean?))));
    }
    Ok(text)
}

/// A cell as it stands in the table: with the verdict on it, and the difference that the verdict is on; in bold where
/// it is better than the row that the table is against.
fn cell_text(comparisons: &Comparisons, table: &TableSpec, at: [usize; 3], cell: &TableCell) -> String {
    let (row, column) = (&table.rows[at[1]], &table.columns[at[2]]);
    let text = cell.text(column.digits, table.spread);
    let Some((comparison, verdict)) = comparisons.at(at).and_then(|c| Some((c, c.text()?))) else { return text };
    if row.less.is_some() {
        return format!("{text}, {verdict}");
    }
    let better = comparison.direction() == if column.lower { Direction::Below } else { Direction::Above };
    let text = if better { format!("**{text}**") } else { text };
    let sign = if comparison.difference.mean() > Some(0.0) { "+" } else { "" };
    format!("{text}; {sign}{}, {verdict}", comparison.difference.text(column.digits, table.spread))
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

/// Where a cell comes from: for each seed its commands, its query, and the answer.
pub fn origin(values: &StudyValues, title: &str, name: &str, column: &str) -> Result<String> {
    let study = values.study;
    let unknown =
        |what: &str, name: &str, known: Vec<&str>| Error::request(format!("there is no {what} `{name}`; there are: {}", known.join(", ")));
    let tables = || study.tables.iter().map(|t| t.title.as_str()).collect();
    let table = study.tables.iter().find(|t| t.title == title).ok_or_else(|| unknown("table", title, tables()))?;
    let rows = || table.rows.iter().map(|r| r.name.as_str()).collect();
    let row = table.rows.iter().find(|r| r.name == name).ok_or_else(|| unknown("row", name, rows()))?;
    let columns = || table.columns.iter().map(|c| c.name.as_str()).collect();
    let column = table.columns.iter().find(|c| c.name == column).ok_or_else(|| unknown("column", column, columns()))?;
    let cell = cell(values, table, row, column)?;
    let mut text = format!("{}\n", cell.text(column.digits, table.spread));
    for (seed, value) in &cell.seeds {
        text += &format!("  seed {seed}: {value:.4}\n");
    }
    for (side, (run, measurement)) in sides(table, row).enumerate() {
        text += ["\nmade by\n", "\nless\n", "\nbeyond\n", "\nless\n"][side];
        for seed in study.runs.get(run).map_or(&[][..], |run| study.seeds(run)) {
            let training = SeededRun { run: run.into(), seed: *seed };
            text += &format!("  {}\n", command_line(&study.train(&training)));
            match (&column.query, measurement) {
                (Some(sql), _) => {
                    let query = ["query".into(), study.folder(&training).into_os_string(), sql.into()];
                    text += &format!("  {}\n", command_line(&query));
                }
                (None, Some(m)) => {
                    text += &format!("  {}\n", command_line(&study.measure(&SeededMeasurement { measurement: m.into(), training })))
                }
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
    fn a_column_is_drawn_as_bars() {
        let drawn = picture("recovered", 1, [("LaMer, told \"notes\"", 47.25), ("GiGPO", 21.0)].into_iter());
        let expected = "\n```mermaid\nxychart-beta horizontal\n  x-axis [\"LaMer, told 'notes'\", \"GiGPO\"]\n  y-axis \"recovered\"\n  bar [47.2, 21.0]\n```\n";
        assert_eq!(drawn, expected);
        assert_eq!(picture("recovered", 1, std::iter::empty()), "", "nothing is measured yet");
    }
}
