//! `rollback`: for each turn an action that takes it back, tried in the environment: what an agent learns so that it
//! can try things out (EAPO, section 5.1: transitions (s', s, a) where executing a in s' brings s back). `rewrite`
//! makes examples of it.

use super::operator::{must, Hooks, Operator, Settings};
use arrow::array::{ArrayRef, StringArray};
use flow_core::row::View;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Figure, Place, Ports, Route};
use flow_env::Environments;
use flow_pipeline::{Node, Port, Role};
use flow_rollout::rollback::{rollbacks, NEEDS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::dataflow::Scope;

/// `rollback` has no settings. EAPO's paper has a teacher model propose the action; here the environment's admissible
/// ones are tried in their order until one leads back, which needs no teacher.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rollback {}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "rollback",
    about: "tries in the environment which action takes each turn back",
    role: Role::Judges,
    ports: &[Port::rows("whole episodes of an environment that plays a task alike each time, and names equal states alike", NEEDS)],
    keeps: true,
    adds: &["rollback"],
    settings: Settings::of::<Rollback>(),
    outside: render,
    inside: None,
    hooks: Hooks::NONE,
};

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    let mut envs = Environments::new(shared.programs.clone());
    let inputs = vec![(must(&ports, "rows")?, Route::by(&["task"]))];
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let back = rollbacks(&view, &mut envs)?;
        envs.clear();
        let reversible = back.iter().filter(|action| !action.is_empty()).count();
        shared.add(iteration, &id, "reversible", Figure::share(reversible as f64, back.len()));
        Ok(view.with(vec![("rollback", Arc::new(StringArray::from(back)) as ArrayRef)])?)
    }))
}
