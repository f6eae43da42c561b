//! The vocabulary of a new model of words: those of every text that its pipeline can show it.

use super::{games, programs};
use crate::ops::operator;
use flow_model::{NewModel, TokenKind};
use flow_pipeline::{Mistake, Node, Pipeline, Role};
use flow_rollout::{notes, prompt};
use std::collections::BTreeSet;

/// The words of every text that the pipeline's games and prompts can show, each once. Programs are asked for their
/// words if some model has a vocabulary of words. The order matters: it numbers the tokens of a new model.
pub fn words(pipeline: &Pipeline) -> Result<Vec<String>, Mistake> {
    let games = games(pipeline).map(|(node, game)| Ok((node, game?))).collect::<Result<Vec<_>, Mistake>>()?;
    let mut words: Vec<String> = games.iter().flat_map(|(_, game)| game.vocabulary()).chain(prompt::words()).collect();
    // Only then, so that models of pipelines without attempts have no word that they never see.
    if pipeline.nodes.iter().any(|n| n.body.is_some()) {
        words.extend(notes::words());
    }
    // Those of panels come first.
    let (panels, others): (Vec<_>, Vec<_>) = own(pipeline).partition(|(_, role, _)| *role == Role::Measures);
    for (node, _, own) in panels.into_iter().chain(others) {
        words.extend(own(node)?);
    }
    let of_words = |model: &&String| {
        let new = serde_json::from_value::<NewModel>(pipeline.models[*model].clone());
        new.is_ok_and(|new| new.tokens == TokenKind::Words)
    };
    if let Some(model) = pipeline.models.keys().find(of_words) {
        for (node, program) in programs(pipeline) {
            let hello = program.greet().map_err(|e| Mistake::in_node(node, &["with"], e.to_string()))?;
            let Some(named) = hello.words else {
                let name = &program.name;
                let message = format!(
                    "the process `{name}` names no words, and the model `{model}` is made of words: let its hello name the `words` of its texts, or write `tokens: bytes` in the model"
                );
                return Err(Mistake::in_node(node, &["with"], message));
            };
            words.extend(named);
        }
    }
    let mut known = BTreeSet::new();
    words.retain(|word| known.insert(word.clone()));
    Ok(words)
}

type NodeWords = fn(&Node) -> Result<Vec<String>, Mistake>;

/// Every node with its role and the function that lists its words.
fn own(pipeline: &Pipeline) -> impl Iterator<Item = (&Node, Role, NodeWords)> {
    pipeline.all().filter_map(|node| operator(&node.op).map(|o| (node, o.role, o.hooks.words)))
}
