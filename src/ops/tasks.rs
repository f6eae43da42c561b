//! `tasks`: opens each iteration with a batch of fresh tasks. Their seeds follow from the run's seed, the node's id and
//! the iteration alone, and never meet those of the frozen panels.

use super::operator::{schema, settings, Hooks, Operator, Settings};
use arrow::array::{StringArray, UInt64Array};
use flow_core::row;
use flow_dataflow::{source, Context, Edge, Failed, Ports};
use flow_env::process::Programs;
use flow_env::{EnvironmentKind, Game, TrainingTasks};
use flow_pipeline::{Mistake, Node, Pipeline, Role, With};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{json, Map, Value};
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `tasks`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
struct Tasks {
    /// The environment.
    #[schemars(schema_with = "environments")]
    env: String,
    /// Tasks in an iteration.
    #[schemars(range(min = 1, max = 100_000))]
    batch: usize,
    /// Repeats this many tasks, so that lessons from one can be of use when it comes again; tasks are always new when
    /// left out. At least `batch`.
    #[schemars(range(min = 1, max = 1_000_000))]
    variations: Option<usize>,
    /// The environment's own settings.
    #[serde(flatten)]
    #[schemars(skip)]
    game: Map<String, Value>,
}

fn environments(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<Value> = flow_env::TABLE.iter().map(|kind| json!({ "const": kind.name, "description": kind.about })).collect();
    schemars::json_schema!({ "type": "string", "oneOf": names })
}

/// JSON Schema of `with`: beside `env` and `batch` stand the settings of the environment that `env` names, and no
/// other's.
fn composed() -> Value {
    let own: Vec<(&EnvironmentKind, Map<String, Value>)> = flow_env::TABLE.iter().map(|kind| (kind, properties(kind))).collect();
    let mut all = schema::<Tasks>();
    let mut own_last = |name: &str| all["properties"].as_object_mut().and_then(|properties| properties.shift_remove(name));
    let (batch, variations) = (own_last("batch"), own_last("variations"));
    for (name, property) in own.iter().flat_map(|(_, own)| own) {
        // What exactly it must be depends on the environment; what it is stands here, for help and for the nearest
        // right name.
        if all["properties"].get(name).is_none() {
            all["properties"][name] = json!({ "description": property["description"] });
        }
    }
    all["properties"]["batch"] = batch.unwrap_or_default();
    all["properties"]["variations"] = variations.unwrap_or_default();
    let names: Vec<String> = own.iter().flat_map(|(_, own)| own.keys().cloned()).collect();
    let mut cases: Vec<(Value, Vec<&str>)> = Vec::new();
    for (kind, own) in &own {
        let each = names.iter().map(|name| (name.clone(), own.get(name).cloned().unwrap_or(Value::Bool(false))));
        let required = (kind.schema)()["required"].as_array().cloned().unwrap_or_default();
        let then = json!({ "properties": each.collect::<Map<_, _>>(), "required": required });
        // Those of the field share their settings.
        match cases.iter_mut().find(|(known, _)| *known == then) {
            Some((_, kinds)) => kinds.push(kind.name),
            None => cases.push((then, vec![kind.name])),
        }
    }
    let case = |(then, kinds): (Value, Vec<&str>)| {
        let env = if let [kind] = kinds[..] { json!({ "const": kind }) } else { json!({ "enum": kinds }) };
        json!({ "if": { "properties": { "env": env }, "required": ["env"] }, "then": then })
    };
    all["allOf"] = cases.into_iter().map(case).collect();
    all["additionalProperties"] = Value::Bool(false);
    all
}

/// The settings of an environment. One that needn't be given may be null, which is to say that it isn't.
fn properties(kind: &EnvironmentKind) -> Map<String, Value> {
    let schema = (kind.schema)();
    let mut own = schema["properties"].as_object().cloned().unwrap_or_default();
    for property in own.values_mut().filter(|property| property.get("default").is_some()) {
        if let Value::String(name) = &property["type"] {
            property["type"] = json!([name, "null"]);
        }
    }
    own
}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "tasks",
    about: "opens each iteration with a batch of fresh tasks",
    role: Role::Opens,
    ports: &[],
    keeps: false,
    adds: &["iteration", "task"],
    settings: Settings { schema: composed, ..Settings::of::<Tasks>() },
    outside: render,
    inside: None,
    hooks: Hooks { mistakes, game: |node| game(node).map(Some), ..Hooks::NONE },
};

/// The game that these settings of the operator mean; how many tasks it makes doesn't matter.
pub fn drawn(mut with: Map<String, Value>) -> Result<Game, Mistake> {
    with.insert("batch".into(), 1.into());
    let node = |with| Node { id: OPERATOR.name.into(), op: OPERATOR.name.into(), inputs: vec![], with, body: None, columns: None };
    let read = With::read(Value::Object(with), &Value::Null, OPERATOR.settings.read);
    game(&node(read.map_err(|e| Mistake::in_node(&node(With::default()), &["with"], e.to_string()))?))
}

/// How many tasks an iteration of this node has; none if it is no such node.
pub fn batch(node: &Node) -> Option<usize> {
    node.with.typed::<Tasks>().map(|with| with.batch)
}

/// Settings that no board can have, and more tasks in an iteration than there are.
fn mistakes(node: &Node, _: &Pipeline) -> Vec<Mistake> {
    let few = || {
        let with = settings::<Tasks>(node).ok()?;
        let variations = with.variations.filter(|variations| *variations < with.batch)?;
        let message =
            format!("`batch` is {}, and there are {variations} `variations`: a task would come twice in an iteration", with.batch);
        Some(Mistake::in_node(node, &["with", "variations"], message).help("give at least as many variations as `batch`"))
    };
    game(node).err().into_iter().chain(few()).collect()
}

/// The game whose tasks the node makes.
fn game(node: &Node) -> Result<Game, Mistake> {
    let with = settings::<Tasks>(node)?;
    Game::read(&with.env, with.game.clone()).map_err(|e| Mistake::in_node(node, &["with", e.setting().unwrap_or("env")], e.to_string()))
}

/// The tasks that a node draws: they follow from the run's seed, the node's id and the iteration alone.
pub struct Draw {
    training: TrainingTasks,
    batch: usize,
    variations: Option<usize>,
}

impl Draw {
    /// A program is asked once which tasks it has.
    pub fn new(node: &Node, seed: u64, programs: &Programs) -> Result<Draw, Failed> {
        let with = settings::<Tasks>(node)?;
        let training = TrainingTasks::new(game(node)?, seed, &node.id, programs)?;
        Ok(Draw { training, batch: with.batch, variations: with.variations })
    }

    /// The names of the tasks of an iteration.
    pub fn names(&self, iteration: u64) -> Vec<String> {
        let Some(variations) = self.variations else {
            return self.training.tasks(iteration, self.batch).iter().map(|task| task.name()).collect();
        };
        // All of them are those of an iteration of that size; each iteration takes the next ones, around and around.
        let all = self.training.tasks(0, variations);
        let first = (u128::from(iteration) * self.batch as u128 % variations as u128) as usize;
        (first..first + self.batch).map(|at| all[at % variations].name()).collect()
    }
}

pub fn render<'s>(node: &Node, _: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    if let Some(program) = game(node)?.program() {
        ctx.shared.programs.declare(program.clone());
    }
    let draw = Draw::new(node, ctx.seed, &ctx.shared.programs)?;
    Ok(source::iterations(&node.id, scope, ctx, move |iteration| {
        let names = draw.names(iteration);
        let iterations = UInt64Array::from(vec![iteration; names.len()]);
        let rows = row::batch(vec![("iteration", Arc::new(iterations)), ("task", Arc::new(StringArray::from(names)))]);
        Ok(vec![rows?])
    }))
}
