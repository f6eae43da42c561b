//! `group`: groups the rows that are compared with each other. `[task]` is GRPO's group, `[task, state]` GiGPO's,
//! `[task, state, visitation_depth]` EAPO's, `[]` REINFORCE++'s whole batch, `[task]` with `similar` the alike
//! observations that GiGPO's released code can compare: settings of one operator.
//!
//! The attempts at a task share its groups unless `attempt` is in `by`, as in LaMer's code. A reflection is made in no
//! state of the game: to the columns `state`, `observation` and `visitation_depth` all reflections are alike, and like
//! no turn of play. So `[task, state]` also compares the reflections on a task with one another (LaMer's code: their
//! anchor is the word reflection).

use super::operator::{must, settings, Hooks, Operator, Settings};
use arrow::array::RecordBatch;
use flow_core::row::{self, Kind, RowError};
use flow_credit::rows::{mark, measure, split, EarlyTurns};
use flow_credit::Similar;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Figure, Place, Ports, Route};
use flow_pipeline::{Mistake, Need, Node, Port, Role, With};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use timely::dataflow::Scope;

/// Settings of `group`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The columns that are equal within a group, such as [task, state, visitation_depth]; [] makes one group of the
    /// whole iteration. All attempts at a task are compared unless `attempt` is among them. A reflection is made in no
    /// state, observation or visitation_depth: by these, reflections agree with one another alone.
    by: Vec<String>,
    /// Further splits these groups by where a turn comes from: so many states before its own, in their order, must
    /// agree too (HGPO, arXiv 2602.22817). Reflections have none. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    history: usize,
    /// How a turn is grouped that has fewer states before it than `history`.
    #[serde(default)]
    early_turns: EarlyTurns,
    /// Further splits these groups by texts that are alike: { column: observation, at_least: 0.95, autojunk: true }.
    similar: Option<Similar>,
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "group",
    about: "groups the rows that are compared with each other",
    role: Role::Judges,
    ports: &[Port::rows("whole episodes", &["task", "sample", "attempt", "turn", "phase", "state"])],
    keeps: true,
    adds: &["visitation_depth", "group", "group_size"],
    settings: Settings::of::<Group>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, mistakes: |node, _| mistake(node).into_iter().collect(), ..Hooks::NONE },
};

/// Whether the node is such an operator.
pub fn groups(node: &Node) -> bool {
    node.with.typed::<Group>().is_some()
}

/// Whether it compares only rows of one task.
pub fn by_task(node: &Node) -> bool {
    node.with.typed::<Group>().is_some_and(|with| with.by.iter().any(|column| column == "task"))
}

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<Group>() else { return Vec::new() };
    // The depth is made here, from `state` and `turn`.
    let by = with.by.iter().enumerate().filter(|(_, column)| *column != "visitation_depth");
    let by = by.map(|(i, column)| (column, ["by".into(), i.to_string()]));
    let similar = with.similar.iter().map(|similar| (&similar.column, ["similar", "column"].map(String::from)));
    by.chain(similar).map(|(column, at)| Need { port: "rows".into(), column: column.clone(), at: at.into() }).collect()
}

/// Only texts can be alike.
fn mistake(node: &Node) -> Option<Mistake> {
    let name = settings::<Group>(node).ok()?.similar.as_ref()?.column.clone();
    let column = row::find(&name).filter(|column| column.kind != Kind::Text)?;
    let texts: Vec<&str> = row::COLUMNS.iter().filter(|c| c.kind == Kind::Text).map(|c| c.name).collect();
    let message = format!("`column` must name a column of texts, and `{name}` is {}", column.kind.name());
    Some(Mistake::in_node(node, &["with", "similar", "column"], message).help(format!("texts are in {}", texts.join(", "))))
}

/// A step for each view of the rows that is needed: the depth needs whole trajectories, likeness all rows that could
/// share a group, the size whole groups.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let Group { by, history, early_turns, similar } = Group::clone(&*settings(node)?);
    let name = |step: &str| format!("{}{step}", node.id);
    let rows = must(&ports, "rows")?;
    let whole = Stage { name: name(""), inputs: vec![(rows, Route::by(&["task"]))], begins: false, place: Place::Worker };
    let columns = by.clone();
    // Rows that agree in their task are where its rows are.
    let together = if by.iter().any(|column| column == "task") { Route::Stay } else { Route::by(&["group"]) };
    let mut marked = stage(whole, ctx, move |_, rows| Ok(mark(&rows[0], &columns, history, early_turns)?));
    if let Some(similar) = similar {
        // Comparing every text with every other can take a while, so it gets a thread.
        let inputs = vec![(marked, together.clone())];
        let candidates = Stage { name: name(" similar"), inputs, begins: false, place: Place::Thread };
        marked = stage(candidates, ctx, move |_, rows| Ok(split(&rows[0], &similar)?));
    }
    let groups = Stage { name: name(" sizes"), inputs: vec![(marked, together)], begins: false, place: Place::Worker };
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    Ok(stage(groups, ctx, move |iteration, rows| {
        let measured = measure(&rows[0])?;
        for (name, figure) in figures(&measured)? {
            shared.add(iteration, &id, name, figure);
        }
        Ok(measured)
    }))
}

/// How many rows a group has in the mean, and the share of rows that are alone in theirs (EAPO, figure 14).
fn figures(rows: &[RecordBatch]) -> Result<[(&'static str, Figure); 2], RowError> {
    let (mut count, mut groups, mut alone) = (0, 0.0, 0);
    for batch in rows {
        let sizes = row::u32s(batch, "group_size")?.values();
        count += sizes.len();
        groups += sizes.iter().map(|size| 1.0 / f64::from((*size).max(1))).sum::<f64>();
        alone += sizes.iter().filter(|size| **size == 1).count();
    }
    Ok([("group_size", Figure::share(count as f64, groups.round() as usize)), ("alone", Figure::share(alone as f64, count))])
}
