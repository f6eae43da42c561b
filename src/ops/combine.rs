//! `combine`: a weighted sum of advantages over the same rows, joined by name. GiGPO is episode + w * step
//! (Eq. 8 of its paper), SLEA-RL the same with clusters.

use super::advantage::of_tokens;
use super::checks::upstream::upstream;
use super::operator::{settings, Hooks, Operator, Settings};
use flow_credit::rows::{combine, Over};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_pipeline::{Carries, Input, Mistake, Node, Pipeline, Port, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use timely::dataflow::Scope;

/// Settings of `combine`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Combine {
    /// The weight of each input, by its name; 1 unless given.
    #[serde(default)]
    #[schemars(extend("x-keys" = "inputs"))]
    weights: BTreeMap<String, f32>,
    /// The terms of a row's sum.
    #[serde(default)]
    over: Over,
}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "combine",
    about: "a weighted sum of advantages over the same rows",
    role: Role::Judges,
    ports: &[Port::new(
        "*",
        "rows with an advantage; the first input's other columns are kept",
        Carries::Rows,
        &["task", "advantage", "used"],
    )],
    keeps: true,
    adds: &["advantage", "used"],
    settings: Settings::of::<Combine>(),
    outside: render,
    inside: None,
    hooks: Hooks { mistakes, ..Hooks::NONE },
};

/// Inputs whose advantages are those of tokens.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let by_token =
        |input: &&Input| pipeline.node(&input.from).is_some_and(|from| of_tokens(from) || upstream(pipeline, from).any(of_tokens));
    let mistake = |input: &Input| {
        let message = format!("`{}` adds advantages of turns, and those of `{}` are of tokens", node.id, input.from);
        Mistake::in_node(node, &["inputs", &input.port], message)
            .help("give it an `advantage` with another `of` than `token_gae`, `token_return` and `iql`")
    };
    node.inputs.iter().filter(by_token).map(mistake).collect()
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Combine>(node)?;
    if let Some(stranger) = with.weights.keys().find(|w| !ports.iter().any(|(p, _)| p == *w)) {
        let names: Vec<&str> = ports.iter().map(|(p, _)| p.as_str()).collect();
        return Err(format!("weights: there is no input `{stranger}`; the inputs are {}", names.join(", ")).into());
    }
    let weights: Vec<f32> = ports.iter().map(|(p, _)| with.weights.get(p).copied().unwrap_or(1.0)).collect();
    // One key for all inputs, so that a row and its partners meet.
    let inputs = ports.into_iter().map(|(_, edge)| (edge, Route::by(&["task"]))).collect();
    let shape = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Worker };
    Ok(stage(shape, ctx, move |_, rows| Ok(combine(&rows, &weights, with.over)?)))
}
