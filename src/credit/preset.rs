//! Where a paper and its released code differ: all of it in one word, and each difference a field that can be given beside it.

use super::settings::{AdvantageSettings, Boundary, EpsIn, Of, Penalty, Singleton, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Error, Value};

/// Whose conventions hold for the fields that aren't given.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The papers': every other field has its default.
    #[default]
    Paper,
    /// The released code's. For returns and rewards that of GiGPO (verl-agent, whose GRPO for agents is the same with
    /// episodes alone): unit: turn, invalid_penalty: 0.1, penalty: after_return, and singleton: raw for an
    /// episode_return but zero for the others. For a cross_episode_return that of LaMer: boundary: code, unit: turn, and no
    /// penalty (its code takes the penalty from the episode's part alone). For an advantage and for gae verl's whitening: unit: token, eps: 1e-8,
    /// eps_in: variance; for gae also lambda: 1. Everything else as published.
    Code,
}

impl Preset {
    /// What it says about an advantage of `of`.
    fn settings(self, of: Of) -> AdvantageSettings {
        let paper = AdvantageSettings { of, preset: self, ..Default::default() };
        match (self, of) {
            (Preset::Paper, _) => paper,
            (Preset::Code, Of::Advantage) => AdvantageSettings { unit: Unit::Token, eps: 1e-8, eps_in: EpsIn::Variance, ..paper },
            (Preset::Code, Of::Gae) => AdvantageSettings { of, lambda: 1.0, ..self.settings(Of::Advantage) },
            (Preset::Code, Of::CrossEpisodeReturn) => AdvantageSettings { unit: Unit::Turn, boundary: Boundary::Code, ..paper },
            (Preset::Code, _) => {
                let singleton = if of == Of::EpisodeReturn { Singleton::Raw } else { Singleton::Zero };
                AdvantageSettings { unit: Unit::Turn, invalid_penalty: 0.1, penalty: Penalty::AfterReturn, singleton, ..paper }
            }
        }
    }
}

impl AdvantageSettings {
    /// The settings that a node means: each field as it is given, else as the preset has it. Fails as reading the settings does.
    pub fn meant(given: &Value) -> Result<AdvantageSettings, Error> {
        let given = if given.is_null() { json!({}) } else { given.clone() };
        let AdvantageSettings { of, preset, .. } = serde_json::from_value(given.clone())?;
        let mut whole = serde_json::to_value(preset.settings(of))?;
        if let (Some(whole), Value::Object(given)) = (whole.as_object_mut(), given) {
            whole.extend(given);
        }
        serde_json::from_value(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meant(given: Value) -> AdvantageSettings {
        AdvantageSettings::meant(&given).unwrap()
    }

    #[test]
    fn the_paper_is_the_default() {
        assert_eq!(meant(json!({})), AdvantageSettings::default());
        assert_eq!(meant(json!({ "preset": "paper" })), AdvantageSettings::default());
        assert_eq!(AdvantageSettings::meant(&Value::Null).unwrap(), AdvantageSettings::default());
        assert_eq!(
            meant(json!({ "of": "step_return", "gamma": 0.9 })),
            AdvantageSettings { of: Of::StepReturn, gamma: 0.9, ..Default::default() }
        );
    }

    #[test]
    fn the_code_differs_by_what_is_compared() {
        let said = |s: &AdvantageSettings| (s.unit, s.singleton, s.invalid_penalty, s.penalty, s.eps, s.eps_in);
        let (after, before) = (Penalty::AfterReturn, Penalty::BeforeReturn);
        assert_eq!(said(&meant(json!({ "preset": "code" }))), (Unit::Turn, Singleton::Raw, 0.1, after, 1e-6, EpsIn::Std));
        assert_eq!(
            said(&meant(json!({ "preset": "code", "of": "step_return" }))),
            (Unit::Turn, Singleton::Zero, 0.1, after, 1e-6, EpsIn::Std)
        );
        let white = (Unit::Token, Singleton::Zero, 0.0, before, 1e-8, EpsIn::Variance);
        assert_eq!(said(&meant(json!({ "preset": "code", "of": "advantage" }))), white);
        let cross = meant(json!({ "preset": "code", "of": "cross_episode_return" }));
        assert_eq!(
            (said(&cross), cross.boundary, cross.gamma_attempt),
            ((Unit::Turn, Singleton::Zero, 0.0, before, 1e-6, EpsIn::Std), Boundary::Code, 0.6)
        );
        let gae = meant(json!({ "preset": "code", "of": "gae" }));
        assert_eq!((said(&gae), gae.of, gae.lambda), (white, Of::Gae, 1.0));
    }

    #[test]
    fn a_field_beside_the_preset_wins() {
        let found = meant(json!({ "preset": "code", "unit": "trajectory", "invalid_penalty": 0, "singleton": "drop" }));
        assert_eq!((found.unit, found.invalid_penalty, found.singleton), (Unit::Trajectory, 0.0, Singleton::Drop));
        assert_eq!(found.penalty, Penalty::AfterReturn, "the others stay as the preset has them");
        assert!(AdvantageSettings::meant(&json!({ "preset": "code", "units": "turn" })).is_err());
    }
}
