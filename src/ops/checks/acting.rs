//! Models that act with other matrices than they learn (`act`): which can, and what an update makes of the difference.

use flow_model::{Objective, RatioDenominator, UpdateSettings};
use flow_pipeline::{Mistake, Node, Pipeline};
use serde_json::Value;

/// Whether a model with these settings acts with rounded matrices and learns with others.
pub fn rounded(model: &Value) -> bool {
    model["act"] == "int8"
}

/// Models that say `act` and can't act so.
pub fn mistakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, model) in pipeline.models.iter().filter(|(_, model)| model["act"].as_str().is_some_and(|act| act == "int8" || act == "f32"))
    {
        let adapted = !model["lora"].is_null() || !model["adapter"].is_null();
        let (message, help) = if model["base"].as_str().is_some_and(|base| base != "own") {
            (format!("with `base`, `{name}` acts and learns as one model, so it has no other one to act"), "leave `act` out")
        } else if adapted && model["load"].is_string() {
            let help = "write `base` in place of `act`: then the adapter learns beside the very base that acts";
            (format!("`{name}` learns an adapter, and `act` is of models that are trained whole"), help)
        } else if adapted {
            (format!("`{name}` learns an adapter, and `act` is of models that are trained whole"), "leave out `lora` or `act`")
        } else if model["head"] == "value" {
            (format!("`{name}` is a critic, which doesn't act"), "leave `act` out")
        } else if model["dtype"].as_str().is_some_and(|dtype| dtype != "f32") {
            (format!("`{name}` acts row by row and learns in f32"), "leave out `dtype` or `act`")
        } else {
            continue;
        };
        mistakes.push(Mistake::in_model(name, "act", message).help(help));
    }
    mistakes
}

/// What an update makes of rows that were drawn by rounded matrices; none where it makes nothing of how they were
/// drawn.
pub fn note(node: &Node, with: &UpdateSettings, pipeline: &Pipeline) -> Option<String> {
    let model = node.model()?;
    if with.objective != Objective::PolicyGradient || !pipeline.models.get(model).is_some_and(rounded) {
        return None;
    }
    Some(if with.old == Some(RatioDenominator::Recorded) {
        format!(
            "`{model}` acts in int8 and learns in f32, and by `old: recorded` nothing makes up for the difference; `logprob_gap` measures it, \
             `old: recomputed` weighs tokens by it"
        )
    } else {
        format!(
            "`{model}` acts in int8 and learns in f32: each token is weighed by how much likelier it is to the learning weights, at most {} times (`truncate`); \
             `logprob_gap` measures the difference",
            with.truncate
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::ops;

    /// The notes on a pipeline whose model has these settings and whose update has `with` more, or what is wrong with
    /// it.
    fn checked(model: &str, with: &str) -> Result<Vec<String>, String> {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ {model} }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }} }} }}\n  \
             group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor{with} }} }}\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).map_err(|wrong| wrong.to_string())?;
        Ok(ops::notes(&pipeline).into_iter().map(|(_, note)| note).collect())
    }

    #[test]
    fn what_makes_up_for_the_difference_is_said() {
        let notes = |with: &str| checked("new: tiny, act: int8", with).unwrap().concat();
        assert!(notes("").contains("at most 2 times"), "{}", notes(""));
        assert!(notes(", old: recomputed, truncate: 3").contains("at most 3 times"));
        assert!(notes(", old: recorded").contains("nothing makes up for"));
        assert_eq!(checked("new: tiny", "").unwrap(), [""; 0]);
        assert_eq!(checked("new: tiny, act: f32", "").unwrap(), [""; 0]);
    }

    #[test]
    fn what_cannot_act_so_is_refused_where_it_is_said() {
        let refused = |model: &str| checked(model, "").unwrap_err();
        let both = refused("load: ., base: int8, act: int8, lora: { rank: 1 }");
        assert!(both.contains("with `base`, `actor` acts and learns as one model") && both.contains("leave `act` out"), "{both}");
        assert!(refused("load: ., act: int8, lora: { rank: 1 }").contains("write `base` in place of"));
        assert!(refused("new: tiny, act: int8, lora: { rank: 1 }").contains("leave out `lora` or `act`"));
        assert!(refused("new: tiny, act: int8, head: value").contains("a critic, which doesn't act"));
        assert!(refused("load: ., act: f32, dtype: bf16").contains("leave out `dtype` or `act`"));
    }
}
