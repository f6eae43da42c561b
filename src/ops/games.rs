//! The games that a pipeline plays, and the programs that some of them run in.

use super::operator;
use crate::env::process::ProcessSettings;
use crate::env::Game;
use crate::pipeline::{Node, Pipeline, Wrong};

/// The game of each node that brings tasks.
pub fn games(pipeline: &Pipeline) -> impl Iterator<Item = (&Node, Result<Game, Wrong>)> {
    let game = |node: &Node| (operator(&node.op)?.further.game)(node).transpose();
    pipeline.nodes.iter().filter_map(move |node| Some((node, game(node)?)))
}

/// Two programs of one name: a task's name would not say which of them it is played by.
pub fn namesakes(pipeline: &Pipeline) -> Vec<Wrong> {
    let mut known: Vec<(&Node, ProcessSettings)> = Vec::new();
    let mut found = Vec::new();
    for (node, game) in games(pipeline) {
        // What is wrong with a node's own settings it says by itself.
        let Some(process) = game.ok().and_then(|game| game.program().cloned()) else { continue };
        match known.iter().find(|(_, other)| other.name == process.name && *other != process) {
            Some((other, _)) => {
                let message = format!("`{}` starts the process `{}` otherwise than `{}` does", node.id, process.name, other.id);
                let help = "tasks are known by the name of their process: give one of the two another name, or both the same settings";
                found.push(Wrong::in_node(node, &["with", "name"], message).help(help));
            }
            None => known.push((node, process)),
        }
    }
    found
}
