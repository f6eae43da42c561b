//! `derive`: columns as expressions of SQL over columns of the row, of the turns beside it, and of its episode or
//! group: a difference from the turn before (IGPO, TRACE), a ratio of two scores (HCAPO), the mean of a group as a
//! value in place of a critic's (RTMC, GAGPO).

use super::operator::{must, port, settings, Further, Operator, Settings};
use crate::credit::rows::rejoin;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::log::Expressions;
use crate::pipeline::{Carries, Need, Node, Port, Role, With, Wrong};
use crate::row::{View, NAME};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use timely::dataflow::Scope;

/// Settings of `derive`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Derive {
    /// Each column with the expression that makes it, in DuckDB's SQL: arithmetic, comparisons, `case`, `coalesce`,
    /// lists (`[2 * x for x in token_rewards]`), and sums over rows by a window. `over episode` are the rows of the
    /// row's attempt, `over turns` the same in their order (`lag`, `lead`, running sums), `over "group"` those of its
    /// group, `over same` the row and the one of its name at `other`; any other is
    /// `over (partition by ... order by ...)`. All expressions read the rows as they come. A column is one that rows
    /// can have, or a number of your own, `derived_...`; it replaces one of its name.
    #[schemars(extend("minProperties" = 1))]
    columns: BTreeMap<String, String>,
}

/// The input with the rows that sums see besides, and how expressions name them.
const OTHERS: &str = "other";

const PORTS: &[Port] = &[
    Port::rows("whole episodes", &NAME),
    Port::new(OTHERS, "rows that sums over rows see besides, where `other` holds, and that don't come out", Carries::Others, &NAME)
        .optional(),
];

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "derive",
    about: "makes columns by expressions over a row, the turns beside it, its episode and its group",
    role: Role::Judges,
    ports: PORTS,
    keeps: true,
    adds: &[],
    settings: Settings::of::<Derive>(),
    outside: render,
    inside: None,
    further: Further {
        needs,
        makes: |with| with.typed::<Derive>().map_or_else(Vec::new, |with| with.columns.keys().cloned().collect()),
        wrong: |node, _| wrong(node),
        targets: |with| with.typed::<Derive>().is_some_and(|with| with.columns.contains_key("value_target")),
        ..Further::NOTHING
    },
};

/// Each column's expression by itself, so that a mistake is found where it stands.
fn each(with: &Derive) -> impl Iterator<Item = (&String, Result<Expressions, String>)> {
    let one = |(name, text): (&String, &String)| Expressions::new(&BTreeMap::from([(name.clone(), text.clone())]));
    with.columns.iter().map(move |column| (column.0, one(column).map_err(|(_, error)| error.to_string())))
}

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<Derive>() else { return Vec::new() };
    let of =
        |(name, read): (&String, Result<Expressions, String>)| {
            let at = vec!["columns".to_string(), name.clone()];
            let reads: Vec<String> = read.map_or_else(|_| vec![], |read| read.reads().map(String::from).collect());
            let ports = ["rows", OTHERS].into_iter().map(String::from);
            ports
                .flat_map(move |port| reads.clone().into_iter().map(move |column| (port.clone(), column)))
                .map(move |(port, column)| Need { port, column, at: at.clone() })
        };
    each(&with).flat_map(of).collect()
}

fn wrong(node: &Node) -> Vec<Wrong> {
    let Ok(with) = settings::<Derive>(node) else { return Vec::new() };
    let alone = !node.inputs.iter().any(|input| input.port == OTHERS);
    let mistake = |(name, read): (&String, Result<Expressions, String>)| {
        let wrong = |why: String| Wrong::in_node(node, &["with", "columns", name], format!("`{name}`: {why}"));
        match read {
            Err(why) => Some(wrong(why)),
            Ok(read) if read.others && alone => {
                let help = format!("give it the node whose rows these are: `inputs: {{ rows: ..., {OTHERS}: NODE }}`");
                Some(wrong(format!("`{OTHERS}` holds for no row, since the node has no input `{OTHERS}`")).help(help))
            }
            Ok(_) => None,
        }
    };
    each(&with).filter_map(mistake).collect()
}

/// What is read of all rows goes to the first worker, and what is made of it comes back to where the rows stay: sums
/// over any rows, added in one order on any number of workers.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Derive>(node)?;
    let expressions = Expressions::new(&with.columns).map_err(|(name, error)| format!("`{name}`: {error}"))?;
    let rows = must(&ports, "rows")?;
    let reads: Vec<String> = expressions.reads().map(String::from).collect();
    let part = Route::Part { columns: reads.clone(), by: vec![] };
    let mut inputs = vec![(rows.clone(), part.clone())];
    inputs.extend(port(&ports, OTHERS).map(|edge| (edge, part)));
    let compute = Stage { name: format!("{} columns", node.id), inputs, begins: false, place: Place::Thread };
    let made = stage(compute, ctx, move |_, rows| {
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let others = rows.get(1).map(|others| View::sorted(others)).transpose()?.flatten();
        let others = others.map(|others| others.read(&reads)).transpose()?;
        Ok(view.with(expressions.compute(&view.read(&reads)?, others.as_ref())?)?)
    });
    let inputs = vec![(rows, Route::by(&["task"])), (made, Route::by(&["task"]))];
    let joined = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Worker };
    let columns: Vec<String> = with.columns.keys().cloned().collect();
    Ok(stage(joined, ctx, move |_, rows| {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        Ok(rejoin(&rows[0], &rows[1], &columns)?)
    }))
}
