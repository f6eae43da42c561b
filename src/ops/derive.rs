//! `derive`: columns as expressions of SQL over columns of the row, of the turns beside it, and of its episode or
//! group: a difference from the turn before (IGPO, TRACE), a ratio of two scores (HCAPO), the mean of a group as a
//! value in place of a critic's (RTMC, GAGPO).

use super::memories::buckets::unlogged;
use super::operator::{must, port, settings, Hooks, Operator, Settings};
use flow_core::row::{self, Kind, View, LAST, NAME};
use flow_credit::rows::{rejoin, LastValues};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{feed, Context, Edge, Failed, Place, Ports, Route};
use flow_log::Expressions;
use flow_pipeline::{Carries, Mistake, Need, Node, Pipeline, Port, Role, With};
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
    /// `over (partition by ... order by ...)`. All rows are of one iteration. All expressions read the rows as they come.
    /// A column is one that rows can have, or a number of your own, `derived_...`; it replaces one of its name. With
    /// `by`, `last_NAME` is an earlier value of the number NAME that this node makes.
    #[schemars(extend("minProperties" = 1))]
    columns: BTreeMap<String, String>,
    /// The columns by which rows find the values that this node made in earlier iterations: [task] for a value a task,
    /// [] for one value of all. `last_NAME` is the column NAME in the last row, in the order of names, of the latest
    /// earlier iteration with such rows; it is null before the first. A baseline that lasts: `columns: { derived_mean:
    /// "coalesce(0.9 * last_derived_mean, 0) + 0.1 * avg(reward) over (partition by task)" }`, `by: [task]`. The node must
    /// be logged: a resumed run reads the values in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Vec<String>>,
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
    hooks: Hooks {
        needs,
        makes: |with| with.typed::<Derive>().map_or_else(Vec::new, |with| with.columns.keys().cloned().chain(with.kept()).collect()),
        mistakes,
        remembers: |with| with.typed::<Derive>().is_some_and(|with| with.by.is_some()),
        targets: |with| with.typed::<Derive>().is_some_and(|with| with.columns.contains_key("value_target")),
        ..Hooks::NONE
    },
};

impl Derive {
    /// The columns of `by` that don't name a row: the log keeps them beside the values that are found by them.
    fn kept(&self) -> impl Iterator<Item = String> + '_ {
        self.by.iter().flatten().filter(|column| !NAME.contains(&column.as_str())).cloned()
    }

    /// The columns whose earlier values an expression may read.
    fn own(&self) -> Vec<&str> {
        self.columns.keys().map(String::as_str).collect()
    }
}

/// Each column's expression by itself, so that a mistake is found where it stands.
fn each(with: &Derive) -> impl Iterator<Item = (&String, Result<Expressions, String>)> {
    let own = with.own();
    let one = move |(name, text): (&String, &String)| Expressions::new(&BTreeMap::from([(name.clone(), text.clone())]), &own);
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
    let by = with.by.iter().flatten().enumerate();
    let by = by.map(|(i, column)| Need { port: "rows".into(), column: column.clone(), at: vec!["by".into(), i.to_string()] });
    each(&with).flat_map(of).chain(by).collect()
}

fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<Derive>(node) else { return Vec::new() };
    let carried = with.by.as_ref().map(|_| unlogged(node, pipeline, "reads its earlier values, and a resumed run reads them in the log"));
    let carried = carried.flatten().into_iter().chain(keys_that_differ(node, &with));
    let reads_last = each(&with).any(|(_, read)| read.is_ok_and(|read| read.last().next().is_some()));
    let idle = (with.by.is_some() && !reads_last && each(&with).all(|(_, read)| read.is_ok())).then(|| {
        let help = format!("read one, as in `0.9 * {LAST}derived_mean + 0.1 * reward`, or leave `by` out");
        Mistake::in_node(node, &["with", "by"], "`by` finds earlier values, and no expression reads one").help(help)
    });
    let alone = !node.inputs.iter().any(|input| input.port == OTHERS);
    let column_mistake = |(name, read): (&String, Result<Expressions, String>)| {
        let mistake = |why: String| Mistake::in_node(node, &["with", "columns", name], format!("`{name}`: {why}"));
        match read {
            Err(why) => Some(mistake(why)),
            Ok(read) if read.others && alone => {
                let help = format!("give it the node whose rows these are: `inputs: {{ rows: ..., {OTHERS}: NODE }}`");
                Some(mistake(format!("`{OTHERS}` holds for no row, since the node has no input `{OTHERS}`")).help(help))
            }
            Ok(read) if read.last().next().is_some() && with.by.is_none() => {
                let help = "say by which columns a row finds it: `by: [task]`, or `by: []` for one value of all rows";
                Some(mistake(format!("it reads an earlier value, `{LAST}...`, and the node has no `by`")).help(help))
            }
            Ok(_) => None,
        }
    };
    each(&with).filter_map(column_mistake).chain(carried).chain(idle).collect()
}

/// Columns of `by` whose values no later row can have again, or that have no one value.
fn keys_that_differ(node: &Node, with: &Derive) -> Vec<Mistake> {
    let mistake = |(i, column): (usize, &String)| {
        let kind = row::kind(column)?;
        let why = match column.as_str() {
            "iteration" => "differs in each iteration, so no row finds an earlier value by it".to_string(),
            _ if ![Kind::Text, Kind::U64, Kind::U32, Kind::Bool, Kind::F32].contains(&kind) => format!("is {}", kind.name()),
            made if with.columns.contains_key(made) => "is made by this node, so rows don't have it before".to_string(),
            _ => return None,
        };
        let message = format!("`by` can't have the column `{column}`: it {why}");
        Some(Mistake::in_node(node, &["with", "by", &i.to_string()], message).help("name columns that last, such as `task` or `type`"))
    };
    with.by.iter().flatten().enumerate().filter_map(mistake).collect()
}

/// What is read of all rows goes to the first worker, and what is made of it comes back to where the rows stay: sums
/// over any rows, added in one order on any number of workers.
pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Derive>(node)?;
    let expressions = Expressions::new(&with.columns, &with.own()).map_err(|(name, error)| format!("`{name}`: {error}"))?;
    let rows = must(&ports, "rows")?;
    let by = with.by.clone().unwrap_or_default();
    let mut reads: Vec<String> = expressions.reads().map(String::from).collect();
    let read_of_others = reads.clone();
    reads.extend(by.iter().cloned());
    let part = Route::Part { columns: reads.clone(), by: vec![] };
    let mut inputs = vec![(rows.clone(), part.clone())];
    let others = port(&ports, OTHERS);
    let has_others = others.is_some();
    inputs.extend(others.map(|edge| (edge, part)));
    if with.by.is_some() {
        inputs.push((feed::past(&node.id, scope, ctx)?, Route::One));
    }
    let past = with.by.as_ref().map(|_| inputs.len() - 1);
    let mut last = LastValues::new(by, expressions.last().map(String::from).collect());
    let compute = Stage { name: format!("{} columns", node.id), inputs, begins: false, place: Place::Thread };
    let made = stage(compute, ctx, move |_, rows| {
        past.map_or(Ok(()), |past| last.take(&rows[past]))?;
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let others = if has_others { View::sorted(&rows[1])? } else { None };
        let others = others.map(|others| others.read(&read_of_others)).transpose()?;
        let made = view.with(expressions.compute(&last.before(&view.read(&reads)?)?, others.as_ref())?)?;
        past.map_or(Ok(()), |_| last.take(&made))?;
        Ok(made)
    });
    let inputs = vec![(rows, Route::by(&["task"])), (made, Route::by(&["task"]))];
    let joined = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Worker };
    let columns: Vec<String> = with.columns.keys().cloned().collect();
    Ok(stage(joined, ctx, move |_, rows| {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        Ok(rejoin(&rows[0], &rows[1], &columns)?)
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops;

    /// What `flow check` says of a `derive` with these settings.
    fn mistakes(with: &str, log: &str) -> String {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks }}, with: {{ agent: {{ model: actor, max_turns: 3 }} }} }}\n  \
             made: {{ op: derive, inputs: rollout, with: {{ {with} }} }}\n  \
             reader: {{ op: derive, inputs: made, with: {{ columns: {{ derived_y: reward }} }} }}\nlog: [{log}, reader]\n"
        );
        flow_pipeline::parse("x", &text, &[], &ops::catalog()).err().map_or(String::new(), |errors| errors.to_string())
    }

    #[test]
    fn earlier_values_need_a_key_and_a_log() {
        let last = "columns: { derived_x: 'coalesce(last_derived_x, 0) + reward' }";
        for by in ["[]", "[task]", "[type]", "[task, sample]"] {
            assert_eq!(mistakes(&format!("by: {by}, {last}"), "rollout, made"), "", "{by}");
        }
        for (with, log, why) in [
            (last.to_string(), "rollout, made", "has no `by`"),
            (format!("by: [task], {last}"), "rollout", "name `made` in `log`"),
            (format!("by: [iteration], {last}"), "rollout, made", "differs in each iteration"),
            (format!("by: [prompt_tokens], {last}"), "rollout, made", "`by` can't have the column `prompt_tokens`"),
            (format!("by: [derived_x], {last}"), "rollout, made", "nothing up to `rollout` makes it"),
            (format!("by: [nosuch], {last}"), "rollout, made", "nosuch"),
            ("by: [task], columns: { derived_x: reward }".into(), "rollout, made", "no expression reads one"),
            (
                "columns: { derived_x: avg(reward) over (partition by task order by iteration) }".into(),
                "rollout, made",
                "rows of other iterations",
            ),
        ] {
            let found = mistakes(&with, log);
            assert!(found.contains(why), "{with}: {found}");
        }
    }
}
