//! Figures computed from a run's rows: pass@k, returns by attempt, group sizes, exploration.

use super::ask::ask;
use super::chart::Series;
use super::source::ReportRun;
use crate::cli::error::Result;
use crate::credit::episodes;
use crate::log::sql::{literal, quoted};
use crate::pipeline::Role;
use crate::seed;
use crate::stats::{courses, diversity, exploration_degree, pass_interval, Interval, Trial};
use std::collections::BTreeMap;

/// The figures of one run: for each node a series over the iterations.
#[derive(Default)]
pub struct RunMeasurements {
    /// Of each node that plays a panel, the trials of each iteration in which it did.
    pub trials: BTreeMap<String, BTreeMap<u64, Vec<Trial>>>,
    /// How many attempts a node's trials have, at most.
    pub attempts: BTreeMap<String, u32>,
    /// The mean return of each attempt: (node, attempt).
    pub returns: BTreeMap<(String, u32), Series>,
    pub group_size: BTreeMap<String, Series>,
    pub alone: BTreeMap<String, Series>,
    pub exploration: BTreeMap<String, Series>,
    pub diversity: BTreeMap<String, Series>,
}

/// The seed of every bootstrap: the page of a log is always the same.
pub const SEED: u64 = 1;

/// The most iterations whose rows are read: evenly spread, the first among them.
const ITERATIONS: u64 = 200;

impl RunMeasurements {
    pub fn of(source: &ReportRun) -> Result<RunMeasurements> {
        let mut measurements = RunMeasurements::default();
        let committed = source.manifest.committed.len() as u64;
        let some = format!("iteration % {} = 0", committed.div_ceil(ITERATIONS).max(1));
        for node in source.players() {
            measurements.attempts(source, &node.id, &some)?;
            match source.role(&node.id) {
                Some(Role::Measures) => measurements.trials(source, &node.id)?,
                _ if !source.expert(&node.id) => measurements.explored(source, &node.id, &some)?,
                _ => {}
            }
        }
        for node in source.manifest.info.nodes.iter().filter(|n| n.columns.iter().any(|c| c == "group_size")) {
            measurements.groups(source, &node.id, &some)?;
        }
        Ok(measurements)
    }

    /// The trials of a panel; one that was given up counts as not won.
    fn trials(&mut self, source: &ReportRun, node: &str) -> Result<()> {
        let rows = ask(
            &source.run,
            &format!(
                "SELECT iteration, task, sample, min(won_at) AS won_at FROM (\
                 SELECT iteration, task, sample, CASE WHEN won THEN attempt END AS won_at FROM {} WHERE phase = 'play' UNION ALL \
                 SELECT iteration, task, sample, NULL FROM errors WHERE node = {}) GROUP BY ALL ORDER BY iteration, task, sample",
                quoted(node),
                literal(node)
            ),
        )?;
        let (iterations, tasks, won_at) = (rows.u64s("iteration")?, rows.texts("task")?, rows.f64s("won_at")?);
        let trials = self.trials.entry(node.into()).or_default();
        for i in 0..rows.len() {
            let task = seed::text(tasks[i].as_deref().unwrap_or_default());
            trials.entry(iterations[i]).or_default().push(Trial { task, won_at: won_at[i].map(|attempt| attempt as u32) });
        }
        Ok(())
    }

    /// The interval of a panel's success, where the trials say the same as the figure that was measured.
    pub fn success(&self, node: &str, figure: &Series) -> BTreeMap<u64, Interval> {
        let trials = self.trials.get(node).into_iter().flatten();
        let interval = |(iteration, trials): (&u64, &Vec<Trial>)| {
            let pass = pass_interval(trials, u32::MAX, SEED);
            figure.get(iteration).filter(|value| (**value - pass.value).abs() < 1e-9).map(|_| (*iteration, pass))
        };
        trials.filter_map(interval).collect()
    }

    fn attempts(&mut self, source: &ReportRun, node: &str, some: &str) -> Result<()> {
        let rows = ask(
            &source.run,
            &format!(
                "SELECT iteration, attempt, avg(earned) AS earned FROM (SELECT iteration, task, sample, attempt, sum(reward::DOUBLE) AS earned \
                 FROM {} WHERE phase = 'play' AND {some} GROUP BY ALL) GROUP BY ALL ORDER BY iteration, attempt",
                quoted(node)
            ),
        )?;
        let (iterations, attempts, earned) = (rows.u64s("iteration")?, rows.u64s("attempt")?, rows.f64s("earned")?);
        self.attempts.insert(node.into(), attempts.iter().max().map_or(0, |last| *last as u32 + 1));
        for i in 0..rows.len() {
            if let Some(earned) = earned[i] {
                self.returns.entry((node.into(), attempts[i] as u32)).or_default().insert(iterations[i], earned);
            }
        }
        Ok(())
    }

    fn groups(&mut self, source: &ReportRun, node: &str, some: &str) -> Result<()> {
        let rows = ask(
            &source.run,
            &format!(
                "SELECT iteration, count(*)::DOUBLE / count(DISTINCT \"group\") AS size, avg((group_size = 1)::INTEGER) AS alone \
                 FROM {} WHERE {some} GROUP BY iteration ORDER BY iteration",
                quoted(node)
            ),
        )?;
        let (iterations, sizes, alone) = (rows.u64s("iteration")?, rows.f64s("size")?, rows.f64s("alone")?);
        let figure = |values: Vec<Option<f64>>| iterations.iter().zip(values).filter_map(|(i, value)| Some((*i, value?))).collect();
        self.group_size.insert(node.into(), figure(sizes));
        self.alone.insert(node.into(), figure(alone));
        Ok(())
    }

    fn explored(&mut self, source: &ReportRun, node: &str, some: &str) -> Result<()> {
        let rows = ask(
            &source.run,
            &format!(
                "SELECT iteration, task, sample, attempt, state, action FROM {} WHERE phase = 'play' AND {some} \
                 ORDER BY iteration, task, sample, attempt, turn",
                quoted(node)
            ),
        )?;
        let (iterations, samples, attempts, states) =
            (rows.u64s("iteration")?, rows.u64s("sample")?, rows.u64s("attempt")?, rows.u64s("state")?);
        let hashes = |texts: Vec<Option<String>>| texts.iter().map(|t| seed::text(t.as_deref().unwrap_or_default())).collect::<Vec<u64>>();
        let (tasks, actions) = (hashes(rows.texts("task")?), hashes(rows.texts("action")?));
        let name = |i: usize| (iterations[i], tasks[i], samples[i], attempts[i]);
        let all = episodes(|i| name(i) == name(i - 1), rows.len());
        let played = courses(&states, &actions, &all);
        let mut at = 0;
        while at < all.len() {
            let iteration = iterations[all[at].start];
            let end = at + all[at..].iter().take_while(|e| iterations[e.start] == iteration).count();
            let episode_tasks: Vec<u64> = all[at..end].iter().map(|e| tasks[e.start]).collect();
            self.exploration.entry(node.into()).or_default().insert(iteration, exploration_degree(&states, &all[at..end]));
            // A task that is played once says nothing of how differently it is played.
            if episode_tasks.windows(2).any(|pair| pair[0] == pair[1]) {
                self.diversity.entry(node.into()).or_default().insert(iteration, diversity(&episode_tasks, &played[at..end]));
            }
            at = end;
        }
        Ok(())
    }
}
