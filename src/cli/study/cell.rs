//! One cell of a table: a value for each seed, and the bootstrap over seeds and tasks.

use super::file::{ColumnSpec, RowSpec, TableSpec, Uncertainty};
use super::plan::{sides, SeededRun};
use super::values::{SeedResult, StudyValues, TaskSums};
use crate::cli::error::{Error, Result};
use crate::log;
use crate::stats::{draws, of_seeds, over_draws, Draw, Interval};

/// The number of bootstrap draws: enough for the second digit of a deviation.
const DRAWS: usize = 300;

/// A cell: a value for each seed, in the order of the seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableCell {
    pub seeds: Vec<(u64, f64)>,
    /// Seeds that aren't measured yet.
    pub missing: usize,
    /// The mean in each bootstrap draw of seeds and tasks; empty if the measurement has no values for single tasks.
    pub drawn: Vec<f64>,
}

/// The cell's values, as far as they are there.
pub fn cell(values: &StudyValues, table: &TableSpec, row: &RowSpec, column: &ColumnSpec) -> Result<TableCell> {
    let wrong = |e: Error| e.at(format!("`{}` of `{}`", column.name, row.name));
    let mut sides = sides(table, row).map(|(run, measurement)| side(values, run, measurement, column).map_err(wrong));
    let own = sides.next().transpose()?.unwrap_or_default();
    let Some(less) = sides.next().transpose()? else { return own.cell(column).map_err(wrong) };
    let difference = own.less(less, column).map_err(wrong)?;
    match (sides.next().transpose()?, sides.next().transpose()?) {
        (Some(other), Some(less)) => Ok(difference.beyond(other.less(less, column).map_err(wrong)?)),
        _ => Ok(difference),
    }
}

/// The difference of two rows, seed by seed.
pub fn difference(values: &StudyValues, table: &TableSpec, rows: [&RowSpec; 2], column: &ColumnSpec) -> Result<TableCell> {
    let values_of = |row: &RowSpec| {
        let (run, measurement) = sides(table, row).next().unwrap_or((row.run.as_str(), None));
        side(values, run, measurement, column).map_err(|e| e.at(format!("`{}` of `{}`", column.name, row.name)))
    };
    values_of(rows[0])?.less(values_of(rows[1])?, column)
}

/// The values of a run under each of its seeds.
#[derive(Default)]
struct RunValues {
    results: Vec<(u64, SeedResult)>,
    missing: usize,
}

fn side(values: &StudyValues, run: &str, measurement: Option<&str>, column: &ColumnSpec) -> Result<RunValues> {
    let mut side = RunValues::default();
    for seed in values.study.runs.get(run).map_or(&[][..], |run| values.study.seeds(run)) {
        let run_of_seed = SeededRun { run: run.into(), seed: *seed };
        match values.of(&run_of_seed, measurement, column)? {
            Some(result) => side.results.push((*seed, result)),
            None => side.missing += 1,
        }
    }
    Ok(side)
}

/// The names of what [`drawn_figures`] gives for tasks with so many attempts.
fn names(attempts: usize) -> Vec<String> {
    let rest = ["return", "turns", "episodes"].map(String::from);
    (1..=attempts).map(|k| format!("pass@{k}")).chain(rest).collect()
}

/// The figures of these tasks, each as often as it was drawn.
fn drawn_figures(tasks: &[TaskSums], which: &[usize]) -> Vec<f64> {
    let sum = |value: &dyn Fn(&TaskSums) -> f64| which.iter().map(|i| value(&tasks[*i])).sum::<f64>();
    let (trials, episodes) = (sum(&|t| t.trials), sum(&|t| t.episodes));
    let attempts = tasks.first().map_or(0, |task| task.won.len());
    let pass = (0..attempts).map(|k| sum(&|t| t.won.get(k).copied().unwrap_or(0.0)) / trials.max(1.0));
    pass.chain([sum(&|t| t.score) / episodes.max(1.0), sum(&|t| t.turns) / episodes.max(1.0), episodes]).collect()
}

impl RunValues {
    /// How many tasks each seed was measured on, if all of them were on as many and say what came of each.
    fn tasks(&self) -> Option<usize> {
        let each =
            self.results.iter().map(|(_, result)| result.tasks.as_ref().map(|tasks| (tasks.len(), tasks.first().map(|t| t.won.len()))));
        let mut each = each.collect::<Option<Vec<_>>>()?;
        each.dedup();
        match each[..] {
            [(tasks, _)] if tasks > 0 => Some(tasks),
            _ => None,
        }
    }

    /// The column's value in each draw, of the seeds that stand at these places of it: a mean over them.
    fn drawn(&self, draws: &[Draw], column: &ColumnSpec) -> Result<Vec<f64>> {
        let Some(expression) = &column.value else { return Ok(Vec::new()) };
        let attempts = self.results.first().and_then(|(_, f)| f.tasks.as_ref()?.first().map(|t| t.won.len())).unwrap_or(0);
        // Each seed on the tasks of each draw, whether it was drawn itself or not.
        let figures_in_draw = |draw: &Draw| {
            self.results.iter().filter_map(|(_, f)| f.tasks.as_ref()).map(|tasks| drawn_figures(tasks, &draw.tasks)).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<f64>> = draws.iter().flat_map(figures_in_draw).collect();
        let names = names(attempts);
        let plain = names.iter().position(|name| *name == expression.trim().trim_matches('"'));
        let values = match plain {
            Some(at) => rows.iter().map(|row| row[at]).collect(),
            // A figure that can't be computed for a draw, such as diversity, has no interval over tasks.
            None => match log::values_of(&names, &rows, expression) {
                Ok(values) => values,
                Err(_) => return Ok(Vec::new()),
            },
        };
        let n = self.results.len();
        let mean = |(draw, values): (&Draw, &[f64])| {
            let places = draw.seeds.iter().map(|seed| if n == 1 { 0 } else { *seed });
            column.scale * places.map(|place| values[place]).sum::<f64>() / draw.seeds.len() as f64
        };
        Ok(draws.iter().zip(values.chunks(n.max(1))).map(mean).collect())
    }

    fn cell(self, column: &ColumnSpec) -> Result<TableCell> {
        let drawn = match self.tasks() {
            Some(tasks) => self.drawn(&draws(self.results.len(), tasks, DRAWS, 1), column)?,
            None => Vec::new(),
        };
        let seeds = self.results.iter().map(|(seed, result)| (*seed, result.value)).collect();
        Ok(TableCell { seeds, missing: self.missing, drawn: finite(drawn) })
    }

    /// Seed by seed where both have the seed; a side of one seed, such as a warm start, is taken from each. In a draw both are of the same
    /// seeds and of the same tasks.
    fn less(mut self, mut less: RunValues, column: &ColumnSpec) -> Result<TableCell> {
        let missing = self.missing + self.results.len();
        let single = less.results.len() == 1;
        let shared = |values: &RunValues, seed: u64| values.results.iter().any(|(s, _)| *s == seed);
        let common_seeds: Vec<u64> = self.results.iter().map(|(seed, _)| *seed).filter(|seed| single || shared(&less, *seed)).collect();
        self.results.retain(|(seed, _)| common_seeds.contains(seed));
        if !single {
            less.results.retain(|(seed, _)| common_seeds.contains(seed));
            less.results.sort_by_key(|(seed, _)| common_seeds.iter().position(|s| s == seed));
        }
        let subtrahend = |i: usize| less.results.get(if single { 0 } else { i }).map(|(_, result)| result.value);
        let seeds: Vec<(u64, f64)> =
            self.results.iter().enumerate().filter_map(|(i, (seed, result))| Some((*seed, result.value - subtrahend(i)?))).collect();
        let drawn = match (self.tasks(), less.tasks()) {
            (Some(own), Some(others)) if own == others => {
                let draws = draws(seeds.len(), own, DRAWS, 1);
                let (a, b) = (self.drawn(&draws, column)?, less.drawn(&draws, column)?);
                a.iter().zip(&b).map(|(a, b)| a - b).collect()
            }
            _ => Vec::new(),
        };
        Ok(TableCell { missing: missing - seeds.len(), seeds, drawn: finite(drawn) })
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

impl TableCell {
    fn values(&self) -> Vec<f64> {
        self.seeds.iter().map(|(_, value)| *value).collect()
    }

    /// This difference less another one, seed by seed where both have the seed. Draws of as many seeds and tasks are the same draws.
    fn beyond(self, other: TableCell) -> TableCell {
        let seeds = self.seeds.len() + self.missing;
        let of = |seed: u64| other.seeds.iter().find(|(s, _)| *s == seed).map(|(_, value)| *value);
        let common: Vec<(u64, f64)> = self.seeds.iter().filter_map(|(seed, value)| Some((*seed, value - of(*seed)?))).collect();
        let same = common.len() == self.seeds.len() && common.len() == other.seeds.len();
        let drawn = if same { self.drawn.iter().zip(&other.drawn).map(|(a, b)| a - b).collect() } else { Vec::new() };
        TableCell { missing: seeds - common.len(), seeds: common, drawn }
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
    pub fn text(&self, digits: usize, spread: Uncertainty) -> String {
        let values = self.values();
        let n = values.len() as f64;
        let Some(mean) = self.mean() else { return "-".into() };
        let text = match (spread, self.interval(0.95)) {
            (Uncertainty::Interval, Some(i)) => format!("{mean:.digits$} ({:.digits$} to {:.digits$})", i.low, i.high),
            (Uncertainty::Deviation, Some(_)) => {
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
    use super::super::values::tasks;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cell_says_how_sure_it_is() {
        let cell = |values: &[f64], missing| TableCell { seeds: (1..).zip(values.iter().copied()).collect(), missing, drawn: vec![] };
        // 60, 70, 80: deviation 10; 4.303 * 10 / sqrt(3) = 24.84.
        assert_eq!(cell(&[60.0, 70.0, 80.0], 0).text(1, Uncertainty::Deviation), "70.0 (10.0)");
        assert_eq!(cell(&[60.0, 70.0, 80.0], 0).text(1, Uncertainty::Interval), "70.0 (45.2 to 94.8)");
        assert_eq!(cell(&[60.0, 80.0], 1).text(0, Uncertainty::Deviation), "70 (14) [2 of 3 seeds]");
        assert_eq!(cell(&[60.0], 0).text(1, Uncertainty::Interval), "60.0");
        assert_eq!(cell(&[], 3).text(1, Uncertainty::Deviation), "-");
        assert_eq!((cell(&[60.0, 80.0], 0).mean(), cell(&[], 0).mean()), (Some(70.0), None));
    }

    /// What notes are worth to one method, 8 and 10 points, beyond what they are worth to another, 5 and 3: 3 and 7.
    #[test]
    fn a_difference_of_differences_is_taken_seed_by_seed() {
        let cell = |values: &[(u64, f64)]| TableCell { seeds: values.to_vec(), missing: 0, drawn: vec![1.0, 2.0] };
        let beyond = cell(&[(1, 8.0), (2, 10.0)]).beyond(cell(&[(2, 3.0), (1, 5.0)]));
        assert_eq!((beyond.seeds, beyond.missing, beyond.drawn), (vec![(1, 3.0), (2, 7.0)], 0, vec![0.0, 0.0]));
        let fewer = cell(&[(1, 8.0), (2, 10.0)]).beyond(cell(&[(1, 5.0)]));
        assert_eq!((fewer.seeds, fewer.missing, fewer.drawn), (vec![(1, 3.0)], 1, vec![]));
    }

    /// Two seeds on two tasks, of which the one is always won and the other never: seeds agree, and a draw of tasks has 0, a half or 1.
    #[test]
    fn tasks_are_drawn_as_seeds_are() {
        let answer = json!({ "samples": 1, "by_task": { "won": [[1], [0]], "episodes": [1, 1], "turns": [3, 5], "return": [1, 0] } });
        let side =
            || RunValues { results: (1..3).map(|seed| (seed, SeedResult { value: 50.0, tasks: tasks(&answer) })).collect(), missing: 0 };
        let column =
            |value: &str| ColumnSpec { name: "x".into(), value: Some(value.into()), query: None, lower: false, scale: 100.0, digits: 1 };
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
