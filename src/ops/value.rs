//! `value`: what a critic expects after each row's prompt, before the row's action: PPO's V(s_t), of turns or of
//! tokens.

use super::episodes::inputs::newest;
use super::operator::{must, port, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use super::trained;
use arrow::array::{ArrayRef, Float32Array};
use arrow::datatypes::UInt32Type;
use flow_core::row::{f32_lists, View};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_model::Example;
use flow_pipeline::{Delay, Need, Node, Port, Role, With};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use timely::dataflow::Scope;

/// Settings of `value`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ValueOf {
    /// The critic: a model with `head: value`.
    #[schemars(extend("x-names" = "model"))]
    model: String,
    /// Before what a value is asked for. Default: turn.
    #[serde(default)]
    per: ValueUnit,
}

/// The steps that a critic values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ValueUnit {
    /// Each turn: one value a row, before its response.
    #[default]
    Turn,
    /// Each token of the response: also the column `token_values`, whose first number is that of `value`.
    Token,
}

/// Whether the node values each token.
pub fn by_token(with: &With) -> bool {
    with.typed::<ValueOf>().is_some_and(|settings| settings.per == ValueUnit::Token)
}

const PORTS: &[Port] = &[
    Port::rows("the rows to value", &["iteration", "task", "sample", "attempt", "turn", "phase", "prompt_tokens"]),
    Port::weights("the update of the critic whose weights value; needed where an update trains it").optional().delayed(Delay::Always),
];

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "value",
    about: "asks a critic for the return expected from each row's prompt",
    role: Role::Judges,
    ports: PORTS,
    keeps: true,
    adds: &["value", "token_values"],
    settings: Settings::of::<ValueOf>(),
    outside: render,
    inside: None,
    hooks: Hooks {
        head: |_| Some(RequiredHead::Value),
        needs,
        lacks: |with| if by_token(with) { vec![] } else { vec!["token_values"] },
        ..Hooks::NONE
    },
};

fn needs(with: &With) -> Vec<Need> {
    let need = Need { port: "rows".into(), column: "response_tokens".into(), at: vec!["per".into()] };
    by_token(with).then_some(need).into_iter().collect()
}

/// All rows on the first worker: the critic is on the policy thread, and one batch gives the same bits on any number of
/// workers.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let ValueOf { model, per } = ValueOf::clone(&*settings(node)?);
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let mut inputs = vec![(must(&ports, "rows")?, Route::One)];
    inputs.extend(port(&ports, "weights").map(|edge| (edge, Route::One)));
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    let mut version = 0;
    let learns = trained(&ctx.pipeline, &model);
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        version = newest(version, rows.get(1).filter(|_| learns))?;
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let start = Instant::now();
        let prompts = view.lists("prompt_tokens")?;
        let responses = if per == ValueUnit::Token { Some(view.lists("response_tokens")?) } else { None };
        let read = |i| Example {
            prompt: prompts.get::<UInt32Type>(i).to_vec(),
            response: responses.as_ref().map_or(vec![], |tokens| tokens.get::<UInt32Type>(i).to_vec()),
            ..Default::default()
        };
        let values = policy.values(&model, version, (0..view.len()).map(read).collect())?;
        let first = || values.iter().map(|values| values[0]);
        shared.measure(iteration, &id, "value", first().map(f64::from).sum::<f64>() / values.len().max(1) as f64);
        shared.measure(iteration, &id, "seconds", start.elapsed().as_secs_f64());
        let mut columns: Vec<(&str, ArrayRef)> = vec![("value", Arc::new(Float32Array::from_iter_values(first())))];
        if let Some(responses) = &responses {
            // A row without tokens has a value nevertheless.
            let own = values.iter().enumerate().map(|(i, values)| &values[..responses.length(i)]);
            columns.push(("token_values", f32_lists(own)));
        }
        Ok(view.with(columns)?)
    }))
}
