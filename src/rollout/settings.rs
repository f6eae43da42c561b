//! The settings of playing and sampling, written once for every operator that plays: each takes these structs in by `#[serde(flatten)]`.
//! Unknown keys are refused by the JSON Schema of the whole, which says so by `schemars(deny_unknown_fields)`: serde's own
//! `deny_unknown_fields` doesn't go with flattened structs.

use super::action::Decode;
use super::exchange::Whose;
use super::notes::{Keep, Unwritten};
use super::rank::RankSettings;
use crate::policy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The temperature at which training samples where none is given: that of the policy itself.
pub const TRAINING_TEMPERATURE: f64 = 1.0;

/// The temperature at which `evaluate` samples where none is given: LaMer's.
pub const EVALUATION_TEMPERATURE: f64 = 0.7;

/// What evaluations draw their random numbers from unless `flow eval` is given another seed, whatever the run's own: so `evaluate` and
/// `flow eval` play a panel alike, and two runs are measured with the same numbers.
pub const EVALUATION_SEED: u64 = 0;

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
    /// Whether the expert acts in this attempt, counted from 0.
    pub fn advises(self, attempt: u32) -> bool {
        self == Actor::Expert || self == Actor::Rescue && attempt > 0
    }
}

/// How responses are sampled.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SamplingSettings {
    /// Sampling temperature; 0 takes the likeliest. When left out: 1 in training and 0.7, at which LaMer evaluates, in `evaluate`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: Option<f64>,
    /// Samples from the smallest set of tokens that has this much probability. What is recorded stays the log-probability among all tokens.
    #[serde(default = "all")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: f64,
    /// Samples from so many likeliest tokens, among which `top_p` then chooses by their share of what is left; 0: from all.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub top_k: usize,
    /// Tokens of a response, at most.
    #[serde(default = "max_tokens")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_tokens: usize,
}

impl SamplingSettings {
    /// The settings as the policy takes them, with the temperature that counts where none is given.
    pub fn sampling(&self, temperature: f64) -> policy::Sampling {
        let temperature = self.temperature.unwrap_or(temperature);
        policy::Sampling { temperature, top_p: self.top_p, top_k: self.top_k, max_tokens: self.max_tokens }
    }
}

/// How the prompts of an episode's turns follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Each turn is told anew, in a prompt of its own.
    #[default]
    Rebuilt,
    /// Each turn is a further message of one conversation, which so begins with all that was read and said before, token by token. From the
    /// second message on `rules`, `task`, `history` and what is told of earlier attempts are empty: they stand above.
    Chat,
}

/// How episodes are played.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlaySettings {
    /// Turns after which an episode is cut.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_turns: u32,
    /// How a response becomes an action.
    #[serde(default)]
    pub decode: Decode,
    /// What the policy reads in a turn: `board` (the observation alone: for small policies trained from nothing), `full` (the rules, the last
    /// turns, the observation and the admissible actions: for policies that can read), a template of your own, or a file with one (the guide
    /// has what it can tell).
    #[serde(default = "board")]
    #[schemars(extend("x-names" = "template"))]
    pub prompt: String,
    /// A template, or a file with one, of a system message before it; where the model knows no messages the two follow one another.
    #[serde(default)]
    #[schemars(extend("x-names" = "template"))]
    pub system: Option<String>,
    /// How the prompts of an episode's turns follow one another.
    #[serde(default)]
    pub layout: Layout,
    /// Earlier turns that the prompt retells, where it retells any.
    #[serde(default = "history")]
    pub history: usize,
    /// Tokens of a prompt, at most: where it would have more, the oldest of the turns that it retells are left out, and the column `left_out`
    /// says how many; a conversation begins anew. Nothing is left out unless given, and a prompt that the model can't read costs its episode.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub prompt_tokens: Option<usize>,
    /// How often an episode is played before it is given up as failed. A later try that succeeds gives the rows that the first would have given.
    #[serde(default = "tries")]
    #[schemars(range(min = 1, max = 100))]
    pub tries: u32,
    /// An expert's action that isn't among the admissible ones joins them; otherwise it costs its episode.
    #[serde(default)]
    pub join: bool,
    /// With several attempts: what those that follow are told of one where no reflection says it.
    #[serde(default)]
    pub keep: Unwritten,
    /// With several attempts: tokens of what they are told in all, at most; the oldest is forgotten first.
    #[serde(default = "budget")]
    #[schemars(range(min = 0, max = 100_000))]
    pub budget: usize,
    /// With several attempts: whose notes they are told. With those of another task's trial, which goes on as well, attempts wait for one
    /// another, and one process plays them all.
    #[serde(default)]
    pub notes: Whose,
    /// A critic, of `models`, that ranks the admissible actions beside the policy (Retrospex): in place of a draw from the policy the action with
    /// the best score is taken. No node may train it.
    #[serde(default)]
    pub critic: Option<String>,
    /// With a `critic`: how a score is made of its values and the policy's probabilities.
    #[serde(default)]
    pub rank: Option<RankSettings>,
}

fn all() -> f64 {
    1.0
}
fn max_tokens() -> usize {
    32
}
fn board() -> String {
    "board".into()
}
fn history() -> usize {
    2
}
fn tries() -> u32 {
    2
}
fn budget() -> usize {
    256
}

/// How episodes that are over are reflected on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ReflectionSettings {
    /// The prompt: a template, or a file with one (the guide has what it can tell). A short one of our own when left out.
    #[serde(default)]
    #[schemars(extend("x-names" = "template"))]
    pub prompt: Option<String>,
    /// Which episodes are reflected on.
    #[serde(default)]
    pub on: On,
    /// What the attempts that follow are told of this one.
    #[serde(default)]
    pub keep: Keep,
    /// Tokens of what they are told in all, at most; the oldest is forgotten first.
    #[serde(default = "budget")]
    #[schemars(range(min = 0, max = 100_000))]
    pub budget: usize,
    /// The remark is read from this tag, as <remark>...</remark>; "" takes the whole response.
    #[serde(default = "remark")]
    pub tag: String,
    /// Who reflects.
    #[serde(default)]
    pub actor: Actor,
    /// Where the expert reflects: whether it notes something of this task, or of another one of the game, which teaches the form of a note
    /// and nothing of what is worth noting.
    #[serde(default)]
    pub notes: Whose,
    /// How the reflection is sampled.
    #[serde(flatten)]
    pub sampling: SamplingSettings,
}

impl ReflectionSettings {
    /// The tag that the remark stands in; without one the whole response is the remark.
    pub fn tag(&self) -> Option<&str> {
        Some(self.tag.as_str()).filter(|tag| !tag.is_empty())
    }
}

/// Which episodes are reflected on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Those that were not won.
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

fn remark() -> String {
    "remark".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_that_is_given_counts() {
        let sampling = |with| serde_json::from_value::<SamplingSettings>(with).unwrap().sampling(EVALUATION_TEMPERATURE).temperature;
        assert_eq!(sampling(serde_json::json!({})), 0.7);
        assert_eq!(sampling(serde_json::json!({ "temperature": 0 })), 0.0);
    }
}
