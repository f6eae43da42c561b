//! The tokenizer of a published model: `tokenizer.json` as the library `tokenizers` reads it, which tokens end an answer, and its chat
//! template.

use super::chat::{ChatTemplate, Message};
use super::growth;
use crate::policy::{FileFault, PolicyError};
use serde_json::Value;
use std::collections::BTreeMap;

/// A published tokenizer.
pub struct PublishedTokenizer {
    inner: tokenizers::Tokenizer,
    template: Option<ChatTemplate>,
    files: BTreeMap<String, String>,
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
    /// The tokenizer in `files`, and the tokens that end an answer; the error says in which file.
    pub fn new(files: &BTreeMap<String, String>, config: &Value) -> Result<(PublishedTokenizer, Vec<u32>), (&'static str, FileFault)> {
        let unusable = |file: &'static str| move |what: String| (file, FileFault::Unusable(what));
        let text = files.get("tokenizer.json").ok_or(("tokenizer.json", FileFault::Missing))?;
        let described: Value = serde_json::from_str(text).map_err(|e| unusable("tokenizer.json")(e.to_string()))?;
        growth::bounded(&described).map_err(unusable("tokenizer.json"))?;
        let mut inner: tokenizers::Tokenizer = text.parse().map_err(|e: tokenizers::Error| unusable("tokenizer.json")(e.to_string()))?;
        // What is read is as long as it is: the file may ask for a billion places.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| unusable("tokenizer.json")(e.to_string()))?;
        let json = |file: &'static str| match files.get(file) {
            Some(text) => serde_json::from_str(text).map_err(|e| unusable(file)(e.to_string())),
            None => Ok(Value::Null),
        };
        let (tokenizer_config, generation): (Value, Value) = (json("tokenizer_config.json")?, json("generation_config.json")?);
        let special = |name: &str| {
            let token = &tokenizer_config[name];
            token.as_str().or(token["content"].as_str()).map(String::from)
        };
        let template = match files.get("chat_template.jinja") {
            Some(text) => Some(("chat_template.jinja", text.as_str())),
            None => default_template(&tokenizer_config["chat_template"]).map(|text| ("tokenizer_config.json", text)),
        };
        let make = |(file, text): (&'static str, &str)| {
            let specials = ["bos_token", "eos_token", "pad_token", "unk_token"].map(|name| (name, special(name)));
            ChatTemplate::new(text, specials).map_err(unusable(file))
        };
        let template = template.map(make).transpose()?;
        let mut ends: Vec<u32> =
            [&generation, config].iter().map(|from| tokens(&from["eos_token_id"])).find(|ends| !ends.is_empty()).unwrap_or_default();
        // What the template closes a turn with may not be in those lists.
        ends.extend(special("eos_token").and_then(|token| inner.token_to_id(&token)).filter(|token| !ends.contains(token)));
        if ends.is_empty() {
            let what = "no token ends an answer: give `eos_token_id` in generation_config.json".to_string();
            return Err(("generation_config.json", FileFault::Unusable(what)));
        }
        Ok((PublishedTokenizer { inner, template, files: files.clone() }, ends))
    }

    /// The tokens of `text`, without any that would open or close it.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        // The library fails on pre-tokenized input alone, which this isn't.
        self.inner.encode_fast(text, false).map(|encoding| encoding.get_ids().to_vec()).unwrap_or_default()
    }

    /// The tokens of a conversation; see [`super::Tokenizer::chat`].
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>, PolicyError> {
        match &self.template {
            Some(template) => Ok(self.encode(&template.render(messages).map_err(PolicyError::Template)?)),
            None => Ok(messages.iter().flat_map(|message| self.encode(&message.content)).collect()),
        }
    }

    /// The tokens between an answer and the one after it: the close of the first, the user's turn, and the opening of the second.
    pub fn next(&self, text: &str) -> Result<Vec<u32>, PolicyError> {
        const ANSWER: &str = "TheAnswerThatStandsHere";
        let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
        let Some(template) = &self.template else { return Ok(self.encode(text)) };
        let messages = [message("user", "."), message("assistant", ANSWER), message("user", text)];
        let whole = template.render(&messages).map_err(PolicyError::Template)?;
        let (_, rest) = whole.split_once(ANSWER).ok_or_else(|| PolicyError::Template("the chat template leaves answers out".into()))?;
        Ok(self.encode(rest))
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
        self.inner.id_to_token(token).unwrap_or_else(|| token.to_string())
    }

    /// Whether it has a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// What it was read from.
    pub fn files(&self) -> &BTreeMap<String, String> {
        &self.files
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
