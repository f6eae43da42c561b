//! The conventions on which published methods and their code differ, each a field. The defaults are GRPO as published.

use super::preset::Preset;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

/// What an advantage compares, and how.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("allOf" = only_where_read()))]
pub struct AdvantageSettings {
    /// Whose conventions hold for the fields that aren't given. Default: paper.
    pub preset: Preset,
    /// The value of a row. Default: episode_return.
    pub of: Of,
    /// The discount of step_return, cross_episode_return and gae from one turn to the next, from 0 to 1. Default: 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma: f64,
    /// The discount of cross_episode_return from one attempt at a task to the next, from 0 to 1. Default: 0.6 (LaMer, section 5.1).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma_attempt: f64,
    /// How cross_episode_return goes from one attempt to the one before it. Default: paper.
    pub boundary: Boundary,
    /// How far gae looks past the critic: 0 one turn, 1 to the end. Default: 0.95 (PPO, Schulman et al. 2017, Table 3; verl: 1).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lambda: f64,
    /// What is subtracted. Default: mean.
    pub baseline: Baseline,
    /// What the difference is divided by. Default: std.
    pub scale: Scale,
    /// The standard deviation divides by n - ddof: 1 for the sample's (papers and PyTorch), 0 for the population's (NumPy). Default: 1.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
    /// What keeps the divisor away from 0; where it is 0 all the same, nothing is divided. Default: 1e-6.
    #[schemars(range(min = 0.0))]
    pub eps: f64,
    /// Where eps stands. Default: std.
    pub eps_in: EpsIn,
    /// What becomes of a row with nobody to compare it with. Default: zero.
    pub singleton: Singleton,
    /// What becomes of a group whose values are all equal. Default: keep.
    pub equal: Equal,
    /// How often a row counts in the statistics of its group. Default: trajectory.
    pub unit: Unit,
    /// What an invalid action costs; GiGPO's scripts use 0.1. Default: 0.
    #[schemars(range(min = 0.0))]
    pub invalid_penalty: f64,
    /// When that is subtracted. Default: before_return.
    pub penalty: Penalty,
}

impl Default for AdvantageSettings {
    fn default() -> Self {
        AdvantageSettings {
            preset: Preset::default(),
            of: Of::default(),
            gamma: 1.0,
            gamma_attempt: 0.6,
            boundary: Boundary::default(),
            lambda: 0.95,
            baseline: Baseline::default(),
            scale: Scale::default(),
            ddof: 1,
            eps: 1e-6,
            eps_in: EpsIn::default(),
            singleton: Singleton::default(),
            equal: Equal::default(),
            unit: Unit::default(),
            invalid_penalty: 0.0,
            penalty: Penalty::default(),
        }
    }
}

/// That settings stand only where something reads them: an advantage made upstream is taken as it is, so what turns rewards into
/// values has no place beside it; and only a cross_episode_return knows of attempts.
fn only_where_read() -> Value {
    let of = |value: &str| json!({ "properties": { "of": { "const": value } }, "required": ["of"] });
    json!([
        {
            "if": of("advantage"),
            "then": { "properties": { "gamma": false, "lambda": false, "invalid_penalty": false, "penalty": false } },
        },
        {
            "if": { "not": of("cross_episode_return") },
            "then": { "properties": { "gamma_attempt": false, "boundary": false } },
        },
    ])
}

/// The value of a row. A reflection (`phase` reflect) is no turn of play: its reward and its penalty are its own alone, and so is all
/// that it is worth, except by cross_episode_return.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// The sum of the trajectory's rewards (EMPO2, section 2: GRPO).
    #[default]
    EpisodeReturn,
    /// The discounted sum of the rewards from this turn on (GiGPO; SLEA-RL, Eq. 5; EAPO, Eq. 4).
    StepReturn,
    /// The discounted sum of the rewards from this turn on, to the end of the trial: of this attempt and of those after it (LaMer, Eq. 4).
    /// A reflection is worth what the first turn of the next attempt is (section 4: it is trained by the reward of the next episode).
    CrossEpisodeReturn,
    /// The reward of the turn alone (EAPO, Eq. 14 read literally).
    Reward,
    /// Generalised advantage estimation from a critic's column `value` (PPO; Schulman et al. 2016). Also makes `value_target`.
    Gae,
    /// The advantage that a node upstream made, to be compared once more (the second step of REINFORCE++ with baseline).
    Advantage,
}

/// Which discounts lie between a turn and the attempts after its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// gamma_attempt once for each attempt on the way, wherever in its own attempt the turn stands (LaMer, Eq. 4).
    #[default]
    Paper,
    /// Also gamma for each turn that is left in the turn's own attempt: one pass from the end, in LaMer's released code.
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
    /// Nothing (REINFORCE).
    None,
}

/// What the difference is divided by.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The group's standard deviation, kept above 0 by eps (GRPO; EAPO, Eq. 14).
    #[default]
    Std,
    /// One (Dr.GRPO: Liu et al. 2025; GiGPO's variant without std).
    None,
}

/// Where eps stands in the divisor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum EpsIn {
    /// std + eps (GRPO: SLEA-RL, section 3; verl's GRPO).
    #[default]
    Std,
    /// sqrt(variance + eps) (verl's whitening, with eps 1e-8).
    Variance,
    /// sqrt(max(variance, eps)) (OpenRLHF's whitening, with eps 1e-8 and ddof 0).
    VarianceFloor,
}

/// What becomes of a row with nobody to compare it with: its group is one row, or the rows of one trajectory.
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

/// What becomes of a group of two or more whose values are all equal, so that comparing them says nothing.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Equal {
    /// It is trained on: with a baseline its advantages are 0, and only a divergence from the reference moves the weights.
    #[default]
    Keep,
    /// Its rows aren't trained on (DAPO: Yu et al. 2025, section 3.2); `used` says dropped_equal_rewards.
    Drop,
}

/// How often a row counts in the statistics of its group.
///
/// A step_return, a cross_episode_return, a reward or an advantage belongs to one turn, and counts once with `trajectory`
/// as with `turn`: the papers' groups are sets of transitions (EAPO, Eq. 13; SLEA-RL, above Eq. 5), in which a trajectory
/// that comes back to a state stands more than once. A trajectory is one attempt; a reflection is one by itself.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// An episode's return once a trajectory, as published. (With after_return, its rows can differ: their mean counts.)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_the_fields_and_their_ranges() {
        let settings: AdvantageSettings = serde_json::from_str(r#"{"of": "step_return", "gamma": 0.9, "baseline": "none"}"#).unwrap();
        assert_eq!(settings, AdvantageSettings { of: Of::StepReturn, gamma: 0.9, baseline: Baseline::None, ..Default::default() });
        assert!(serde_json::from_str::<AdvantageSettings>(r#"{"gama": 0.9}"#).is_err());
        let schema = serde_json::to_value(schemars::schema_for!(AdvantageSettings)).unwrap();
        assert_eq!(schema["properties"]["gamma"]["maximum"], 1.0);
        assert_eq!(schema["properties"]["ddof"]["maximum"], 1);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["eps"]["default"], 1e-6);
        assert_eq!(schema["allOf"][0]["then"]["properties"]["gamma"], false);
        assert_eq!(schema["allOf"][1]["then"]["properties"]["gamma_attempt"], false);
    }
}
