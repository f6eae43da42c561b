//! The settings of playing and reflecting, written once for every operator that does: each takes these structs in by
//! `#[serde(flatten)]`. Unknown keys are refused by the JSON Schema of the whole, which says so by
//! `schemars(deny_unknown_fields)`: serde's own `deny_unknown_fields` doesn't go with flattened structs.

use super::agent::{agent_or_name, Agent};
use super::exchange::NotesOwner;
use super::notes::NoteContent;
use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What evaluations draw their random numbers from unless `flow eval` is given another seed, whatever the run's own: so
/// `evaluate` and `flow eval` play a panel alike, and two runs are measured with the same numbers.
pub const EVALUATION_SEED: u64 = 0;

/// The source of actions: the policy, the environment's expert, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The model.
    #[default]
    Policy,
    /// The environment's own solver: demonstrations.
    Expert,
    /// In a loop: the model in the first attempt, the solver in later attempts, which knows the notes: demonstrations
    /// of how to go on from a failure.
    Rescue,
}

impl Actor {
    /// Whether the expert acts in this attempt, counted from 0.
    pub fn advises(self, attempt: u32) -> bool {
        self == Actor::Expert || self == Actor::Rescue && attempt > 0
    }
}

/// How episodes are played, by a model or by an expert.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlaySettings {
    /// The agent that plays.
    #[schemars(schema_with = "agent_or_name")]
    pub agent: Agent,
    /// The temperature at which it samples here, if not its own; 0 takes the likeliest.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: Option<f64>,
    /// How often an episode is played before it is given up as failed. A later try that succeeds gives the rows that
    /// the first would have given.
    #[serde(default = "number::<u32, 2>")]
    #[schemars(range(min = 1, max = 100))]
    pub tries: u32,
}

/// How episodes that are over are reflected on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReflectionSettings {
    /// The agent that reflects, in whose words: the one that played, or another.
    #[schemars(schema_with = "agent_or_name")]
    pub agent: Agent,
    /// The temperature at which it samples here, if not its own; 0 takes the likeliest.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: Option<f64>,
    /// Which episodes are reflected on.
    #[serde(default)]
    pub on: On,
    /// How often it is asked, each time with a draw of its own, until its answer has the required part. What is still
    /// without is no valid reflection: `valid` is false and `action` empty.
    #[serde(default = "number::<u32, 1>")]
    #[schemars(range(min = 1, max = 100))]
    pub tries: u32,
    /// The parts of this attempt in the prompts of later ones.
    #[serde(default)]
    pub keep: NoteContent,
    /// The most tokens of all notes together; the oldest note is dropped first.
    #[serde(default = "number::<usize, 256>")]
    #[schemars(range(min = 0, max = 100_000))]
    pub budget: usize,
    /// The agent that writes the reflection: the policy, the environment's expert, or both.
    #[serde(default)]
    pub actor: Actor,
    /// Where the expert reflects: whether it notes something of this task, or of another one of the game, which teaches
    /// the form of a note and not its content.
    #[serde(default)]
    pub notes: NotesOwner,
}

/// Which episodes are reflected on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Episodes that were not won.
    #[default]
    Failure,
    /// All.
    Always,
}

impl On {
    /// Whether an episode is reflected on that was won or wasn't.
    pub fn wants(self, won: bool) -> bool {
        self == On::Always || !won
    }
}
