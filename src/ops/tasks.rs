//! `tasks`: opens each iteration with a batch of fresh tasks. Their seeds follow from the run's seed and the
//! iteration alone, and never meet those of the frozen panels.

use super::{nothing, schema, settings};
use crate::dataflow::{source, Context, Edge, Failed, Ports};
use crate::env::process::{is_name, ProcessGame, ProcessSettings};
use crate::env::{self, Game, MinesweeperSettings, SokobanSettings};
use crate::pipeline::{Node, OperatorSpec};
use crate::row;
use arrow::array::{StringArray, UInt64Array};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::sync::Arc;
use timely::dataflow::Scope;

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
enum EnvName {
    /// Push every box onto a target.
    Sokoban,
    /// Open every cell that hides no mine.
    Minesweeper,
    /// A program of your own, which reads and writes JSON lines: see src/env/process and examples/corridor.py.
    Process,
}

/// Settings of `tasks`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = [
    of_one_game("sokoban", &["mines", "command", "name", "processes", "seconds"], &[]),
    of_one_game("minesweeper", &["boxes", "moves", "command", "name", "processes", "seconds"], &[]),
    of_one_game("process", &["size", "boxes", "moves", "mines"], &["command", "name"]),
]))]
struct Tasks {
    /// The game.
    env: EnvName,
    /// Rows and columns of the board.
    #[serde(default = "six")]
    #[schemars(range(min = 3, max = 20))]
    size: usize,
    /// Boxes of a Sokoban room; 1 unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    boxes: Option<usize>,
    /// Moves that one turn of Sokoban may make; 1 unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3))]
    moves: Option<usize>,
    /// Mines of a MineSweeper board; 3 unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    mines: Option<usize>,
    /// The program of a process and its arguments, run as they are, without a shell, where `flow` runs.
    #[serde(default)]
    #[schemars(length(min = 1))]
    command: Option<Vec<String>>,
    /// What the tasks of a process are named after. Its tasks are known by this name and a seed, so a program with other settings needs another name.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    name: Option<String>,
    /// How many processes of the program share the episodes; 1 unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 256))]
    processes: Option<usize>,
    /// Seconds that an answer of a process may take, after which it is killed and its episodes are tried again; 10 unless given.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 86_400))]
    seconds: Option<f64>,
    /// Tasks in an iteration.
    #[schemars(range(min = 1, max = 100_000))]
    batch: usize,
}

/// That these settings have no place beside this game and those must be there, so that a mistake is found before anything runs.
fn of_one_game(game: &str, foreign: &[&str], needed: &[&str]) -> Value {
    let none: serde_json::Map<String, Value> = foreign.iter().map(|name| (name.to_string(), Value::Bool(false))).collect();
    let then = json!({ "properties": none, "required": needed });
    json!({ "if": { "properties": { "env": { "const": game } }, "required": ["env"] }, "then": then })
}

fn six() -> usize {
    6
}

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "tasks",
        about: "opens each iteration with a batch of fresh tasks",
        ports: &[],
        keeps: false,
        adds: &["iteration", "task"],
        effect: false,
        loops: false,
        settings: schema::<Tasks>(),
        needs: nothing,
    }
}

/// The game whose tasks the node makes.
pub fn game(node: &Node) -> Result<Game, String> {
    let with: Tasks = settings(node)?;
    let foreign = |name: &str| Err(format!("`{name}` is no setting of {:?}", with.env));
    let game = match with.env {
        EnvName::Sokoban => {
            if with.mines.is_some() {
                return foreign("mines");
            }
            let usual = SokobanSettings { size: with.size, ..SokobanSettings::default() };
            Game::Sokoban(SokobanSettings { boxes: with.boxes.unwrap_or(1), moves_per_turn: with.moves.unwrap_or(1), ..usual })
        }
        EnvName::Minesweeper => {
            if with.boxes.is_some() || with.moves.is_some() {
                return foreign(if with.boxes.is_some() { "boxes" } else { "moves" });
            }
            Game::Minesweeper(MinesweeperSettings { size: with.size, mines: with.mines.unwrap_or(3) })
        }
        EnvName::Process => {
            let name = with.name.filter(|name| is_name(name)).ok_or("name: a process needs one, of small letters, digits and `_`")?;
            Game::Process(ProcessGame { name })
        }
    };
    game.check().map_err(|e| e.to_string())?;
    Ok(game)
}

/// How the node's process is started, if it has one.
pub fn process(node: &Node) -> Result<Option<ProcessSettings>, String> {
    let Game::Process(ProcessGame { name }) = game(node)? else { return Ok(None) };
    let with: Tasks = settings(node)?;
    let command = with.command.filter(|c| !c.is_empty()).ok_or("command: a process needs one")?;
    Ok(Some(ProcessSettings { name, command, processes: with.processes.unwrap_or(1), seconds: with.seconds.unwrap_or(10.0) }))
}

pub fn render<'s>(node: &Node, _: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with: Tasks = settings(node)?;
    if let Some(process) = process(node)? {
        ctx.shared.outside.declare(process);
    }
    let (game, seed) = (game(node)?, ctx.seed);
    Ok(source::iterations(&node.id, scope, ctx, move |iteration| {
        let names: Vec<String> = env::training(&game, seed, iteration, with.batch).iter().map(|t| t.name()).collect();
        let iterations = UInt64Array::from(vec![iteration; names.len()]);
        let rows = row::batch(vec![("iteration", Arc::new(iterations)), ("task", Arc::new(StringArray::from(names)))]);
        Ok(vec![rows?])
    }))
}
