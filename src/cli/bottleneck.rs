//! The bottleneck of a run in one sentence, and the settings that move it.
//!
//! [`RULES`] is the table: which figures show a case, and which levers there are. A lever that is a setting is named
//! with a value to try, and only if `flow check` accepts the run's pipeline with that value.

use crate::ops;
use flow_log::{TimePart, TimeShares};
use flow_pipeline::{load, Node, Pipeline, Role};
use serde_json::Value;
use std::path::Path;

/// Seconds: the shares of a shorter run say nothing yet.
const SHORT: f64 = 60.0;

/// The share from which a part is named as the bottleneck.
const LARGE: f64 = 0.4;

/// By the part that takes most of the time: whether the figures show the case, the case in words around the node's
/// name, and the levers.
struct Rule(TimePart, fn(&Case) -> bool, [&'static str; 2], &'static [Lever]);

/// What would shorten it; the setting, as the node's, its agent's, its model's, or that of the node that its tasks come
/// from (no setting: advice); and a value to try in place of the given one.
struct Lever(&'static str, &'static str, fn(&Value) -> Option<Value>);

const fn advice(means: &'static str) -> Lever {
    Lever(means, "", |_| None)
}

const ADAPTER: Lever = advice("an adapter in place of all weights (`lora`)");
const CACHE: Lever = Lever("a larger prefix cache", "model.cache_gb", |now| multiplied(now, 4, 2.0));
const ELSEWHERE: Lever = advice("a GPU or servers for the model (`serve`)");
const EPOCHS: Lever = Lever("fewer passes over the rows", "node.with.epochs", |now| multiplied(now, 1, 0.5));
const EVERY: Lever = Lever("fewer measurements", "node.with.every", |now| multiplied(now, 10, 2.0));
const GPUS: Lever = advice("a GPU, or several by `train`");
const LIVE: Lever = Lever("more programs at once", "source.with.live", |now| multiplied(now, 64, 2.0));
const MINIBATCH: Lever = Lever("larger steps", "node.with.minibatch", |now| multiplied(now, 0, 2.0));
const PROCESSES: Lever = Lever("more processes of the environment", "source.with.processes", |now| multiplied(now, 1, 2.0));
const REMOTE: Lever = Lever("more requests in flight", "model.parallel", |now| multiplied(now, 64, 2.0));
const REQUESTS: Lever = Lever("more requests in flight", "model.serve.parallel", |now| multiplied(now, 64, 2.0));
const SHORTER: Lever = Lever("shorter answers", "agent.max_tokens", |now| multiplied(now, 32, 0.5));
const TREE: Lever = Lever("rows without padding", "model.train.layout", |now| now.as_str().map(|_| "tree".into()));
const WORKERS: Lever = advice("more worker threads (`--workers`)");

const DISK: [Lever; 2] = [advice("a disk that run and servers share"), ADAPTER];
const WRITES: [&str; 2] = ["the update `", "`, which writes weights for much of it"];

/// The first rule of the largest part whose figures show its case counts.
const RULES: &[Rule] = &[
    Rule(TimePart::Weights, |_| true, ["the wait of `", "` for weights at servers"], &DISK),
    Rule(TimePart::Evaluation, |_| true, ["evaluation by `", "`"], &[EVERY, advice("a smaller panel")]),
    Rule(
        TimePart::Rollouts,
        |case| case.idle(),
        ["the wait of `", "` for environments, while the model is idle"],
        &[PROCESSES, LIVE, WORKERS],
    ),
    Rule(
        TimePart::Rollouts,
        |case| case.served(),
        ["generation by `", "` on servers"],
        &[REQUESTS, REMOTE, SHORTER, advice("more servers")],
    ),
    Rule(TimePart::Rollouts, |case| case.padding() >= 2.0, ["generation by `", "`"], &[CACHE, SHORTER, ELSEWHERE]),
    Rule(TimePart::Rollouts, |_| true, ["generation by `", "`"], &[SHORTER, ELSEWHERE]),
    Rule(TimePart::Updates, |case| case.hosted(), ["the update `", "` on a server"], &[EPOCHS, MINIBATCH]),
    Rule(TimePart::Updates, |case| case.of(&["idle"]) > 0.4, ["the update `", "`, whose trainer waits between steps"], &[MINIBATCH]),
    Rule(TimePart::Updates, |case| case.of(&["export", "save"]) > 0.4, WRITES, &[advice("a faster disk"), ADAPTER]),
    Rule(TimePart::Updates, |_| true, ["the update `", "`"], &[TREE, EPOCHS, GPUS]),
    Rule(TimePart::Others, |_| true, ["the work of `", "`"], &[SHORTER]),
];

/// The given number, or the default, multiplied; none where that makes 0.
fn multiplied(now: &Value, default: u64, factor: f64) -> Option<Value> {
    let number = (now.as_f64().unwrap_or(default as f64) * factor).floor();
    (number > 0.0).then(|| (number as u64).into())
}

/// The line of the summary: none for a run of less than a minute, which needs no advice.
pub fn line(shares: &TimeShares, pipeline: &Path) -> Option<String> {
    (shares.all() >= SHORT).then(|| format!("time: {}. {}", shares.shares(), sentence(shares, pipeline)))
}

/// What takes most of the time and what moves it, of the run with this pipeline.
pub fn sentence(shares: &TimeShares, pipeline: &Path) -> String {
    let Some((part, seconds, id)) = shares.largest().filter(|(_, seconds, _)| *seconds > 0.0) else {
        return "No bottleneck can be named: no node logged how long it took.".into();
    };
    match seconds / shares.all() {
        _ if shares.all() < SHORT => return "Too short to name a bottleneck: the nodes worked for less than a minute.".into(),
        share if share < LARGE => return format!("No part takes most of the time: {}.", shares.shares()),
        _ => {}
    }
    let accepted = |sets: &[String]| load(pipeline, sets, &ops::catalog()).ok();
    let pipeline = accepted(&[]);
    let node = pipeline.as_ref().and_then(|pipeline| Some((pipeline, pipeline.all().find(|node| node.id == id)?)));
    // Of a loop the node in it that plays.
    let node = node.map(|(pipeline, node)| (pipeline, node.all().find(|node| ops::acts(node)).unwrap_or(node)));
    let case = Case { shares, seconds, id, node };
    let found = RULES.iter().find(|Rule(part_of, shows, ..)| *part_of == part && shows(&case));
    let Some(Rule(_, _, [before, after], levers)) = found else { return String::new() };
    let padding = Some(case.padding()).filter(|padding| *padding >= 1.1);
    let padding = padding.map_or_else(String::new, |padding| format!(", {padding:.1} tokens computed for each distinct one"));
    let means = |Lever(means, setting, change): &Lever| {
        if setting.is_empty() {
            return (*means != ADAPTER.0 || !case.adapts()).then(|| (*means).to_owned());
        }
        let set = case.set(setting, *change)?;
        accepted(std::slice::from_ref(&set)).map(|_| format!("{means} (`--set {set}`)"))
    };
    let mut levers: Vec<String> = levers.iter().filter_map(means).collect();
    // Where environments are programs, no worker waits less.
    if levers.len() > 1 {
        levers.retain(|lever| lever != WORKERS.0);
    }
    let levers = match levers.is_empty() {
        true => "No setting of this pipeline is known to shorten it".to_owned(),
        false => format!("To shorten it: {}", levers.join(", or ")),
    };
    format!("{:.0}% of the time is {before}{id}{after}{padding}. {levers}.", 100.0 * seconds / shares.all())
}

/// What rules ask: the figures, the part's seconds, and the node that took most of them.
struct Case<'a> {
    shares: &'a TimeShares,
    seconds: f64,
    id: &'a str,
    node: Option<(&'a Pipeline, &'a Node)>,
}

impl Case<'_> {
    /// Tokens computed for each distinct one.
    fn padding(&self) -> f64 {
        self.shares.sum(self.id, "tokens_computed") / self.shares.sum(self.id, "tokens_distinct").max(1.0)
    }

    /// The share of some seconds, such as `idle_seconds`, in the part's.
    fn of(&self, names: &[&str]) -> f64 {
        names.iter().map(|name| self.shares.sum(self.id, &format!("{name}_seconds"))).sum::<f64>() / self.seconds
    }

    fn model_is(&self, which: impl Fn(&Value) -> bool) -> bool {
        self.node.zip(self.model()).and_then(|((pipeline, _), name)| pipeline.models.get(&name)).is_some_and(which)
    }

    fn served(&self) -> bool {
        self.model_is(|model| model["serve"].is_object() || model["openai"].is_string())
    }

    fn hosted(&self) -> bool {
        self.model_is(|model| model["train"]["tinker"].is_string())
    }

    fn adapts(&self) -> bool {
        self.model_is(|model| model["lora"].is_object() || model["adapter"].is_string())
    }

    /// Whether the model waits for environments. Updates keep its thread busy, too; where they take longer than it was
    /// busy, they waited for it.
    fn idle(&self) -> bool {
        let (busy, updates) = (self.shares.sum("engine", "policy_busy_seconds"), self.shares.of(TimePart::Updates));
        !self.served() && busy > 0.0 && busy > 0.9 * updates && busy - updates < 0.5 * self.seconds
    }

    /// The model that the node generates with, or trains.
    fn model(&self) -> Option<String> {
        let (_, node) = self.node?;
        ops::agents(node).into_iter().next().map(|agent| agent.model).or_else(|| node.model().map(String::from))
    }

    /// The override that changes a setting, where there is something to change.
    fn set(&self, setting: &str, change: fn(&Value) -> Option<Value>) -> Option<String> {
        let (pipeline, node) = self.node?;
        let given = |path: &str| pipeline.source.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
        let (owner, name) = setting.split_once('.')?;
        let owner = match owner {
            "node" => pipeline.path_to(&node.id),
            "model" => format!("models.{}", self.model()?),
            "source" => pipeline.path_to(
                &pipeline.all().find(|other| ops::is(other, Role::Opens) && node.inputs.iter().any(|input| input.from == other.id))?.id,
            ),
            // Choices among given answers are as long as those are.
            _ => {
                ops::agents(node).first().filter(|agent| agent.free)?;
                let own = pipeline.path_to(&node.id) + ".with.agent";
                given(&own).as_str().map_or(own.clone(), |name| format!("agents.{name}"))
            }
        };
        let path = format!("{owner}.{name}");
        let value = change(given(&path)).filter(|value| value != given(&path))?;
        Some(format!("{path}={}", value.as_str().map_or_else(|| value.to_string(), String::from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_dataflow::figures::Figures;

    /// A pipeline on `models: { actor: ... }` with tasks of an environment and an agent of these settings.
    fn pipeline(model: &str, tasks: &str, agent: &str) -> String {
        format!(
            "flow: x
iterations: 3
models: {{ actor: {{ {model} }} }}
agents: {{ player: {{ model: actor, max_turns: 3, {agent} }} }}
nodes:
  tasks: {{ op: tasks, with: {{ {tasks}, batch: 2 }} }}
  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: player }} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 1.0e-3, epochs: 4 }} }}
log: [rollout]
"
        )
    }

    const TINY: &str = "new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1";
    const SERVED: &str = "load: models/base, lora: { rank: 8, alpha: 16 }, serve: { vllm: [\"http://127.0.0.1:8000\"] }";
    const HOSTED: &str = "load: models/base, lora: { rank: 8, alpha: 16 }, train: { tinker: \"http://127.0.0.1:8000\" }";
    const PROCESS: &str = "env: process, command: [x], name: x, processes: 4";

    fn said(yaml: &str, nodes: &[(&str, &[(&str, f64)])]) -> String {
        let own = |own: &[(&str, f64)]| own.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        let figures: Figures = nodes.iter().map(|(node, values)| (node.to_string(), own(values))).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipeline.yaml");
        std::fs::write(&path, yaml).unwrap();
        let mut shares = TimeShares::default();
        (0..10).for_each(|_| shares.add(&figures));
        assert_eq!(line(&shares, &path).is_some(), shares.all() >= SHORT);
        sentence(&shares, &path)
    }

    type Own<'a> = &'a [(&'a str, f64)];
    const UPDATE: (&str, Own) = ("update", &[("lr", 1e-4), ("seconds", 2.0)]);

    #[test]
    fn a_setting_is_named_where_the_node_has_it() {
        let free = pipeline(TINY, "env: sokoban", "decode: free, max_tokens: 64");
        let busy = ("engine", &[("policy_busy_seconds", 9.0)][..]);
        let rollout = ("rollout", &[("turns", 9.0), ("seconds", 8.0), ("tokens_computed", 42.0), ("tokens_distinct", 10.0)][..]);
        let generation = "80% of the time is generation by `rollout`, 4.2 tokens computed for each distinct one. To shorten it: ";
        let shorter = "shorter answers (`--set agents.player.max_tokens=32`), or a GPU or servers for the model (`serve`).";
        assert_eq!(said(&free, &[rollout, busy, UPDATE]), format!("{generation}{shorter}"), "a new model has no `cache_gb`");
        let choices = pipeline(TINY, "env: sokoban", "decode: constrained");
        assert_eq!(said(&choices, &[rollout, busy, UPDATE]), format!("{generation}a GPU or servers for the model (`serve`)."));

        let idle = ("engine", &[("policy_busy_seconds", 3.0)][..]);
        let waits = "80% of the time is the wait of `rollout` for environments, while the model is idle, 4.2 tokens computed for each distinct one. To shorten it: ";
        assert_eq!(said(&free, &[rollout, idle, UPDATE]), format!("{waits}more worker threads (`--workers`)."));
        let shared = said(&free, &[rollout, ("engine", &[("policy_busy_seconds", 5.0)]), ("update", &[("lr", 1e-4), ("seconds", 7.0)])]);
        assert!(shared.starts_with("53% of the time is generation by `rollout`"), "the thread was never idle: {shared}");
        let process = pipeline(TINY, PROCESS, "decode: free");
        let expected = format!("{waits}more processes of the environment (`--set nodes.tasks.with.processes=8`).");
        assert_eq!(said(&process, &[rollout, idle, UPDATE]), expected);

        let served = said(&pipeline(SERVED, "env: sokoban", "decode: free"), &[rollout, UPDATE]);
        assert!(
            served.contains("`rollout` on servers") && served.contains("(`--set models.actor.serve.parallel=128`), or shorter"),
            "{served}"
        );
    }

    #[test]
    fn other_parts_have_their_own_levers() {
        let free = pipeline(TINY, "env: sokoban", "decode: free");
        let rollout = ("rollout", &[("turns", 9.0), ("seconds", 2.0), ("adapter_seconds", 1.0)][..]);
        let update = |own: Own| said(&free, &[rollout, ("update", &[&[("lr", 1e-4), ("seconds", 18.0)], own].concat())]);
        let expected = "90% of the time is the update `update`. To shorten it: fewer passes over the rows (`--set nodes.update.with.epochs=2`), or a GPU, or several by `train`.";
        assert_eq!(update(&[]), expected);
        let idle = "90% of the time is the update `update`, whose trainer waits between steps. No setting of this pipeline is known to shorten it.";
        assert_eq!(update(&[("idle_seconds", 9.0)]), idle, "all rows are one step already");
        assert!(update(&[("save_seconds", 9.0)]).contains("which writes weights for much of it. To shorten it: a faster disk"));
        let hosted = pipeline(HOSTED, "env: sokoban", "decode: free").replace("epochs: 4", "epochs: 4, max_grad_norm: 0");
        let saves = said(&hosted, &[rollout, ("update", &[("lr", 1e-4), ("seconds", 18.0), ("save_seconds", 9.0)])]);
        assert!(saves.starts_with("90% of the time is the update `update` on a server. To shorten it: fewer passes"), "{saves}");
        let disk = said(
            &pipeline(SERVED, "env: sokoban", "decode: free"),
            &[("rollout", &[("turns", 9.0), ("seconds", 9.0), ("adapter_seconds", 8.0)])],
        );
        assert!(disk.ends_with("To shorten it: a disk that run and servers share."), "it has an adapter: {disk}");
        let waits = said(&free, &[("rollout", &[("turns", 9.0), ("seconds", 9.0), ("adapter_seconds", 8.0)]), UPDATE]);
        assert!(waits.starts_with("73% of the time is the wait of `rollout` for weights at servers. To shorten it: a disk"), "{waits}");
    }

    /// A name that no schema has would never be accepted, and so never be said.
    #[test]
    fn each_lever_is_a_setting_of_some_schema() {
        let operators = ops::TABLE.iter().map(|operator| (operator.settings.schema)());
        let schemas: String = operators.chain([ops::catalog().model, ops::catalog().agent]).map(|schema| schema.to_string()).collect();
        let levers = RULES.iter().flat_map(|Rule(.., levers)| levers.iter()).filter(|Lever(_, setting, _)| !setting.is_empty());
        let names: Vec<&str> = levers.filter_map(|Lever(_, setting, _)| setting.rsplit('.').next()).collect();
        assert!(names.len() > 10 && names.iter().all(|name| schemas.contains(&format!("\"{name}\":"))), "{names:?}");
    }

    #[test]
    fn where_nothing_dominates_or_figures_lack_it_says_so() {
        let free = pipeline(TINY, "env: sokoban", "decode: free");
        let part = |seconds: f64| [("turns", 9.0), ("seconds", seconds)];
        let panel = [("turns", 9.0), ("seconds", 3.0), ("panel", 8.0)];
        let even = said(&free, &[("rollout", &part(3.5)), ("evaluate", &panel), ("update", &[("lr", 1e-4), ("seconds", 3.5)])]);
        assert_eq!(even, "No part takes most of the time: rollouts 35%, evaluation 30%, updates 35%.");
        assert_eq!(said(&free, &[("rollout", &part(1.0))]), "Too short to name a bottleneck: the nodes worked for less than a minute.");
        assert_eq!(said(&free, &[("rollout", &[("success", 1.0)])]), "No bottleneck can be named: no node logged how long it took.");
        // A pipeline that can't be read has no settings to name.
        let unread = said("flow: [", &[("rollout", &part(9.0))]);
        assert_eq!(unread, "100% of the time is generation by `rollout`. To shorten it: a GPU or servers for the model (`serve`).");
    }
}
