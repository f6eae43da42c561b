//! Text that an agent wrote for itself in the previous turn, as a source of context (EAPO, section 4: plans of
//! exploration, and findings).

use super::{ContextSource, Moment, Passage, PassageSlot};
use crate::tags;
use crate::turn::Turn;
use flow_model::PolicyError;
use flow_text::Tokenizer;

/// The tagged parts of an answer that the next turn's prompt tells.
pub struct Carried {
    /// Which of the answer's parts, by position, and the tag of each.
    parts: Vec<(usize, String)>,
}

impl Carried {
    /// These parts, each by its position among the answer's and with its tag; none of no parts.
    pub fn of(parts: Vec<(usize, String)>) -> Option<Carried> {
        (!parts.is_empty()).then_some(Carried { parts })
    }

    /// The tag of each part, and its text in the turn before; all empty without one.
    pub fn texts(&self, before: Option<&Turn>) -> Vec<(String, String)> {
        let text = |i: usize| before.and_then(|turn| turn.parts.get(i)).cloned().unwrap_or_default();
        self.parts.iter().map(|(i, tag)| (tag.clone(), text(*i))).collect()
    }
}

impl ContextSource for Carried {
    /// `<memory>a key</memory>`, a line each; in a conversation the answer itself stands above.
    fn contribute(&self, moments: &[Moment], _: &Tokenizer) -> Result<Vec<Passage>, PolicyError> {
        let passage = |moment: &Moment| {
            let part = |(i, tag): &(usize, String)| {
                let text = moment.before.and_then(|turn| turn.parts.get(*i)).filter(|text| !text.is_empty())?;
                Some(tags::write(tag, text) + "\n")
            };
            Passage { slot: PassageSlot::Context, text: self.parts.iter().filter_map(part).collect(), entries: vec![], once: true }
        };
        Ok(moments.iter().map(passage).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;
    use crate::episode::EpisodeStart;
    use serde_json::json;

    #[test]
    fn what_was_noted_a_turn_ago_is_told() {
        let answer =
            json!([{ "tag": "think" }, { "tag": "explore", "carry": true }, { "tag": "memory", "carry": true }, { "tag": "action" }]);
        let agent: Agent = serde_json::from_value(json!({ "model": "a", "decode": "free", "answer": answer })).unwrap();
        let carried = agent.carried().unwrap();
        let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
        let written = "<think>hm</think><explore>the drawer</explore><action>open drawer</action>";
        let turn = Turn { parts: agent.read(written), ..Turn::default() };
        let text = |before| {
            let moment = Moment { start: &start, observation: "", state: 0, before };
            carried.contribute(&[moment], &Tokenizer::bytes()).unwrap().remove(0).text
        };
        assert_eq!((text(None), text(Some(&turn))), (String::new(), "<explore>the drawer</explore>\n".into()), "no memory was written");
        let silent: Agent = serde_json::from_value(json!({ "model": "a", "answer": [{ "tag": "think" }] })).unwrap();
        assert!(silent.carried().is_none());
    }
}
