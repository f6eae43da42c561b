//! The description of an operator. Everything else reads this, and knows no operator by its name.

use arrow::array::RecordBatch;
use flow_dataflow::{Edge, Failed, Ports, Render, RenderInside, RenderOutside};
use flow_env::Game;
use flow_pipeline::{Carries, Mistake, Need, Node, OperatorSpec, Pipeline, Port, ReadSettings, Role, With};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// The complete description of an operator: its place in the pipeline language, what it needs, and how it is rendered.
pub struct Operator {
    /// The value of `op` in a pipeline.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    pub role: Role,
    /// The first port is the main one.
    pub ports: &'static [Port],
    /// Whether the output carries the main input's columns too.
    pub keeps: bool,
    /// The columns that it adds, and so logs.
    pub adds: &'static [&'static str],
    pub settings: Settings,
    pub outside: RenderOutside,
    /// None for an operator that can't stand in a loop.
    pub inside: Option<RenderInside>,
    pub hooks: Hooks,
}

/// The optional parts of an operator's description.
pub struct Hooks {
    /// Columns that these settings need, beyond those of the ports.
    pub needs: fn(&With) -> Vec<Need>,
    /// Columns that it adds with these settings, beyond `adds`.
    pub makes: fn(&With) -> Vec<String>,
    /// Columns of `adds` that it doesn't add with these settings.
    pub lacks: fn(&With) -> Vec<&'static str>,
    /// Why it can't be known which columns it needs and adds with these settings: its place is a path inside `with`.
    pub unknown: fn(&With) -> Option<Mistake>,
    /// The settings that a run keeps in place of these, with the texts of files that they name; `None`: these.
    pub kept: fn(&With) -> Option<Value>,
    /// Checks a node beyond its schema. In a replay, nodes that play aren't checked.
    pub mistakes: fn(&Node, &Pipeline) -> Vec<Mistake>,
    /// The head that the node's `model` must have; `None` if it names no model.
    pub head: fn(&With) -> Option<RequiredHead>,
    /// Whether these settings add the column `value_target`, from which a critic learns.
    pub targets: fn(&With) -> bool,
    /// Whether the environment's expert plays, and no model.
    pub expert: fn(&With) -> bool,
    /// The game that the node's tasks are of, if it brings tasks.
    pub game: fn(&Node) -> Result<Option<Game>, Mistake>,
    /// The words of its prompts, for a vocabulary.
    pub words: fn(&Node) -> Result<Vec<String>, Mistake>,
    /// Advice on valid settings, which `flow check` prints.
    pub notes: fn(&Node, &Pipeline) -> Vec<String>,
    /// Applies the node's rewards to rows, for an operator that changes rewards.
    pub weighs: Option<Weighs>,
    /// Whether it keeps state over iterations with these settings, which a resumed run restores from its log.
    pub remembers: fn(&With) -> bool,
    /// A setting, as key=value, under which a replay scores the same rows differently than with these: the summary of a
    /// run suggests it.
    pub replay_hint: fn(&With) -> Option<&'static str>,
}

impl Hooks {
    /// Nothing more to say.
    pub const NONE: Hooks = Hooks {
        needs: |_| Vec::new(),
        makes: |_| Vec::new(),
        lacks: |_| Vec::new(),
        unknown: |_| None,
        kept: |_| None,
        mistakes: |_, _| Vec::new(),
        head: |_| None,
        targets: |_| false,
        expert: |_| false,
        game: |_| Ok(None),
        words: |_| Ok(Vec::new()),
        notes: |_, _| Vec::new(),
        weighs: None,
        remembers: |_| false,
        replay_hint: |_| None,
    };
}

/// A function that replaces the rewards of rows.
pub type Weighs = fn(&Node, &[RecordBatch]) -> Result<Vec<RecordBatch>, Failed>;

/// The head that a node needs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredHead {
    /// A language-model head, to generate.
    Language,
    /// A value head, to estimate returns.
    Value,
}

impl Operator {
    /// Its description for the pipeline language.
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
            needs: self.hooks.needs,
            makes: self.hooks.makes,
            lacks: self.hooks.lacks,
            unknown: self.hooks.unknown,
            kept: self.hooks.kept,
        }
    }

    /// The first port that carries this.
    pub fn port(&self, carries: Carries) -> Option<&'static Port> {
        self.ports.iter().find(|p| p.carries == carries)
    }

    /// How it is rendered.
    pub fn render(&self) -> Render {
        Render { outside: self.outside, inside: self.inside }
    }
}

/// Why an operator can't be built in a pipeline; the checker rules most of this out.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("needs an input `{0}`")]
    Input(&'static str),
    #[error("needs a model")]
    Model,
    #[error("stands in no loop")]
    Loop,
}

/// The settings of an operator: their schema, and how they are read.
#[derive(Clone, Copy)]
pub struct Settings {
    /// JSON Schema of `with`.
    pub schema: fn() -> Value,
    pub read: ReadSettings,
}

impl Settings {
    /// Settings described by a struct.
    pub const fn of<T: JsonSchema + DeserializeOwned + Any + Send + Sync>() -> Settings {
        Settings { schema: schema::<T>, read: |json| Ok(Arc::new(T::deserialize(json)?)) }
    }
}

/// JSON Schema of a settings struct.
pub fn schema<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    shorten(&mut schema);
    schema
}

/// Writes numbers that came from an f32 with the digits that an f32 has: 0.85 and not 0.8500000238418579.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(entries) => entries.values_mut().for_each(shorten),
        Value::Number(number) => {
            let exact = number.as_f64().filter(|exact| number.is_f64() && f64::from(*exact as f32) == *exact);
            if let Some(short) = exact.and_then(|exact| (exact as f32).to_string().parse().ok()).and_then(serde_json::Number::from_f64) {
                *number = short;
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A node's settings, as they were read when the pipeline was loaded.
///
/// # Errors
/// Where they were read as another operator's: a bug in the code that built the node, never a mistake of a file.
pub fn settings<T: Any + Send + Sync>(node: &Node) -> Result<Arc<T>, Mistake> {
    let mistake = || Mistake::in_node(node, &["with"], format!("the settings of `{}` aren't those of `{}`", node.id, node.op));
    node.with.typed().ok_or_else(mistake)
}

/// The edge into `name`, if it is connected.
pub fn port<'s>(ports: &Ports<'s>, name: &str) -> Option<Edge<'s>> {
    ports.iter().find(|(n, _)| n == name).map(|(_, edge)| edge.clone())
}

/// The edge into `name`, which the checker has ensured.
pub fn must<'s>(ports: &Ports<'s>, name: &'static str) -> Result<Edge<'s>, Unfit> {
    port(ports, name).ok_or(Unfit::Input(name))
}
