//! How many answers an agent chooses among in a turn, and by which question.

use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many branches there are in a turn, and what one is worth.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BranchSettings {
    /// Answers that are sampled in a turn; the first is the one that would be given without branches. 5 in the paper.
    #[serde(default = "number::<usize, 5>")]
    #[schemars(range(min = 2, max = 64))]
    pub samples: usize,
    /// The question to the policy about a branch: a template, or a file with one, of the `observation`, the `answer`,
    /// its `action` and its `parts` by tag. Where the model has a chat template it is the turn of a user. Without it a
    /// branch is worth how likely the policy finds its own answer: the geometric mean of the tokens' probabilities, as
    /// they were sampled.
    #[schemars(extend("x-names" = "template"))]
    pub ask: Option<String>,
    /// With `ask`: a branch is worth how likely the policy finds this text behind it, likewise. It may have the same
    /// places; it is never a file's name.
    pub say: Option<String>,
}
