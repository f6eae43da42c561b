//! Plays a batch of episodes to their end.

use super::episode::EpisodeStart;
use super::error::RolloutError;
use super::record;
use super::retry::FailedEpisode;
use super::sampler::Sampler;
use super::summary::Summary;
use super::tree::{branched, Branching};
use arrow::array::RecordBatch;
use flow_core::row;

/// The result of playing a batch of episodes.
#[derive(Default)]
pub struct Played {
    /// The turns of all complete episodes.
    pub rows: Vec<RecordBatch>,
    /// Their summary.
    pub summary: Summary,
    /// The episodes that were given up.
    pub failed: Vec<FailedEpisode>,
}

impl Played {
    /// Adds further episodes.
    pub fn add(&mut self, more: Played) {
        self.rows.extend(more.rows);
        self.summary.add(&more.summary);
        self.failed.extend(more.failed);
    }
}

/// Plays `samples` episodes of each of the `tasks` with the weights `version`, and the branches of these; their rows in
/// the order of tasks and samples, those of branches behind all others. `before` is the summary of the iteration's
/// earlier episodes.
pub fn play(
    sampler: &mut Sampler,
    samples: u32,
    branching: Option<&Branching>,
    tasks: &[String],
    iteration: u64,
    version: u64,
    before: &Summary,
) -> Result<Played, RolloutError> {
    sampler.clear(before);
    let each = tasks.iter().flat_map(|task| (0..samples).map(move |sample| (task.clone(), sample)));
    sampler.begin(each.map(|(task, sample)| EpisodeStart { task, sample, attempt: 0, memory: String::new(), iteration, version }))?;
    let (mut over, mut parts, mut summary) = (sampler.finish()?, sampler.parts(), sampler.summary().clone());
    if let Some(branching) = branching {
        over = branched(sampler, branching, samples, over)?;
        parts.push(row::BRANCH_OF.to_owned());
        summary = summary.branched(sampler.summary());
    }
    let rows = record::played(&over, &[], &parts)?.into_iter().collect();
    Ok(Played { rows, summary, failed: sampler.failed() })
}
