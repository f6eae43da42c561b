//! What `reward` weighs.

use super::explore::Explore;
use super::format::FormatPer;
use super::overlong::Overlong;
use super::score::ScoreOf;
use super::task::TaskOf;
use flow_core::defaults::{hundredths, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of `reward`: new reward = task * reward + won * (the turn won) + format * (an action could be read) +
/// invalid * (it could not be carried out)
/// + explore.weight * (R_explore of EAPO, Eq. 9) + scores * (what `score` made) + novelty * (the column `novelty`) -
///   overlong.weight * (how far into the buffer the response went, from 0 to 1) - kl * (how far the response is from
///   the reference, in nats).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RewardWeights {
    /// Weight of the environment's reward.
    #[serde(default = "number::<f32, 1>")]
    pub task: f32,
    /// Which part of an attempt's rewards a turn's is, before its weight.
    #[serde(default)]
    pub task_of: TaskOf,
    /// By `task_of: to_go`, what a turn of delay costs: 0.9 in EAPO (table 3).
    #[serde(default = "hundredths::<f64, 90>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma: f64,
    /// Earned by the turn that wins; 10 with `task: 0` in LaMer.
    #[serde(default)]
    pub won: f32,
    /// Earned by a response from which an action could be read and which has the tags of `tags`; 0.5 in EAPO (table 3).
    #[serde(default)]
    pub format: f32,
    /// The tags that a response must have for `format` besides an action that can be read, each closed: [think,
    /// explore, memory, action] in EAPO. None unless given.
    #[serde(default)]
    #[schemars(inner(regex(pattern = "^[a-z][a-z0-9_]{0,31}$")))]
    pub tags: Vec<String>,
    /// The unit that `format` pays for.
    #[serde(default)]
    pub format_per: FormatPer,
    /// The reward of exploration; none unless given.
    pub explore: Option<Explore>,
    /// Added for an action that could not be carried out; -0.1 in GiGPO's scripts.
    #[serde(default)]
    pub invalid: f32,
    /// The new score of a turn; an episode has the score of its last turn.
    #[serde(default)]
    pub score_of: ScoreOf,
    /// Weights of scores, by the names of the targets of `score` that made them: a learned reward, or a judge's.
    #[serde(default)]
    pub scores: BTreeMap<String, f32>,
    /// Weight of the column `novelty`, which the operator of that name makes (EMPO2, section 4.2: intrinsic rewards).
    #[serde(default)]
    pub novelty: f32,
    /// The cost of a long response (DAPO, Eq. 13); nothing unless given.
    pub overlong: Option<Overlong>,
    /// The weight of the divergence from the reference as a part of the reward (REINFORCE++, Hu 2025; InstructGPT,
    /// Ouyang et al. 2022, Eq. 2): the sum over the response's tokens of the log-probability with which each was drawn,
    /// less that under the reference. So a turn also answers for how far the turns after it stray, which a divergence
    /// in the loss leaves out. Needs `model`.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub kl: f32,
    /// The unit that is charged with that divergence.
    #[serde(default)]
    pub kl_per: KlPer,
    /// The model that played, for `kl`.
    #[schemars(extend("x-names" = "model"))]
    pub model: Option<String>,
    /// The reference model, for `kl`; `model` as it was when the run began when left out.
    #[schemars(extend("x-names" = "model"))]
    pub reference: Option<String>,
    /// The temperature of the reference's logits, for `kl`, in place of the temperature that each row was drawn at
    /// (column `temperature`). When left out: that one; 1 for rows without it, as in old logs.
    #[schemars(range(max = 10.0), extend("exclusiveMinimum" = 0.0))]
    pub temperature: Option<f32>,
}

impl RewardWeights {
    /// The smaller rewards beside the task's: the settings whose weights are at most a tenth of the task's, with those
    /// weights. Novelty is one at any weight, since 1/n falls with the visits.
    pub fn small(&self) -> Vec<(&'static str, f32)> {
        let most = self.task.abs().max(self.won.abs()) / 10.0;
        let explore = self.explore.as_ref().map_or(0.0, |explore| explore.weight);
        let rewards = [("format", self.format), ("invalid", self.invalid), ("novelty", self.novelty), ("explore.weight", explore)];
        rewards.into_iter().filter(|(name, weight)| *weight != 0.0 && (weight.abs() <= most || *name == "novelty")).collect()
    }

    /// The settings by which a reward can be below 0: weights below 0, and costs.
    pub fn subtracted(&self) -> Vec<&'static str> {
        let explore = self.explore.as_ref().map_or(0.0, |explore| explore.weight);
        let (overlong, scores) =
            (self.overlong.as_ref().map_or(0.0, |cost| cost.weight), self.scores.values().copied().fold(0.0, f32::min));
        let weights = [
            ("task", self.task),
            ("won", self.won),
            ("format", self.format),
            ("explore.weight", explore),
            ("invalid", self.invalid),
            ("scores", scores),
            ("novelty", self.novelty),
            ("overlong", -overlong),
            ("kl", -self.kl),
        ];
        weights.into_iter().filter(|(_, weight)| *weight < 0.0).map(|(name, _)| name).collect()
    }

    /// Whether a row's numbers depend on the other turns of its attempt.
    pub fn whole_attempts(&self) -> bool {
        self.task_of != TaskOf::Turn || self.score_of != ScoreOf::World
    }
}

/// What is charged with a divergence from the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KlPer {
    /// The turn: its reward is lowered by the sum over its tokens (RLOO, Ahmadian et al. 2024, where a response is one
    /// action).
    #[default]
    Turn,
    /// Each token, with its own part, in the column `token_rewards`, which `advantage` reads by `of: token_return`
    /// (REINFORCE++).
    Token,
}
