//! What `objective: distill`, `reference_ema` and `weigh_by` need: a learner and a teacher that have distributions, and
//! a column of numbers.

use flow_core::row::{kind, Kind};
use flow_model::{Objective, UpdateSettings};
use flow_pipeline::{Mistake, Node, Pipeline};

/// Models that learn in a trainer, which gives a token's log-probability and not what else could have been written, and
/// columns of no numbers.
pub fn mistakes(node: &Node, with: &UpdateSettings, pipeline: &Pipeline) -> Vec<Mistake> {
    let trains = |model: &str| pipeline.models.get(model).is_some_and(|model| model["train"].is_object());
    let mistake = |at: &str, message: String, help: &str| Mistake::in_node(node, &["with", at], message).help(help);
    let mut mistakes = Vec::new();
    let distills = with.objective == Objective::Distill;
    let reward = "leave `train` out, or take the divergence of the token that was drawn, by `reward`: pipelines/opd-sokoban.yaml";
    for (at, model) in [("objective", node.model()), ("reference", with.reference.as_deref())] {
        if let Some(model) = model.filter(|model| distills && trains(model)) {
            let message =
                format!("`{model}` learns in a trainer, which tells how likely a token is and not what else could have been written");
            mistakes.push(mistake(at, message, reward));
        }
    }
    if let Some(model) = node.model().filter(|model| with.reference_ema.is_some() && trains(model)) {
        let message = format!("`{model}` learns in a trainer, which keeps no mean of its weights");
        mistakes.push(mistake("reference_ema", message, "leave `train` out, or name another model as `reference`"));
    }
    let numbers = |column: &String| matches!(kind(column), None | Some(Kind::F32 | Kind::F32List));
    if let Some(column) = with.weigh_by.as_ref().filter(|column| !numbers(column)) {
        let message = format!("`weigh_by` takes a column of numbers, and `{column}` is none");
        mistakes.push(mistake("weigh_by", message, "`derive` makes one: `derived_weight: \"case when won then 1.0 else 0.0 end\"`"));
    }
    mistakes
}
