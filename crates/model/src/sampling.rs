//! What a pipeline can say about sampling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How answers are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Divides the logits; 0 always takes the likeliest token.
    #[schemars(range(min = 0.0))]
    pub temperature: f64,
    /// Samples from the most likely tokens that together reach this probability; 1 samples from all.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: f64,
    /// Samples from this many most likely tokens, before `top_p` is applied; 0 samples from all.
    pub top_k: usize,
    /// Leaves out tokens that are less likely than this share of the likeliest one, before `top_k` is applied; 0 leaves
    /// out none.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_p: f64,
    /// Makes what the prompt or a free answer has said less likely: divides logits above 0 by this, and multiplies
    /// others by it; 1 changes nothing.
    #[schemars(range(min = 0.01, max = 2.0))]
    pub repetition_penalty: f64,
    /// Lowers the logit of a token that a free answer has said by this.
    #[schemars(range(min = -2.0, max = 2.0))]
    pub presence_penalty: f64,
    /// The same for each time that it has said it.
    #[schemars(range(min = -2.0, max = 2.0))]
    pub frequency_penalty: f64,
    /// Texts that end a free answer, which keeps its tokens up to the one that completes such a text.
    pub stop: Vec<String>,
    /// The most tokens of a free answer. A choice is always written to its end.
    #[schemars(range(min = 1))]
    pub max_tokens: usize,
}

impl Sampling {
    /// What the logits are divided by for the log-probabilities that are recorded: the temperature, or 1 where the
    /// likeliest token is taken.
    pub fn divisor(&self) -> f64 {
        if self.temperature > 0.0 {
            self.temperature
        } else {
            1.0
        }
    }

    /// Whether earlier tokens make a token less likely.
    pub fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }

    /// Whether some tokens can't be drawn.
    pub fn truncates(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            stop: vec![],
            max_tokens: 64,
        }
    }
}
