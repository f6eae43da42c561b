//! What a run promises of itself: which of its bits another run has again.

use super::remote;
use crate::pipeline::Pipeline;
use serde_json::Value;

/// Their names.
const LEVELS: [&str; 3] = ["L0", "L1", "L2"];

/// The levels, from the strongest promise down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// All is computed here.
    OwnEngine,
    /// A server generates.
    GenerationElsewhere,
    /// A trainer learns.
    LearningElsewhere,
}

impl Promise {
    /// What `pipeline` promises: as much as its weakest model.
    pub fn of(pipeline: &Pipeline) -> Promise {
        Promise::of_models(pipeline.models.values())
    }

    fn of_models<'a>(models: impl Iterator<Item = &'a Value>) -> Promise {
        let of = |model: &Value| match () {
            () if model["train"].is_object() => Promise::LearningElsewhere,
            () if model["serve"].is_object() || remote(model) => Promise::GenerationElsewhere,
            () => Promise::OwnEngine,
        };
        models.map(of).max().unwrap_or(Promise::OwnEngine)
    }

    /// Its name, as a manifest has it.
    pub fn level(self) -> &'static str {
        LEVELS[self as usize]
    }

    /// The promise of that name; the strongest for one that an older program didn't write.
    pub fn named(level: &str) -> Promise {
        match level {
            "L1" => Promise::GenerationElsewhere,
            "L2" => Promise::LearningElsewhere,
            _ => Promise::OwnEngine,
        }
    }

    /// The promise in words; nothing where everything is kept.
    pub fn weaker(self) -> Option<&'static str> {
        match self {
            Promise::OwnEngine => None,
            Promise::GenerationElsewhere => {
                Some("L1, generation elsewhere: rows are exactly what was sampled, and learning from the log repeats bit for bit; playing again may not")
            }
            Promise::LearningElsewhere => Some(
                "L2, learning elsewhere: rows are exactly what was sampled; learning from them repeats on the same number of ranks, and up to rounding on \
                 another",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pipeline_promises_as_much_as_its_weakest_model() {
        let of = |models: Value| Promise::of_models(models.as_object().unwrap().values()).level();
        let (own, served, trained) = (json!({ "new": "tiny" }), json!({ "load": "m", "serve": {} }), json!({ "load": "m", "train": {} }));
        assert_eq!(of(json!({})), "L0");
        assert_eq!(of(json!({ "a": own })), "L0");
        assert_eq!(of(json!({ "a": own, "b": served })), "L1");
        assert_eq!(of(json!({ "a": { "openai": "http://127.0.0.1:1/v1" } })), "L1");
        assert_eq!(of(json!({ "a": trained, "b": served })), "L2");
        assert!(LEVELS.iter().all(|level| Promise::named(level).level() == *level));
    }
}
