//! The score of a panel: pass@k, returns and turns.

use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use flow_core::seed::text;
use flow_credit::stats::{courses, diversity, pass_interval, Interval, Trial};
use flow_env::Panel;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The figures of an evaluation. Shares have 95% intervals over tasks.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Score {
    /// The run or the pipeline that played.
    subject: String,
    /// The version of the weights that played, where a run has made them.
    weights: Option<u64>,
    panel: String,
    tasks: usize,
    /// Trials a task.
    samples: u32,
    /// Attempts a trial.
    attempts: u32,
    temperature: f64,
    /// By number of attempts, from 1.
    pass: Vec<PassAt>,
    episodes: usize,
    /// By type of task, where the panel names types.
    types: Vec<TypeScore>,
    /// The mean over all episodes.
    #[serde(rename = "return")]
    reward: f64,
    /// The mean over all episodes.
    turns: f64,
    /// Of first attempts, in nats; none with one trial a task.
    diversity: Option<f64>,
    by_task: TaskScores,
}

/// The share of trials that were won within `k` attempts.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct PassAt {
    k: u32,
    share: f64,
    low: f64,
    high: f64,
}

/// Tasks of one type: the share of trials that were won within all attempts, and the mean score of the episodes.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct TypeScore {
    #[serde(rename = "type")]
    name: String,
    tasks: usize,
    share: f64,
    low: f64,
    high: f64,
    score: f64,
}

/// Counts and sums of each task, in the panel's order: other programs can bootstrap over tasks.
#[derive(Default, serde::Serialize, schemars::JsonSchema)]
struct TaskScores {
    /// Trials that were won within so many attempts, from 1.
    won: Vec<Vec<u32>>,
    episodes: Vec<usize>,
    turns: Vec<usize>,
    #[serde(rename = "return")]
    reward: Vec<f64>,
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
        (subject, temperature, seed): (String, f64, u64),
        (samples, attempts): (u32, u32),
        rows: Option<&RecordBatch>,
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
        let mut by_task = TaskScores::default();
        for (name, trials) in names.iter().zip(trials.chunks(samples.max(1) as usize)) {
            let within = |k: u32| trials.iter().filter(|trial| trial.won_at.is_some_and(|at| at < k)).count() as u32;
            let own = || episodes.range((name.as_str(), 0, 0)..=(name.as_str(), u32::MAX, u32::MAX)).map(|(_, episode)| episode);
            by_task.won.push((1..=attempts).map(within).collect());
            by_task.episodes.push(own().count());
            by_task.turns.push(own().map(|e| e.turns).sum());
            by_task.reward.push(own().map(|e| f64::from(e.score)).sum());
        }
        let mean = |sum: f64| sum / episodes.len().max(1) as f64;
        let pass = |k| {
            let Interval { value: share, low, high } = pass_interval(&trials, k, seed);
            PassAt { k, share, low, high }
        };
        Ok(Score {
            subject,
            temperature,
            weights,
            panel: panel.name.clone(),
            tasks: names.len(),
            samples,
            attempts,
            pass: (1..=attempts).map(pass).collect(),
            episodes: episodes.len(),
            types: types(panel, samples, attempts, &trials, &episodes, seed),
            reward: mean(episodes.values().map(|e| f64::from(e.score)).sum()),
            turns: mean(episodes.values().map(|e| e.turns as f64).sum()),
            diversity: (samples > 1).then_some(distinct),
            by_task,
        })
    }

    pub fn text(&self) -> String {
        let Score { subject, temperature, .. } = self;
        let trials = if self.samples == 1 { "one trial each".into() } else { format!("{} trials each", self.samples) };
        let weights = self.weights.map(|version| format!(" (weights {version})")).unwrap_or_default();
        let mut out = format!("{subject}{weights} on {}: {} tasks, {trials}, temperature {temperature}\n\n", self.panel, self.tasks);
        for PassAt { k, share, low, high } in &self.pass {
            let [share, low, high] = [share, low, high].map(|x| 100.0 * x);
            out += &format!("pass@{k}  {share:5.1}%   95% interval over tasks: {low:.1} to {high:.1}%\n");
        }
        if !self.types.is_empty() {
            let width = self.types.iter().map(|t| t.name.len()).max().unwrap_or_default();
            out += "\nby type of task, within all attempts\n";
            for TypeScore { name, tasks, share, low, high, score } in &self.types {
                let [share, low, high] = [share, low, high].map(|x| 100.0 * x);
                out += &format!("{name:<width$}  {share:5.1}%   {low:.1} to {high:.1}%   mean score {score:.2}   {tasks} tasks\n");
            }
        }
        out += &format!("\n{} episodes: mean return {:.2}, {:.1} turns\n", self.episodes, self.reward, self.turns);
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
) -> Vec<TypeScore> {
    let mut which: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (task, kind) in panel.types.iter().enumerate() {
        which.entry(kind).or_default().push(task);
    }
    let figures = |(kind, tasks): (&str, Vec<usize>)| {
        let own: Vec<Trial> =
            tasks.iter().flat_map(|task| trials.iter().skip(task * samples as usize).take(samples as usize).cloned()).collect();
        let names: BTreeSet<String> = tasks.iter().map(|task| panel.tasks[*task].name()).collect();
        let scores: Vec<f64> = episodes.iter().filter(|(name, _)| names.contains(name.0)).map(|(_, e)| f64::from(e.score)).collect();
        let score = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        let Interval { value: share, low, high } = pass_interval(&own, attempts, seed);
        TypeScore { name: kind.to_owned(), tasks: tasks.len(), share, low, high, score }
    };
    which.into_iter().map(figures).collect()
}
