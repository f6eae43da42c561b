//! The prompt of a turn: built from scratch, or as one more message of the conversation so far.

use super::agent::{Agent, PromptLayout};
use super::context::{words, Passage, PassageSlot, RecallTime};
use super::episode::Episode;
use super::prompt::Situation;
use super::template::{PromptTemplates, TemplateError};
use super::turn::{ConversationMessage, PromptMemory, Turn};
use flow_env::{Cause, EpisodeView, Fault};
use flow_text::Message;
use flow_text::Tokenizer;

/// An episode at the start of a turn.
pub struct TurnContext<'a> {
    pub episode: &'a Episode,
    /// What the environment shows.
    pub view: &'a EpisodeView,
    /// The rules of its environment.
    pub rules: &'a str,
}

/// Builds the prompts of an agent.
pub struct PromptWriter<'a> {
    pub agent: &'a Agent,
    pub prompt: &'a PromptTemplates,
    /// The tokenizer of the model.
    pub tokenizer: &'a Tokenizer,
    /// Whether a memory is queried in this iteration.
    pub queried: bool,
}

/// A rendered and tokenised prompt.
struct WrittenPrompt {
    tokens: Vec<u32>,
    /// The text of the user's message.
    text: String,
    /// The memory entries whose text it contains.
    retrieved: Vec<u64>,
}

impl PromptWriter<'_> {
    /// The prompt of a turn with these passages of context, and which memory entries it contains: an entry counts if
    /// its text stands in the prompt.
    ///
    /// # Errors
    /// If a template can't be rendered, or the prompt has more tokens than allowed.
    pub fn ask(&self, now: &TurnContext, passages: &[Passage]) -> Result<(Vec<u32>, PromptMemory), Fault> {
        let (TurnContext { episode, view, rules }, agent) = (now, self.agent);
        let before = episode.turns.iter().rev().nth(agent.carry_after - 1);
        let carried = agent.carried().map_or_else(Vec::new, |carried| carried.texts(before));
        let form = agent.form();
        let situation = Situation {
            rules,
            instruction: &episode.facts.instruction,
            memory: "",
            history: &episode.turns[episode.turns.len().saturating_sub(agent.history)..],
            observation: &view.step.observation,
            admissible: &view.actions,
            turn: episode.turn(),
            max_turns: agent.turns(),
            attempt: episode.start.attempt,
            form: &form,
            carried: &carried,
        };
        let talks = agent.layout == PromptLayout::Chat;
        let above = episode.turns.last().filter(|_| talks);
        if let Some((above, message)) = above.and_then(|above| Some((above, above.prompt_memory.message.as_deref()?))) {
            let further = self.further(episode, (above, message), &situation, passages)?;
            if agent.prompt_tokens.is_none_or(|most| further.0.len() <= most) {
                return Ok(further);
            }
        }
        let (written, left_out) = self.fitted(&situation, passages)?;
        let shown = Situation { history: &situation.history[left_out..], ..situation };
        let bare = (!written.retrieved.is_empty()).then(|| self.written(&shown, &plain(passages))).transpose()?;
        // A conversation that begins anew is without all that it doesn't retell.
        let unsaid = if talks { episode.turns.len() - shown.history.len() } else { left_out };
        let message = talks.then(|| {
            let bare = bare.as_ref().map_or_else(|| written.text.clone(), |bare| bare.text.clone());
            let entries = if self.moves() { standing(passages, &written.text) } else { written.retrieved.clone() };
            Box::new(ConversationMessage { since: episode.turns.len(), text: written.text.clone(), bare, entries })
        });
        let bare = bare.map(|bare| bare.tokens).unwrap_or_default();
        Ok((written.tokens, PromptMemory { queried: self.queried, retrieved: written.retrieved, bare, left_out: unsaid as u32, message }))
    }

    /// Whether the system message may change from turn to turn, so that the conversation is rebuilt in each.
    fn moves(&self) -> bool {
        self.agent.memories().any(|memory| memory.place == PassageSlot::System && memory.at == RecallTime::Turn)
    }

    /// The prompt that appends this turn to the conversation so far.
    fn further(
        &self,
        episode: &Episode,
        (above, before): (&Turn, &ConversationMessage),
        situation: &Situation,
        passages: &[Passage],
    ) -> Result<(Vec<u32>, PromptMemory), Fault> {
        // Passages for the whole episode are already in an earlier message.
        let news: Vec<Passage> = passages.iter().filter(|passage| !passage.once && passage.slot == PassageSlot::Context).cloned().collect();
        let user = |passages: &[Passage]| {
            let memory = words(passages, PassageSlot::Context);
            let now = Situation { rules: "", instruction: "", history: &[], memory: &memory, ..*situation };
            self.prompt.user.fill(|place| now.place(place)).map_err(unfilled)
        };
        let mut message =
            ConversationMessage { since: before.since, text: user(&news)?, bare: user(&plain(&news))?, entries: before.entries.clone() };
        message.entries.extend(standing(&news, &message.text).into_iter().filter(|id| !before.entries.contains(id)));
        let (tokens, bare, retrieved) = if self.moves() {
            let (system, own) = (words(passages, PassageSlot::System), words(&plain(passages), PassageSlot::System));
            let tokens = self.encode_conversation(episode, &message, situation, &system, |message| &message.text)?;
            let mut retrieved: Vec<u64> = standing(passages, &system);
            retrieved.extend(message.entries.iter().filter(|id| !retrieved.contains(id)).copied().collect::<Vec<_>>());
            (tokens, self.encode_conversation(episode, &message, situation, &own, |message| &message.bare)?, retrieved)
        } else {
            let read = if above.prompt_memory.bare.is_empty() { &above.prompt_tokens } else { &above.prompt_memory.bare };
            (self.follow(&above.prompt_tokens, above, &message.text)?, self.follow(read, above, &message.bare)?, message.entries.clone())
        };
        let bare = if retrieved.is_empty() { vec![] } else { bare };
        let left_out = above.prompt_memory.left_out;
        Ok((tokens, PromptMemory { queried: self.queried, retrieved, bare, left_out, message: Some(Box::new(message)) }))
    }

    /// The whole conversation up to this message, under the current system message.
    fn encode_conversation(
        &self,
        episode: &Episode,
        last: &ConversationMessage,
        situation: &Situation,
        system: &str,
        text: fn(&ConversationMessage) -> &String,
    ) -> Result<Vec<u32>, Fault> {
        let system = self.prompt.system(system, |place| situation.place(place)).map_err(unfilled)?;
        let turns = &episode.turns[last.since..];
        let texts: Vec<&str> =
            turns.iter().filter_map(|turn| turn.prompt_memory.message.as_deref()).chain([last]).map(|m| text(m).as_str()).collect();
        let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        let system = system.map(|system| message("system", &system));
        let first: Vec<Message> = system.into_iter().chain(texts.first().map(|text| message("user", text))).collect();
        let tokens = self.tokenizer.chat(&first).map_err(unread)?;
        turns.iter().zip(texts.iter().skip(1)).try_fold(tokens, |tokens, (turn, text)| self.follow(&tokens, turn, text))
    }

    /// Appends the response of the turn above and a further message to the conversation `read`.
    fn follow(&self, read: &[u32], above: &Turn, text: &str) -> Result<Vec<u32>, Fault> {
        self.tokenizer.follow(read, &above.response.tokens, text).map_err(unread)
    }

    /// The prompt with as many recent turns as fit into the token limit, and the number of older turns left out.
    fn fitted(&self, situation: &Situation, passages: &[Passage]) -> Result<(WrittenPrompt, usize), Fault> {
        let without = |left_out: usize| self.written(&Situation { history: &situation.history[left_out..], ..*situation }, passages);
        let whole = without(0)?;
        let Some(most) = self.agent.prompt_tokens.filter(|most| whole.tokens.len() > *most) else { return Ok((whole, 0)) };
        // Fewer turns are fewer tokens, so the number to leave out is found by halving.
        let (mut few, mut enough) = (0, situation.history.len());
        let mut fitted = without(enough)?;
        if fitted.tokens.len() > most {
            let text = format!("the prompt has {} tokens without any earlier turn, and `prompt_tokens` allows {most}", fitted.tokens.len());
            return Err(Fault::new(Cause::Prompt, text));
        }
        while enough - few > 1 {
            let middle = few + (enough - few) / 2;
            let written = without(middle)?;
            match written.tokens.len() <= most {
                true => (enough, fitted) = (middle, written),
                false => few = middle,
            }
        }
        Ok((fitted, enough))
    }

    fn written(&self, situation: &Situation, passages: &[Passage]) -> Result<WrittenPrompt, Fault> {
        let memory = words(passages, PassageSlot::Context);
        let situation = Situation { memory: &memory, ..*situation };
        let messages = self.prompt.messages(&words(passages, PassageSlot::System), |place| situation.place(place)).map_err(unfilled)?;
        let whole: String = messages.iter().map(|message| message.content.as_str()).collect();
        let tokens = self.tokenizer.chat(&messages).map_err(unread)?;
        let text = messages.into_iter().last().map(|message| message.content).unwrap_or_default();
        Ok(WrittenPrompt { tokens, text, retrieved: standing(passages, &whole) })
    }
}

/// The passages that aren't retrieved from a memory.
pub fn plain(passages: &[Passage]) -> Vec<Passage> {
    passages.iter().filter(|passage| !passage.retrieved()).cloned().collect()
}

/// The memory entries whose text stands in the prompt, in order.
pub fn standing(passages: &[Passage], text: &str) -> Vec<u64> {
    let entries = passages.iter().flat_map(|passage| &passage.entries);
    entries.filter(|(_, words)| text.contains(words.trim_end())).map(|(id, _)| *id).collect()
}

fn unfilled(error: TemplateError) -> Fault {
    Fault::new(Cause::Prompt, error.to_string())
}

/// What a template says against a prompt.
pub fn unread(error: impl std::fmt::Display) -> Fault {
    Fault::new(Cause::Prompt, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::super::context::{ContextSource, SourceSettings};
    use super::super::episode::{EpisodeStart, Move};
    use super::super::prompt;
    use super::*;
    use crate::context::{rows, MemoryRecall, Moment};
    use crate::points::{Pointer, Points};
    use flow_env::{Extras, TimeStep};
    use flow_model::Request;
    use serde_json::json;

    fn view(turn: u32) -> EpisodeView {
        let outcome =
            TimeStep { observation: format!("room {turn}"), state: turn.into(), reward: 0.0, done: false, won: false, valid: true };
        EpisodeView { step: outcome, actions: vec![], extras: Extras::default() }
    }

    /// The prompts of three turns, with what each says that was retrieved and the same without; every turn's entry is
    /// another one.
    fn played(with: serde_json::Value) -> Vec<(String, Vec<u64>, String)> {
        let agent: Agent = serde_json::from_value(with).unwrap();
        let (prompt, tokenizer) = (prompt::new(&agent).unwrap(), Tokenizer::bytes());
        let SourceSettings::Memory(settings) = &agent.context[0] else { panic!("a memory") };
        let mut memory = MemoryRecall::new(settings.as_ref().clone(), Pointer::new(Points::None, None, None));
        let tips: Vec<_> = (0..3).map(|turn| MemoryRecall::sample(turn, &format!("room {turn}"), &format!("tip {turn}"))).collect();
        memory.begin(&rows(&tips), 1).unwrap();
        let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 0, memory: "before\n".into(), iteration: 1, version: 0 };
        let mut episode = Episode::new(start);
        episode.begin(Some(view(0)));
        let mut first = None;
        let mut prompts = Vec::new();
        for turn in 0..3 {
            let shown = view(turn);
            let moment = Moment { start: &episode.start, observation: &shown.step.observation, state: 0, before: None };
            let mut passage = memory.contribute(&[moment], &tokenizer).unwrap().remove(0);
            if memory.once() {
                passage = first.get_or_insert(passage).clone();
            }
            let notes = Passage { text: episode.start.memory.clone(), once: true, ..Passage::default() };
            let teller = PromptWriter { agent: &agent, prompt: &prompt, tokenizer: &tokenizer, queried: true };
            let (tokens, prompt_memory) =
                teller.ask(&TurnContext { episode: &episode, view: &shown, rules: "rules" }, &[notes, passage]).unwrap();
            prompts.push((tokenizer.decode(&tokens), prompt_memory.retrieved.clone(), tokenizer.decode(&prompt_memory.bare)));
            let mut tokens_of_answer = tokenizer.encode("go");
            tokens_of_answer.push(tokenizer.end());
            let response = Response::certain("go".into(), tokens_of_answer);
            let request = Request { prompt: tokens, seed: 0, choices: vec![], ..Request::default() };
            let over = episode.record(
                Move {
                    request,
                    prompt_memory,
                    action: "go".into(),
                    unread: None,
                    fork: String::new(),
                    answered_by: None,
                    parts: vec![],
                    response,
                },
                view(turn + 1),
                false,
                false,
            );
            assert!(over.unwrap().is_none());
        }
        prompts
    }

    /// Whatever the layout, the place and the template: what stands in `retrieved` stands in the prompt, what stands in
    /// the prompt stands in `retrieved`, and the prompt without it has none of it.
    #[test]
    fn what_was_retrieved_stands_in_the_prompt_and_nothing_else_does() {
        for layout in ["rebuilt", "chat"] {
            for place in ["before", "system"] {
                for at in ["turn", "episode"] {
                    for template in
                        ["{{ memory }}{{ observation }}", "{{ observation }}", "{% if turn == 2 %}{{ memory }}{% endif %}{{ observation }}"]
                    {
                        let context = json!([{ "memory": "tips", "by": "key", "place": place, "at": at }]);
                        let agent = json!({ "model": "a", "prompt": template, "layout": layout, "max_turns": 5, "context": context });
                        let case = format!("{layout}, {place}, {at}, {template}");
                        for (turn, (prompt, retrieved, bare)) in played(agent).into_iter().enumerate() {
                            for tip in 0..3 {
                                let (stands, listed) = (prompt.contains(&format!("tip {tip}")), retrieved.contains(&(tip + 1)));
                                assert_eq!(stands, listed, "{case}: tip {tip} in turn {turn}: {prompt}");
                                assert!(!bare.contains(&format!("tip {tip}")), "{case}: {bare}");
                            }
                            assert_eq!(bare.is_empty(), retrieved.is_empty(), "{case}");
                            let retrieved_tip = |tip: u64| retrieved.contains(&(tip + 1));
                            if place == "system" && at == "turn" {
                                assert!(
                                    retrieved_tip(turn as u64) && retrieved.len() == 1,
                                    "{case}: the system message is that of the turn: {retrieved:?}"
                                );
                            }
                            if place == "system" && at == "episode" {
                                assert_eq!(retrieved, [1], "{case}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Under a system message that changes the conversation is the same but for that: what was read and written stands
    /// in it, token by token.
    #[test]
    fn a_conversation_under_another_system_message_is_told_anew() {
        let context = json!([{ "memory": "tips", "by": "key", "place": "system" }]);
        let agent = json!({ "model": "a", "prompt": "{{ observation }};", "layout": "chat", "max_turns": 5, "context": context });
        let prompts: Vec<String> = played(agent).into_iter().map(|(prompt, ..)| prompt).collect();
        assert_eq!(prompts[0], "Remembered:\n- tip 0\nroom 0;");
        assert_eq!(prompts[2], "Remembered:\n- tip 2\nroom 0;goroom 1;goroom 2;");
    }
}
