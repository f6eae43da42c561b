//! The games that a pipeline plays, and the programs that some of them run in.

mod vocabulary;

pub use vocabulary::words;

use crate::ops::{is, operator};
use flow_env::process::ProcessSettings;
use flow_env::Game;
use flow_pipeline::{Mistake, Node, Pipeline, Role};

/// The game of each node that brings tasks.
pub fn games(pipeline: &Pipeline) -> impl Iterator<Item = (&Node, Result<Game, Mistake>)> {
    let game = |node: &Node| (operator(&node.op)?.hooks.game)(node).transpose();
    pipeline.nodes.iter().filter_map(move |node| Some((node, game(node)?)))
}

/// The game that a node plays: that of the tasks that it reads.
pub fn played(node: &Node, pipeline: &Pipeline) -> Option<Game> {
    let read = |id: &str| games(pipeline).find(|(other, _)| other.id == id);
    node.inputs.iter().find_map(|input| read(&input.from)?.1.ok())
}

/// The programs that the pipeline starts, each with the node whose settings start it. Mistakes in a node's settings are
/// reported elsewhere.
pub fn programs(pipeline: &Pipeline) -> impl Iterator<Item = (&Node, ProcessSettings)> {
    // A panel's tasks name their program, and not how it is started.
    let started = |program: &&ProcessSettings| !program.command.is_empty();
    games(pipeline).filter_map(move |(node, game)| Some((node, game.ok()?.program().filter(started)?.clone())))
}

/// Two different programs with one name: a task's name would be ambiguous.
pub fn namesakes(pipeline: &Pipeline) -> Vec<Mistake> {
    let mut known: Vec<(&Node, ProcessSettings)> = Vec::new();
    let mut mistakes = Vec::new();
    for (node, process) in programs(pipeline) {
        match known.iter().find(|(_, other)| other.name == process.name && !other.same_program(&process)) {
            Some((other, _)) => {
                let message = format!("`{}` starts the process `{}` otherwise than `{}` does", node.id, process.name, other.id);
                let help = "tasks are known by the name of their process: give one of the two another name, or both the same settings";
                mistakes.push(Mistake::in_node(node, &["with", "name"], message).help(help));
            }
            None => known.push((node, process)),
        }
    }
    mistakes
}

/// What is wrong with measuring on a panel of this game: that nothing starts its program, or that its tasks may be
/// trained on.
pub fn unmeasurable(node: &Node, measured: &Game, pipeline: &Pipeline) -> Option<Mistake> {
    match measured.program() {
        Some(program) => unmeasurable_program(node, program, pipeline),
        None => shared_boards(node, measured, pipeline),
    }
}

/// A node that draws its tasks from the split that the panel is of.
fn shared_boards(node: &Node, measured: &Game, pipeline: &Pipeline) -> Option<Mistake> {
    let split = measured.measured()?;
    let tasks = games(pipeline).filter(|(other, _)| is(other, Role::Opens));
    let mut drawing = tasks.filter_map(|(other, game)| Some((other, game.ok()?)));
    let (drawing, game) = drawing.find(|(_, game)| game.same_boards(measured) && game.trained().is_some_and(|deal| deal.has(split)))?;
    let which = if game.split().is_some() { "the same split" } else { "all splits but `test`" };
    let message = format!("the panel has boards of the split `{}`, and `{}` draws from {which}", split.name(), drawing.id);
    Some(
        Mistake::in_node(node, &["with", "panel"], message)
            .help(format!("let `{}` draw from another split, or measure on another", drawing.id)),
    )
}

fn unmeasurable_program(node: &Node, measured: &ProcessSettings, pipeline: &Pipeline) -> Option<Mistake> {
    let at = |message: String| Mistake::in_node(node, &["with", "panel"], message);
    let mut trained = programs(pipeline).filter(|(_, program)| program.name == measured.name).peekable();
    if trained.peek().is_none() {
        let message = format!("the panel has tasks of the process `{}`, which nothing in this pipeline starts", measured.name);
        return Some(at(message).help(format!("a node whose tasks are of `env: process, name: {}` says how it is started", measured.name)));
    }
    let split = |program: &ProcessSettings| program.split.clone().unwrap_or_else(|| "train".into());
    let (drawing, _) = trained.find(|(_, program)| split(program) == split(measured))?;
    let message = format!("the panel has tasks of the split `{}`, from which `{}` draws its tasks", split(measured), drawing.id);
    Some(at(message).help("measure on a split that isn't trained on"))
}
