//! Playing a number of episodes to their end.

use super::player::Player;
use super::playing::{Ended, Start};
use super::tally::Tally;
use super::tries::Patience;
use super::turns::{table, Played};
use crate::dataflow::Lost;
use arrow::array::RecordBatch;

/// The rows of the whole episodes, the figures, and the episodes that were given up.
#[derive(Default)]
pub struct Outcome {
    pub rows: Vec<RecordBatch>,
    pub tally: Tally,
    pub lost: Vec<Lost>,
}

impl Outcome {
    /// Takes in further episodes.
    pub fn add(&mut self, more: Outcome) {
        self.rows.extend(more.rows);
        self.tally.add(&more.tally);
        self.lost.extend(more.lost);
    }
}

/// Plays `samples` episodes of each task with the weights `version`, and gives their rows in the order of tasks and samples.
pub fn play(
    player: &mut Player,
    samples: u32,
    names: &[String],
    iteration: u64,
    version: u64,
    patience: Patience,
) -> Result<Outcome, String> {
    player.clear(patience);
    let each = names.iter().flat_map(|task| (0..samples).map(move |sample| (task.clone(), sample)));
    player.begin(each.map(|(task, sample)| Start { task, sample, attempt: 0, memory: String::new(), iteration, version }))?;
    let mut over: Vec<Ended> = Vec::with_capacity(player.begun());
    while !player.idle() {
        over.extend(player.step()?);
    }
    over.sort_by_key(|ended| ended.number);
    let whole: Vec<Played> = over.iter().map(|e| Played { ended: e, kept: "" }).collect();
    let rows = table(&whole).map_err(|e| e.to_string())?;
    Ok(Outcome { rows, tally: player.tally().clone(), lost: player.lost() })
}
