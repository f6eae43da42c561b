//! What a study's runs and measurements came to under each seed. Each is read once: a cell, the differences from it and
//! the verdicts on them ask for the same numbers, and a log's checksums are verified whenever it is opened.

use crate::error::{Error, Result};
use crate::file::{ColumnSpec, Study};
use crate::flow::{Flow, RunProgress};
use crate::plan::{sides, SeededMeasurement, SeededRun};
use crate::work::{measured, progress};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The values of a study's columns.
pub struct StudyValues<'a> {
    pub study: &'a Study,
    flow: &'a Flow,
    /// What the queries of a run's columns answer; none while the run isn't finished.
    runs: RefCell<BTreeMap<SeededRun, Option<Rc<Answers>>>>,
    measurements: RefCell<BTreeMap<SeededMeasurement, Option<Rc<Value>>>>,
}

/// Query -> its number, or why it has none.
type Answers = BTreeMap<String, std::result::Result<f64, String>>;

/// A value, and the sums over each task if the measurement has them.
pub struct SeedResult {
    pub value: f64,
    pub tasks: Option<Vec<TaskSums>>,
}

/// Sums over the episodes of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSums {
    pub won: Vec<f64>,
    pub trials: f64,
    pub episodes: f64,
    pub turns: f64,
    pub score: f64,
}

impl TaskSums {
    /// These sums and so many times those.
    pub fn plus(&self, other: &TaskSums, times: f64) -> TaskSums {
        let won = (0..self.won.len().max(other.won.len()))
            .map(|k| self.won.get(k).copied().unwrap_or_default() + times * other.won.get(k).copied().unwrap_or_default());
        TaskSums {
            won: won.collect(),
            trials: self.trials + times * other.trials,
            episodes: self.episodes + times * other.episodes,
            turns: self.turns + times * other.turns,
            score: self.score + times * other.score,
        }
    }
}

impl<'a> StudyValues<'a> {
    pub fn new(study: &'a Study, flow: &'a Flow) -> Self {
        StudyValues { study, flow, runs: RefCell::default(), measurements: RefCell::default() }
    }

    /// The column's value of one run of one seed; none while it isn't there, or the run isn't finished.
    ///
    /// # Errors
    /// If the log can't be read, or the column's query or expression has no number for an answer.
    pub fn of(&self, training: &SeededRun, measurement: Option<&str>, column: &ColumnSpec) -> Result<Option<SeedResult>> {
        let Some(answers) = self.answers(training)? else { return Ok(None) };
        if let Some(sql) = &column.query {
            let value = answers.get(sql).cloned().unwrap_or_else(|| Err("no row of this column shows this run".into()));
            return Ok(Some(SeedResult { value: column.scale * value.map_err(Error::request)?, tasks: None }));
        }
        let (Some(expression), Some(measurement)) = (&column.value, measurement) else { return Ok(None) };
        let measurement = SeededMeasurement { measurement: measurement.into(), training: training.clone() };
        let Some(answer) = self.measured(measurement) else { return Ok(None) };
        let value = column.scale * flow_log::value_of(&figures(&answer), expression)?;
        Ok(Some(SeedResult { value, tasks: tasks(&answer) }))
    }

    /// The answers of a finished run to all queries of its columns.
    fn answers(&self, training: &SeededRun) -> Result<Option<Rc<Answers>>> {
        if let Some(answers) = self.runs.borrow().get(training) {
            return Ok(answers.clone());
        }
        let answers = match progress(self.flow, self.study, training)? {
            RunProgress::Finished => Some(Rc::new(self.ask(training)?)),
            _ => None,
        };
        self.runs.borrow_mut().insert(training.clone(), answers.clone());
        Ok(answers)
    }

    fn ask(&self, training: &SeededRun) -> Result<Answers> {
        let tables = self.study.tables.iter().filter(|t| t.rows.iter().any(|row| sides(t, row).any(|(run, _)| run == training.run)));
        let queries: BTreeSet<&str> = tables.flat_map(|t| &t.columns).filter_map(|c| c.query.as_deref()).collect();
        if queries.is_empty() {
            return Ok(Answers::new());
        }
        let queries: Vec<&str> = queries.into_iter().collect();
        let numbers = flow_log::numbers(&flow_log::Run::open(&self.study.folder(training))?, &queries)?;
        let named = queries.into_iter().zip(numbers).map(|(sql, number)| (sql.to_owned(), number.map_err(|e| e.to_string())));
        Ok(named.collect())
    }

    fn measured(&self, measurement: SeededMeasurement) -> Option<Rc<Value>> {
        if let Some(answer) = self.measurements.borrow().get(&measurement) {
            return answer.clone();
        }
        let answer = measured(self.study, &measurement).map(Rc::new);
        self.measurements.borrow_mut().insert(measurement, answer.clone());
        answer
    }
}

/// The figures of an answer of `flow eval`, by name.
fn figures(answer: &Value) -> Vec<(String, f64)> {
    let pass = answer["pass"].as_array().into_iter().flatten();
    let pass = pass.filter_map(|p| Some((format!("pass@{}", p["k"].as_u64()?), p["share"].as_f64()?)));
    let rest = answer.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    pass.chain(rest).collect()
}

/// The sums over each task in an answer of `flow eval`.
pub fn tasks(answer: &Value) -> Option<Vec<TaskSums>> {
    let each = &answer["by_task"];
    let numbers = |name: &str| each[name].as_array().map(|all| all.iter().map(|n| n.as_f64().unwrap_or(0.0)).collect::<Vec<f64>>());
    let (episodes, turns, score) = (numbers("episodes")?, numbers("turns")?, numbers("return")?);
    let trials = answer["samples"].as_f64()?;
    let won = each["won"].as_array()?.iter().map(|won| won.as_array().map(|won| won.iter().map(|n| n.as_f64().unwrap_or(0.0)).collect()));
    let won = won.collect::<Option<Vec<Vec<f64>>>>()?;
    let rows = won.into_iter().zip(episodes).zip(turns).zip(score);
    Some(rows.map(|(((won, episodes), turns), score)| TaskSums { won, trials, episodes, turns, score }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_of_an_evaluation_have_names() {
        let answer =
            json!({ "pass": [{ "k": 1, "share": 0.5 }, { "k": 3, "share": 0.75 }], "return": 2.5, "panel": "x", "diversity": null });
        let named = figures(&answer);
        assert_eq!(named[..2], [("pass@1".to_string(), 0.5), ("pass@3".to_string(), 0.75)]);
        assert!(named.contains(&("return".to_string(), 2.5)) && named.len() == 3, "{named:?}");
        // The share of first failures that were recovered.
        assert_eq!(flow_log::value_of(&named, r#"("pass@3" - "pass@1") / (1 - "pass@1")"#).unwrap(), 0.5);
    }
}
