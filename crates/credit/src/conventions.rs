//! The conventions on which published methods and their code differ, each a type of its own. The defaults are GRPO as
//! published.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which discounts lie between a turn and the attempts after its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// gamma_attempt once for each attempt on the way, wherever in its own attempt the turn stands (LaMer, Eq. 4).
    #[default]
    Paper,
    /// Also gamma for each turn that is left in the turn's own attempt: one pass from the end, in LaMer's released
    /// code.
    Code,
}

/// What is subtracted from a value.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The group's mean (GRPO: SLEA-RL, section 3).
    #[default]
    Mean,
    /// The mean of the others in the group (RLOO: Ahmadian et al. 2024).
    LeaveOneOut,
    /// The second best value from the best of the group, and from each other one its own value: only the best has an
    /// advantage, best less second best (Tang et al. 2025, arXiv 2503.19595; verl's grpo_passk). Of two that are
    /// equally good neither has one.
    SecondBest,
    /// A running mean of the group's values over iterations, which begins at 0: running = decay * running + (1 - decay) *
    /// mean (RAE of SPIRAL, arXiv 2506.24119). Group by a column that lasts, such as `[type]`; nothing else is
    /// compared, so `scale: none`. Makes the column `running`.
    Ema,
    /// Nothing (REINFORCE).
    None,
}

impl Baseline {
    /// Whether it comes from the other values of the group.
    pub fn within(self) -> bool {
        !matches!(self, Baseline::Ema | Baseline::None)
    }
}

/// Which running mean `baseline: ema` subtracts. An iteration's values change it once, by their mean; SPIRAL and
/// prime-rl go trajectory by trajectory.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Ema {
    /// The one before the iteration, which its values have no part in (prime-rl).
    #[default]
    Before,
    /// The one after it.
    After,
}

/// The divisor of the difference.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The group's standard deviation, kept above 0 by eps (GRPO; EAPO, Eq. 14). Equal values without a baseline are
    /// not divided.
    #[default]
    Std,
    /// The group's mean, kept above 0 by eps (MaxRL, arXiv 2602.02710: for returns of 0 and 1 the share that was won,
    /// so that rare wins weigh more). It is defined for returns from 0 on: a group with a return below 0 is not divided,
    /// its `scale` is 1, and the metric `undivided` counts it.
    Mean,
    /// One (Dr.GRPO: Liu et al. 2025; GiGPO's variant without std).
    None,
}

/// Where eps stands in the divisor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum EpsIn {
    /// std + eps (verl's GRPO; papers divide by the std alone).
    #[default]
    Std,
    /// sqrt(variance + eps) (verl's whitening, with eps 1e-8).
    Variance,
    /// sqrt(max(variance, eps)) (OpenRLHF's whitening, with eps 1e-8 and ddof 0).
    VarianceFloor,
}

/// How a row is treated that has no other row to compare with: its group is one row, or the rows of one trajectory.
/// (With neither baseline nor scale nothing is compared, and nothing special happens.)
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Singleton {
    /// Baseline 0 and scale 1: the value itself is the advantage (GRPO in verl, which divides it by 1 + eps besides).
    Raw,
    /// The value is its own baseline: the advantage is 0 (the step advantage in GiGPO's code).
    #[default]
    Zero,
    /// As zero, and the row isn't trained on.
    Drop,
}

/// How a group of two or more is treated when all its values are equal, so that a comparison says nothing. Values are
/// equal that differ by no more than rounding: by a millionth of the largest reward or value of the group.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Equal {
    /// It is trained on: with a baseline its advantages are 0, and only a divergence from the reference moves the
    /// weights.
    #[default]
    Keep,
    /// Its rows aren't trained on (DAPO: Yu et al. 2025, section 3.2); `used` says dropped_equal_rewards.
    Drop,
}

/// How often a row counts in the statistics of its group.
///
/// A step_return, a cross_episode_return, a reward or an advantage belongs to one turn, and counts once with
/// `trajectory` as with `turn`: the papers' groups are sets of transitions (EAPO, Eq. 13; SLEA-RL, above Eq. 5): a
/// trajectory that returns to a state is in the set more than once. A trajectory is one attempt; a reflection is one by
/// itself.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// An episode's return once a trajectory, as published. (With after_return, its rows can differ: their mean
    /// counts.)
    #[default]
    Trajectory,
    /// Once a turn, as in GiGPO's released code, so that long trajectories weigh more.
    Turn,
    /// Once a response token (REINFORCE++: verl and OpenRLHF whiten over all response tokens of a batch).
    Token,
}

/// When the penalty for an invalid action is subtracted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// From the turn's reward: part of every return that the turn is in, like any other reward.
    #[default]
    BeforeReturn,
    /// From the row's value only, as in GiGPO's released code: the turns before it don't feel it.
    AfterReturn,
}
