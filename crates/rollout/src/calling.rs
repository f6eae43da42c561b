//! The prompt of a call that an agent program makes: its own messages, and the agent's context.

use super::agent::Agent;
use super::calls::RETOKENISED;
use super::context::{words, Passage, PassageSlot};
use super::conversation::{plain, standing, unread, TurnContext};
use super::tools::{self, ToolForm};
use super::turn::{Answerer, PromptMemory, Turn};
use flow_env::{Call, Cause, Fault};
use flow_model::OPEN;
use flow_text::{CallOpening, Omissions, Tokenizer};
use serde_json::{json, Value};

/// A prompt, what of a memory stands in it, and why it doesn't go on from the tokens of the call before.
pub type CallPrompt = (Vec<u32>, PromptMemory, String);

/// How the calls that a model answers are written, and what its prompts would lack.
pub struct CallForm {
    tools: ToolForm,
    model: String,
    /// Whether a server runs it, which is sent messages alone.
    served: bool,
    /// What its template leaves out of a conversation without and with a system message.
    omits: [Omissions; 2],
    opening: CallOpening,
}

impl CallForm {
    pub fn new(agent: &Agent, model: &str, tokenizer: &Tokenizer) -> CallForm {
        let (tools, omits) = (agent.tools, [false, true].map(|system| tokenizer.omissions(system)));
        let opening = if tools == ToolForm::Hermes { CallOpening::hermes() } else { tokenizer.call_opening() };
        // Such a model has no vocabulary to be saved.
        CallForm { tools, model: model.into(), served: tokenizer.files().is_empty(), omits, opening }
    }

    /// Why a call can't be asked: a part of it would be in no prompt. `instructed`: it has a system message; `whole`: its
    /// earlier answers are encoded, too.
    fn lost(&self, call: &Call, instructed: bool, whole: bool) -> Option<String> {
        tools::lost(self.tools, call, self.omits[usize::from(instructed)], &self.model, self.served, whole)
    }

    /// The messages and tools as the model reads them, and the number of messages up to the answer that they go on from.
    fn written<'a>(&self, messages: Vec<Value>, call: &'a Call) -> (Vec<Value>, &'a [Value], usize) {
        if self.tools != ToolForm::Hermes {
            return (messages, &call.tools, call.since);
        }
        let (messages, since) = tools::hermes(messages, &call.tools, call.since);
        (messages, &[], since)
    }

    /// The beginnings of answers that call one of these tools.
    ///
    /// # Errors
    /// If answers of the model can't be held to them.
    pub fn forced(&self, tools: &[String], tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>, String> {
        if self.served {
            let model = &self.model;
            return Err(format!("its answer must call a tool, and `{model}`, which a server runs (`openai`), can't be held to that"));
        }
        let opening = |tool: &String| {
            let tokens = tokenizer.encoded(&self.opening.of(tool)).map_err(|error| error.to_string())?;
            Ok([tokens, vec![OPEN]].concat())
        };
        tools.iter().map(opening).collect()
    }
}

/// Builds the prompts of calls.
pub struct CallWriter<'a> {
    pub agent: &'a Agent,
    pub tokenizer: &'a Tokenizer,
    /// The model that answers, where there are several.
    pub answered_by: &'a Option<Answerer>,
    /// How the calls of its model are written.
    pub form: &'a CallForm,
    /// Whether a memory is queried in this iteration.
    pub queried: bool,
}

impl CallWriter<'_> {
    /// The prompt of a call with these passages of context. A call that goes on from another goes on from its tokens:
    /// tokens that were read and sampled are never encoded again.
    ///
    /// # Errors
    /// If the template refuses the messages, the template can't render the tools, or the prompt has more tokens than
    /// allowed.
    pub fn ask(&self, now: &TurnContext, call: &Call, passages: &[Passage]) -> Result<CallPrompt, Fault> {
        let instructed = call.messages.first().is_some_and(|first| first["role"] == "system")
            || !words(passages, PassageSlot::System).is_empty()
            || self.agent.tools == ToolForm::Hermes && !call.tools.is_empty();
        let complete = |whole: bool| match self.form.lost(call, instructed, whole) {
            Some(why) => Err(Fault::new(Cause::Declined, why)),
            None => Ok(()),
        };
        complete(false)?;
        let before = call.on.and_then(|on| now.episode.turns.iter().find(|turn| turn.call == on));
        // The tokens that another model read and wrote are that model's.
        let own = before.filter(|before| before.answered_by == *self.answered_by);
        let further = own.map(|before| self.further(before, call, passages)).transpose()?.flatten();
        let retokenised = before.is_some() && further.is_none() && call.fork.is_empty();
        let (tokens, memory) = further.map_or_else(|| complete(true).and_then(|()| self.encode_conversation(call, passages)), Ok)?;
        match self.agent.prompt_tokens.filter(|most| tokens.len() > *most) {
            Some(most) => {
                let text = format!("the prompt has {} tokens, and `prompt_tokens` allows {most}", tokens.len());
                Err(Fault::new(Cause::TooLong { tokens: tokens.len(), limit: most }, text))
            }
            None => Ok((tokens, memory, if retokenised { RETOKENISED.into() } else { call.fork.clone() })),
        }
    }

    /// The tokens of the turn before, its answer, and what the call adds; none where the template doesn't allow it.
    fn further(&self, before: &Turn, call: &Call, passages: &[Passage]) -> Result<Option<(Vec<u32>, PromptMemory)>, Fault> {
        // Passages for the whole episode, or in a system message, are already in an earlier message.
        let news: Vec<Passage> = passages.iter().filter(|passage| !passage.once && passage.slot == PassageSlot::Context).cloned().collect();
        let known = &before.prompt_memory;
        let on = |read: &[u32], passages: &[Passage]| {
            let mut messages = call.messages.clone();
            let asked = tell(&mut messages[call.since..], &words(passages, PassageSlot::Context));
            let (messages, tools, since) = self.form.written(messages, call);
            let tokens = self.tokenizer.go_on(read, &before.response.tokens, &messages, tools, since - 1).map_err(unread)?;
            Ok::<_, Fault>(tokens.map(|tokens| (tokens, if asked { standing(passages, &texts(since, &messages)) } else { vec![] })))
        };
        let Some((tokens, new)) = on(&before.prompt_tokens, &news)? else { return Ok(None) };
        let mut retrieved = known.retrieved.clone();
        retrieved.extend(new.into_iter().filter(|id| !known.retrieved.contains(id)));
        let read = if known.bare.is_empty() { &before.prompt_tokens } else { &known.bare };
        let bare = if retrieved.is_empty() { None } else { on(read, &plain(&news))? };
        let bare = bare.map(|(bare, _)| bare).unwrap_or_default();
        Ok(Some((tokens, PromptMemory { queried: self.queried, retrieved, bare, ..PromptMemory::default() })))
    }

    /// The whole conversation, encoded.
    fn encode_conversation(&self, call: &Call, passages: &[Passage]) -> Result<(Vec<u32>, PromptMemory), Fault> {
        let prompted = |passages: &[Passage]| {
            let mut messages = call.messages.clone();
            tell(&mut messages, &words(passages, PassageSlot::Context));
            instruct(&mut messages, &words(passages, PassageSlot::System));
            self.form.written(messages, call).0
        };
        let tools = self.form.written(vec![], call).1;
        let encode = |messages: &[Value]| self.tokenizer.converse(messages, tools).map_err(unread);
        let messages = prompted(passages);
        let retrieved = standing(passages, &texts(0, &messages));
        let bare = if retrieved.is_empty() { vec![] } else { encode(&prompted(&plain(passages)))? };
        Ok((encode(&messages)?, PromptMemory { queried: self.queried, retrieved, bare, ..PromptMemory::default() }))
    }
}

/// Puts a text before the last message of a user; whether there is one.
fn tell(messages: &mut [Value], text: &str) -> bool {
    let user = messages.iter_mut().rev().find(|message| message["role"] == "user");
    match user.filter(|_| !text.is_empty()) {
        Some(user) => {
            user["content"] = format!("{text}{}", content(user)).into();
            true
        }
        None => false,
    }
}

/// Puts a text after what the system message says, or into one of its own.
fn instruct(messages: &mut Vec<Value>, text: &str) {
    if text.is_empty() {
        return;
    }
    match messages.first_mut().filter(|first| first["role"] == "system") {
        Some(system) => system["content"] = format!("{}\n\n{text}", content(system)).into(),
        None => messages.insert(0, json!({ "role": "system", "content": text })),
    }
}

fn content(message: &Value) -> String {
    message["content"].as_str().unwrap_or_default().to_owned()
}

/// What the messages from this one on say.
fn texts(since: usize, messages: &[Value]) -> String {
    messages[since..].iter().map(content).collect()
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::super::episode::{Episode, EpisodeStart};
    use super::*;
    use flow_env::{EpisodeView, Extras, TimeStep};

    fn view() -> EpisodeView {
        let step = TimeStep { observation: "x".into(), state: 0, reward: 0.0, done: false, won: false, valid: true };
        EpisodeView { step, actions: vec![], extras: Extras::default() }
    }

    fn user(text: &str) -> Value {
        json!({ "role": "user", "content": text })
    }

    /// The second call reads the first's tokens and its answer's, as they are, whatever the program says that the
    /// answer was; what a memory says stands before what is new, and the prompt without it has none of it.
    #[test]
    fn a_call_goes_on_from_the_tokens_of_the_one_before() {
        let agent: Agent = serde_json::from_value(json!({ "model": "a", "max_turns": 9, "prompt_tokens": 40 })).unwrap();
        let tokenizer = Tokenizer::bytes();
        let form = CallForm::new(&agent, "a", &tokenizer);
        let writer = CallWriter { agent: &agent, tokenizer: &tokenizer, answered_by: &None, form: &form, queried: true };
        let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 0, memory: String::new(), iteration: 1, version: 0 };
        let mut episode = Episode::new(start);
        let view = view();
        let tip = |id: u64, slot| Passage { slot, text: format!("tip {id}\n"), entries: vec![(id, format!("tip {id}\n"))], once: false };
        let first = Call { id: 5, messages: vec![json!({ "role": "system", "content": "Be brief." }), user("a?")], ..Call::default() };
        let now = TurnContext { episode: &episode, view: &view, rules: "" };
        let (tokens, memory, fork) = writer.ask(&now, &first, &[tip(1, PassageSlot::System)]).unwrap();
        assert_eq!((tokenizer.decode(&tokens).as_str(), fork.as_str()), ("Be brief.\n\ntip 1\na?", ""));
        assert_eq!((tokenizer.decode(&memory.bare).as_str(), &memory.retrieved[..]), ("Be brief.a?", &[1][..]));
        let sampled = [tokenizer.encode(" so "), vec![tokenizer.end()]].concat();
        let response = Response::certain(" so ".into(), sampled.clone());
        episode.turns.push(Turn { call: 5, prompt_tokens: tokens.clone(), prompt_memory: memory, response, ..Turn::default() });
        let mut messages = first.messages.clone();
        messages.extend([json!({ "role": "assistant", "content": "so" }), user("b?")]);
        let second = Call { id: 6, on: Some(5), since: 3, messages, ..Call::default() };
        let now = TurnContext { episode: &episode, view: &view, rules: "" };
        let (further, memory, fork) = writer.ask(&now, &second, &[tip(2, PassageSlot::Context)]).unwrap();
        assert_eq!(further[..tokens.len() + sampled.len()], [tokens, sampled.clone()].concat());
        assert_eq!((tokenizer.decode(&further).as_str(), fork.as_str()), ("Be brief.\n\ntip 1\na? so tip 2\nb?", ""));
        assert_eq!((tokenizer.decode(&memory.bare).as_str(), &memory.retrieved[..]), ("Be brief.a? so b?", &[1, 2][..]));
        let short = Agent { prompt_tokens: Some(30), ..agent.clone() };
        let writer = CallWriter { agent: &short, ..writer };
        let fault = writer.ask(&now, &second, &[tip(2, PassageSlot::Context)]).unwrap_err();
        assert_eq!(fault.cause, Cause::TooLong { tokens: further.len(), limit: 30 });
        let with = Call { tools: vec![json!({ "function": { "name": "add" } })], ..first };
        let fault = CallWriter { agent: &agent, ..writer }.ask(&now, &with, &[]).unwrap_err();
        assert!(fault.cause == Cause::Declined && fault.text.contains("`a` has no chat template that renders them"), "{fault:?}");
        let hermes = Agent { tools: ToolForm::Hermes, prompt_tokens: None, ..agent };
        let form = CallForm::new(&hermes, "a", &tokenizer);
        let writer = CallWriter { agent: &hermes, tokenizer: &tokenizer, answered_by: &None, form: &form, queried: false };
        let (tokens, ..) = writer.ask(&now, &with, &[]).unwrap();
        let prompt = tokenizer.decode(&tokens);
        assert!(prompt.starts_with("Be brief.\n\n# Tools\n") && prompt.contains("{\"function\": {\"name\": \"add\"}}"), "{prompt}");
        // It goes on from the tokens all the same.
        episode.turns[0].prompt_tokens = tokens.clone();
        let now = TurnContext { episode: &episode, view: &view, rules: "" };
        let (further, ..) = writer.ask(&now, &Call { tools: with.tools.clone(), ..second }, &[]).unwrap();
        assert_eq!(further[..tokens.len() + sampled.len()], [tokens, sampled].concat());
        let forced = form.forced(&["add".into()], &tokenizer).unwrap();
        assert_eq!(
            (forced[0].last(), tokenizer.decode(&forced[0]).as_str()),
            (Some(&OPEN), "<tool_call>\n{\"name\": \"add\", \"arguments\":")
        );
    }
}
