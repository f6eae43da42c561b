//! A pipeline as far as its text could be understood: the checks fill it in, one after the other.

use crate::catalog::{Delay, OperatorSpec, Port};
use crate::parse::{Location, Tree};
use crate::{Test, Until, WeightRetention, With};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the file so far.
#[derive(Default)]
pub struct Sketch<'a> {
    pub name: String,
    pub about: String,
    pub iterations: u64,
    pub seed: u64,
    pub models: BTreeMap<String, Value>,
    pub agents: BTreeMap<String, Value>,
    /// The agents whose settings don't fit, which was reported.
    pub misfits: BTreeSet<String>,
    pub nodes: Vec<Draft<'a>>,
    pub log: Vec<String>,
    pub keep: WeightRetention,
    pub tests: Vec<Test>,
    /// Nodes that something names, even with a typing error: they aren't reported as unused.
    pub mentioned: BTreeSet<String>,
}

impl<'a> Sketch<'a> {
    /// The loop of the node `id`.
    pub fn around(&self, id: &str) -> Option<&'a str> {
        let outside = self.nodes.iter().any(|n| n.id == id && n.inside.is_none());
        let place = self.nodes.iter().find(|n| n.id == id && !outside)?.inside?;
        Some(self.nodes[place].id)
    }
}

/// What is known of a node so far.
pub struct Draft<'a> {
    pub id: &'a str,
    pub at: Location,
    pub op_at: Location,
    /// The position of its loop.
    pub inside: Option<usize>,
    pub spec: Option<&'a OperatorSpec>,
    pub edges: Vec<DraftEdge<'a>>,
    /// Whether some input could not be understood, so that it is unknown which ports are fed.
    pub broken_inputs: bool,
    /// Its settings, if they fit.
    pub with: Option<With>,
    pub with_tree: Option<&'a Tree>,
    /// What is known of it as a loop.
    pub body: Option<Loop>,
}

/// One input of a node.
pub struct DraftEdge<'a> {
    pub port: &'a str,
    pub spec: Option<&'static Port>,
    pub from: &'a str,
    pub at: Location,
    /// Which node is read, by position in the file; none if there is no such node.
    pub node: Option<usize>,
    pub staleness: Option<u64>,
}

impl DraftEdge<'_> {
    /// Whether it makes its reader wait. An edge in time, written where only a delayed edge may be, was reported
    /// already.
    pub fn in_time(&self) -> bool {
        self.staleness.is_none() && self.spec.is_none_or(|p| p.delay != Delay::Always)
    }
}

/// What is known of a loop so far.
pub struct Loop {
    pub attempts: u32,
    pub until: Until,
    /// Where the number of attempts stands.
    pub at: Location,
    /// By position in the file.
    pub output: Vec<usize>,
}
