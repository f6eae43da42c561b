//! Text to tokens and back: a vocabulary of words and bytes, the one that a published model came with, or bytes for one that a server runs.

mod chat;
mod growth;
mod pieces;
mod spoken;
mod words;

use super::{FileFault, PolicyError};
pub use chat::Message;
use pieces::Pieces;
use serde_json::Value;
use spoken::Spoken;
use std::collections::BTreeMap;
use std::path::Path;
use words::Words;
pub use words::{END, PAD};

/// The file that a vocabulary of words and bytes is saved in.
pub const WORDS_FILE: &str = "vocabulary.json";
/// The files of a published model that belong to its tokenizer; only the first must be there.
pub const FILES: [&str; 4] = ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"];

/// A model's vocabulary.
#[derive(Debug, PartialEq)]
pub struct Tokenizer {
    kind: Kind,
    /// The tokens that close an answer; the first one is what we close answers with. Never empty.
    ends: Vec<u32>,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Words(Words),
    Pieces(Box<Pieces>),
    Spoken(Spoken),
}

impl Tokenizer {
    /// A vocabulary of `words` in their order, and of bytes. Empty words, repeated ones and single bytes (which are tokens anyway) are
    /// left out.
    pub fn new(words: &[String]) -> Tokenizer {
        Tokenizer { kind: Kind::Words(Words::new(words)), ends: vec![END] }
    }

    /// A vocabulary of bytes alone.
    pub fn bytes() -> Tokenizer {
        Tokenizer::new(&[])
    }

    /// What stands in for the vocabulary of a model that a server runs: bytes, and who says them.
    pub(super) fn spoken() -> Tokenizer {
        Tokenizer { kind: Kind::Spoken(Spoken::new()), ends: vec![END] }
    }

    /// The messages of a conversation, where who says what is among the tokens; else one of a user.
    pub(super) fn messages(&self, tokens: &[u32]) -> Vec<Message> {
        match &self.kind {
            Kind::Spoken(spoken) => spoken.messages(tokens),
            _ => vec![Message { role: "user".into(), content: self.decode(tokens) }],
        }
    }

    /// The tokenizer of a published model, of the contents of those of [`FILES`] that there are, by name, and of its `config.json`.
    /// `place` is what errors name as the files' folder.
    ///
    /// # Errors
    /// Names the file that is missing or can't be read.
    pub(super) fn published(files: &BTreeMap<String, String>, config: &Value, place: &Path) -> Result<Tokenizer, PolicyError> {
        let wrong = |(file, fault): (&str, FileFault)| PolicyError::at(&place.join(file), fault);
        let (pieces, ends) = Pieces::new(files, config).map_err(wrong)?;
        Ok(Tokenizer { kind: Kind::Pieces(Box::new(pieces)), ends })
    }

    /// The vocabulary that lies in a folder of saved weights, whose files `read` reads; none where none can be read.
    pub fn saved(folder: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<Tokenizer> {
        if let Some(words) = read(&folder.join(WORDS_FILE)) {
            return Some(Tokenizer::new(&serde_json::from_str::<Vec<String>>(&words).ok()?));
        }
        let files: BTreeMap<String, String> = FILES.iter().filter_map(|name| Some((name.to_string(), read(&folder.join(name))?))).collect();
        let config = read(&folder.join("config.json")).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Tokenizer::published(&files, &config, folder).ok()
    }

    /// The tokens of `text`.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.kind {
            Kind::Words(words) => words.encode(text),
            Kind::Pieces(pieces) => pieces.encode(text),
            Kind::Spoken(spoken) => spoken.encode(text),
        }
    }

    /// The tokens that a model is asked `text` with: the turn of a user and the opening of the answer where the model has a chat
    /// template, the text itself where it has none.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn ask(&self, text: &str) -> Result<Vec<u32>, PolicyError> {
        self.chat(&[Message { role: "user".into(), content: text.into() }])
    }

    /// The tokens of a conversation with the opening of the next answer, by the chat template; of the messages' texts where there is
    /// no template.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>, PolicyError> {
        match &self.kind {
            Kind::Pieces(pieces) => pieces.chat(messages),
            Kind::Spoken(spoken) => spoken.chat(messages).map_err(PolicyError::Template),
            Kind::Words(words) => Ok(messages.iter().flat_map(|message| words.encode(&message.content)).collect()),
        }
    }

    /// The tokens that a conversation goes on with: what was read, the answer as it was sampled, and `text` as the user's next turn, with the
    /// opening of the next answer.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn follow(&self, read: &[u32], answer: &[u32], text: &str) -> Result<Vec<u32>, PolicyError> {
        let message = |role: &str, content: String| Message { role: role.into(), content };
        let next = match &self.kind {
            Kind::Words(words) => words.encode(text),
            Kind::Pieces(pieces) => {
                let next = pieces.next(text)?;
                // The template closes an answer, which may have closed itself.
                let closed = [answer.last(), next.first()].iter().all(|token| token.is_some_and(|token| self.ends.contains(token)));
                next[usize::from(closed)..].to_vec()
            }
            Kind::Spoken(spoken) => {
                let mut messages = spoken.messages(read);
                messages.extend([message("assistant", self.decode(answer)), message("user", text.into())]);
                return spoken.chat(&messages).map_err(PolicyError::Template);
            }
        };
        Ok([read, answer, &next].concat())
    }

    /// The text of `tokens`. Tokens that aren't text are nothing; bytes that make no character show as the replacement character.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.kind {
            Kind::Words(words) => words.decode(tokens),
            Kind::Pieces(pieces) => pieces.decode(tokens),
            Kind::Spoken(spoken) => spoken.decode(tokens),
        }
    }

    /// A token as its vocabulary writes it; its number where there is no such.
    pub fn name(&self, token: u32) -> String {
        match &self.kind {
            Kind::Pieces(pieces) => pieces.name(token),
            _ if token == END => "the end token".into(),
            Kind::Words(words) => words.decode(&[token]),
            Kind::Spoken(spoken) => spoken.decode(&[token]),
        }
    }

    /// Whether conversations have a form of their own.
    pub fn has_template(&self) -> bool {
        matches!(&self.kind, Kind::Pieces(pieces) if pieces.has_template())
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        match &self.kind {
            Kind::Words(words) => words.vocab_size(),
            Kind::Pieces(pieces) => pieces.vocab_size(),
            Kind::Spoken(spoken) => spoken.vocab_size(),
        }
    }

    /// The tokens that close an answer; never empty.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The token that answers are closed with when we close them.
    pub fn end(&self) -> u32 {
        self.ends[0]
    }

    /// What it is saved as: names of files and their contents.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        match &self.kind {
            // Of plain text, so it can't fail.
            Kind::Words(words) => vec![(WORDS_FILE.into(), serde_json::to_string_pretty(words.words()).unwrap_or_default() + "\n")],
            Kind::Pieces(pieces) => pieces.files().clone().into_iter().collect(),
            // Nothing of such a model is saved.
            Kind::Spoken(_) => vec![],
        }
    }
}
