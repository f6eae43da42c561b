//! One cell of a table: a value for each seed, and what each task brings to it.

use crate::error::{Error, Result};
use crate::file::{ColumnSpec, RowSpec, TableSpec, Uncertainty};
use crate::plan::{sides, SeededRun};
use crate::stats::{pseudo_values, two_kinds, Estimate};
use crate::values::{SeedResult, StudyValues, TaskSums};
use flow_credit::stats::{wilson, Interval};

/// A cell: a value for each seed, in the order of the seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableCell {
    pub seeds: Vec<(u64, f64)>,
    /// Seeds that aren't measured yet.
    pub missing: usize,
    /// What each task brings to each seed's value; empty if the measurement has no values for single tasks.
    pub by_task: Vec<Vec<f64>>,
    /// The value of all, where it is a share of tasks.
    pub whole: Option<f64>,
}

/// The cell's values, as far as they are there.
pub fn cell(values: &StudyValues, table: &TableSpec, row: &RowSpec, column: &ColumnSpec) -> Result<TableCell> {
    let fault = |e: Error| e.at(format!("`{}` of `{}`", column.name, row.name));
    let mut sides = sides(table, row).map(|(run, measurement)| side(values, run, measurement, column).map_err(fault));
    let own = sides.next().transpose()?.unwrap_or_default();
    let Some(less) = sides.next().transpose()? else { return Ok(own.cell(column)) };
    let difference = own.less(less, column);
    match (sides.next().transpose()?, sides.next().transpose()?) {
        (Some(other), Some(less)) => Ok(difference.beyond(other.less(less, column))),
        _ => Ok(difference),
    }
}

/// The difference of two rows, seed by seed.
pub fn difference(values: &StudyValues, table: &TableSpec, rows: [&RowSpec; 2], column: &ColumnSpec) -> Result<TableCell> {
    let values_of = |row: &RowSpec| {
        let (run, measurement) = sides(table, row).next().unwrap_or((row.run.as_str(), None));
        side(values, run, measurement, column).map_err(|e| e.at(format!("`{}` of `{}`", column.name, row.name)))
    };
    Ok(values_of(rows[0])?.less(values_of(rows[1])?, column))
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

/// The names of [`figures`] of tasks with so many attempts.
fn names(attempts: usize) -> Vec<String> {
    let rest = ["return", "turns", "episodes"].map(String::from);
    (1..=attempts).map(|k| format!("pass@{k}")).chain(rest).collect()
}

/// The figures of these tasks together.
fn figures(sums: &TaskSums) -> Vec<f64> {
    let TaskSums { won, trials, episodes, turns, score } = sums;
    let pass = won.iter().map(|won| won / trials.max(1.0));
    pass.chain([score / episodes.max(1.0), turns / episodes.max(1.0), *episodes]).collect()
}

/// The figures of all tasks, and of all tasks but each.
fn figures_without_each(tasks: &[TaskSums]) -> Vec<Vec<f64>> {
    let all = tasks.iter().fold(TaskSums::default(), |sum, task| sum.plus(task, 1.0));
    std::iter::once(figures(&all)).chain(tasks.iter().map(|task| figures(&all.plus(task, -1.0)))).collect()
}

impl RunValues {
    /// How many tasks each seed was measured on, if all were measured on as many and have each task's result.
    fn tasks(&self) -> Option<usize> {
        let each =
            self.results.iter().map(|(_, result)| result.tasks.as_ref().map(|tasks| (tasks.len(), tasks.first().map(|t| t.won.len()))));
        let mut each = each.collect::<Option<Vec<_>>>()?;
        each.dedup();
        match each[..] {
            [(tasks, _)] if tasks > 1 => Some(tasks),
            _ => None,
        }
    }

    /// What each task brings to each seed's value of the column, whatever expression that is; nothing where it has no
    /// value without some task.
    fn by_task(&self, column: &ColumnSpec) -> Vec<Vec<f64>> {
        let (Some(expression), Some(tasks)) = (&column.value, self.tasks()) else { return Vec::new() };
        let attempts = self.results.first().and_then(|(_, f)| f.tasks.as_ref()?.first().map(|t| t.won.len())).unwrap_or(0);
        let rows: Vec<Vec<f64>> = self.results.iter().filter_map(|(_, f)| f.tasks.as_deref()).flat_map(figures_without_each).collect();
        let names = names(attempts);
        let plain = names.iter().position(|name| *name == expression.trim().trim_matches('"'));
        let values = match plain {
            Some(at) => rows.iter().map(|row| row[at]).collect(),
            // A figure that tasks alone don't make, such as diversity, has no interval over tasks.
            None => match flow_log::values_of(&names, &rows, expression) {
                Ok(values) => values,
                Err(_) => return Vec::new(),
            },
        };
        if !values.iter().all(|value| value.is_finite()) {
            return Vec::new();
        }
        let scaled: Vec<f64> = values.iter().map(|value| value * column.scale).collect();
        scaled.chunks(tasks + 1).map(|seed| pseudo_values(seed[0], &seed[1..])).collect()
    }

    fn cell(self, column: &ColumnSpec) -> TableCell {
        let by_task = self.by_task(column);
        let share = column.value.as_deref().is_some_and(|value| value.trim().trim_matches('"').starts_with("pass@"));
        let seeds = self.results.into_iter().map(|(seed, result)| (seed, result.value)).collect();
        TableCell { seeds, missing: self.missing, by_task, whole: share.then_some(column.scale) }
    }

    /// Seed by seed where both have the seed, and task by task where both are of as many; a side of one seed, such as a
    /// warm start, is taken from each.
    fn less(mut self, mut less: RunValues, column: &ColumnSpec) -> TableCell {
        let missing = self.missing + self.results.len();
        let single = less.results.len() == 1;
        let shared = |values: &RunValues, seed: u64| values.results.iter().any(|(s, _)| *s == seed);
        let common_seeds: Vec<u64> = self.results.iter().map(|(seed, _)| *seed).filter(|seed| single || shared(&less, *seed)).collect();
        self.results.retain(|(seed, _)| common_seeds.contains(seed));
        if !single {
            less.results.retain(|(seed, _)| common_seeds.contains(seed));
            less.results.sort_by_key(|(seed, _)| common_seeds.iter().position(|s| s == seed));
        }
        let by_task = if self.tasks() == less.tasks() { differences(&self.by_task(column), &less.by_task(column)) } else { Vec::new() };
        let subtrahend = |i: usize| less.results.get(if single { 0 } else { i }).map(|(_, result)| result.value);
        let seeds: Vec<(u64, f64)> =
            self.results.iter().enumerate().filter_map(|(i, (seed, result))| Some((*seed, result.value - subtrahend(i)?))).collect();
        TableCell { missing: missing - seeds.len(), seeds, by_task, whole: None }
    }
}

/// Row by row, `less` being taken from each if it is one; nothing where the two don't fit.
fn differences(own: &[Vec<f64>], less: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let of = |i: usize| if less.len() == 1 { less.first() } else { less.get(i) };
    let row = |(i, own): (usize, &Vec<f64>)| {
        of(i).filter(|less| less.len() == own.len()).map(|less| own.iter().zip(less).map(|(a, b)| a - b).collect())
    };
    let fits = less.len() == 1 || less.len() == own.len();
    fits.then(|| own.iter().enumerate().map(row).collect::<Option<_>>()).flatten().unwrap_or_default()
}

impl TableCell {
    pub fn values(&self) -> Vec<f64> {
        self.seeds.iter().map(|(_, value)| *value).collect()
    }

    /// This difference less another one, seed by seed where both have the seed.
    fn beyond(self, other: TableCell) -> TableCell {
        let seeds = self.seeds.len() + self.missing;
        let of = |seed: u64| other.seeds.iter().find(|(s, _)| *s == seed).map(|(_, value)| *value);
        let common: Vec<(u64, f64)> = self.seeds.iter().filter_map(|(seed, value)| Some((*seed, value - of(*seed)?))).collect();
        let same = common.len() == self.seeds.len() && common.len() == other.seeds.len();
        let by_task = if same && self.seeds.iter().zip(&other.seeds).all(|(a, b)| a.0 == b.0) {
            differences(&self.by_task, &other.by_task)
        } else {
            Vec::new()
        };
        TableCell { missing: seeds - common.len(), seeds: common, by_task, whole: None }
    }

    /// The mean over the seeds that are there.
    pub fn mean(&self) -> Option<f64> {
        let n = self.seeds.len();
        (n > 0).then(|| self.values().iter().sum::<f64>() / n as f64)
    }

    /// The mean with its variance: over seeds and tasks where the measurement has values by task, else over seeds. None
    /// where seeds are of two kinds, and for fewer than two of them.
    pub fn estimate(&self) -> Option<Estimate> {
        if two_kinds(&self.values()).is_some() {
            return None;
        }
        self.of_one_kind()
    }

    /// The same, whatever kinds the seeds are of.
    pub fn of_one_kind(&self) -> Option<Estimate> {
        Estimate::crossed(self.mean()?, &self.by_task).or_else(|| Estimate::of_seeds(&self.values()))
    }

    /// The mean's interval of 95%. Where every seed wins none or all of the tasks it is Wilson's, over the
    /// panel's tasks.
    pub fn interval(&self) -> Option<Interval> {
        let interval = self.estimate()?.interval(0.95);
        let tasks = self.by_task.first().map_or(0, Vec::len);
        let whole = self.whole.filter(|whole| tasks > 0 && interval.low == interval.high && [0.0, *whole].contains(&interval.value));
        let Some(whole) = whole else { return Some(interval) };
        let (low, high) = wilson(interval.value / whole, tasks);
        Some(Interval { value: interval.value, low: low * whole, high: high * whole })
    }

    /// How many seeds are of either kind, where they are of two.
    pub fn kinds(&self, digits: usize) -> Option<String> {
        let [(few, low), (many, high)] = two_kinds(&self.values())?;
        Some(format!("{few} of {} seeds near {low:.digits$}, {many} near {high:.digits$}", self.seeds.len()))
    }

    /// Mean over seeds, and how much they differ where there are several.
    pub fn text(&self, digits: usize, spread: Uncertainty) -> String {
        let values = self.values();
        let n = values.len() as f64;
        let Some(mean) = self.mean() else { return "-".into() };
        let text = match (spread, self.interval()) {
            (Uncertainty::Interval, Some(i)) => format!("{mean:.digits$} ({:.digits$} to {:.digits$})", i.low, i.high),
            (Uncertainty::Interval, None) => {
                format!("{mean:.digits$}{}", self.kinds(digits).map_or("".into(), |kinds| format!(" ({kinds})")))
            }
            (Uncertainty::Deviation, _) if values.len() > 1 => {
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
    use crate::values::tasks;
    use serde_json::json;

    #[test]
    fn a_cell_says_how_sure_it_is() {
        let cell = |values: &[f64], missing| TableCell {
            seeds: (1..).zip(values.iter().copied()).collect(),
            missing,
            by_task: vec![],
            whole: None,
        };
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
        let cell = |values: &[(u64, f64)]| TableCell {
            seeds: values.to_vec(),
            missing: 0,
            by_task: vec![vec![1.0, 2.0]; values.len()],
            whole: None,
        };
        let beyond = cell(&[(1, 8.0), (2, 10.0)]).beyond(cell(&[(1, 5.0), (2, 3.0)]));
        assert_eq!((beyond.seeds, beyond.missing, beyond.by_task), (vec![(1, 3.0), (2, 7.0)], 0, vec![vec![0.0; 2]; 2]));
        let fewer = cell(&[(1, 8.0), (2, 10.0)]).beyond(cell(&[(1, 5.0)]));
        assert_eq!((fewer.seeds, fewer.missing, fewer.by_task), (vec![(1, 3.0)], 1, vec![]));
    }

    /// Three seeds that win all of four tasks, or none: Wilson's interval of four.
    #[test]
    fn all_and_none_have_a_width() {
        let cell = |value: f64, whole| TableCell {
            seeds: vec![(1, value), (2, value), (3, value)],
            missing: 0,
            by_task: vec![vec![value; 4]; 3],
            whole,
        };
        assert_eq!(cell(100.0, Some(100.0)).text(1, Uncertainty::Interval), "100.0 (51.0 to 100.0)");
        assert_eq!(cell(0.0, Some(100.0)).text(1, Uncertainty::Interval), "0.0 (0.0 to 49.0)");
        assert_eq!(cell(50.0, Some(100.0)).text(1, Uncertainty::Interval), "50.0 (50.0 to 50.0)");
        assert_eq!(cell(100.0, None).text(1, Uncertainty::Interval), "100.0 (100.0 to 100.0)", "no share");
    }

    /// Six seeds, of which one learns: the page says how many, and no interval.
    #[test]
    fn seeds_of_two_kinds_are_counted() {
        let seeds = (1..).zip([2.0, 90.0, 1.0, 3.0, 2.0, 2.0]).collect();
        let cell = TableCell { seeds, missing: 0, by_task: vec![], whole: None };
        assert_eq!(cell.text(0, Uncertainty::Interval), "17 (5 of 6 seeds near 2, 1 near 90)");
        assert_eq!((cell.text(0, Uncertainty::Deviation).as_str(), cell.interval()), ("17 (36)", None));
    }

    fn column(value: &str) -> ColumnSpec {
        ColumnSpec { name: "x".into(), value: Some(value.into()), query: None, lower: false, scale: 100.0, digits: 1 }
    }

    /// Two seeds on four tasks, in two attempts at each.
    fn side(won: [[[u32; 2]; 4]; 2]) -> RunValues {
        let result = |won: &[[u32; 2]; 4]| {
            let answer =
                json!({ "samples": 1, "by_task": { "won": won, "episodes": [1, 1, 2, 2], "turns": [3, 5, 8, 8], "return": [1, 0, 1, 0] } });
            SeedResult { value: 50.0, tasks: tasks(&answer) }
        };
        RunValues { results: (1..3).zip(won.iter().map(result)).collect(), missing: 0 }
    }

    fn near(matrix: &[Vec<f64>], expected: &[[f64; 4]]) -> bool {
        let row = |(row, expected): (&Vec<f64>, &[f64; 4])| row.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        matrix.len() == expected.len() && matrix.iter().zip(expected).all(row)
    }

    /// What a task brings to a mean is its own value. What it brings to a ratio is worked by hand: of four tasks one is
    /// won at first and one more then, a third of those that were lost. Without the first 1/3, without the second 0/2,
    /// without either other 1/2; 4/3 less thrice these.
    #[test]
    fn a_task_brings_its_own_value_to_a_mean_and_to_any_expression() {
        let won = [[1, 1], [0, 1], [0, 0], [0, 0]];
        let both = || side([won, won]);
        assert!(near(&both().cell(&column("\"pass@1\"")).by_task, &[[100.0, 0.0, 0.0, 0.0]; 2]));
        let recovered = both().cell(&column("(\"pass@2\" - \"pass@1\") / (1 - \"pass@1\")")).by_task;
        assert!(near(&recovered, &[[100.0 / 3.0, 400.0 / 3.0, -50.0 / 3.0, -50.0 / 3.0]; 2]), "{recovered:?}");
        // Return is a ratio, too, since tasks have one or two episodes: 2/6; without the first 1/5.
        let returns = both().cell(&column("return")).by_task;
        assert!((returns[0][0] - 100.0 * (4.0 * 2.0 / 6.0 - 3.0 / 5.0)).abs() < 1e-9, "{returns:?}");
        assert!(both().cell(&column("diversity")).by_task.is_empty(), "tasks alone don't make it");
        assert!(side([[[1, 1]; 4], won]).cell(&column("1 / (1 - \"pass@1\")")).by_task.is_empty(), "of no task lost there is none");
    }

    #[test]
    fn differences_are_paired_by_task_and_seed() {
        let (one, other) = ([[1, 1], [0, 1], [0, 0], [0, 0]], [[0, 0], [1, 1], [0, 0], [1, 1]]);
        let none = side([one, other]).less(side([one, other]), &column("\"pass@1\""));
        assert!(none.by_task.iter().flatten().all(|v| *v == 0.0) && none.interval().unwrap().high == 0.0, "{none:?}");
        let mut start = side([other, other]);
        start.results.truncate(1);
        let gain = side([one, other]).less(start, &column("\"pass@1\""));
        assert!(near(&gain.by_task, &[[100.0, -100.0, 0.0, -100.0], [0.0; 4]]), "{gain:?}");
    }
}
