//! What an operator says of itself. Everything else asks this, and knows no operator by its name.

use crate::dataflow::{Edge, Failed, Inside, Outside, Ports, Render};
use crate::env::Game;
use crate::pipeline::{Carries, Need, Node, OperatorSpec, Pipeline, Port, Read, Role, With, Wrong};
use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// One operator, all of it: how an author sees it, what it needs, and how it becomes timely.
pub struct Operator {
    /// What `op` says in a pipeline.
    pub name: &'static str,
    /// One line for a person.
    pub about: &'static str,
    pub role: Role,
    /// The first port is the main one.
    pub ports: &'static [Port],
    /// Whether the output carries the main input's columns too.
    pub keeps: bool,
    /// The columns that it makes, and so logs.
    pub adds: &'static [&'static str],
    pub settings: Settings,
    pub outside: Outside,
    /// None for an operator that can't stand in a loop.
    pub inside: Option<Inside>,
    pub further: Further,
}

/// What only some operators have to say.
pub struct Further {
    /// Columns that these settings call for, beyond those of the ports.
    pub needs: fn(&With) -> Vec<Need>,
    /// Columns that it makes with these settings, beyond `adds`.
    pub makes: fn(&With) -> Vec<String>,
    /// What is wrong with a node beyond its schema. Where a run is replayed, nodes that play aren't asked.
    pub wrong: fn(&Node, &Pipeline) -> Vec<Wrong>,
    /// What the node's `model` must be able to do; `None` if it names no model.
    pub head: fn(&With) -> Option<Head>,
    /// Whether these settings make the column `value_target`, from which a critic learns.
    pub targets: fn(&With) -> bool,
    /// Whether the environment's expert plays, and no model.
    pub expert: fn(&With) -> bool,
    /// The game that the node's tasks are of, if it brings tasks.
    pub game: fn(&Node) -> Result<Option<Game>, Wrong>,
    /// The words of its prompts, for a vocabulary.
    pub words: fn(&Node) -> Result<Vec<String>, Wrong>,
    /// What someone should know of settings that aren't wrong: `flow check` tells it.
    pub notes: fn(&Node, &Pipeline) -> Vec<String>,
    /// The rows with the rewards that the node gives them, for an operator that changes rewards.
    pub weighs: Option<Weighs>,
    /// Whether what it makes follows from earlier iterations too, so that a resumed run begins it with what it had logged.
    pub remembers: bool,
    /// A setting, as key=value, under which a replay judges the same rows otherwise: what the summary of a run proposes.
    pub otherwise: Option<&'static str>,
}

impl Further {
    /// Nothing more to say.
    pub const NOTHING: Further = Further {
        needs: |_| Vec::new(),
        makes: |_| Vec::new(),
        wrong: |_, _| Vec::new(),
        head: |_| None,
        targets: |_| false,
        expert: |_| false,
        game: |_| Ok(None),
        words: |_| Ok(Vec::new()),
        notes: |_, _| Vec::new(),
        weighs: None,
        remembers: false,
        otherwise: None,
    };
}

/// What a node makes of the rewards of rows.
pub type Weighs = fn(&Node, &[RecordBatch]) -> Result<Vec<RecordBatch>, Failed>;

/// What a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// To write.
    Language,
    /// To say what return to expect.
    Value,
}

impl Operator {
    /// What a pipeline's author sees of it.
    pub fn spec(&self) -> OperatorSpec {
        OperatorSpec {
            name: self.name,
            about: self.about,
            role: self.role,
            ports: self.ports,
            keeps: self.keeps,
            adds: self.adds,
            loops: self.inside.is_some(),
            settings: (self.settings.schema)(),
            read: self.settings.read,
            needs: self.further.needs,
            makes: self.further.makes,
        }
    }

    /// The port that carries this.
    pub fn port(&self, carries: Carries) -> Option<&'static Port> {
        self.ports.iter().find(|p| p.carries == carries)
    }

    /// How it becomes timely.
    pub fn render(&self) -> Render {
        Render { outside: self.outside, inside: self.inside }
    }
}

/// Why an operator can't be built of what a pipeline gives it. The checker has seen to most of it.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("needs an input `{0}`")]
    Input(&'static str),
    #[error("needs a model")]
    Model,
    #[error("stands in no loop")]
    Loop,
}

/// The settings of an operator: what a file may say, and how it is read.
#[derive(Clone, Copy)]
pub struct Settings {
    /// JSON Schema of `with`.
    pub schema: fn() -> Value,
    pub read: Read,
}

impl Settings {
    /// Those that a struct describes.
    pub const fn of<T: JsonSchema + DeserializeOwned + Any + Send + Sync>() -> Settings {
        Settings { schema: schema::<T>, read: |given| Ok(Arc::new(T::deserialize(given)?)) }
    }
}

/// JSON Schema of a settings struct.
pub fn schema<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// A node's settings, as they were read when the pipeline was loaded.
///
/// # Errors
/// Where they were read as another operator's: a mistake of the code that built the node, never of a file.
pub fn settings<T: Any + Send + Sync>(node: &Node) -> Result<Arc<T>, Wrong> {
    let wrong = || Wrong::in_node(node, &["with"], format!("the settings of `{}` aren't those of `{}`", node.id, node.op));
    node.with.typed().ok_or_else(wrong)
}

/// The edge into `name`, if it is connected.
pub fn port<'s>(ports: &Ports<'s>, name: &str) -> Option<Edge<'s>> {
    ports.iter().find(|(n, _)| n == name).map(|(_, edge)| edge.clone())
}

/// The edge into `name`, which the checker has seen to be there.
pub fn must<'s>(ports: &Ports<'s>, name: &'static str) -> Result<Edge<'s>, Unfit> {
    port(ports, name).ok_or(Unfit::Input(name))
}
