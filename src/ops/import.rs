//! `import`: stands in the pipeline of a run that `flow import` made. Its rows are another trainer's, so it can be
//! replayed and never played.

use super::operator::{Hooks, Operator, Settings};
use flow_dataflow::{Context, Edge, Failed, Ports};
use flow_pipeline::{Mistake, Node, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use timely::dataflow::Scope;

/// Settings of `import`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Import {
    /// The format of the files.
    from: Option<String>,
    /// The files that were read.
    #[serde(default)]
    files: Vec<String>,
}

/// The columns that imported rows may have; columns that the source doesn't give are absent.
const COLUMNS: &[&str] = &[
    "iteration",
    "task",
    "sample",
    "attempt",
    "turn",
    "phase",
    "type",
    "observation",
    "state",
    "prompt_tokens",
    "response_tokens",
    "choices",
    "logprobs",
    "temperature",
    "response",
    "response_cut",
    "action",
    "valid",
    "call",
    "parent",
    "fork",
    "reward",
    "done",
    "won",
    "truncated",
    "score",
    "info",
    "weights",
    "advantage",
];

/// The node that an imported run has its rows under, as one that was played has.
pub const NODE: &str = "rollout";

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "import",
    about: "stands for another trainer's rollouts, which `flow import` read",
    role: Role::Plays,
    ports: &[],
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<Import>(),
    outside: render,
    inside: None,
    hooks: Hooks { mistakes: |node, _| vec![unplayable(node)], ..Hooks::NONE },
};

/// A replay doesn't ask, since it plays nothing.
fn unplayable(node: &Node) -> Mistake {
    let message = format!("`{}` plays nothing: its rows are those of a run that `flow import` made", node.id);
    Mistake::in_node(node, &["op"], message).help("replay that run: `flow replay RUN`, with `--with` this file if it isn't the run's own")
}

fn render<'s>(node: &Node, _: Ports<'s>, _: Scope<'s, u64>, _: &Context) -> Result<Edge<'s>, Failed> {
    Err(unplayable(node).into())
}
