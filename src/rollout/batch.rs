//! Plays a batch of episodes to their end.

use super::episode::{EpisodeStart, Finished};
use super::error::RolloutError;
use super::record;
use super::retry::FailedEpisode;
use super::sampler::Sampler;
use super::summary::Summary;
use arrow::array::RecordBatch;

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

/// Plays `samples` episodes of each of the `tasks` with the weights `version`; their rows in the order of tasks and samples.
/// `before` is the summary of the iteration's earlier episodes.
pub fn play(
    sampler: &mut Sampler,
    samples: u32,
    tasks: &[String],
    iteration: u64,
    version: u64,
    before: &Summary,
) -> Result<Played, RolloutError> {
    sampler.clear(before);
    let each = tasks.iter().flat_map(|task| (0..samples).map(move |sample| (task.clone(), sample)));
    sampler.begin(each.map(|(task, sample)| EpisodeStart { task, sample, attempt: 0, memory: String::new(), iteration, version }))?;
    let mut over: Vec<Finished> = Vec::with_capacity(sampler.begun());
    while !sampler.idle() {
        over.extend(sampler.step()?);
    }
    over.sort_by_key(|finished| finished.number);
    let rows = record::played(&over, &[], &sampler.parts())?.into_iter().collect();
    Ok(Played { rows, summary: sampler.summary().clone(), failed: sampler.failed() })
}
