//! What can be said of an advantage, in one struct: the estimator, the conventions on which published methods and their
//! code differ, each a field, and a preset for all of them in one word. The defaults are GRPO as published.

use super::conventions::{Baseline, Boundary, Ema, EpsIn, Equal, Penalty, Scale, Singleton, Unit};
use super::estimator::{Discounts, EstimatorName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Error, Map, Value};

/// What an advantage compares, and how.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("allOf" = only_where_read()))]
pub struct AdvantageSettings {
    /// The source of defaults for the fields that aren't given: the papers or the released code. Default: paper.
    pub preset: Preset,
    /// The value of a row. Default: episode_return.
    pub of: EstimatorName,
    /// The discount of step_return, tree_return, cross_episode_return, gae and iql from one turn to the next, of
    /// token_gae and token_return from one token to the next, from 0 to 1. Default: 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma: f64,
    /// The discount of cross_episode_return from one attempt at a task to the next, from 0 to 1. Default: 0.6 (LaMer,
    /// section 5.1).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub gamma_attempt: f64,
    /// How cross_episode_return goes from one attempt to the one before it. Default: paper.
    pub boundary: Boundary,
    /// How far gae and token_gae look past the critic: 0 one step, 1 to the end. Default: 0.95 (PPO, Schulman et al.
    /// 2017, Table 3; verl: 1).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lambda: f64,
    /// The baseline that is subtracted. Default: mean.
    pub baseline: Baseline,
    /// How much `baseline: ema` keeps of its running mean in an iteration, from 0 to 1. Default: 0.95 (SPIRAL).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub decay: f64,
    /// Which running mean `baseline: ema` subtracts. Default: before.
    pub ema: Ema,
    /// The divisor of the difference. Default: std.
    pub scale: Scale,
    /// The standard deviation divides by n - ddof: 1 for the sample's (papers and PyTorch), 0 for the population's
    /// (NumPy). Default: 1.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
    /// A constant that keeps the divisor away from 0; where it is 0 all the same, nothing is divided. Default: 1e-6.
    #[schemars(range(min = 0.0))]
    pub eps: f64,
    /// Where eps stands. Default: std.
    pub eps_in: EpsIn,
    /// How a row is treated that has no other row to compare with. Default: zero.
    pub singleton: Singleton,
    /// How a group is treated when all its values are equal. Default: keep.
    pub equal: Equal,
    /// How often a row counts in the statistics of its group. Default: trajectory.
    pub unit: Unit,
    /// The cost of an invalid action; GiGPO's scripts use 0.1. Default: 0.
    #[schemars(range(min = 0.0))]
    pub invalid_penalty: f64,
    /// When that is subtracted. Default: before_return.
    pub penalty: Penalty,
}

impl Default for AdvantageSettings {
    fn default() -> Self {
        AdvantageSettings {
            preset: Preset::default(),
            of: EstimatorName::default(),
            gamma: 1.0,
            gamma_attempt: 0.6,
            boundary: Boundary::default(),
            lambda: 0.95,
            baseline: Baseline::default(),
            decay: 0.95,
            ema: Ema::default(),
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

impl AdvantageSettings {
    /// Resolves the preset: each field as the settings give it, else as the preset has it, else its default. Fails as
    /// deserializing the settings does.
    pub fn resolve(settings: &Value) -> Result<AdvantageSettings, Error> {
        let settings = if settings.is_null() { json!({}) } else { settings.clone() };
        let AdvantageSettings { of, preset, .. } = serde_json::from_value(settings.clone())?;
        let preset = match preset {
            Preset::Paper => json!({}),
            Preset::Code => (of.estimator().code)(),
        };
        let mut whole = Map::new();
        for part in [preset, settings] {
            whole.extend(part.as_object().cloned().unwrap_or_default());
        }
        serde_json::from_value(Value::Object(whole))
    }

    /// The discounts among them.
    pub fn discounts(&self) -> Discounts {
        Discounts { gamma: self.gamma, gamma_attempt: self.gamma_attempt, boundary: self.boundary, lambda: self.lambda }
    }
}

/// The source of defaults for the fields that aren't given: the papers or the released code.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The papers': every other field has its default.
    #[default]
    Paper,
    /// The released code's. For returns and rewards that of GiGPO (verl-agent, whose GRPO for agents is the same with
    /// episodes alone): unit: turn, invalid_penalty: 0.1, penalty: after_return, and singleton: raw for an
    /// episode_return but zero for the others. For a cross_episode_return that of LaMer: boundary: code, unit: turn,
    /// and no penalty (its code takes the penalty from the episode's part alone). For an advantage, for gae, token_gae
    /// and token_return verl's whitening: unit: token, eps: 1e-8, eps_in: variance; for the gaes also lambda: 1.
    /// Everything else as published.
    Code,
}

/// That settings stand only where something reads them: what turns rewards into values has no place beside an estimator
/// that reads none, nor has a setting of one estimator beside another.
fn only_where_read() -> Value {
    let of = |name: &str| json!({ "properties": { "of": { "const": name } }, "required": ["of"] });
    let none =
        |settings: &[&str]| json!({ "properties": settings.iter().map(|name| (name.to_string(), json!(false))).collect::<Map<_, _>>() });
    let named = || EstimatorName::ALL.iter().map(|of| (of.name(), of.estimator()));
    let unrewarded = named().filter(|(_, estimator)| !estimator.rewards);
    let unrewarded =
        unrewarded.map(|(name, _)| json!({ "if": of(name), "then": none(&["gamma", "lambda", "invalid_penalty", "penalty"]) }));
    let own = named().filter(|(_, estimator)| !estimator.settings.is_empty());
    let own = own.map(|(name, estimator)| json!({ "if": { "not": of(name) }, "then": none(estimator.settings) }));
    let ema = json!({ "properties": { "baseline": { "const": "ema" } }, "required": ["baseline"] });
    let undivided = json!({ "properties": { "scale": { "const": "none" } }, "required": ["scale"] });
    let ema = json!({ "if": ema, "then": undivided, "else": none(&["decay", "ema"]) });
    unrewarded.chain(own).chain([ema]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_the_fields_and_their_ranges() {
        let settings: AdvantageSettings = serde_json::from_str(r#"{"of": "step_return", "gamma": 0.9, "baseline": "none"}"#).unwrap();
        assert_eq!(
            settings,
            AdvantageSettings { of: EstimatorName::StepReturn, gamma: 0.9, baseline: Baseline::None, ..Default::default() }
        );
        assert!(serde_json::from_str::<AdvantageSettings>(r#"{"gama": 0.9}"#).is_err());
        let schema = serde_json::to_value(schemars::schema_for!(AdvantageSettings)).unwrap();
        assert_eq!(schema["properties"]["gamma"]["maximum"], 1.0);
        assert_eq!(schema["properties"]["ddof"]["maximum"], 1);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["eps"]["default"], 1e-6);
        assert_eq!(schema["allOf"][0]["then"]["properties"]["gamma"], false);
        assert_eq!(schema["allOf"][1]["then"]["properties"]["gamma_attempt"], false);
    }

    fn resolved(settings: Value) -> AdvantageSettings {
        AdvantageSettings::resolve(&settings).unwrap()
    }

    #[test]
    fn the_paper_is_the_default() {
        assert_eq!(resolved(json!({})), AdvantageSettings::default());
        assert_eq!(resolved(json!({ "preset": "paper" })), AdvantageSettings::default());
        assert_eq!(AdvantageSettings::resolve(&Value::Null).unwrap(), AdvantageSettings::default());
        assert_eq!(
            resolved(json!({ "of": "step_return", "gamma": 0.9 })),
            AdvantageSettings { of: EstimatorName::StepReturn, gamma: 0.9, ..Default::default() }
        );
    }

    #[test]
    fn the_code_differs_by_what_is_compared() {
        let conventions = |s: &AdvantageSettings| (s.unit, s.singleton, s.invalid_penalty, s.penalty, s.eps, s.eps_in);
        let (after, before) = (Penalty::AfterReturn, Penalty::BeforeReturn);
        assert_eq!(conventions(&resolved(json!({ "preset": "code" }))), (Unit::Turn, Singleton::Raw, 0.1, after, 1e-6, EpsIn::Std));
        assert_eq!(
            conventions(&resolved(json!({ "preset": "code", "of": "step_return" }))),
            (Unit::Turn, Singleton::Zero, 0.1, after, 1e-6, EpsIn::Std)
        );
        let white = (Unit::Token, Singleton::Zero, 0.0, before, 1e-8, EpsIn::Variance);
        assert_eq!(conventions(&resolved(json!({ "preset": "code", "of": "advantage" }))), white);
        let cross = resolved(json!({ "preset": "code", "of": "cross_episode_return" }));
        assert_eq!(
            (conventions(&cross), cross.boundary, cross.gamma_attempt),
            ((Unit::Turn, Singleton::Zero, 0.0, before, 1e-6, EpsIn::Std), Boundary::Code, 0.6)
        );
        let gae = resolved(json!({ "preset": "code", "of": "gae" }));
        assert_eq!((conventions(&gae), gae.of, gae.lambda), (white, EstimatorName::Gae, 1.0));
    }

    #[test]
    fn a_field_beside_the_preset_wins() {
        let settings = resolved(json!({ "preset": "code", "unit": "trajectory", "invalid_penalty": 0, "singleton": "drop" }));
        assert_eq!((settings.unit, settings.invalid_penalty, settings.singleton), (Unit::Trajectory, 0.0, Singleton::Drop));
        assert_eq!(settings.penalty, Penalty::AfterReturn, "the others stay as the preset has them");
        assert!(AdvantageSettings::resolve(&json!({ "preset": "code", "units": "turn" })).is_err());
    }

    #[test]
    fn what_an_estimator_says_of_its_code_can_be_read() {
        for of in EstimatorName::ALL {
            let settings = resolved(json!({ "preset": "code", "of": of.name() }));
            assert_eq!((settings.of, settings.preset), (*of, Preset::Code));
            let fields = serde_json::to_value(AdvantageSettings::default()).unwrap();
            assert!(of.estimator().settings.iter().all(|setting| fields.get(setting).is_some()), "{}", of.name());
        }
    }
}
