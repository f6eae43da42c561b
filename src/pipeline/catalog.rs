//! What the layer above says about its operators. This module knows none of them: it checks a file against this list.

use super::{Node, Pipeline, Read, With};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Every operator, what an entry of `models:` and of `agents:` looks like, and the names of all columns.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub operators: Vec<OperatorSpec>,
    /// JSON Schema of one entry of `models:`.
    pub model: serde_json::Value,
    /// JSON Schema of one entry of `agents:`.
    pub agent: serde_json::Value,
    /// The names of all columns that a row can have.
    pub columns: Vec<&'static str>,
    /// Nodes whose rows come from a log, with the columns that it has of them, whatever their operators make.
    pub logged: BTreeMap<String, Vec<String>>,
    /// What only the operators themselves can see in a pipeline whose every part is well formed.
    pub wrong: fn(&Pipeline) -> Vec<Wrong>,
}

/// A mistake that an operator found in its own settings or in how the nodes fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Wrong {
    /// The path of the value that is wrong, such as nodes, tasks, with, mines; of a node inside a loop too.
    pub at: Vec<String>,
    pub message: String,
    pub help: Option<String>,
}

impl Wrong {
    /// A mistake in what `node` says at `path`, such as with, mines; the node as a whole where the path is empty.
    pub fn in_node(node: &Node, path: &[&str], message: impl Into<String>) -> Wrong {
        let at = ["nodes", &node.id].iter().chain(path).map(|step| step.to_string()).collect();
        Wrong { at, message: message.into(), help: None }
    }

    /// The same, with what to do about it.
    pub fn help(self, help: impl Into<String>) -> Wrong {
        Wrong { help: Some(help.into()), ..self }
    }
}

/// What an operator is there for. Whoever treats nodes by what they do asks this, never for an operator's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Opens each iteration with tasks.
    Opens,
    /// Plays episodes that are learnt from.
    Plays,
    /// Asks a model about episodes that are over.
    Reflects,
    /// Says of rows how good they are, by themselves or beside others.
    Judges,
    /// Makes the next version of a model's weights.
    Learns,
    /// Plays episodes that nothing is learnt from, to measure a model.
    Measures,
    /// Keeps something of an iteration's rows for later iterations.
    Remembers,
}

impl Role {
    /// Whether its rows stand apart from those of the training: they are no turns of its episodes, nor say what came of them.
    pub fn apart(self) -> bool {
        matches!(self, Role::Opens | Role::Measures | Role::Remembers)
    }
}

/// One operator, as a pipeline's author sees it.
#[derive(Clone, Debug)]
pub struct OperatorSpec {
    pub name: &'static str,
    pub about: &'static str,
    pub role: Role,
    /// The first port is the main one.
    pub ports: &'static [Port],
    /// Whether the output carries the main input's columns too.
    pub keeps: bool,
    /// The columns that the operator makes.
    pub adds: &'static [&'static str],
    /// Whether it may stand in a loop: it works on the rows of one attempt, never on all rows of an iteration.
    pub loops: bool,
    /// JSON Schema of `with`. A map whose keys are names of the node's inputs is marked with `x-keys: inputs`.
    pub settings: serde_json::Value,
    /// How settings that fit the schema are read.
    pub read: Read,
    /// Further columns that these settings call for.
    pub needs: fn(&With) -> Vec<Need>,
    /// Further columns that it makes with these settings.
    pub makes: fn(&With) -> Vec<String>,
}

/// One input of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// `*` stands for any number of ports that the pipeline names itself.
    pub name: &'static str,
    pub about: &'static str,
    pub carries: Carries,
    /// The columns that must arrive here.
    pub needs: &'static [&'static str],
    pub optional: bool,
    pub delay: Delay,
}

/// What comes in by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Tasks to play.
    Tasks,
    /// Turns of episodes.
    Rows,
    /// Versions of a model's weights. An edge into such a port says which weights are used, and hands no rows on.
    Weights,
    /// What the next attempt at a task is told.
    Memory,
}

/// Whether an edge into a port may come from an earlier iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    Never,
    Either,
    Always,
}

/// A column that certain settings call for, such as `state` for `by: [state]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub port: String,
    pub column: String,
    /// Where the settings say so: the path inside `with`.
    pub at: Vec<String>,
}

impl Catalog {
    /// The operator called `name`.
    pub fn operator(&self, name: &str) -> Option<&OperatorSpec> {
        self.operators.iter().find(|o| o.name == name)
    }
}

impl OperatorSpec {
    /// Whether it does something besides making rows (trains, measures), so that nobody has to read its output.
    pub fn effect(&self) -> bool {
        matches!(self.role, Role::Learns | Role::Measures)
    }

    /// All columns that it makes with these settings.
    pub fn columns(&self, with: &With) -> Vec<String> {
        self.adds.iter().map(|column| column.to_string()).chain((self.makes)(with)).collect()
    }

    /// The port that an input called `name` goes to.
    pub fn port(&self, name: &str) -> Option<&'static Port> {
        self.ports.iter().find(|p| p.name == name).or_else(|| self.ports.iter().find(|p| p.name == "*"))
    }
}
