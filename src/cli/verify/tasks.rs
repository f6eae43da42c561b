//! The tasks and samples that a node has to have played: drawn again from the pipeline's seed, or those of its panel.

use super::super::episode::rows;
use super::super::error::Result;
use super::iterations::iterations_text;
use super::played;
use crate::ops::{self, Draw, Measurement};
use flow_core::row::BRANCH_OF;
use flow_log::{sql::quoted, Manifest, Run, Status};
use flow_pipeline::{Node, Pipeline, Role};
use std::collections::{BTreeMap, BTreeSet};

/// What a node has played, by iteration and task: its samples, failed ones included.
pub struct Played(BTreeMap<u64, BTreeMap<String, Samples>>);

/// Samples of a task.
struct Samples {
    /// How many of the node's own.
    own: u64,
    /// The largest one that isn't a branch of another.
    largest: u64,
}

/// What a node has to play.
pub enum Expected {
    /// The tasks that the seed draws, in each iteration.
    Drawn(Draw, u32),
    /// A panel, every few iterations: as it is in its file or, without that, as it was first played.
    Panel(Measurement, Vec<String>),
}

impl Played {
    /// What the rows and the errors of a player say, before the iteration `end`.
    ///
    /// # Errors
    /// If rows can't be read.
    pub fn of(run: &Run, table: &Node, player: &Node, end: u64) -> Result<Played> {
        let samples = ops::samples(player).or(Measurement::of(player).map(|panel| panel.samples)).unwrap_or(1);
        let (rows_of, failed) = (quoted(&table.id), played::failures(table, player));
        // Branches are further samples.
        let branches = flow_log::columns(run, &run.manifest()?, &table.id)?.iter().any(|column| column == BRANCH_OF);
        let alone = if branches { format!("sample < {samples}") } else { "true".into() };
        let sql = format!(
            "SELECT iteration, task, count(DISTINCT sample) FILTER (WHERE sample < {samples}) AS n, max(sample) FILTER (WHERE {alone}) AS largest \
             FROM (SELECT iteration, task, sample FROM {rows_of} WHERE phase = 'play' UNION ALL SELECT iteration, task, sample FROM {failed}) \
             WHERE iteration < {end} GROUP BY ALL"
        );
        let mut played = Played(BTreeMap::new());
        for row in rows(&flow_log::query(run, &sql)?)? {
            let number = |name: &str| row.get(name).and_then(|value| value.as_u64()).unwrap_or_default();
            let task = row["task"].as_str().unwrap_or_default().to_owned();
            let samples = Samples { own: number("n"), largest: number("largest") };
            played.0.entry(number("iteration")).or_default().insert(task, samples);
        }
        Ok(played)
    }

    /// Whether its first iteration has any of these tasks.
    fn begins_with_any(&self, tasks: &[String]) -> bool {
        self.0.values().next().is_none_or(|played| played.keys().any(|task| tasks.contains(task)))
    }

    /// The tasks of the first iteration that has any.
    fn first(&self) -> Vec<String> {
        self.0.values().next().map_or_else(Vec::new, |tasks| tasks.keys().cloned().collect())
    }
}

impl Expected {
    /// What a player has to play; none where that can't be known.
    pub fn of(pipeline: &Pipeline, player: &Node, played: &Played) -> Option<Expected> {
        if let Some(mut panel) = Measurement::of(player) {
            // Another panel may lie there since.
            panel.tasks = panel.tasks.filter(|tasks| played.begins_with_any(tasks));
            let tasks = panel.tasks.clone().unwrap_or_else(|| played.first());
            return Some(Expected::Panel(panel, tasks));
        }
        if !ops::is(player, Role::Plays) || player.op == ops::importing().name {
            return None;
        }
        let draw = player.inputs.iter().find_map(|input| ops::draw(pipeline.node(&input.from)?, pipeline.seed))?;
        Some(Expected::Drawn(draw, ops::samples(player).unwrap_or(1)))
    }

    /// The tasks of an iteration of a run of so many; none where the node may have played or not.
    fn tasks(&self, iteration: u64, iterations: u64) -> Option<Vec<String>> {
        match self {
            Expected::Drawn(draw, _) => (iteration < iterations).then(|| draw.names(iteration)),
            Expected::Panel(panel, tasks) => panel.due(iteration, iterations).then(|| tasks.clone()),
        }
    }

    fn samples(&self) -> u64 {
        let (Expected::Drawn(_, samples) | Expected::Panel(Measurement { samples, .. }, _)) = self;
        u64::from(*samples)
    }

    /// Whether its tasks aren't known but from its rows.
    pub fn taken(&self) -> bool {
        matches!(self, Expected::Panel(Measurement { tasks: None, .. }, _))
    }

    /// Tasks that nothing draws, drawn ones that weren't played or not as often, more samples than asked for; a sentence
    /// each.
    pub fn contradictions(
        &self,
        manifest: &Manifest,
        table: &Node,
        player: &Node,
        played: &Played,
        end: u64,
        rowless: bool,
    ) -> Vec<String> {
        let (iterations, samples) = (manifest.info.iterations, self.samples());
        let mut all: BTreeSet<u64> = manifest.committed.iter().map(|committed| committed.iteration).collect();
        if manifest.status == Status::Finished {
            // What is measured after the last update.
            all.insert(iterations);
        }
        let (mut others, mut lacking, mut more) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let none = BTreeMap::new();
        for iteration in all.into_iter().filter(|iteration| *iteration < end) {
            let own = played.0.get(&iteration).unwrap_or(&none);
            if own.values().any(|task| task.largest >= samples) {
                more.insert(iteration);
            }
            let Some(names) = self.tasks(iteration, iterations) else { continue };
            if own.keys().any(|task| !names.contains(task)) {
                others.insert(iteration);
            } else if !rowless
                && (own.values().any(|task| task.own < samples)
                    || !ops::chooses_tasks(player) && own.len() < names.iter().collect::<BTreeSet<_>>().len())
            {
                lacking.insert(iteration);
            }
        }
        let given =
            if matches!(self, Expected::Panel(..)) { "that its panel hasn't" } else { "that the pipeline's seed and settings don't draw" };
        let contradiction = |iterations: &BTreeSet<u64>, what: &str| {
            (!iterations.is_empty()).then(|| format!("`{}` {what} in {}", player.id, iterations_text(iterations)))
        };
        // In a loop a task may have more.
        let exact = table.id == player.id;
        let contradictions = [
            contradiction(&others, &format!("has played tasks {given}")),
            contradiction(&lacking, "lacks episodes of tasks that it was given"),
            contradiction(&more, &format!("has a sample beyond its {samples}")).filter(|_| exact),
        ];
        contradictions.into_iter().flatten().collect()
    }
}
