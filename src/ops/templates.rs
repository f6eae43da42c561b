//! What is wrong with the templates of a node that plays or reflects, told before anything runs: each is filled once on a sample.

use crate::pipeline::{Node, Wrong};
use crate::rollout::prompt;
use crate::rollout::question::question;
use crate::rollout::settings::{PlaySettings, ReflectionSettings};
use crate::rollout::template::{Template, TemplateError};

/// Templates of play that can't be read or filled, or that don't tell what a node is `told`, which would come to nothing.
pub fn played(node: &Node, play: &PlaySettings, told: bool) -> Option<Wrong> {
    match prompt::tried(play) {
        Err((setting, error)) => Some(wrong(node, &[setting], &error)),
        Ok(prompt) if told && !prompt.asks("memory") => {
            let message = format!("`{}` is told of a memory or of earlier attempts, and its prompt doesn't say it", node.id);
            Some(Wrong::in_node(node, &["with", "prompt"], message).help("put `{{ memory }}` into the template"))
        }
        Ok(_) => None,
    }
}

/// The words of a node's own templates of play, for a vocabulary.
pub fn words(node: &Node, play: &PlaySettings) -> Result<Vec<String>, Wrong> {
    prompt::own_words(play).map_err(|error| wrong(node, &["prompt"], &error))
}

/// The template of a reflection, whose settings stand at this place in the node's.
pub fn reflected(node: &Node, at: &[&str], settings: &ReflectionSettings) -> Result<Template, Wrong> {
    question(settings).map_err(|error| wrong(node, &[at, &["prompt"]].concat(), &error))
}

fn wrong(node: &Node, at: &[&str], error: &TemplateError) -> Wrong {
    let setting = at.last().copied().unwrap_or_default();
    Wrong::in_node(node, &[&["with"], at].concat(), format!("{setting}: {error}")).help(error.help())
}
