//! `reward`: a weighted sum of the task's reward, a format reward, a penalty for invalid actions and one for length.
//! With weights 1, 0.5 and, in `explore`, 1 it is EAPO's R_task + 0.5 R_format + R_explore (Eq. 10, table 3).

mod explore;
mod format;
mod overlong;
mod score;
mod settings;
mod task;

use super::examples::reference::{charged, less, log_ratio, strays};
use super::operator::{must, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use arrow::array::{ArrayRef, Float32Array, RecordBatch};
use explore::Explore;
use flow_core::row::{self, RowError, View, SCORE};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_pipeline::{Mistake, Need, Node, Port, Role, With};
use format::Format;
use score::ScoreOf;
use settings::{KlPer, RewardWeights};
use std::sync::Arc;
use task::TaskOf;
use timely::dataflow::Scope;

/// Whether the node charges tokens.
pub fn charges_tokens(with: &With) -> bool {
    with.typed::<RewardWeights>().is_some_and(|with| with.kl_per == KlPer::Token && with.kl != 0.0)
}

/// The rewards of the node that are small beside the task's, by their settings.
pub fn small(with: &With) -> Vec<(&'static str, f32)> {
    with.typed::<RewardWeights>().map(|with| with.small()).unwrap_or_default()
}

/// Whether the node leaves the task's own rewards out.
pub fn without_task(with: &With) -> bool {
    with.typed::<RewardWeights>().is_some_and(|with| with.task == 0.0)
}

/// The settings of a `reward` node by which a reward can be below 0.
pub fn subtracted(with: &With) -> Vec<&'static str> {
    with.typed::<RewardWeights>().map(|with| with.subtracted()).unwrap_or_default()
}

/// The column of the reward of exploration, before its weight.
const EXPLORATION: &str = "exploration";

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "reward",
    about: "weighs the task's reward, the format, the validity of an action and the length of a response",
    role: Role::Judges,
    ports: &[Port::rows("turns", &["reward", "action", "valid"])],
    keeps: true,
    adds: &["reward", "score", "token_rewards"],
    settings: Settings::of::<RewardWeights>(),
    outside: render,
    inside: None,
    hooks: Hooks {
        needs,
        makes: |with| {
            with.typed::<RewardWeights>().and_then(|with| with.explore.as_ref().map(|_| EXPLORATION.to_owned())).into_iter().collect()
        },
        lacks,
        mistakes: |node, _| mistakes(node),
        head: |with| with.typed::<RewardWeights>()?.model.as_ref().map(|_| RequiredHead::Language),
        weighs: Some(weighs),
        ..Hooks::NONE
    },
};

/// The columns that only some settings make.
fn lacks(with: &With) -> Vec<&'static str> {
    let score = with.typed::<RewardWeights>().is_some_and(|with| with.score_of != ScoreOf::World);
    let made = [("score", score), ("token_rewards", charges_tokens(with))];
    made.into_iter().filter(|(_, made)| !made).map(|(column, _)| column).collect()
}

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<RewardWeights>() else { return Vec::new() };
    let need = |column: &str, at: &str| Need { port: "rows".into(), column: column.into(), at: vec![at.into()] };
    let form = (!with.tags.is_empty()).then(|| need("response", "tags"));
    let explored = with.explore.iter().flat_map(Explore::columns).map(|(at, column)| Need {
        port: "rows".into(),
        column,
        at: vec!["explore".into(), at.into()],
    });
    let scored = with.scores.keys().map(|name| Need {
        port: "rows".into(),
        column: format!("{SCORE}{name}"),
        at: vec!["scores".into(), name.clone()],
    });
    let overlong = with.overlong.as_ref().map(|_| need("response_tokens", "overlong"));
    let won = (with.won != 0.0).then(|| need("won", "won"));
    let novelty = (with.novelty != 0.0).then(|| need("novelty", "novelty"));
    let read = ["iteration", "task", "sample", "attempt", "turn", "phase", "prompt_tokens", "response_tokens", "choices", "logprobs"];
    let kl = read.iter().filter(|_| with.kl != 0.0).map(|column| need(column, "kl"));
    let attempts = ["iteration", "task", "sample", "attempt", "turn", "phase"].iter().filter(|_| with.whole_attempts());
    let at = if with.task_of == TaskOf::Turn { "score_of" } else { "task_of" };
    let attempts = attempts.map(|column| need(column, at));
    explored.chain(scored).chain(attempts).chain(form).chain(overlong).chain(won).chain(novelty).chain(kl).collect()
}

/// A buffer that would begin before the response does, a divergence of nothing, and models without a use.
fn mistakes(node: &Node) -> Vec<Mistake> {
    let Ok(with) = settings::<RewardWeights>(node) else { return vec![] };
    let mut mistakes = Vec::new();
    if let Some(overlong) = with.overlong.as_ref().filter(|overlong| overlong.buffer > overlong.max) {
        let message = format!("`buffer` must be at most `max`, found {} and {}", overlong.buffer, overlong.max);
        let help = "a response of `max` tokens costs the whole weight, one of `max` - `buffer` tokens nothing";
        mistakes.push(Mistake::in_node(node, &["with", "overlong", "buffer"], message).help(help));
    }
    if with.kl != 0.0 && with.model.is_none() {
        let message = "`kl` is the divergence of a model, and none is named";
        mistakes.push(Mistake::in_node(node, &["with", "kl"], message).help("name the one that played: `model: actor`"));
    }
    for idle in ["model", "reference", "temperature", "kl_per"].iter().filter(|key| with.kl == 0.0 && node.with.gives(key)) {
        mistakes
            .push(Mistake::in_node(node, &["with", idle], format!("`{idle}` is read by `kl` alone")).help("give `kl`, or leave it out"));
    }
    mistakes
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<RewardWeights>(node)?;
    let rows = must(&ports, "rows")?;
    let step = |name: &str, inputs, place| Stage { name: format!("{}{name}", node.id), inputs, begins: false, place };
    let weighed = with.clone();
    // Whole attempts stand where their task is.
    let route = if with.whole_attempts() { Route::by(&["task"]) } else { Route::Stay };
    let weighed = stage(step("", vec![(rows, route)], Place::Worker), ctx, move |_, rows| Ok(weigh_all(&rows[0], &weighed)?));
    let Some(model) = with.model.clone().filter(|_| with.kl != 0.0) else { return Ok(weighed) };
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    // The policy reads all rows of an iteration as one batch, so that the bits don't depend on the number of workers.
    Ok(stage(step(" divergence", vec![(weighed, Route::One)], Place::Thread), ctx, move |iteration, rows| {
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let strays = strays(&view, &policy, &model, with.reference.as_deref(), with.temperature)?;
        let turns: Vec<f64> = strays.iter().map(|tokens| log_ratio(tokens)).collect();
        shared.measure(iteration, &id, "kl", turns.iter().sum::<f64>() / turns.len().max(1) as f64);
        Ok(match with.kl_per {
            KlPer::Turn => less(&view, &turns, with.kl)?,
            KlPer::Token => charged(&view, &strays, with.kl)?,
        })
    }))
}

/// What the node makes of the rewards, without a divergence, which only the policy could tell.
fn weighs(node: &Node, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>, Failed> {
    Ok(weigh_all(rows, &*settings::<RewardWeights>(node)?)?)
}

fn weigh_all(rows: &[RecordBatch], with: &RewardWeights) -> Result<Vec<RecordBatch>, RowError> {
    let weighed: Result<Vec<RecordBatch>, RowError> =
        with.task_of.rewards(rows, with.gamma)?.iter().map(|batch| weigh(batch, with)).collect();
    with.score_of.scored(weighed?)
}

fn weigh(rows: &RecordBatch, with: &RewardWeights) -> Result<RecordBatch, RowError> {
    let (reward, valid) = (row::f32s(rows, "reward")?, row::bools(rows, "valid")?);
    let form = Format::of(rows, &with.tags, with.format_per)?;
    let won = if with.won != 0.0 { Some(row::bools(rows, "won")?) } else { None };
    let mut weighed: Vec<f32> = (0..rows.num_rows())
        .map(|i| {
            let format = if with.format == 0.0 { 0.0 } else { with.format * form.share(i) };
            let invalid = if valid.value(i) { 0.0 } else { with.invalid };
            let won = if won.is_some_and(|won| won.value(i)) { with.won } else { 0.0 };
            with.task * reward.value(i) + won + format + invalid
        })
        .collect();
    if with.novelty != 0.0 {
        let novelty = row::f32s(rows, "novelty")?.values();
        weighed.iter_mut().zip(novelty).for_each(|(reward, novelty)| *reward += with.novelty * novelty);
    }
    for (name, weight) in &with.scores {
        let scores = row::f32s(rows, &format!("{SCORE}{name}"))?.values();
        weighed.iter_mut().zip(scores).for_each(|(reward, score)| *reward += weight * score);
    }
    if let Some(overlong) = &with.overlong {
        let lengths = row::lists(rows, "response_tokens")?.offsets().lengths();
        weighed.iter_mut().zip(lengths).for_each(|(reward, tokens)| *reward += overlong.penalty(tokens as u32));
    }
    let mut added: Vec<(&str, ArrayRef)> = Vec::new();
    if let Some(explore) = &with.explore {
        let explored = explore.rewards(rows)?;
        weighed.iter_mut().zip(&explored).for_each(|(reward, explored)| *reward += explore.weight * explored);
        added.push((EXPLORATION, Arc::new(Float32Array::from(explored))));
    }
    added.push(("reward", Arc::new(Float32Array::from(weighed))));
    row::with_all(rows, added)
}

#[cfg(test)]
mod tests {
    use super::overlong::Overlong;
    use super::*;
    use arrow::array::{BooleanArray, ListArray, StringArray};
    use arrow::datatypes::UInt32Type;

    fn plain() -> RewardWeights {
        serde_json::from_value(serde_json::json!({})).unwrap()
    }

    #[test]
    fn each_part_has_its_weight() {
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "", "fly"]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, false, false]))),
            ("reward", Arc::new(Float32Array::from(vec![2.0, 0.0, 0.0]))),
        ])
        .unwrap();
        let weighed = weigh(&rows, &RewardWeights { task: 1.0, won: 0.0, format: 0.5, invalid: -0.1, overlong: None, ..plain() }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[2.5, -0.1, 0.4]);
    }

    #[test]
    fn a_learned_reward_has_its_weight() {
        let floats = |values: [f32; 2]| Arc::new(Float32Array::from(values.to_vec())) as ArrayRef;
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "up"])) as ArrayRef),
            ("valid", Arc::new(BooleanArray::from(vec![true, true]))),
            ("reward", floats([1.0, 0.0])),
            ("score_judge", floats([0.5, 0.25])),
            ("score_other", floats([1.0, 1.0])),
        ])
        .unwrap();
        let with = RewardWeights { scores: [("judge".to_owned(), 2.0)].into(), ..plain() };
        assert_eq!(row::f32s(&weigh(&rows, &with).unwrap(), "reward").unwrap().values(), &[2.0, 0.5]);
    }

    /// LaMer, appendix C: 10 for a success and 0 otherwise, whatever the game pays.
    #[test]
    fn winning_is_all_that_counts() {
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "up"]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, true]))),
            ("won", Arc::new(BooleanArray::from(vec![false, true]))),
            ("reward", Arc::new(Float32Array::from(vec![-0.1, 10.9]))),
        ])
        .unwrap();
        let weighed = weigh(&rows, &RewardWeights { task: 0.0, won: 10.0, format: 0.0, invalid: 0.0, overlong: None, ..plain() }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[0.0, 10.0]);
    }

    #[test]
    fn a_long_response_costs() {
        let overlong = Overlong { max: 16, buffer: 4, weight: 1.0 };
        let tokens = ListArray::from_iter_primitive::<UInt32Type, _, _>([12, 14, 20].map(|n| Some(vec![Some(7); n])));
        let rows = row::batch(vec![
            ("action", Arc::new(StringArray::from(vec!["up", "", "up"])) as arrow::array::ArrayRef),
            ("valid", Arc::new(BooleanArray::from(vec![true, false, true]))),
            ("reward", Arc::new(Float32Array::from(vec![2.0, 1.0, 0.0]))),
            ("response_tokens", arrow::compute::cast(&tokens, &row::Kind::U32List.arrow()).unwrap()),
        ])
        .unwrap();
        let weighed =
            weigh(&rows, &RewardWeights { task: 1.0, won: 0.0, format: 0.0, invalid: -0.25, overlong: Some(overlong), ..plain() }).unwrap();
        assert_eq!(row::f32s(&weighed, "reward").unwrap().values(), &[2.0, 0.25, -1.0]);
    }

    #[test]
    fn a_divergence_needs_a_model_and_nothing_else_does() {
        let mistakes = |with| {
            let with = With::read(with, &serde_json::Value::Null, OPERATOR.settings.read).unwrap();
            let node = Node { id: "reward".into(), op: "reward".into(), inputs: vec![], with, body: None, columns: None };
            mistakes(&node).into_iter().map(|w| w.at.join(".")).collect::<Vec<_>>()
        };
        use serde_json::json;
        assert_eq!(mistakes(json!({ "kl": 0.1 })), ["nodes.reward.with.kl"]);
        assert_eq!(mistakes(json!({ "model": "actor", "temperature": 1 })), ["nodes.reward.with.model", "nodes.reward.with.temperature"]);
        assert!(mistakes(json!({ "kl": 0.1, "model": "actor" })).is_empty() && mistakes(json!({})).is_empty());
    }
}
