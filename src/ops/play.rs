//! How episodes are played, what they come to, and playing a number of them to their end.

use super::player::Player;
use super::playing::{Ended, Start};
use super::prompt::Prompt;
use super::tries::Patience;
use super::turns::{table, Played};
use crate::dataflow::{Figure, Lost};
use crate::policy::Sampling;
use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who chooses the actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The model.
    #[default]
    Policy,
    /// The environment's own solver: demonstrations.
    Expert,
    /// In a loop: the model in the first attempt, the solver in those after it, which knows what was noted: demonstrations of how to go
    /// on from a failure.
    Rescue,
}

impl Actor {
    /// Whether the expert acts in this attempt.
    pub fn advises(self, attempt: u32) -> bool {
        self == Actor::Expert || self == Actor::Rescue && attempt > 0
    }
}

/// How a response becomes an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decode {
    /// The response is one of the admissible actions, and nothing else can be written.
    #[default]
    Constrained,
    /// Anything can be written; the action is read from its `<action>` tag.
    Free,
}

/// How episodes are played.
#[derive(Clone, Debug)]
pub struct Play {
    pub model: String,
    pub samples: u32,
    pub max_turns: u32,
    pub sampling: Sampling,
    pub actor: Actor,
    pub decode: Decode,
    pub prompt: Prompt,
    pub history: usize,
    pub patience: Patience,
}

/// What a batch of episodes came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All that were to be played, with those that were given up.
    pub episodes: usize,
    pub failed: usize,
    /// Tries that failed and were followed by another.
    pub retried: usize,
    pub turns: usize,
    pub won: usize,
    pub score: f64,
    pub invalid: usize,
}

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

impl Tally {
    /// Takes in what further episodes came to.
    pub fn add(&mut self, more: &Tally) {
        self.episodes += more.episodes;
        self.failed += more.failed;
        self.retried += more.retried;
        self.turns += more.turns;
        self.won += more.won;
        self.score += more.score;
        self.invalid += more.invalid;
    }

    /// The figures that progress and `metrics` show. An episode that failed is not won, and has no return.
    pub fn figures(&self) -> [(&'static str, Figure); 6] {
        [
            ("success", Figure::share(self.won as f64, self.episodes)),
            ("return", Figure::share(self.score, self.episodes - self.failed)),
            ("turns", Figure::Sum(self.turns as f64)),
            ("invalid", Figure::share(self.invalid as f64, self.turns)),
            ("failed", Figure::Sum(self.failed as f64)),
            ("retried", Figure::Sum(self.retried as f64)),
        ]
    }
}
