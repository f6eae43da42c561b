//! The pipeline language: a YAML file in, a checked [`Pipeline`] or every mistake in it out.
//!
//! This is the only code that knows YAML, and it knows no operator: those come as data, in a [`Catalog`].
//! A file is read into a tree that remembers where each value stands ([`tree`]), overrides are put in ([`sets`]),
//! then everything is checked in one pass ([`check`], [`settings`], [`flow`]), so that one look shows all that is wrong.

mod catalog;
mod diagnose;
mod draw;

pub use catalog::{Catalog, Delay, Need, OperatorSpec, Port};
pub use diagnose::{Diagnostic, Diagnostics};
pub use draw::{draw, Format};

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

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
    /// The file as it was understood.
    pub source: Value,
}

/// One operator at work.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: String,
    pub op: String,
    /// In the file's order.
    pub inputs: Vec<Input>,
    /// Its settings, fitting the operator's schema.
    pub with: Value,
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

impl Pipeline {
    /// The resolved pipeline as YAML: what a run keeps, and what reads back as the same pipeline.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(&self.source).unwrap_or_default()
    }

    /// The node called `id`.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }
}

/// Reads and checks a pipeline file; `sets` are the `path=value` texts of `--set`.
pub fn load(path: &Path, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    todo!()
}

/// Checks a pipeline given as text; `name` is what messages call the file.
pub fn parse(name: &str, text: &str, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    todo!()
}

/// JSON Schema of a whole pipeline file, for editors: what `with` holds follows from `op`.
pub fn schema(catalog: &Catalog) -> Value {
    todo!()
}
