//! The score of a panel: pass@k, returns and turns.

use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use flow_core::seed::text;
use flow_credit::stats::{courses, diversity, pass_interval, Interval, Trial};
use flow_env::Panel;
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The figures of an evaluation.
pub struct Score {
    panel: String,
    tasks: usize,
    samples: u32,
    /// By number of attempts, from 1.
    pass: Vec<Interval>,
    /// By type of task, where the panel names types: how many tasks, how many were won within all attempts, and the
    /// mean score of the episodes.
    types: Vec<(String, usize, Interval, f64)>,
    episodes: usize,
    turns: usize,
    reward: f64,
    /// Of first attempts; `None` with one trial a task.
    diversity: Option<f64>,
    /// The version of the weights that played, where a run has made them.
    weights: Option<u64>,
    /// Of each task, in the panel's order.
    each: Vec<TaskScore>,
}

/// Counts and sums of one task, from which other programs can bootstrap over tasks.
#[derive(Default)]
struct TaskScore {
    /// Trials that were won within so many attempts, from 1.
    won: Vec<u32>,
    episodes: usize,
    turns: usize,
    score: f64,
}

#[derive(Default)]
struct ScoredEpisode {
    won: bool,
    turns: usize,
    score: f32,
    rows: Range<usize>,
}

impl Score {
    /// From the rows that were played, sorted by name; a trial without rows was given up, and is not won.
    pub fn of(
        panel: &Panel,
        samples: u32,
        attempts: u32,
        rows: Option<&RecordBatch>,
        seed: u64,
        weights: Option<u64>,
    ) -> Result<Score, RowError> {
        let names: Vec<String> = panel.tasks.iter().map(|t| t.name()).collect();
        let mut episodes: BTreeMap<(&str, u32, u32), ScoredEpisode> = BTreeMap::new();
        let mut distinct = 0.0;
        if let Some(rows) = rows {
            let (tasks, samples, attempts) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?, row::u32s(rows, "attempt")?);
            let (phases, won, scores) = (row::texts(rows, "phase")?, row::bools(rows, "won")?, row::f32s(rows, "score")?);
            let (states, actions) = (row::u64s(rows, "state")?, row::texts(rows, "action")?);
            for i in (0..rows.num_rows()).filter(|&i| phases.value(i) == "play") {
                let episode = episodes.entry((tasks.value(i), samples.value(i), attempts.value(i))).or_default();
                episode.won |= won.value(i);
                episode.turns += 1;
                episode.score = scores.value(i);
                // Rows of an episode follow one another.
                episode.rows = i + 1 - episode.turns..i + 1;
            }
            let actions: Vec<u64> = actions.iter().map(|action| text(action.unwrap_or_default())).collect();
            let first = || episodes.iter().filter(|(name, _)| name.2 == 0);
            let tasks: Vec<u64> = first().map(|(name, _)| text(name.0)).collect();
            let ranges: Vec<Range<usize>> = first().map(|(_, episode)| episode.rows.clone()).collect();
            distinct = diversity(&tasks, &courses(states.values(), &actions, &ranges));
        }
        let mut trials: Vec<Trial> = Vec::new();
        for name in &names {
            for sample in 0..samples {
                let won = |attempt: &u32| episodes.get(&(name.as_str(), sample, *attempt)).is_some_and(|e| e.won);
                trials.push(Trial { task: text(name), won_at: (0..attempts).find(won) });
            }
        }
        let types = types(panel, samples, attempts, &trials, &episodes, seed);
        let each = names.iter().zip(trials.chunks(samples.max(1) as usize)).map(|(name, trials)| {
            let within = |k: u32| trials.iter().filter(|trial| trial.won_at.is_some_and(|at| at < k)).count() as u32;
            let own = || episodes.range((name.as_str(), 0, 0)..=(name.as_str(), u32::MAX, u32::MAX)).map(|(_, episode)| episode);
            TaskScore {
                won: (1..=attempts).map(within).collect(),
                episodes: own().count(),
                turns: own().map(|e| e.turns).sum(),
                score: own().map(|e| f64::from(e.score)).sum(),
            }
        });
        let each = each.collect();
        Ok(Score {
            types,
            each,
            panel: panel.name.clone(),
            tasks: names.len(),
            samples,
            pass: (1..=attempts).map(|k| pass_interval(&trials, k, seed)).collect(),
            episodes: episodes.len(),
            turns: episodes.values().map(|e| e.turns).sum(),
            reward: episodes.values().map(|e| f64::from(e.score)).sum(),
            diversity: (samples > 1).then_some(distinct),
            weights,
        })
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.episodes.max(1) as f64
    }

    pub fn json(&self, subject: &str, temperature: f64) -> Value {
        let pass = self.pass.iter().zip(1..).map(|(p, k)| json!({ "k": k, "share": p.value, "low": p.low, "high": p.high }));
        json!({
            "subject": subject,
            "weights": self.weights,
            "panel": self.panel,
            "tasks": self.tasks,
            "samples": self.samples,
            "attempts": self.pass.len(),
            "temperature": temperature,
            "pass": pass.collect::<Vec<_>>(),
            "episodes": self.episodes,
            "types": self.types.iter().map(|(name, tasks, won, score)| json!({ "type": name, "tasks": tasks, "share": won.value, "low": won.low, "high": won.high, "score": score })).collect::<Vec<_>>(),
            "return": self.mean(self.reward),
            "turns": self.mean(self.turns as f64),
            "diversity": self.diversity,
            "by_task": {
                "won": self.each.iter().map(|task| &task.won).collect::<Vec<_>>(),
                "episodes": self.each.iter().map(|task| task.episodes).collect::<Vec<_>>(),
                "turns": self.each.iter().map(|task| task.turns).collect::<Vec<_>>(),
                "return": self.each.iter().map(|task| task.score).collect::<Vec<_>>(),
            },
        })
    }

    pub fn text(&self, subject: &str, temperature: f64) -> String {
        let trials = if self.samples == 1 { "one trial each".into() } else { format!("{} trials each", self.samples) };
        let weights = self.weights.map(|version| format!(" (weights {version})")).unwrap_or_default();
        let mut out = format!("{subject}{weights} on {}: {} tasks, {trials}, temperature {temperature}\n\n", self.panel, self.tasks);
        for (k, pass) in self.pass.iter().enumerate() {
            let [share, low, high] = [pass.value, pass.low, pass.high].map(|x| 100.0 * x);
            out += &format!("pass@{}  {share:5.1}%   95% interval over tasks: {low:.1} to {high:.1}%\n", k + 1);
        }
        if !self.types.is_empty() {
            let width = self.types.iter().map(|t| t.0.len()).max().unwrap_or_default();
            out += "\nby type of task, within all attempts\n";
            for (name, tasks, won, score) in &self.types {
                let [share, low, high] = [won.value, won.low, won.high].map(|x| 100.0 * x);
                out += &format!("{name:<width$}  {share:5.1}%   {low:.1} to {high:.1}%   mean score {score:.2}   {tasks} tasks\n");
            }
        }
        let (reward, turns) = (self.mean(self.reward), self.mean(self.turns as f64));
        out += &format!("\n{} episodes: mean return {reward:.2}, {turns:.1} turns\n", self.episodes);
        if let Some(diversity) = self.diversity {
            out += &format!("diversity of first attempts: {diversity:.2} nats of {:.2}\n", f64::from(self.samples).ln());
        }
        out
    }
}

/// The figures of each type of task that the panel names, in the order of their names.
fn types(
    panel: &Panel,
    samples: u32,
    attempts: u32,
    trials: &[Trial],
    episodes: &BTreeMap<(&str, u32, u32), ScoredEpisode>,
    seed: u64,
) -> Vec<(String, usize, Interval, f64)> {
    let mut which: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (task, kind) in panel.types.iter().enumerate() {
        which.entry(kind).or_default().push(task);
    }
    let figures = |(kind, tasks): (&str, Vec<usize>)| {
        let own: Vec<Trial> =
            tasks.iter().flat_map(|task| trials.iter().skip(task * samples as usize).take(samples as usize).cloned()).collect();
        let names: BTreeSet<String> = tasks.iter().map(|task| panel.tasks[*task].name()).collect();
        let scores: Vec<f64> = episodes.iter().filter(|(name, _)| names.contains(name.0)).map(|(_, e)| f64::from(e.score)).collect();
        let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        (kind.to_owned(), tasks.len(), pass_interval(&own, attempts, seed), mean)
    };
    which.into_iter().map(figures).collect()
}
