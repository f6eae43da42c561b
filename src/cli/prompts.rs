//! What a model read, as text: the prompts of turns, with what was retrieved from a memory in marks.

use super::episode::{JsonRow, PROMPT};
use crate::log::Run;
use crate::pipeline;
use crate::policy::Tokenizer;
use crate::{files, ops};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Around what was retrieved.
const MARKS: [char; 2] = ['\u{27e6}', '\u{27e7}'];

/// Puts the prompt's text, as `prompt`, into each turn whose model's vocabulary the run has. What can't be read is left out.
pub fn read(run: &Run, turns: &mut [JsonRow]) {
    let Some(tokenizers) = tokenizers(run) else { return };
    for turn in turns {
        let named = turn.iter().find(|(name, list)| (*name == "prompt_tokens" || name.ends_with("_prompt_tokens")) && list.is_array());
        let Some((name, prompt)) = named.map(|(name, list)| (name.clone(), tokens(list))) else { continue };
        let node = name.strip_suffix("_prompt_tokens").unwrap_or_default();
        let Some(tokenizer) = tokenizers.get(node).or_else(|| tokenizers.get("")) else { continue };
        let bare = turn.get(&name.replace("prompt_tokens", "bare_tokens")).map(tokens).unwrap_or_default();
        turn.insert(PROMPT.into(), marked(&tokenizer.decode(&prompt), &tokenizer.decode(&bare)).into());
    }
}

fn tokens(list: &Value) -> Vec<u32> {
    list.as_array().into_iter().flatten().filter_map(|token| u32::try_from(token.as_u64()?).ok()).collect()
}

/// A prompt with what `bare`, the same without what was retrieved, doesn't have in marks; empty: nothing was retrieved.
fn marked(prompt: &str, bare: &str) -> String {
    if bare.is_empty() || prompt == bare {
        return prompt.trim_end().to_owned();
    }
    let (prompt, bare): (Vec<char>, Vec<char>) = (prompt.chars().collect(), bare.chars().collect());
    let before = prompt.iter().zip(&bare).take_while(|(a, b)| a == b).count();
    let room = prompt.len().min(bare.len()) - before;
    let after = prompt.iter().rev().zip(bare.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let part = |from: usize, to: usize| prompt[from..to].iter().collect::<String>();
    let end = prompt.len() - after;
    format!("{}{}{}{}{}", part(0, before), MARKS[0], part(before, end), MARKS[1], part(end, prompt.len())).trim_end().to_owned()
}

/// The vocabulary of the model of each node that plays, by the node; by "" that of the only model there is.
fn tokenizers(run: &Run) -> Option<BTreeMap<String, Tokenizer>> {
    let pipeline = pipeline::load(&run.pipeline(), &[], &ops::replayed(Default::default())).ok()?;
    let tokenizer_of = |model: &str| saved(&run.root().join(Run::version(0, model)));
    let mut all: BTreeMap<String, Tokenizer> = BTreeMap::new();
    for node in pipeline.all().filter(|node| ops::plays(node)) {
        if let Some(tokenizer) = node.model().and_then(tokenizer_of) {
            all.insert(node.id.clone(), tokenizer);
        }
    }
    // In a table of its own, and where one node alone logged the column, nobody is named.
    let first = pipeline.all().filter(|node| ops::acts(node)).chain(pipeline.all()).find_map(|node| node.model().and_then(tokenizer_of));
    all.extend(first.map(|tokenizer| (String::new(), tokenizer)));
    (!all.is_empty()).then_some(all)
}

/// The vocabulary that lies with saved weights, as far as it can be read without them.
fn saved(folder: &Path) -> Option<Tokenizer> {
    Tokenizer::saved(folder, &|path| files::text(path, 256 << 20).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_retrieved_stands_in_marks() {
        assert_eq!(marked("Tips: look, open.\nYou see a door.", "You see a door."), "\u{27e6}Tips: look, open.\n\u{27e7}You see a door.");
        assert_eq!(
            marked("You see a door. Tip: open it. Go on", "You see a door. Go on"),
            "You see a door. \u{27e6}Tip: open it. \u{27e7}Go on"
        );
        assert_eq!(marked("the same\n", ""), "the same");
        assert_eq!(marked("aaa", "aa"), "aa\u{27e6}a\u{27e7}");
    }
}
