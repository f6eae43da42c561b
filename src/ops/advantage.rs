//! `advantage`: how much better a row did than its group. The formulas are in `credit`.

use super::checks::upstream::upstream;
use super::checks::{negative_returns, no_spread, small_rewards, trees};
use super::memories::buckets::unlogged;
use super::operator::{must, settings, Hooks, Operator, Settings};
use super::reward::charges_tokens;
use super::value::by_token;
use arrow::array::RecordBatch;
use flow_core::row;
use flow_credit::rows::{columns_made, compare, compared, equal_groups, groups_below_zero, rejoin, samples, value, RunningMeans};
use flow_credit::{AdvantageSettings, Baseline, EstimatorName, Scale, Unit};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{feed, Context, Edge, Failed, Figure, Place, Ports, Route};
use flow_pipeline::{Mistake, Need, Node, Pipeline, Port, Role, With};
use std::sync::Arc;
use timely::dataflow::Scope;

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "advantage",
    about: "how much better a row did than its group",
    role: Role::Judges,
    ports: &[Port::rows("grouped rows of whole episodes", &["task", "sample", "attempt", "turn", "phase", "reward", "valid", "group"])],
    keeps: true,
    adds: &["return", "baseline", "scale", "advantage", "value_target", "token_advantages", "token_targets", "used"],
    // Read with the preset's values for the fields that aren't given.
    settings: Settings { read: |json| Ok(Arc::new(AdvantageSettings::resolve(json)?)), ..Settings::of::<AdvantageSettings>() },
    outside: render,
    inside: None,
    hooks: Hooks {
        needs,
        mistakes,
        notes: |node, pipeline| {
            let notes = [no_spread::note, small_rewards::note, negative_returns::note, trees::note];
            notes.into_iter().filter_map(|note| note(node, pipeline)).collect()
        },
        targets: |with| with.typed::<AdvantageSettings>().is_some_and(|meant| meant.of.estimator().target.is_some()),
        makes: |with| if keeps_means(with) { vec!["group".into(), "running".into()] } else { vec![] },
        lacks,
        remembers: keeps_means,
        replay_hint: |with| {
            let returns = [EstimatorName::EpisodeReturn, EstimatorName::StepReturn, EstimatorName::CrossEpisodeReturn];
            let compared = |meant: Arc<AdvantageSettings>| returns.contains(&meant.of) && meant.baseline == Baseline::Mean;
            with.typed::<AdvantageSettings>().is_some_and(compared).then_some("baseline=leave_one_out")
        },
        ..Hooks::NONE
    },
};

/// Whether its baseline is a mean over iterations.
fn keeps_means(with: &With) -> bool {
    with.typed::<AdvantageSettings>().is_some_and(|meant| meant.baseline == Baseline::Ema)
}

/// The columns that only some settings read.
fn needs(with: &With) -> Vec<Need> {
    let Some(meant) = with.typed::<AdvantageSettings>() else { return Vec::new() };
    let need = |column: &str, key: &str| Need { port: "rows".into(), column: column.into(), at: vec![key.into()] };
    let mut needs: Vec<Need> = meant.of.estimator().needs.iter().map(|column| need(column, "of")).collect();
    if let Some(column) = meant.of.estimator().tokens {
        needs.push(need(column, "of"));
    } else if meant.unit == Unit::Token {
        needs.push(need("response_tokens", if with.gives("unit") { "unit" } else { "preset" }));
    }
    needs
}

/// The columns that only some estimators make.
fn lacks(with: &With) -> Vec<&'static str> {
    let Some(estimator) = with.typed::<AdvantageSettings>().map(|meant| meant.of.estimator()) else { return Vec::new() };
    let made = [("value_target", estimator.target.is_some()), ("token_advantages", estimator.tokens.is_some())];
    let targets = ("token_targets", estimator.tokens.is_some() && estimator.target.is_some());
    made.into_iter().chain([targets]).filter(|(_, made)| !made).map(|(column, _)| column).collect()
}

/// Whether the node's advantages are those of tokens.
pub fn of_tokens(node: &Node) -> bool {
    node.with.typed::<AdvantageSettings>().is_some_and(|meant| meant.of.estimator().tokens.is_some())
}

/// Tokens without a value or a charge; means over iterations that a resumed run couldn't go on with.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    if let Some(mistake) =
        unlogged(node, pipeline, "keeps a running mean, and a resumed run reads it in the log").filter(|_| keeps_means(&node.with))
    {
        return vec![mistake];
    }
    let Some(column) = node.with.typed::<AdvantageSettings>().and_then(|meant| meant.of.estimator().tokens) else { return Vec::new() };
    let (already_has, message, help): (fn(&With) -> bool, _, _) = match column {
        "token_values" => (by_token, "no `value` before it values them", "say `per: token` in the `value` node"),
        _ => (
            charges_tokens,
            "no `reward` before it charges any",
            "say `kl_per: token` in the `reward` node, or compare turns: `of: step_return`",
        ),
    };
    if upstream(pipeline, node).any(|node| already_has(&node.with)) {
        return Vec::new();
    }
    let message = format!("`{}` compares tokens, and {message}", node.id);
    vec![Mistake::in_node(node, &["with", "of"], message).help(help)]
}

/// Insists that returns are finite; the error names the first row with another one.
fn require_finite_returns(rows: &RecordBatch) -> Result<(), Failed> {
    let returns = row::f32s(rows, "return")?.values();
    let Some(i) = returns.iter().position(|x| !x.is_finite()) else { return Ok(()) };
    Err(format!("the return of {} is {}: its rewards are too large, or no numbers", row::described(rows, i), returns[i]).into())
}

/// Two steps: the return needs whole trajectories, the baseline whole groups. A group's rows may be anywhere, so what
/// is compared travels to one worker and comes back; the rows themselves stay.
pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<AdvantageSettings>(node)?;
    let step = |name: &str, inputs| Stage { name: format!("{}{name}", node.id), inputs, begins: false, place: Place::Worker };
    let whole = step("", vec![(must(&ports, "rows")?, Route::by(&["task"]))]);
    let first = with.clone();
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    let valued = stage(whole, ctx, move |iteration, rows| {
        // Fewer than were to be played where episodes failed.
        let (samples, tasks) = samples(&rows[0])?;
        shared.add(iteration, &id, "samples", Figure::share(samples as f64, tasks));
        let valued = value(&rows[0], &first)?;
        valued.iter().try_for_each(require_finite_returns)?;
        Ok(valued)
    });
    let columns_made = columns_made(&with);
    let columns = row::NAME.into_iter().chain(compared(&with)).map(String::from).collect();
    let part = Route::Part { columns, by: vec!["group".into()] };
    let mut inputs = vec![(valued.clone(), part)];
    if keeps_means(&node.with) {
        inputs.push((feed::past(&node.id, scope, ctx)?, Route::by(&["group"])));
    }
    let groups = step(" groups", inputs);
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    let mut means = RunningMeans::default();
    let compared = stage(groups, ctx, move |iteration, rows| {
        rows.get(1).map_or(Ok(()), |past| means.restore(past))?;
        if rows[0].is_empty() {
            return Ok(vec![]);
        }
        let compared = compare(&rows[0], &with, &mut means)?;
        let (equal, groups) = equal_groups(&compared)?;
        shared.add(iteration, &id, "equal", Figure::share(equal as f64, groups));
        if with.scale == Scale::Mean {
            let (below, groups) = groups_below_zero(&compared)?;
            shared.add(iteration, &id, "undivided", Figure::share(below as f64, groups));
        }
        Ok(compared)
    });
    let back = step(" joined", vec![(valued, Route::Stay), (compared, Route::by(&["task"]))]);
    Ok(stage(back, ctx, move |_, rows| Ok(rejoin(&rows[0], &rows[1], &columns_made)?)))
}
