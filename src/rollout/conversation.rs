//! What the policy is asked in a turn: the situation told anew, or a further message of the conversation so far.

use super::agent::{Agent, Layout};
use super::context::{words, At, Carried, Passage, Slot};
use super::episode::{Episode, Given, Message, Turn};
use super::prompt::{Prompt, Situation};
use super::template::TemplateError;
use crate::env::{Cause, Fault, View};
use crate::policy::{self, Tokenizer};

/// An episode whose turn it is.
pub struct Now<'a> {
    pub episode: &'a Episode,
    /// What it shows.
    pub view: &'a View,
    /// How its world is played.
    pub rules: &'a str,
}

/// Makes prompts.
pub struct Teller<'a> {
    pub agent: &'a Agent,
    pub prompt: &'a Prompt,
    /// The tokenizer of the model that is asked.
    pub tokenizer: &'a Tokenizer,
    /// Whether a memory is asked in this iteration.
    pub asked: bool,
}

/// A situation in words, as tokens.
struct Told {
    tokens: Vec<u32>,
    /// What the user's message says.
    text: String,
    /// The entries whose words stand in it.
    retrieved: Vec<u64>,
}

impl Teller<'_> {
    /// The prompt of an episode's turn with these passages of its context, and what of it comes from memories: an entry counts where its words
    /// stand in the prompt.
    ///
    /// # Errors
    /// Where a template can't be filled with it, or it has more tokens than it may.
    pub fn ask(&self, now: &Now, passages: &[Passage]) -> Result<(Vec<u32>, Given), Fault> {
        let (Now { episode, view, rules }, agent) = (now, self.agent);
        let carried = Carried::texts(agent, episode.turns.last());
        let situation = Situation {
            rules,
            instruction: &episode.instruction,
            memory: "",
            history: &episode.turns[episode.turns.len().saturating_sub(agent.history)..],
            observation: &view.seen.observation,
            admissible: &view.actions,
            turn: episode.turn(),
            max_turns: agent.turns(),
            attempt: episode.start.attempt,
            carried: &carried,
        };
        let talks = agent.layout == Layout::Chat;
        let above = episode.turns.last().filter(|_| talks);
        if let Some((above, message)) = above.and_then(|above| Some((above, above.given.message.as_deref()?))) {
            let further = self.further(episode, (above, message), &situation, passages)?;
            if agent.prompt_tokens.is_none_or(|most| further.0.len() <= most) {
                return Ok(further);
            }
        }
        let (told, left_out) = self.fitted(&situation, passages)?;
        let shown = Situation { history: &situation.history[left_out..], ..situation };
        let bare = (!told.retrieved.is_empty()).then(|| self.told(&shown, &plain(passages))).transpose()?;
        // A conversation that begins anew is without all that it doesn't retell.
        let unsaid = if talks { episode.turns.len() - shown.history.len() } else { left_out };
        let message = talks.then(|| {
            let bare = bare.as_ref().map_or_else(|| told.text.clone(), |bare| bare.text.clone());
            let entries = if self.moves() { standing(passages, &told.text) } else { told.retrieved.clone() };
            Box::new(Message { since: episode.turns.len(), text: told.text.clone(), bare, entries })
        });
        let bare = bare.map(|bare| bare.tokens).unwrap_or_default();
        Ok((told.tokens, Given { asked: self.asked, retrieved: told.retrieved, bare, left_out: unsaid as u32, message }))
    }

    /// Whether the system message may be another in each turn, so that a conversation is read anew under it.
    fn moves(&self) -> bool {
        self.agent.memories().any(|memory| memory.place == Slot::System && memory.at == At::Turn)
    }

    /// The turn as a further message of the conversation above it.
    fn further(
        &self,
        episode: &Episode,
        (above, before): (&Turn, &Message),
        situation: &Situation,
        passages: &[Passage],
    ) -> Result<(Vec<u32>, Given), Fault> {
        // What stands for the whole episode stands above.
        let news: Vec<Passage> = passages.iter().filter(|passage| !passage.once && passage.slot == Slot::Context).cloned().collect();
        let user = |passages: &[Passage]| {
            let memory = words(passages, Slot::Context);
            self.prompt.further(&Situation { rules: "", instruction: "", history: &[], memory: &memory, ..*situation }).map_err(unfilled)
        };
        let mut message = Message { since: before.since, text: user(&news)?, bare: user(&plain(&news))?, entries: before.entries.clone() };
        message.entries.extend(standing(&news, &message.text).into_iter().filter(|id| !before.entries.contains(id)));
        let (tokens, bare, retrieved) = if self.moves() {
            let (system, own) = (words(passages, Slot::System), words(&plain(passages), Slot::System));
            let tokens = self.anew(episode, &message, situation, &system, |message| &message.text)?;
            let mut retrieved: Vec<u64> = standing(passages, &system);
            retrieved.extend(message.entries.iter().filter(|id| !retrieved.contains(id)).copied().collect::<Vec<_>>());
            (tokens, self.anew(episode, &message, situation, &own, |message| &message.bare)?, retrieved)
        } else {
            let read = if above.given.bare.is_empty() { &above.prompt_tokens } else { &above.given.bare };
            (self.follow(&above.prompt_tokens, above, &message.text)?, self.follow(read, above, &message.bare)?, message.entries.clone())
        };
        let bare = if retrieved.is_empty() { vec![] } else { bare };
        let left_out = above.given.left_out;
        Ok((tokens, Given { asked: self.asked, retrieved, bare, left_out, message: Some(Box::new(message)) }))
    }

    /// The whole conversation up to this message, under the system message as it is now.
    fn anew(
        &self,
        episode: &Episode,
        last: &Message,
        situation: &Situation,
        system: &str,
        text: fn(&Message) -> &String,
    ) -> Result<Vec<u32>, Fault> {
        let system = self.prompt.system(situation, system).map_err(unfilled)?;
        let turns = &episode.turns[last.since..];
        let texts: Vec<&str> =
            turns.iter().filter_map(|turn| turn.given.message.as_deref()).chain([last]).map(|m| text(m).as_str()).collect();
        let message = |role: &str, content: &str| policy::Message { role: role.into(), content: content.into() };
        let system = system.map(|system| message("system", &system));
        let first: Vec<policy::Message> = system.into_iter().chain(texts.first().map(|text| message("user", text))).collect();
        let tokens = self.tokenizer.chat(&first).map_err(unread)?;
        turns.iter().zip(texts.iter().skip(1)).try_fold(tokens, |tokens, (turn, text)| self.follow(&tokens, turn, text))
    }

    /// A conversation that was read so far, what was answered in the turn above, and a further message.
    fn follow(&self, read: &[u32], above: &Turn, text: &str) -> Result<Vec<u32>, Fault> {
        self.tokenizer.follow(read, &above.response.tokens, text).map_err(unread)
    }

    /// The prompt with as many of the last turns as it may have tokens for, and how many are left out: the oldest.
    fn fitted(&self, situation: &Situation, passages: &[Passage]) -> Result<(Told, usize), Fault> {
        let without = |left_out: usize| self.told(&Situation { history: &situation.history[left_out..], ..*situation }, passages);
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
            let told = without(middle)?;
            match told.tokens.len() <= most {
                true => (enough, fitted) = (middle, told),
                false => few = middle,
            }
        }
        Ok((fitted, enough))
    }

    fn told(&self, situation: &Situation, passages: &[Passage]) -> Result<Told, Fault> {
        let memory = words(passages, Slot::Context);
        let situation = Situation { memory: &memory, ..*situation };
        let messages = self.prompt.messages(&situation, &words(passages, Slot::System)).map_err(unfilled)?;
        let whole: String = messages.iter().map(|message| message.content.as_str()).collect();
        let tokens = self.tokenizer.chat(&messages).map_err(unread)?;
        let text = messages.into_iter().last().map(|message| message.content).unwrap_or_default();
        Ok(Told { tokens, text, retrieved: standing(passages, &whole) })
    }
}

/// The passages without words from a memory.
fn plain(passages: &[Passage]) -> Vec<Passage> {
    passages.iter().filter(|passage| !passage.retrieved()).cloned().collect()
}

/// The entries whose words stand in the text, in their order in the prompt.
pub fn standing(passages: &[Passage], text: &str) -> Vec<u64> {
    let entries = passages.iter().flat_map(|passage| &passage.entries);
    entries.filter(|(_, words)| text.contains(words.trim_end())).map(|(id, _)| *id).collect()
}

fn unfilled(error: TemplateError) -> Fault {
    Fault::new(Cause::Prompt, error.to_string())
}

fn unread(error: impl std::fmt::Display) -> Fault {
    Fault::new(Cause::Prompt, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::super::context::{Source, SourceSettings};
    use super::super::episode::{Move, Start};
    use super::*;
    use crate::env::{Extras, Seen};
    use crate::policy::Request;
    use crate::rollout::context::{Moment, Remembered};
    use crate::rollout::points::{Pointer, Points};
    use serde_json::json;

    fn view(turn: u32) -> View {
        let seen = Seen { observation: format!("room {turn}"), state: turn.into(), reward: 0.0, done: false, won: false, valid: true };
        View { seen, actions: vec![], extras: Extras::default() }
    }

    /// The prompts of three turns, with what each says that was retrieved and the same without; every turn's entry is another one.
    fn played(with: serde_json::Value) -> Vec<(String, Vec<u64>, String)> {
        let agent: Agent = serde_json::from_value(with).unwrap();
        let (prompt, tokenizer) = (Prompt::new(&agent).unwrap(), Tokenizer::bytes());
        let SourceSettings::Memory(settings) = &agent.context[0] else { panic!("a memory") };
        let mut memory = Remembered::new(settings.as_ref().clone(), Pointer::new(Points::None, None, None));
        memory.begin((0..3).map(|turn| Remembered::sample(turn, &format!("room {turn}"), &format!("tip {turn}"))).collect(), 1);
        let start = Start { task: "t".into(), sample: 0, attempt: 0, memory: "before\n".into(), iteration: 1, version: 0 };
        let mut episode = Episode::new(start);
        episode.begin(Some(view(0)));
        let mut first = None;
        let mut prompts = Vec::new();
        for turn in 0..3 {
            let shown = view(turn);
            let moment = Moment { start: &episode.start, observation: &shown.seen.observation, state: 0, before: None };
            let mut passage = memory.contribute(&[moment], &tokenizer).unwrap().remove(0);
            if memory.once() {
                passage = first.get_or_insert(passage).clone();
            }
            let notes = Passage { text: episode.start.memory.clone(), once: true, ..Passage::default() };
            let teller = Teller { agent: &agent, prompt: &prompt, tokenizer: &tokenizer, asked: true };
            let (tokens, given) = teller.ask(&Now { episode: &episode, view: &shown, rules: "rules" }, &[notes, passage]).unwrap();
            prompts.push((tokenizer.decode(&tokens), given.retrieved.clone(), tokenizer.decode(&given.bare)));
            let mut tokens_of_answer = tokenizer.encode("go");
            tokens_of_answer.push(tokenizer.end());
            let response = Response::certain("go".into(), tokens_of_answer);
            let request = Request { prompt: tokens, seed: 0, choices: vec![] };
            episode.took(Move { request, given, action: "go".into(), parts: vec![], response }, view(turn + 1), false);
        }
        prompts
    }

    /// Whatever the layout, the place and the template: what stands in `retrieved` stands in the prompt, what stands in the prompt stands in
    /// `retrieved`, and the prompt without it has none of it.
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
                            let told = |tip: u64| retrieved.contains(&(tip + 1));
                            if place == "system" && at == "turn" {
                                assert!(
                                    told(turn as u64) && retrieved.len() == 1,
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

    /// Under a system message that changes the conversation is the same but for that: what was read and written stands in it, token by token.
    #[test]
    fn a_conversation_under_another_system_message_is_told_anew() {
        let context = json!([{ "memory": "tips", "by": "key", "place": "system" }]);
        let agent = json!({ "model": "a", "prompt": "{{ observation }};", "layout": "chat", "max_turns": 5, "context": context });
        let prompts: Vec<String> = played(agent).into_iter().map(|(prompt, ..)| prompt).collect();
        assert_eq!(prompts[0], "Remembered:\n- tip 0\nroom 0;");
        assert_eq!(prompts[2], "Remembered:\n- tip 2\nroom 0;goroom 1;goroom 2;");
    }
}
