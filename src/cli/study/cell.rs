//! One cell of a table: a value a seed, and what it comes to when seeds and tasks are drawn anew.

use super::file::{Column, Row, Spread, Study, Table};
use super::plan::{sides, Measuring, Training};
use super::work::{measured, standing, Standing};
use crate::cli::error::{Error, Result};
use crate::log;
use crate::stats::{draws, of_seeds, over_draws, Draw, Interval};
use serde_json::Value;

/// How often seeds and tasks are drawn anew: enough for the second digit of a deviation.
const DRAWS: usize = 300;

/// A cell: a value a seed, in the order of the seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub seeds: Vec<(u64, f64)>,
    /// Seeds that aren't measured yet.
    pub missing: usize,
    /// The mean in each draw of seeds and tasks; empty where what was measured says nothing of single tasks.
    pub drawn: Vec<f64>,
}

/// The cell's values, as far as they are there.
pub fn cell(study: &Study, table: &Table, row: &Row, column: &Column) -> Result<Cell> {
    let wrong = |e: Error| e.at(format!("`{}` of `{}`", column.name, row.name));
    let mut both: Vec<Side> = Vec::new();
    for (run, measurement) in sides(table, row) {
        both.push(side(study, run, measurement, column).map_err(wrong)?);
    }
    let mut both = both.into_iter();
    let whole = both.next().unwrap_or_default();
    match both.next() {
        None => whole.cell(column).map_err(wrong),
        Some(less) => whole.less(less, column).map_err(wrong),
    }
}

/// The difference of two rows, seed by seed.
pub fn difference(study: &Study, table: &Table, rows: [&Row; 2], column: &Column) -> Result<Cell> {
    let of = |row: &Row| {
        let (run, measurement) = sides(table, row).next().unwrap_or((row.run.as_str(), None));
        side(study, run, measurement, column).map_err(|e| e.at(format!("`{}` of `{}`", column.name, row.name)))
    };
    of(rows[0])?.less(of(rows[1])?, column)
}

/// What was found of a run under each of its seeds.
#[derive(Default)]
struct Side {
    found: Vec<(u64, Found)>,
    missing: usize,
}

/// A value, and what came of each task where the measurement says so.
struct Found {
    value: f64,
    tasks: Option<Vec<Task>>,
}

/// Sums over what was played of a task.
#[derive(Clone, Debug, Default, PartialEq)]
struct Task {
    won: Vec<f64>,
    trials: f64,
    episodes: f64,
    turns: f64,
    score: f64,
}

fn side(study: &Study, run: &str, measurement: Option<&str>, column: &Column) -> Result<Side> {
    let mut side = Side::default();
    for seed in study.runs.get(run).map_or(&[][..], |run| study.seeds(run)) {
        let of = Training { run: run.into(), seed: *seed };
        match found(study, &of, measurement, column)? {
            Some(found) => side.found.push((*seed, found)),
            None => side.missing += 1,
        }
    }
    Ok(side)
}

/// The column's value of one run of one seed; none while it isn't there, or the run isn't finished.
fn found(study: &Study, of: &Training, measurement: Option<&str>, column: &Column) -> Result<Option<Found>> {
    if standing(study, of)? != Standing::Finished {
        return Ok(None);
    }
    if let Some(sql) = &column.query {
        let value = log::number(&log::Run::open(&study.folder(of))?, sql)?;
        return Ok(Some(Found { value: column.scale * value, tasks: None }));
    }
    let (Some(expression), Some(measurement)) = (&column.value, measurement) else { return Ok(None) };
    let Some(answer) = measured(study, &Measuring { measurement: measurement.into(), of: of.clone() }) else { return Ok(None) };
    let value = column.scale * log::value_of(&figures(&answer), expression)?;
    Ok(Some(Found { value, tasks: tasks(&answer) }))
}

/// The figures of an answer of `flow eval`, by name.
pub fn figures(answer: &Value) -> Vec<(String, f64)> {
    let pass = answer["pass"].as_array().into_iter().flatten();
    let pass = pass.filter_map(|p| Some((format!("pass@{}", p["k"].as_u64()?), p["share"].as_f64()?)));
    let rest = answer.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    pass.chain(rest).collect()
}

/// The sums over each task in an answer of `flow eval`.
fn tasks(answer: &Value) -> Option<Vec<Task>> {
    let each = &answer["by_task"];
    let numbers = |name: &str| each[name].as_array().map(|all| all.iter().map(|n| n.as_f64().unwrap_or(0.0)).collect::<Vec<f64>>());
    let (episodes, turns, score) = (numbers("episodes")?, numbers("turns")?, numbers("return")?);
    let trials = answer["samples"].as_f64()?;
    let won = each["won"].as_array()?.iter().map(|won| won.as_array().map(|won| won.iter().map(|n| n.as_f64().unwrap_or(0.0)).collect()));
    let won = won.collect::<Option<Vec<Vec<f64>>>>()?;
    let rows = won.into_iter().zip(episodes).zip(turns).zip(score);
    Some(rows.map(|(((won, episodes), turns), score)| Task { won, trials, episodes, turns, score }).collect())
}

/// The names of what [`drawn_figures`] gives for tasks with so many attempts.
fn names(attempts: usize) -> Vec<String> {
    let rest = ["return", "turns", "episodes"].map(String::from);
    (1..=attempts).map(|k| format!("pass@{k}")).chain(rest).collect()
}

/// The figures of these tasks, each as often as it was drawn.
fn drawn_figures(tasks: &[Task], which: &[usize]) -> Vec<f64> {
    let sum = |of: &dyn Fn(&Task) -> f64| which.iter().map(|i| of(&tasks[*i])).sum::<f64>();
    let (trials, episodes) = (sum(&|t| t.trials), sum(&|t| t.episodes));
    let attempts = tasks.first().map_or(0, |task| task.won.len());
    let pass = (0..attempts).map(|k| sum(&|t| t.won.get(k).copied().unwrap_or(0.0)) / trials.max(1.0));
    pass.chain([sum(&|t| t.score) / episodes.max(1.0), sum(&|t| t.turns) / episodes.max(1.0), episodes]).collect()
}

impl Side {
    /// How many tasks each seed was measured on, if all of them were on as many and say what came of each.
    fn tasks(&self) -> Option<usize> {
        let each = self.found.iter().map(|(_, found)| found.tasks.as_ref().map(|tasks| (tasks.len(), tasks.first().map(|t| t.won.len()))));
        let mut each = each.collect::<Option<Vec<_>>>()?;
        each.dedup();
        match each[..] {
            [(tasks, _)] if tasks > 0 => Some(tasks),
            _ => None,
        }
    }

    /// The column's value in each draw, of the seeds that stand at these places of it: a mean over them.
    fn drawn(&self, draws: &[Draw], column: &Column) -> Result<Vec<f64>> {
        let Some(expression) = &column.value else { return Ok(Vec::new()) };
        let attempts = self.found.first().and_then(|(_, f)| f.tasks.as_ref()?.first().map(|t| t.won.len())).unwrap_or(0);
        // Each seed on the tasks of each draw, whether it was drawn itself or not.
        let of = |draw: &Draw| {
            self.found.iter().filter_map(|(_, f)| f.tasks.as_ref()).map(|tasks| drawn_figures(tasks, &draw.tasks)).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<f64>> = draws.iter().flat_map(of).collect();
        let names = names(attempts);
        let plain = names.iter().position(|name| *name == expression.trim().trim_matches('"'));
        let values = match plain {
            Some(at) => rows.iter().map(|row| row[at]).collect(),
            // What a draw doesn't have, such as diversity, has no interval over tasks.
            None => match log::values_of(&names, &rows, expression) {
                Ok(values) => values,
                Err(_) => return Ok(Vec::new()),
            },
        };
        let n = self.found.len();
        let mean = |(draw, values): (&Draw, &[f64])| {
            let places = draw.seeds.iter().map(|seed| if n == 1 { 0 } else { *seed });
            column.scale * places.map(|place| values[place]).sum::<f64>() / draw.seeds.len() as f64
        };
        Ok(draws.iter().zip(values.chunks(n.max(1))).map(mean).collect())
    }

    fn cell(self, column: &Column) -> Result<Cell> {
        let drawn = match self.tasks() {
            Some(tasks) => self.drawn(&draws(self.found.len(), tasks, DRAWS, 1), column)?,
            None => Vec::new(),
        };
        let seeds = self.found.iter().map(|(seed, found)| (*seed, found.value)).collect();
        Ok(Cell { seeds, missing: self.missing, drawn: finite(drawn) })
    }

    /// Seed by seed where both have the seed; a side of one seed, such as a warm start, is taken from each. In a draw both are of the same
    /// seeds and of the same tasks.
    fn less(mut self, mut less: Side, column: &Column) -> Result<Cell> {
        let missing = self.missing + self.found.len();
        let single = less.found.len() == 1;
        let shared = |one: &Side, seed: u64| one.found.iter().any(|(s, _)| *s == seed);
        let kept: Vec<u64> = self.found.iter().map(|(seed, _)| *seed).filter(|seed| single || shared(&less, *seed)).collect();
        self.found.retain(|(seed, _)| kept.contains(seed));
        if !single {
            less.found.retain(|(seed, _)| kept.contains(seed));
            less.found.sort_by_key(|(seed, _)| kept.iter().position(|s| s == seed));
        }
        let of = |i: usize| less.found.get(if single { 0 } else { i }).map(|(_, found)| found.value);
        let seeds: Vec<(u64, f64)> =
            self.found.iter().enumerate().filter_map(|(i, (seed, found))| Some((*seed, found.value - of(i)?))).collect();
        let drawn = match (self.tasks(), less.tasks()) {
            (Some(own), Some(others)) if own == others => {
                let draws = draws(seeds.len(), own, DRAWS, 1);
                let (a, b) = (self.drawn(&draws, column)?, less.drawn(&draws, column)?);
                a.iter().zip(&b).map(|(a, b)| a - b).collect()
            }
            _ => Vec::new(),
        };
        Ok(Cell { missing: missing - seeds.len(), seeds, drawn: finite(drawn) })
    }
}

/// Draws that have a value; none at all where some haven't.
fn finite(drawn: Vec<f64>) -> Vec<f64> {
    if drawn.iter().all(|value| value.is_finite()) {
        drawn
    } else {
        Vec::new()
    }
}

impl Cell {
    fn values(&self) -> Vec<f64> {
        self.seeds.iter().map(|(_, value)| *value).collect()
    }

    /// The mean over the seeds that are there.
    pub fn mean(&self) -> Option<f64> {
        let n = self.seeds.len();
        (n > 0).then(|| self.values().iter().sum::<f64>() / n as f64)
    }

    /// The mean's interval of `level`: over seeds and tasks where the measurement tells of tasks, else over seeds.
    pub fn interval(&self, level: f64) -> Option<Interval> {
        let over = over_draws(self.mean()?, &self.drawn, self.seeds.len(), level);
        over.or_else(|| of_seeds(&self.values(), level))
    }

    /// Mean over seeds, and how much they differ where there are several.
    pub fn text(&self, digits: usize, spread: Spread) -> String {
        let values = self.values();
        let n = values.len() as f64;
        let Some(mean) = self.mean() else { return "-".into() };
        let text = match (spread, self.interval(0.95)) {
            (Spread::Interval, Some(i)) => format!("{mean:.digits$} ({:.digits$} to {:.digits$})", i.low, i.high),
            (Spread::Deviation, Some(_)) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_says_how_sure_it_is() {
        let cell = |values: &[f64], missing| Cell { seeds: (1..).zip(values.iter().copied()).collect(), missing, drawn: vec![] };
        // 60, 70, 80: deviation 10; 4.303 * 10 / sqrt(3) = 24.84.
        assert_eq!(cell(&[60.0, 70.0, 80.0], 0).text(1, Spread::Deviation), "70.0 (10.0)");
        assert_eq!(cell(&[60.0, 70.0, 80.0], 0).text(1, Spread::Interval), "70.0 (45.2 to 94.8)");
        assert_eq!(cell(&[60.0, 80.0], 1).text(0, Spread::Deviation), "70 (14) [2 of 3 seeds]");
        assert_eq!(cell(&[60.0], 0).text(1, Spread::Interval), "60.0");
        assert_eq!(cell(&[], 3).text(1, Spread::Deviation), "-");
        assert_eq!((cell(&[60.0, 80.0], 0).mean(), cell(&[], 0).mean()), (Some(70.0), None));
    }

    #[test]
    fn figures_of_an_evaluation_have_names() {
        let answer =
            json!({ "pass": [{ "k": 1, "share": 0.5 }, { "k": 3, "share": 0.75 }], "return": 2.5, "panel": "x", "diversity": null });
        let found = figures(&answer);
        assert_eq!(found[..2], [("pass@1".to_string(), 0.5), ("pass@3".to_string(), 0.75)]);
        assert!(found.contains(&("return".to_string(), 2.5)) && found.len() == 3, "{found:?}");
        // The share of first failures that were recovered.
        assert_eq!(log::value_of(&found, r#"("pass@3" - "pass@1") / (1 - "pass@1")"#).unwrap(), 0.5);
    }

    /// Two seeds on two tasks, of which the one is always won and the other never: seeds agree, and a draw of tasks has 0, a half or 1.
    #[test]
    fn tasks_are_drawn_as_seeds_are() {
        let answer = json!({ "samples": 1, "by_task": { "won": [[1], [0]], "episodes": [1, 1], "turns": [3, 5], "return": [1, 0] } });
        let side = || Side { found: (1..3).map(|seed| (seed, Found { value: 50.0, tasks: tasks(&answer) })).collect(), missing: 0 };
        let column =
            |value: &str| Column { name: "x".into(), value: Some(value.into()), query: None, lower: false, scale: 100.0, digits: 1 };
        for value in ["\"pass@1\"", "\"pass@1\" + 0"] {
            let cell = side().cell(&column(value)).unwrap();
            assert!(cell.drawn.len() == DRAWS && cell.drawn.iter().all(|v| [0.0, 50.0, 100.0].contains(v)), "{:?}", cell.drawn);
            let interval = cell.interval(0.95).unwrap();
            assert!(interval.high - interval.low > 200.0, "two seeds tell little: {interval:?}");
        }
        let none = side().less(side(), &column("\"pass@1\"")).unwrap();
        assert!(none.drawn.iter().all(|v| *v == 0.0) && none.interval(0.95).unwrap().high == 0.0, "paired by task and seed");
        assert!(side().cell(&column("diversity")).unwrap().drawn.is_empty(), "what no draw has");
    }
}
