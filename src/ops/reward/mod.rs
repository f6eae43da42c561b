//! `reward`: a weighted sum of the task's reward, a format reward, a penalty for invalid actions and one for length. With weights 1, 0.5
//! and, in `explore`, 1 it is EAPO's R_task + 0.5 R_format + R_explore (Eq. 10, table 3).

mod explore;
mod format;
mod overlong;
mod task;

use super::examples::reference::{charged, less, strays, whole};
use super::operator::{must, settings, Further, Operator, RequiredHead, Settings, Unfit};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::pipeline::{Carries, Delay, Need, Node, Port, Role, With, Wrong};
use crate::row::{self, RowError, View};
use arrow::array::{ArrayRef, Float32Array, RecordBatch};
use explore::Explore;
use format::{Format, FormatPer};
use overlong::Overlong;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use task::TaskOf;
use timely::dataflow::Scope;

/// Settings of `reward`: new reward = task * reward + won * (the turn won) + format * (an action could be read) + invalid * (it could not be carried out)
/// + explore.weight * (R_explore of EAPO, Eq. 9) + novelty * (the column `novelty`) - overlong.weight * (how far into the buffer the response went, from 0 to 1) - kl * (how far the response is from the reference, in nats).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RewardWeights {
    /// Weight of the environment's reward.
    #[serde(default = "one")]
    task: f32,
    /// Which part of an attempt's rewards a turn's is, before its weight.
    #[serde(default)]
    task_of: TaskOf,
    /// By `task_of: to_go`, what a turn of delay costs: 0.9 in EAPO (table 3).
    #[serde(default = "gamma")]
    #[schemars(range(min = 0.0, max = 1.0))]
    gamma: f64,
    /// Earned by the turn that wins; 10 with `task: 0` in LaMer.
    #[serde(default)]
    won: f32,
    /// Earned by a response from which an action could be read and which has the tags of `tags`; 0.5 in EAPO (table 3).
    #[serde(default)]
    format: f32,
    /// The tags that a response must have for `format` besides an action that can be read, each closed: [think, explore, memory, action] in
    /// EAPO. None unless given.
    #[serde(default)]
    #[schemars(inner(regex(pattern = "^[a-z][a-z0-9_]{0,31}$")))]
    tags: Vec<String>,
    /// What `format` is paid for.
    #[serde(default)]
    format_per: FormatPer,
    /// The reward of exploration; none unless given.
    #[serde(default)]
    explore: Option<Explore>,
    /// Added for an action that could not be carried out; -0.1 in GiGPO's scripts.
    #[serde(default)]
    invalid: f32,
    /// Weight of the column `novelty`, which the operator of that name makes (EMPO2, section 4.2: intrinsic rewards).
    #[serde(default)]
    novelty: f32,
    /// What a long response costs (DAPO, Eq. 13); nothing unless given.
    #[serde(default)]
    overlong: Option<Overlong>,
    /// The weight of the divergence from the reference as a part of the reward (REINFORCE++, Hu 2025; InstructGPT, Ouyang et al. 2022, Eq. 2):
    /// the sum over the response's tokens of the log-probability with which each was drawn, less that under the reference. So a turn also
    /// answers for how far the turns after it stray, which a divergence in the loss leaves out. Needs `model`.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    kl: f32,
    /// What is charged with that divergence.
    #[serde(default)]
    kl_per: KlPer,
    /// The model that played, for `kl`.
    #[serde(default)]
    #[schemars(extend("x-names" = "model"))]
    model: Option<String>,
    /// The reference model, for `kl`; `model` as it was when the run began when left out.
    #[serde(default)]
    #[schemars(extend("x-names" = "model"))]
    reference: Option<String>,
    /// What the reference's logits are divided by, for `kl`, in place of the temperature that each row was drawn at (column `temperature`).
    /// When left out: that one; 1 for rows without it, as in old logs.
    #[serde(default)]
    #[schemars(range(max = 10.0), extend("exclusiveMinimum" = 0.0))]
    temperature: Option<f32>,
}

/// What is charged with a divergence from the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KlPer {
    /// The turn: its reward is lowered by the sum over its tokens (RLOO, Ahmadian et al. 2024, where a response is one action).
    #[default]
    Turn,
    /// Each token, with its own part, in the column `token_rewards`, which `advantage` reads by `of: token_return` (REINFORCE++).
    Token,
}

/// Whether the node charges tokens.
pub fn charges_tokens(with: &With) -> bool {
    with.typed::<RewardWeights>().is_some_and(|with| with.kl_per == KlPer::Token && with.kl != 0.0)
}

/// The column of the reward of exploration, before its weight.
const EXPLORATION: &str = "exploration";

fn one() -> f32 {
    1.0
}
fn gamma() -> f64 {
    0.9
}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "reward",
    about: "weighs the task's reward, the format, the validity of an action and the length of a response",
    role: Role::Judges,
    ports: &[Port {
        name: "rows",
        about: "turns",
        carries: Carries::Rows,
        needs: &["reward", "action", "valid"],
        optional: false,
        delay: Delay::Never,
    }],
    keeps: true,
    adds: &["reward", "token_rewards"],
    settings: Settings::of::<RewardWeights>(),
    outside: render,
    inside: None,
    further: Further {
        needs,
        makes: |with| {
            with.typed::<RewardWeights>().and_then(|with| with.explore.as_ref().map(|_| EXPLORATION.to_owned())).into_iter().collect()
        },
        wrong: |node, _| wrong(node),
        head: |with| with.typed::<RewardWeights>()?.model.as_ref().map(|_| RequiredHead::Language),
        weighs: Some(weighs),
        ..Further::NOTHING
    },
};

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<RewardWeights>() else { return Vec::new() };
    let need = |column: &str, at: &str| Need { port: "rows".into(), column: column.into(), at: vec![at.into()] };
    let form = (!with.tags.is_empty()).then(|| need("response", "tags"));
    let explored = with.explore.iter().flat_map(Explore::columns).map(|(at, column)| Need {
        port: "rows".into(),
        column,
        at: vec!["explore".into(), at.into()],
    });
    let overlong = with.overlong.as_ref().map(|_| need("response_tokens", "overlong"));
    let won = (with.won != 0.0).then(|| need("won", "won"));
    let novelty = (with.novelty != 0.0).then(|| need("novelty", "novelty"));
    let read = ["iteration", "task", "sample", "attempt", "turn", "phase", "prompt_tokens", "response_tokens", "choices", "logprobs"];
    let kl = read.iter().filter(|_| with.kl != 0.0).map(|column| need(column, "kl"));
    let attempts = ["iteration", "task", "sample", "attempt", "turn", "phase"].iter().filter(|_| with.task_of != TaskOf::Turn);
    let attempts = attempts.map(|column| need(column, "task_of"));
    explored.chain(attempts).chain(form).chain(overlong).chain(won).chain(novelty).chain(kl).collect()
}

/// A buffer that would begin before the response does, a divergence of nothing, and models that nobody asks.
fn wrong(node: &Node) -> Vec<Wrong> {
    let Ok(with) = settings::<RewardWeights>(node) else { return vec![] };
    let mut mistakes = Vec::new();
    if let Some(overlong) = with.overlong.as_ref().filter(|overlong| overlong.buffer > overlong.max) {
        let message = format!("`buffer` must be at most `max`, found {} and {}", overlong.buffer, overlong.max);
        let help = "a response of `max` tokens costs the whole weight, one of `max` - `buffer` tokens nothing";
        mistakes.push(Wrong::in_node(node, &["with", "overlong", "buffer"], message).help(help));
    }
    if with.kl != 0.0 && with.model.is_none() {
        let message = "`kl` is the divergence of a model, and none is named";
        mistakes.push(Wrong::in_node(node, &["with", "kl"], message).help("name the one that played: `model: actor`"));
    }
    for idle in ["model", "reference", "temperature", "kl_per"].iter().filter(|key| with.kl == 0.0 && node.with.gives(key)) {
        mistakes.push(Wrong::in_node(node, &["with", idle], format!("`{idle}` is read by `kl` alone")).help("give `kl`, or leave it out"));
    }
    mistakes
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<RewardWeights>(node)?;
    let rows = must(&ports, "rows")?;
    let step = |name: &str, inputs, place| Stage { name: format!("{}{name}", node.id), inputs, begins: false, place };
    let weighed = with.clone();
    // Whole attempts stand where their task is.
    let route = if with.task_of == TaskOf::Turn { Route::Stay } else { Route::by(&["task"]) };
    let weighed = stage(step("", vec![(rows, route)], Place::Worker), ctx, move |_, rows| Ok(weigh_all(&rows[0], &weighed)?));
    let Some(model) = with.model.clone().filter(|_| with.kl != 0.0) else { return Ok(weighed) };
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let (shared, id) = (ctx.shared.clone(), node.id.clone());
    // The policy reads all rows of an iteration as one batch, so that the bits don't depend on the number of workers.
    Ok(stage(step(" divergence", vec![(weighed, Route::One)], Place::Thread), ctx, move |iteration, rows| {
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let strays = strays(&view, &policy, &model, with.reference.as_deref(), with.temperature)?;
        let turns: Vec<f64> = strays.iter().map(|tokens| whole(tokens)).collect();
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
    with.task_of.paid(rows, with.gamma)?.iter().map(|batch| weigh(batch, with)).collect()
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

    /// DAPO, Eq. 13, with a longest response of 16 tokens and a buffer of 4.
    #[test]
    fn a_long_response_costs() {
        let overlong = Overlong { max: 16, buffer: 4, weight: 1.0 };
        let penalties: Vec<f32> = [0, 11, 12, 13, 14, 15, 16, 17, 1000].map(|tokens| overlong.penalty(tokens)).to_vec();
        assert_eq!(penalties, [0.0, 0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.0, -1.0]);
        assert_eq!(Overlong { max: 4, buffer: 4, weight: 2.0 }.penalty(1), -0.5, "a buffer that is the whole response");

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
            let node = Node { id: "reward".into(), op: "reward".into(), inputs: vec![], with, body: None };
            wrong(&node).into_iter().map(|w| w.at.join(".")).collect::<Vec<_>>()
        };
        use serde_json::json;
        assert_eq!(mistakes(json!({ "kl": 0.1 })), ["nodes.reward.with.kl"]);
        assert_eq!(mistakes(json!({ "model": "actor", "temperature": 1 })), ["nodes.reward.with.model", "nodes.reward.with.temperature"]);
        assert!(mistakes(json!({ "kl": 0.1, "model": "actor" })).is_empty() && mistakes(json!({})).is_empty());
    }
}
