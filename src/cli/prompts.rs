//! What a model read, as text: the prompts of turns, special tokens with them, and retrieved entries in marks.

use super::episode::{JsonRow, PROMPT};
use super::vocabularies::Vocabularies;
use flow_log::Run;
use serde_json::Value;

/// Around retrieved entries.
const MARKS: [char; 2] = ['\u{27e6}', '\u{27e7}'];

/// Puts the prompt's text, as `prompt`, into each turn whose model's vocabulary the run has; a turn without one stays
/// as it is.
pub fn read(run: &Run, turns: &mut [JsonRow]) {
    let vocabularies = Vocabularies::of(run);
    for turn in turns {
        let named = turn.iter().find(|(name, list)| (*name == "prompt_tokens" || name.ends_with("_prompt_tokens")) && list.is_array());
        let Some((name, prompt)) = named.map(|(name, list)| (name.clone(), tokens(list))) else { continue };
        let node = name.strip_suffix("_prompt_tokens").unwrap_or_default();
        let Some(tokenizer) = vocabularies.of_node(node) else { continue };
        let bare = turn.get(&name.replace("prompt_tokens", "bare_tokens")).map(tokens).unwrap_or_default();
        turn.insert(PROMPT.into(), marked(&tokenizer.transcribe(&prompt), &tokenizer.transcribe(&bare)).into());
    }
}

fn tokens(list: &Value) -> Vec<u32> {
    list.as_array().into_iter().flatten().filter_map(|token| u32::try_from(token.as_u64()?).ok()).collect()
}

/// A prompt with its retrieved entries in marks: the part that `bare` lacks. If `bare` is empty, nothing was retrieved.
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
