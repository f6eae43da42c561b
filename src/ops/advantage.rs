//! `advantage`: how much better a row did than its group. The formulas are in `credit`.

use super::{must, schema};
use crate::credit::rows::{compare, value};
use crate::credit::{AdvantageSettings, Unit};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::pipeline::{Delay, Need, Node, OperatorSpec, Port};
use serde_json::Value;
use timely::dataflow::Scope;

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "advantage",
        about: "how much better a row did than its group",
        ports: &[Port {
            name: "rows",
            about: "grouped rows of whole episodes",
            needs: &["task", "sample", "attempt", "turn", "phase", "reward", "valid", "group"],
            optional: false,
            delay: Delay::Never,
        }],
        keeps: true,
        adds: &["return", "baseline", "scale", "advantage", "value_target", "used"],
        effect: false,
        loops: false,
        settings: schema::<AdvantageSettings>(),
        needs,
    }
}

/// The columns that only some settings read.
fn needs(with: &Value) -> Vec<Need> {
    let Ok(meant) = AdvantageSettings::meant(with) else { return Vec::new() };
    let need = |column: &str, key: &str| Need { port: "rows", column: column.into(), at: vec![key.into()] };
    let mut needs: Vec<Need> = meant.of.estimator().needs.iter().map(|column| need(column, "of")).collect();
    if meant.unit == Unit::Token {
        needs.push(need("response_tokens", if with.get("unit").is_some() { "unit" } else { "preset" }));
    }
    needs
}

/// Two steps: the return needs whole trajectories, the baseline whole groups.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = AdvantageSettings::meant(&node.with).map_err(|e| format!("with: {e}"))?;
    let rows = must(&ports, "rows")?;
    let trajectories = Stage { name: node.id.clone(), inputs: vec![(rows, Route::by(&["task"]))], begins: false, place: Place::Worker };
    let first = with.clone();
    let valued = stage(trajectories, ctx, move |_, rows| Ok(value(&rows[0], &first)?));
    let groups =
        Stage { name: format!("{} groups", node.id), inputs: vec![(valued, Route::by(&["group"]))], begins: false, place: Place::Worker };
    Ok(stage(groups, ctx, move |_, rows| Ok(compare(&rows[0], &with)?)))
}
