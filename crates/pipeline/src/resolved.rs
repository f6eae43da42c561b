//! A pipeline that passed every check, as plain data: its nodes in a possible order of work, their edges, and the loops
//! among them.

use super::marks::{self, Named};
use super::{Carries, Catalog, Test, WeightRetention, With};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the operator of a loop is called.
pub const LOOP: &str = "loop";

/// A pipeline that passed every check, overrides applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    pub name: String,
    pub about: String,
    pub iterations: u64,
    pub seed: u64,
    /// The entries of `models:`, each fitting the catalog's schema.
    pub models: BTreeMap<String, Value>,
    /// Every node after the nodes that it reads in time; otherwise in the file's order.
    pub nodes: Vec<Node>,
    /// The nodes whose rows are logged.
    pub log: Vec<String>,
    /// Which old weights stay on disk.
    pub keep: WeightRetention,
    /// Rows fed and rows expected; no part of `source`.
    pub tests: Vec<Test>,
    /// The file as it was understood, without its tests: a run has no use for them. Paths in it begin in the folder
    /// where `flow` runs.
    pub source: Value,
    /// Where in `source` files are named.
    pub paths: Vec<Named>,
}

/// The setting of a model that names another one, on whose base it is.
pub const BASE: &str = "on";

/// One operator at work, or a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: String,
    /// The operator; [`LOOP`] for a loop.
    pub op: String,
    /// In the file's order. A loop has one for each node outside and each staleness that its inner nodes read, with the
    /// port called after the node.
    pub inputs: Vec<Input>,
    /// Its settings, fitting the operator's schema; nothing for a loop.
    pub with: With,
    /// Its nodes and settings, if it is a loop.
    pub body: Option<Body>,
    /// The columns of its rows: all that its edge carries. `None` where some of its rows come from elsewhere (a log, a
    /// test), whose columns aren't known here.
    pub columns: Option<Vec<String>>,
}

/// One edge, seen from the node that reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub port: String,
    /// The node that is read.
    pub from: String,
    /// `None`: in time. `Some(k)`: delayed, with the path summary `k + 1`.
    pub staleness: Option<u64>,
}

/// The contents of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// How many attempts a trial has, at most.
    pub attempts: u32,
    /// When a trial ends before its last attempt.
    pub until: Until,
    /// Every node after the nodes that it reads in its own attempt; otherwise in the file's order.
    pub nodes: Vec<Node>,
    /// The nodes whose rows, of all attempts together, are the loop's.
    pub output: Vec<String>,
}

/// When a trial, which is one sample of one task, is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// With its first success.
    #[default]
    Won,
    /// After the last attempt only.
    Never,
}

impl Body {
    /// The node inside that is called `id`.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }
}

impl Node {
    /// The model that the node works with, as its setting `model` names it.
    pub fn model(&self) -> Option<&str> {
        self.with.names(marks::MODEL)
    }

    /// Itself and, of a loop, the nodes inside.
    pub fn all(&self) -> impl Iterator<Item = &Node> {
        std::iter::once(self).chain(self.body.iter().flat_map(|b| &b.nodes))
    }

    /// Without what it reads: its rows come from elsewhere.
    pub(super) fn cut(&mut self) {
        self.inputs.clear();
        self.body.iter_mut().flat_map(|b| &mut b.nodes).for_each(|n| n.inputs.clear());
    }

    /// Of some rows upstream it isn't known which columns they have.
    pub(super) fn forget_columns(&mut self) {
        self.columns = None;
        self.body.iter_mut().flat_map(|b| &mut b.nodes).for_each(|n| n.columns = None);
    }

    /// The columns that this node makes and that its log holds, where an operator's node `adds` these: of a loop the
    /// columns that any of its outputs makes.
    pub fn makes(&self, adds: impl Fn(&Node) -> Vec<String>) -> Vec<String> {
        let mut made: Vec<String> = Vec::new();
        for column in self.makers().into_iter().flat_map(adds) {
            let carried = self.columns.as_ref().is_none_or(|columns| columns.contains(&column));
            if carried && !made.contains(&column) {
                made.push(column);
            }
        }
        made
    }

    /// The nodes whose operators make this node's rows: itself, or the output of a loop.
    pub fn makers(&self) -> Vec<&Node> {
        match &self.body {
            None => vec![self],
            Some(body) => body.output.iter().filter_map(|id| body.node(id)).collect(),
        }
    }
}

impl Pipeline {
    /// The node called `id`; those inside a loop are found through the loop's body.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// The nodes that the rows of the node `id` came through in their iteration, in topological order. Weights are no
    /// rows: one update that waits for another one's has no rows of it.
    pub fn upstream(&self, id: &str, catalog: &Catalog) -> Vec<&str> {
        let weights = |node: &Node, input: &Input| {
            catalog.operator(&node.op).and_then(|o| o.port(&input.port)).is_some_and(|p| p.carries == Carries::Weights)
        };
        let mut nodes: Vec<&str> = vec![id];
        for node in self.nodes.iter().rev() {
            if nodes.contains(&node.id.as_str()) {
                nodes.extend(node.inputs.iter().filter(|i| i.staleness.is_none() && !weights(node, i)).map(|i| i.from.as_str()));
            }
        }
        self.nodes.iter().map(|n| n.id.as_str()).filter(|n| *n != id && nodes.contains(n)).collect()
    }

    /// The models that are used, and those on whose bases they are.
    pub fn models_for(&self, used: impl Fn(&str) -> bool) -> BTreeMap<String, Value> {
        let base = |name: &str| self.models.iter().any(|(model, settings)| used(model) && settings[BASE] == name);
        let kept = self.models.iter().filter(|(name, _)| used(name) || base(name));
        kept.map(|(name, settings)| (name.clone(), settings.clone())).collect()
    }

    /// Every node, those inside loops too, each behind the loop that it stands in.
    pub fn all(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flat_map(Node::all)
    }

    /// Where a path such as nodes, rollout, with stands in the file: a node inside a loop stands under the loop, and
    /// what a node says of its agent under `agents` where it names one.
    pub(super) fn written<'a>(&'a self, path: &'a [String]) -> Vec<&'a str> {
        let mut steps: Vec<&str> = path.iter().map(String::as_str).collect();
        if let ["nodes", id, ..] = steps[..] {
            steps.splice(1..1, self.around(id).into_iter().flat_map(|around| [around.id.as_str(), "nodes"]));
        }
        // Where a text stands on the way to a setting, it is an agent's name.
        let mut here = &self.source;
        for (i, step) in steps.iter().enumerate() {
            let Some(next) = here.get(*step) else { break };
            here = next;
            if let (Some(agent), true, "agent") = (here.as_str(), i + 1 < steps.len(), *step) {
                return ["agents", agent].into_iter().chain(steps[i + 1..].iter().copied()).collect();
            }
        }
        steps
    }

    /// Where `--set` finds the node `id`: `nodes.update`, or `nodes.trial.nodes.update` of one in a loop.
    pub fn path_to(&self, id: &str) -> String {
        self.around(id).map_or(format!("nodes.{id}"), |around| format!("nodes.{}.nodes.{id}", around.id))
    }

    /// The loop of the node `id`.
    pub fn around(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.body.as_ref().is_some_and(|b| b.node(id).is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{catalog, LOOPED};
    use crate::{differences, parse};

    fn looped(sets: &[&str]) -> Pipeline {
        parse("x", LOOPED, &sets.iter().map(|s| s.to_string()).collect::<Vec<_>>(), &catalog()).unwrap()
    }

    fn input(port: &str, from: &str, staleness: Option<u64>) -> Input {
        Input { port: port.into(), from: from.into(), staleness }
    }

    #[test]
    fn a_loop_reads_what_its_nodes_read_outside() {
        let pipeline = looped(&[]);
        let ids: Vec<&str> = pipeline.nodes.iter().map(|n| n.id.as_str()).collect();
        assert_eq!(ids, ["tasks", "trial", "group", "advantage", "update"]);
        let trial = pipeline.node("trial").unwrap();
        assert_eq!((trial.op.as_str(), &trial.with), (LOOP, &With::default()));
        let read = [input("update", "update", Some(1)), input("tasks", "tasks", None), input("update", "update", Some(0))];
        assert_eq!(trial.inputs, read);
        assert_eq!(pipeline.upstream("advantage", &catalog()), ["tasks", "trial", "group"]);
    }

    #[test]
    fn its_body_is_in_order_and_knows_the_next_attempt() {
        let pipeline = looped(&[]);
        let body = pipeline.node("trial").unwrap().body.as_ref().unwrap();
        assert_eq!((body.attempts, body.until), (3, Until::Won));
        assert_eq!(
            body.nodes.iter().map(|n| n.id.as_str()).collect::<Vec<_>>(),
            ["rollout", "reflect"],
            "reflect stands first in the file"
        );
        assert_eq!(body.output, ["rollout", "reflect"]);
        let rollout = body.node("rollout").unwrap();
        assert_eq!(rollout.inputs[2], input("memory", "reflect", Some(0)));
        assert_eq!(
            rollout.inputs.iter().map(|i| i.staleness.is_some() && body.node(&i.from).is_some()).collect::<Vec<_>>(),
            [false, false, true],
            "weights are of an iteration before"
        );
        assert_eq!(rollout.with.raw()["samples"], 8);
    }

    #[test]
    fn all_nodes_and_who_stands_where() {
        let pipeline = looped(&[]);
        let all: Vec<&str> = pipeline.all().map(|n| n.id.as_str()).collect();
        assert_eq!(all, ["tasks", "trial", "rollout", "reflect", "group", "advantage", "update"]);
        assert_eq!((pipeline.node("rollout"), pipeline.around("rollout").map(|n| n.id.as_str())), (None, Some("trial")));
        assert!(pipeline.around("tasks").is_none() && pipeline.around("trial").is_none());
        let makers = |id: &str| pipeline.node(id).unwrap().makers().iter().map(|n| n.op.clone()).collect::<Vec<_>>();
        assert_eq!((makers("trial"), makers("group")), (vec!["rollout".to_string(), "reflect".into()], vec!["group".to_string()]));
        let path = |path: &[&str]| pipeline.written(&path.iter().map(|s| s.to_string()).collect::<Vec<_>>()).join(".");
        assert_eq!(path(&["nodes", "rollout", "with", "samples"]), "nodes.trial.nodes.rollout.with.samples");
        assert_eq!(path(&["nodes", "group", "with"]), "nodes.group.with");
    }

    #[test]
    fn overrides_reach_into_a_loop_and_its_source_reads_back() {
        let sets = ["nodes.trial.nodes.rollout.with.samples=4", "nodes.trial.loop.attempts=2", "nodes.trial.loop.until=never"];
        let other = looped(&sets);
        let body = other.node("trial").unwrap().body.as_ref().unwrap();
        assert_eq!((body.attempts, body.until, body.node("rollout").unwrap().with.raw()["samples"].as_u64()), (2, Until::Never, Some(4)));
        assert_eq!(parse("x", &other.to_yaml("".as_ref()), &[], &catalog()).unwrap(), other);
        let differ: Vec<String> = differences(&looped(&[]).source, &other.source).into_iter().map(|d| d.path).collect();
        assert_eq!(differ, ["nodes.trial.loop.attempts", "nodes.trial.loop.until", "nodes.trial.nodes.rollout.with.samples"]);
        assert_eq!(looped(&["nodes.trial.loop={ attempts: 1 }"]).node("trial").unwrap().body.as_ref().unwrap().until, Until::Won);
        let made_up = parse("x", LOOPED, &["nodes.trial.nodes.rolout=1".into()], &catalog()).unwrap_err().to_string();
        assert!(made_up.contains("there is no `nodes.trial.nodes.rolout` in the file") && made_up.contains("`rollout`?"), "{made_up}");
    }
}
