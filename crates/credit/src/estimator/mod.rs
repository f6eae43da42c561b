//! THE table of estimators: what a row can be worth. An estimator is a file that reads like its paper, named as it is
//! in YAML, and a line here; settings, schema, checks, presets and the operator ask the table.

mod advantage;
mod cross_episode_return;
mod episode_return;
mod gae;
mod iql;
mod reward;
mod step_return;
mod token_gae;
mod token_return;
mod tree_return;

pub use episode_return::episode_return;
pub use gae::{explained_variance, gae, targets};
pub use step_return::step_return;

use super::columns::Columns;
use super::conventions::Boundary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::ops::Range;

/// What an estimator says about itself.
pub struct Estimator {
    /// The value of each row, from whole trajectories.
    pub values: fn(&EstimatorInput) -> Vec<f64>,
    /// The columns that it reads beside the reward: those of `f32` by [`Columns::named`].
    pub needs: &'static [&'static str],
    /// The settings that no other estimator reads: beside another they are refused.
    pub settings: &'static [&'static str],
    /// Whether rewards make the values. Beside an estimator that takes them from elsewhere, discounts and penalties are
    /// refused.
    pub rewards: bool,
    /// Whether all rows of a trajectory have one value, so that it counts once with `unit: trajectory`.
    pub whole: bool,
    /// For one that values each token of a response, and not the turn as a whole, the column of lists that it reads: a
    /// number a token. What it is given then has a row a token, and that column among its named ones (`token_values` as
    /// `value`).
    pub tokens: Option<&'static str>,
    /// What a critic should have expected of each row, the column `value_target`; for estimators that read a critic.
    pub target: Option<Target>,
    /// The settings that differ in the released code (`preset: code`), as they would stand in YAML.
    pub code: fn() -> Value,
}

/// What a critic should have expected, from the values and what is known of the rows.
pub type Target = fn(&[f64], &Columns) -> Vec<f64>;

impl Estimator {
    /// One that values each turn by rewards, and whose code is as published: what the others differ from.
    const PLAIN: Estimator = Estimator {
        values: |input| vec![0.0; input.rewards.len()],
        needs: &[],
        settings: &[],
        rewards: true,
        whole: false,
        tokens: None,
        target: None,
        code: || json!({}),
    };
}

/// What an estimator is given: rows in the order of their names, a trajectory's one after the other.
pub struct EstimatorInput<'a> {
    /// What is known of each row.
    pub columns: &'a Columns<'a>,
    /// The rows of each trajectory: of an attempt, or of the reflection that it is.
    pub episodes: &'a [Range<usize>],
    /// The reward of each row, less the penalty where that comes before the return.
    pub rewards: &'a [f64],
    pub discounts: Discounts,
}

/// How much later rewards count. The fields are those of [`super::AdvantageSettings`].
#[derive(Clone, Copy, Debug)]
pub struct Discounts {
    pub gamma: f64,
    pub gamma_attempt: f64,
    pub boundary: Boundary,
    pub lambda: f64,
}

/// Makes the enum of the values of `of` and what belongs to each, from a line each.
macro_rules! table {
    ($($(#[$about:meta])* $name:ident => $file:ident,)*) => {
        /// The value of a row. A reflection (`phase` reflect) is no turn of play: its reward and its penalty are its
        /// own alone, and so is all that it is worth, except by cross_episode_return.
        #[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[serde(rename_all = "snake_case")]
        pub enum EstimatorName { $($(#[$about])* $name,)* }

        impl EstimatorName {
            /// All of them, in the table's order.
            pub const ALL: &[EstimatorName] = &[$(EstimatorName::$name),*];

            /// As it is called in YAML.
            pub fn name(self) -> &'static str {
                match self { $(EstimatorName::$name => stringify!($file)),* }
            }

            /// What it says about itself.
            pub fn estimator(self) -> &'static Estimator {
                match self { $(EstimatorName::$name => &$file::ESTIMATOR),* }
            }
        }
    };
}

table! {
    /// The sum of the trajectory's rewards (EMPO2, section 2: GRPO).
    #[default]
    EpisodeReturn => episode_return,
    /// The discounted sum of the rewards from this turn on (GiGPO; SLEA-RL, Eq. 5; EAPO, Eq. 4).
    StepReturn => step_return,
    /// The discounted sum of the rewards from this turn on, to the end of the trial: of this attempt and of those after
    /// it (LaMer, Eq. 4). A reflection is worth what the first turn of the next attempt is (section 4: it is trained by
    /// the reward of the next episode).
    CrossEpisodeReturn => cross_episode_return,
    /// Where episodes branch (`branch` of `rollout`): the reward of this turn and the discounted mean over the answers
    /// to the next prompt, each worth its own tree_return: the episode's next turn, and the branches that begin there
    /// (AT2PO, arXiv 2601.04767). step_return is the return of the row's own sample alone.
    TreeReturn => tree_return,
    /// The reward of the turn alone (EAPO, Eq. 14 read literally).
    Reward => reward,
    /// Generalised advantage estimation from a critic's column `value` (PPO; Schulman et al. 2016). Also makes
    /// `value_target`.
    Gae => gae,
    /// The same from token to token, from the column `token_values` (PPO as language models are trained with it). Also
    /// makes `token_advantages` and `token_targets`.
    TokenGae => token_gae,
    /// The target of each token's value in implicit Q-learning, from the column `token_values` (Kostrikov et al. 2022;
    /// Retrospex). Also makes `token_advantages` and `token_targets`.
    Iql => iql,
    /// The discounted sum of the rewards from this token on: the turn's with its last token, and those of the column
    /// `token_rewards`, such as a divergence by `reward` with `kl_per: token` (REINFORCE++). Makes `token_advantages`.
    TokenReturn => token_return,
    /// The advantage that a node upstream made, to be compared once more (the second step of REINFORCE++ with
    /// baseline).
    Advantage => advantage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimator_is_called_as_its_file() {
        for name in EstimatorName::ALL {
            assert_eq!(serde_json::to_value(name).unwrap(), name.name());
        }
        assert_eq!(EstimatorName::default().name(), "episode_return");
    }
}
