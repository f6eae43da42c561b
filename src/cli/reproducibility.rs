//! What a pipeline promises of its rows, by where its models are computed.

use flow_pipeline::Pipeline;
use serde_json::Value;

/// How far a run repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Everything is computed by this program.
    Own,
    /// Servers generate.
    Served,
    /// Other processes learn.
    Trained,
    /// Somebody else's server learns.
    Hosted,
}

impl Promise {
    /// The weakest promise of the pipeline's models; none where it has no model.
    pub fn of(pipeline: &Pipeline) -> Option<Promise> {
        let of = |model: &Value| {
            if !model["train"]["tinker"].is_null() {
                Promise::Hosted
            } else if !model["train"].is_null() {
                Promise::Trained
            } else if !model["serve"].is_null() || !model["openai"].is_null() {
                Promise::Served
            } else {
                Promise::Own
            }
        };
        pipeline.models.values().map(of).max()
    }

    /// Its name and meaning, where models are computed on this device.
    pub fn text(self, device: &str) -> String {
        match self {
            Promise::Own if device.starts_with("cuda") => {
                "L0: computed here, on a GPU: two runs may differ in the last bits, and learning from the \
                                                            log repeats"
                    .into()
            }
            Promise::Own => "L0: computed here: the same rows, bit for bit, on any number of workers and processes".into(),
            Promise::Served => {
                "L1: servers generate: rows hold exactly the sampled tokens, and learning from the log repeats bit for bit".into()
            }
            Promise::Hosted => {
                "below L2: another's server learns: what it makes of a gradient is measured when the run begins, its rounding and batching \
                                are its own, and to go on needs the states that it keeps"
                    .into()
            }
            Promise::Trained => {
                "L2: other processes learn: it repeats on the same number of them, and is equal up to a measured bound on others".into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Promise;
    use crate::ops;

    fn promise(models: &str) -> Option<Promise> {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ {models} }}\nnodes:\n  tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 3, decode: free }} }} }}\nlog: [rollout]\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap_or_else(|wrong| panic!("{wrong}"));
        Promise::of(&pipeline)
    }

    #[test]
    fn what_is_promised_follows_from_the_models() {
        let hosted = "actor: { load: ., lora: { rank: 1, alpha: 32 }, train: { tinker: \"http://a\" } }";
        assert_eq!(promise(hosted), Some(Promise::Hosted));
        assert_eq!(promise("actor: { new: tiny }"), Some(Promise::Own));
        assert_eq!(promise("actor: { openai: \"http://a/v1\", model: m }"), Some(Promise::Served));
        assert!(Promise::Own.text("cuda, H100").contains("may differ") && Promise::Own.text("cpu").contains("bit for bit"));
    }
}
