//! The tokenizer of a published model: its tokens, which of them end an answer, and its chat template.

use super::bounded::BoundedTokenizer;
use super::chat::{ChatTemplate, Message};
use flow_model::folder::parse;
use flow_model::{FileFault, PolicyError, Result};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// A published tokenizer.
pub struct PublishedTokenizer {
    inner: BoundedTokenizer,
    template: Option<ChatTemplate>,
    /// The tokens that open a text, which a model without a template reads before the first prompt.
    opening: Vec<u32>,
    /// One more than the largest token.
    size: usize,
    /// What it was read from.
    pub files: BTreeMap<String, String>,
}

/// Stands for an answer, to see what a template writes after one.
const ANSWER: &str = "TheAnswerThatStandsHere";

/// What a message says.
fn content(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

impl std::fmt::Debug for PublishedTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a published tokenizer of {} tokens", self.vocab_size())
    }
}

impl PartialEq for PublishedTokenizer {
    /// Whether a text has the same tokens in both: templates and ends may differ.
    fn eq(&self, other: &PublishedTokenizer) -> bool {
        self.files.get("tokenizer.json") == other.files.get("tokenizer.json")
    }
}

impl PublishedTokenizer {
    /// The tokenizer in `files`, which lie in `folder`, and the tokens that end an answer; the error names the file.
    pub fn new(
        files: &BTreeMap<String, String>,
        config: &Value,
        folder: &Path,
    ) -> Result<(PublishedTokenizer, Vec<u32>), (&'static str, FileFault)> {
        let name = |file: &str| folder.join(file).display().to_string();
        let unusable = |file: &'static str| move |what: String| (file, FileFault::Unusable(what));
        let text = files.get("tokenizer.json").ok_or(("tokenizer.json", FileFault::Missing))?;
        let inner = BoundedTokenizer::read(&name("tokenizer.json"), text).map_err(unusable("tokenizer.json"))?;
        let json = |file: &'static str| match files.get(file) {
            Some(text) => parse(text).map_err(unusable(file)),
            None => Ok(Value::Null),
        };
        let (tokenizer_config, generation): (Value, Value) = (json("tokenizer_config.json")?, json("generation_config.json")?);
        // In old folders another file names the special tokens, and `transformers` believes that one.
        let added = &tokenizer_config["added_tokens_decoder"];
        let old: Value = if added.is_null() { json("special_tokens_map.json")? } else { Value::Null };
        let special = |name: &str| {
            let token = [&old, &tokenizer_config].into_iter().map(|from| &from[name]).find(|token| !token.is_null())?;
            token.as_str().or(token["content"].as_str()).map(String::from)
        };
        for (id, token) in added.as_object().into_iter().flatten() {
            let text = token["content"].as_str().unwrap_or_default();
            let own = inner.inner.token_to_id(text);
            if own.map(|own| own.to_string()).as_ref() != Some(id) {
                let own = own.map_or("doesn't know it".into(), |own| format!("gives it the number {own}"));
                let what = format!("it gives the token `{text}` the number {id}, and tokenizer.json {own}: save the tokenizer again");
                return Err(unusable("tokenizer_config.json")(what));
            }
        }
        let template = match files.get("chat_template.jinja") {
            Some(text) => Some(("chat_template.jinja", text.as_str())),
            None => default_template(&tokenizer_config["chat_template"]).map(|text| ("tokenizer_config.json", text)),
        };
        let make = |(file, text): (&'static str, &str)| {
            let specials = ["bos_token", "eos_token", "pad_token", "unk_token"].map(|name| (name, special(name)));
            ChatTemplate::new(&name(file), text, specials).map_err(unusable(file))
        };
        let template = template.map(make).transpose()?;
        let mut ends: Vec<u32> =
            [&generation, config].iter().map(|from| tokens(&from["eos_token_id"])).find(|ends| !ends.is_empty()).unwrap_or_default();
        // What the template closes a turn with may not be in those lists.
        ends.extend(special("eos_token").and_then(|token| inner.inner.token_to_id(&token)).filter(|token| !ends.contains(token)));
        if ends.is_empty() {
            let what = "no token ends an answer: give `eos_token_id` in generation_config.json".to_string();
            return Err(("generation_config.json", FileFault::Unusable(what)));
        }
        let some = inner.encode("a", true).map_err(unusable("tokenizer.json"))?;
        // A file that makes its library panic mostly does so with any text.
        for text in ["a", " B, 12\n", "<b>\u{e9}\u{4e2d}</b>"] {
            let tried = inner.encode(text, false).and_then(|encoding| inner.decode(encoding.get_ids(), true));
            tried.map_err(unusable("tokenizer.json"))?;
        }
        let marks = some.get_ids().iter().zip(some.get_special_tokens_mask());
        let opening = marks.take_while(|(_, special)| **special == 1).map(|(token, _)| *token).collect();
        let size = inner.inner.get_vocab(true).into_values().max().map_or(0, |largest| largest as usize + 1);
        Ok((PublishedTokenizer { inner, template, opening, size, files: files.clone() }, ends))
    }

    /// From now on its chat template, if it has one, is rendered with these variables.
    pub fn set(&mut self, variables: &BTreeMap<String, Value>) {
        self.template.iter_mut().for_each(|template| template.set(variables));
    }

    /// The tokens of `text`, without any that would open or close it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.inner.encode(text, false).map(|encoding| encoding.get_ids().to_vec()).map_err(PolicyError::Template)
    }

    /// The tokens of a conversation; see [`super::Tokenizer::chat`].
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        match &self.template {
            Some(template) => self.encode(&template.render(messages).map_err(PolicyError::Template)?),
            None => messages.iter().try_fold(self.opening.clone(), |tokens, message| Ok([tokens, self.encode(&message.content)?].concat())),
        }
    }

    /// The tokens between an answer and the one after it: the close of the first, the user's turn, and the opening of
    /// the second.
    pub fn next(&self, text: &str) -> Result<Vec<u32>> {
        let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        let Some(template) = &self.template else { return self.encode(text) };
        let messages = [message("user", "."), message("assistant", ANSWER), message("user", text)];
        let whole = template.render(&messages).map_err(PolicyError::Template)?;
        let (_, rest) = whole.split_once(ANSWER).ok_or_else(|| PolicyError::Template("the chat template leaves answers out".into()))?;
        self.after_answer(rest)
    }

    /// The tokens of a text that follows an answer: a tokenizer may put a space before the beginning of a text, which
    /// this isn't.
    fn after_answer(&self, text: &str) -> Result<Vec<u32>> {
        let (answer, both) = (self.encode(ANSWER)?, self.encode(&format!("{ANSWER}{text}"))?);
        both.strip_prefix(&answer[..]).map_or_else(|| self.encode(text), |after| Ok(after.to_vec()))
    }

    /// The tokens of a conversation; see [`super::Tokenizer::converse`].
    pub fn converse(&self, messages: &[Value], tools: &[Value]) -> Result<Vec<u32>> {
        match &self.template {
            Some(template) => self.encode(&template.converse(messages, tools, true).map_err(PolicyError::Template)?),
            None => messages.iter().try_fold(self.opening.clone(), |tokens, message| Ok([tokens, self.encode(content(message))?].concat())),
        }
    }

    /// The tokens that follow the answer at `answer` among the messages, up to the opening of the next one; none where
    /// the template writes earlier messages differently when more follow.
    pub fn going_on(&self, messages: &[Value], tools: &[Value], answer: usize) -> Result<Option<Vec<u32>>> {
        let Some(template) = &self.template else {
            let texts: String = messages[answer + 1..].iter().map(content).collect();
            return self.encode(&texts).map(Some);
        };
        let render = |messages: &[Value], open| template.converse(messages, tools, open).map_err(PolicyError::Template);
        // How the template closes an answer.
        let closed = render(&[json!({ "role": "user", "content": "." }), json!({ "role": "assistant", "content": ANSWER })], false)?;
        let Some((_, close)) = closed.split_once(ANSWER) else { return Ok(None) };
        let (before, whole) = (render(&messages[..=answer], false)?, render(messages, true)?);
        match whole.strip_prefix(before.as_str()).filter(|_| before.ends_with(close)) {
            Some(more) => self.after_answer(&format!("{close}{more}")).map(Some),
            None => Ok(None),
        }
    }

    /// Its chat template.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// The text of `tokens`, special ones left out.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.inner.decode(tokens, true).unwrap_or_default()
    }

    /// The text of `tokens`, special ones with it.
    pub fn transcribe(&self, tokens: &[u32]) -> String {
        self.inner.decode(tokens, false).unwrap_or_default()
    }

    /// A token as the vocabulary writes it; its number where there is no such.
    pub fn name(&self, token: u32) -> String {
        self.inner.inner.id_to_token(token).unwrap_or_else(|| token.to_string())
    }

    /// Whether it has a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// The tokens that open a text, by their names.
    pub fn opening(&self) -> Vec<String> {
        self.opening.iter().map(|&token| self.name(token)).collect()
    }

    /// How many tokens there are, numbers without one among them.
    pub fn vocab_size(&self) -> usize {
        self.size
    }
}

/// One token or a list of them.
fn tokens(value: &Value) -> Vec<u32> {
    let token_id = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    match value {
        Value::Array(list) => list.iter().filter_map(token_id).collect(),
        value => token_id(value).into_iter().collect(),
    }
}

/// The template itself, or of several the one called `default`.
fn default_template(value: &Value) -> Option<&str> {
    match value {
        Value::Array(list) => list.iter().find(|entry| entry["name"] == "default").and_then(|entry| entry["template"].as_str()),
        value => value.as_str(),
    }
}
