//! The operators as the layer above describes them. This module knows none of them: it checks a file against this list.

use super::{Code, Node, Pipeline, ReadSettings, Role, With};
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
    /// Whether a column holds texts: the rows that lack one have an empty text there.
    pub text: fn(&str) -> bool,
    /// Nodes whose rows come from a log, with their columns in it.
    pub logged: BTreeMap<String, Vec<String>>,
    /// The checks that only the operators can do, on a pipeline that passed all others.
    pub mistakes: fn(&Pipeline) -> Vec<Mistake>,
}

/// A mistake that an operator found in its own settings or in how the nodes fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Mistake {
    pub code: Code,
    /// The path of the wrong value, such as nodes, tasks, with, mines; of a node inside a loop too.
    pub at: Vec<String>,
    pub message: String,
    pub help: Option<String>,
}

impl Mistake {
    /// A mistake in `node`'s settings at `path`, such as with, mines; the node as a whole where the path is empty.
    pub fn in_node(node: &Node, path: &[&str], message: impl Into<String>) -> Mistake {
        let at = ["nodes", &node.id].iter().chain(path).map(|step| step.to_string()).collect();
        Mistake { code: Code::Operator, at, message: message.into(), help: None }
    }

    /// A mistake in this setting of a model.
    pub fn in_model(model: &str, setting: &str, message: impl Into<String>) -> Mistake {
        let at = ["models", model, setting].map(String::from).into();
        Mistake { code: Code::Operator, at, message: message.into(), help: None }
    }

    /// The same with advice.
    pub fn help(self, help: impl Into<String>) -> Mistake {
        Mistake { help: Some(help.into()), ..self }
    }
}

/// The description of an operator for the pipeline language.
#[derive(Clone, Debug)]
pub struct OperatorSpec {
    pub name: &'static str,
    pub about: &'static str,
    pub role: Role,
    /// The first port is the main one.
    pub ports: &'static [Port],
    /// Whether the output carries the main input's columns too.
    pub keeps: bool,
    /// The columns that the operator adds.
    pub adds: &'static [&'static str],
    /// Whether it may stand in a loop: it works on the rows of one attempt, never on all rows of an iteration.
    pub loops: bool,
    /// JSON Schema of `with`. A map whose keys are names of the node's inputs is marked with `x-keys: inputs`.
    pub settings: serde_json::Value,
    /// How settings that fit the schema are read.
    pub read: ReadSettings,
    /// Further columns that these settings need.
    pub needs: fn(&With) -> Vec<Need>,
    /// Further columns that it adds with these settings.
    pub makes: fn(&With) -> Vec<String>,
    /// Columns of `adds` that it doesn't add with these settings.
    pub lacks: fn(&With) -> Vec<&'static str>,
    /// Why it can't be known which columns it needs and adds with these settings: its place is a path inside `with`.
    pub unknown: fn(&With) -> Option<Mistake>,
    /// The settings that a run keeps in place of these, with the texts of files that they name; `None`: these.
    pub kept: fn(&With) -> Option<serde_json::Value>,
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

impl Port {
    /// A port that must be connected, to a node of the same iteration.
    pub const fn new(name: &'static str, about: &'static str, carries: Carries, needs: &'static [&'static str]) -> Port {
        Port { name, about, carries, needs, optional: false, delay: Delay::Never }
    }

    /// The port `rows`, which turns with these columns go through.
    pub const fn rows(about: &'static str, needs: &'static [&'static str]) -> Port {
        Port::new("rows", about, Carries::Rows, needs)
    }

    /// The port `weights`.
    pub const fn weights(about: &'static str) -> Port {
        Port::new("weights", about, Carries::Weights, &["version"])
    }

    /// The same port, which need not be connected.
    pub const fn optional(self) -> Port {
        Port { optional: true, ..self }
    }

    /// The same port, which an edge from an earlier iteration may come into, or must.
    pub const fn delayed(self, delay: Delay) -> Port {
        Port { delay, ..self }
    }
}

/// What a port carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Tasks to play.
    Tasks,
    /// Turns of episodes.
    Rows,
    /// Turns that are looked at beside those of another port, and don't come out.
    Others,
    /// Versions of a model's weights. An edge into such a port selects the weights that are used, and passes no rows
    /// on.
    Weights,
    /// Notes for the next attempt at a task.
    Memory,
}

/// Whether an edge into a port may come from an earlier iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    Never,
    Either,
    Always,
}

/// A column that certain settings need, such as `state` for `by: [state]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub port: String,
    pub column: String,
    /// The path of these settings inside `with`.
    pub at: Vec<String>,
}

impl Catalog {
    /// The operator called `name`.
    pub fn operator(&self, name: &str) -> Option<&OperatorSpec> {
        self.operators.iter().find(|o| o.name == name)
    }
}

impl OperatorSpec {
    /// Whether it does something besides making rows (trains, measures), so that its output need not be read.
    pub fn effect(&self) -> bool {
        matches!(self.role, Role::Learns | Role::Measures)
    }

    /// All columns that it adds with these settings.
    pub fn columns(&self, with: &With) -> Vec<String> {
        let lacks = (self.lacks)(with);
        self.possible_columns(with).into_iter().filter(|column| !lacks.contains(&column.as_str())).collect()
    }

    /// The same with the columns that it adds with other settings.
    pub fn possible_columns(&self, with: &With) -> Vec<String> {
        self.adds.iter().map(|column| column.to_string()).chain((self.makes)(with)).collect()
    }

    /// The port that an input called `name` goes to.
    pub fn port(&self, name: &str) -> Option<&'static Port> {
        self.ports.iter().find(|p| p.name == name).or_else(|| self.ports.iter().find(|p| p.name == "*"))
    }
}
