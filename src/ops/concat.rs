//! `concat`: the rows of several nodes as one, such as of rollouts in several environments: their groups stay apart,
//! since no task is in two of them, and one update learns from all.

use super::operator::{Hooks, Operator, Settings};
use flow_core::row::NAME;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_pipeline::{Carries, Mistake, Node, Pipeline, Port, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use timely::dataflow::Scope;

/// It has no settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Concat {}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "concat",
    about: "the rows of several nodes as one, such as of rollouts in several environments",
    role: Role::Judges,
    ports: &[Port::new("*", "rows of different tasks, with the same columns", Carries::Rows, &NAME)],
    keeps: true,
    adds: &[],
    settings: Settings::of::<Concat>(),
    outside: render,
    inside: None,
    hooks: Hooks { mistakes, ..Hooks::NONE },
};

/// Inputs that come twice, whose rows would have equal names, and inputs with other columns than the first one has.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Some((first, others)) = node.inputs.split_first() else { return Vec::new() };
    let columns = |from: &str| pipeline.node(from)?.columns.as_ref().map(|columns| columns.iter().collect::<BTreeSet<_>>());
    let mut seen = BTreeSet::from([first.from.as_str()]);
    let mut found = Vec::new();
    for input in others {
        let at = ["inputs", &input.port];
        if !seen.insert(&input.from) {
            found.push(Mistake::in_node(node, &at, format!("the rows of `{}` come in twice", input.from)).help("name each node once"));
            continue;
        }
        let (Some(one), Some(other)) = (columns(&first.from), columns(&input.from)) else { continue };
        if let Some(column) = one.symmetric_difference(&other).next() {
            let (has, lacks) = if one.contains(column) { (first, input) } else { (input, first) };
            let message = format!("`{}` has the column `{column}`, and `{}` doesn't", has.from, lacks.from);
            let help = "make it in both, or in neither: rollouts with one agent have the same columns";
            found.push(Mistake::in_node(node, &at, message).help(help));
        }
    }
    found
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let inputs = ports.into_iter().map(|(_, edge)| (edge, Route::Stay)).collect();
    let shape = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Worker };
    Ok(stage(shape, ctx, |_, rows| Ok(rows.into_iter().flatten().collect())))
}
