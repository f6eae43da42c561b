//! Text to tokens and back: a vocabulary of words and bytes, the one that a published model came with, or bytes for one
//! that a server runs.

mod bounded;
mod charsmap;
mod chat;
mod chat_vocabulary;
mod growth;
mod omissions;
mod opening;
mod published;
mod python;
mod python_json;
mod words;

pub use bounded::BoundedTokenizer;
pub use chat::{ChatTemplate, Message};
use chat_vocabulary::ChatVocabulary;
use flow_model::{FileFault, PolicyError, Result, END};
pub use omissions::Omissions;
pub use opening::CallOpening;
use published::PublishedTokenizer;
pub use python_json::dumps as json_text;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use words::WordVocabulary;

/// What a message of a conversation says.
fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// The file that a vocabulary of words and bytes is saved in.
pub const WORDS_FILE: &str = "vocabulary.json";
/// The files of a published model that belong to its tokenizer; only the first must be there.
pub const FILES: [&str; 5] =
    ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja", "special_tokens_map.json"];

/// A model's vocabulary.
#[derive(Debug, PartialEq)]
pub struct Tokenizer {
    kind: Vocabulary,
    /// The tokens that close an answer; the first one is what we close answers with. Never empty.
    ends: Vec<u32>,
}

#[derive(Debug, PartialEq)]
enum Vocabulary {
    Words(WordVocabulary),
    Published(Box<PublishedTokenizer>),
    Chat(ChatVocabulary),
}

impl Tokenizer {
    /// A vocabulary of `words` in their order, and of bytes. Empty words, repeated ones and single bytes (which are
    /// tokens anyway) are left out.
    pub fn new(words: &[String]) -> Tokenizer {
        Tokenizer { kind: Vocabulary::Words(WordVocabulary::new(words)), ends: vec![END] }
    }

    /// A vocabulary of bytes alone.
    pub fn bytes() -> Tokenizer {
        Tokenizer::new(&[])
    }

    /// The stand-in for the vocabulary of a model that a server runs: bytes, and tokens for the roles of a
    /// conversation.
    pub fn chat_bytes() -> Tokenizer {
        Tokenizer { kind: Vocabulary::Chat(ChatVocabulary::new()), ends: vec![END] }
    }

    /// The messages of a conversation, where who says what is among the tokens; else one of a user.
    pub fn messages(&self, tokens: &[u32]) -> Vec<Message> {
        match &self.kind {
            Vocabulary::Chat(chat) => chat.messages(tokens),
            _ => vec![Message { role: "user".into(), content: self.decode(tokens) }],
        }
    }

    /// The tokenizer of a published model, of the contents of those of [`FILES`] that there are, by name, and of its
    /// `config.json`. `place` is what errors name as the files' folder.
    ///
    /// # Errors
    /// Names the file that is missing or can't be read.
    pub fn published(files: &BTreeMap<String, String>, config: &Value, place: &Path) -> Result<Tokenizer> {
        let fault = |(file, fault): (&str, FileFault)| PolicyError::at(&place.join(file), fault);
        let (tokenizer, ends) = PublishedTokenizer::new(files, config, place).map_err(fault)?;
        Ok(Tokenizer { kind: Vocabulary::Published(Box::new(tokenizer)), ends })
    }

    /// From now on its chat template, if it has one, is rendered with these variables.
    pub fn set(&mut self, variables: &BTreeMap<String, Value>) {
        if let Vocabulary::Published(published) = &mut self.kind {
            published.set(variables);
        }
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

    /// The tokens of `text`; none of a text that can't be encoded.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encoded(text).unwrap_or_default()
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// If it has many megabytes, or the tokenizer's file makes its library panic.
    pub fn encoded(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            Vocabulary::Words(words) => Ok(words.encode(text)),
            Vocabulary::Published(published) => published.encode(text),
            Vocabulary::Chat(chat) => Ok(chat.encode(text)),
        }
    }

    /// The tokens that a model is asked `text` with: the turn of a user and the opening of the answer where the model
    /// has a chat template, the text itself where it has none.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn ask(&self, text: &str) -> Result<Vec<u32>> {
        self.chat(&[Message { role: "user".into(), content: text.into() }])
    }

    /// The tokens of a conversation with the opening of the next answer, by the chat template; of the messages' texts
    /// where there is no template.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        match &self.kind {
            Vocabulary::Published(published) => published.chat(messages),
            Vocabulary::Chat(chat) => chat.chat(messages).map_err(PolicyError::Template),
            Vocabulary::Words(words) => Ok(messages.iter().flat_map(|message| words.encode(&message.content)).collect()),
        }
    }

    /// Whether its chat template reads a variable of this name.
    pub fn reads(&self, variable: &str) -> bool {
        matches!(&self.kind, Vocabulary::Published(published) if published.template().is_some_and(|template| template.reads(variable)))
    }

    /// Whether the chat template takes the messages of an agent: a user's, with `system` after a system message, and
    /// with `conversation` more of them after an answer.
    ///
    /// # Errors
    /// What the template says against them, or that it leaves the system message out.
    pub fn takes(&self, system: bool, conversation: bool) -> Result<()> {
        let message = |role: &str| Message { role: role.into(), content: ".".into() };
        let first: Vec<Message> = system.then(|| message("system")).into_iter().chain([message("user")]).collect();
        let tokens = self.chat(&first)?;
        if system && self.omissions(true).system {
            return Err(PolicyError::Template("the chat template leaves system messages out of the prompt".into()));
        }
        if conversation {
            self.follow(&tokens, &[self.end()], ".")?;
        }
        Ok(())
    }

    /// The tokens that a conversation goes on with: the tokens read, the answer as it was sampled, and `text` as the
    /// user's next turn, with the opening of the next answer.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn follow(&self, read: &[u32], answer: &[u32], text: &str) -> Result<Vec<u32>> {
        let message = |role: &str, content: String| Message { role: role.into(), content };
        let next = match &self.kind {
            Vocabulary::Words(words) => words.encode(text),
            Vocabulary::Published(published) => {
                let next = published.next(text)?;
                self.unclosed(answer, &next).to_vec()
            }
            Vocabulary::Chat(chat) => {
                let mut messages = chat.messages(read);
                messages.extend([message("assistant", self.decode(answer)), message("user", text.into())]);
                return chat.chat(&messages).map_err(PolicyError::Template);
            }
        };
        Ok([read, answer, &next].concat())
    }

    /// The tokens of a conversation with tools, each message and tool as JSON in the form of chat completions, with the
    /// opening of the next answer. A model of words reads the messages' texts alone, and a model that a server runs
    /// reads the messages without the tools.
    ///
    /// # Errors
    /// If the template refuses.
    pub fn converse(&self, messages: &[Value], tools: &[Value]) -> Result<Vec<u32>> {
        match &self.kind {
            Vocabulary::Published(published) => published.converse(messages, tools),
            Vocabulary::Words(words) => Ok(messages.iter().flat_map(|message| words.encode(text(message))).collect()),
            Vocabulary::Chat(chat) => {
                let plain = messages.iter().map(|message| serde_json::from_value(message.clone())).collect::<Result<Vec<Message>, _>>();
                let plain = plain.map_err(|e| PolicyError::Template(e.to_string()))?;
                chat.chat(&plain).map_err(PolicyError::Template)
            }
        }
    }

    /// The tokens that a conversation goes on with: the tokens read, the answer as it was sampled, which is the message
    /// `answer`, and the messages after it, with the opening of the next answer. None where the template now writes the
    /// earlier messages differently, so that nothing but the whole conversation, encoded again, is what the template
    /// means.
    ///
    /// # Errors
    /// As of [`Tokenizer::converse`].
    pub fn go_on(&self, read: &[u32], sampled: &[u32], messages: &[Value], tools: &[Value], answer: usize) -> Result<Option<Vec<u32>>> {
        let next = match &self.kind {
            Vocabulary::Words(words) => messages[answer + 1..].iter().flat_map(|message| words.encode(text(message))).collect(),
            Vocabulary::Published(published) => match published.going_on(messages, tools, answer)? {
                Some(next) => next,
                None => return Ok(None),
            },
            Vocabulary::Chat(_) => return Ok(None),
        };
        Ok(Some([read, sampled, self.unclosed(sampled, &next)].concat()))
    }

    /// What a template writes after an answer, without the token that closes it where the answer has closed itself.
    fn unclosed<'a>(&self, answer: &[u32], next: &'a [u32]) -> &'a [u32] {
        let closed = [answer.last(), next.first()].iter().all(|token| token.is_some_and(|token| self.ends.contains(token)));
        &next[usize::from(closed)..]
    }

    /// The text of `tokens`. Tokens that aren't text are nothing; bytes that make no character show as the replacement
    /// character.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.kind {
            Vocabulary::Words(words) => words.decode(tokens),
            Vocabulary::Published(published) => published.decode(tokens),
            Vocabulary::Chat(chat) => chat.decode(tokens),
        }
    }

    /// The text of an answer without the token that closes it. Other special tokens stay in it: the marks of calls and
    /// thoughts may be such.
    pub fn answer(&self, tokens: &[u32]) -> String {
        self.transcribe(match tokens {
            [text @ .., last] if self.ends.contains(last) => text,
            whole => whole,
        })
    }

    /// The same with special tokens, such as the tokens that open and close a message.
    pub fn transcribe(&self, tokens: &[u32]) -> String {
        match &self.kind {
            Vocabulary::Published(published) => published.transcribe(tokens),
            Vocabulary::Words(_) | Vocabulary::Chat(_) => self.decode(tokens),
        }
    }

    /// A token as its vocabulary writes it; its number where there is no such.
    pub fn name(&self, token: u32) -> String {
        match &self.kind {
            Vocabulary::Published(published) => published.name(token),
            _ if token == END => "the end token".into(),
            Vocabulary::Words(words) => words.decode(&[token]),
            Vocabulary::Chat(chat) => chat.decode(&[token]),
        }
    }

    /// The names of the tokens that a model without a chat template reads before the first prompt.
    pub fn opening(&self) -> Vec<String> {
        match &self.kind {
            Vocabulary::Published(published) if !published.has_template() => published.opening(),
            _ => Vec::new(),
        }
    }

    /// Whether conversations have a form of their own.
    pub fn has_template(&self) -> bool {
        matches!(&self.kind, Vocabulary::Published(published) if published.has_template())
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        match &self.kind {
            Vocabulary::Words(words) => words.vocab_size(),
            Vocabulary::Published(published) => published.vocab_size(),
            Vocabulary::Chat(chat) => chat.vocab_size(),
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
    pub fn files(&self) -> Vec<(String, String)> {
        match &self.kind {
            // Of plain text, so it can't fail.
            Vocabulary::Words(words) => vec![(WORDS_FILE.into(), serde_json::to_string_pretty(&words.words).unwrap_or_default() + "\n")],
            Vocabulary::Published(published) => published.files.clone().into_iter().collect(),
            // Nothing of such a model is saved.
            Vocabulary::Chat(_) => vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokenizer of a small model with these contents in place of its own files.
    pub fn with_files(changed: &[(&str, &str)]) -> Result<Tokenizer> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/qwen3");
        let read = |name: &&str| Some((name.to_string(), std::fs::read_to_string(folder.join(name)).ok()?));
        let mut files: BTreeMap<String, String> = FILES.iter().filter_map(read).collect();
        files.extend(changed.iter().map(|(name, text)| (name.to_string(), text.to_string())));
        Tokenizer::published(&files, &Value::Null, &folder)
    }

    pub fn templated(template: &str) -> Tokenizer {
        with_files(&[("chat_template.jinja", template)]).unwrap()
    }

    /// The marks of calls and thoughts may be special tokens.
    #[test]
    fn special_tokens_stay_in_an_answer_but_for_the_end() {
        let tokenizer = with_files(&[]).unwrap();
        let mut tokens = tokenizer.encode("a<|im_start|>b<|endoftext|>");
        assert_eq!(tokenizer.answer(&tokens), "a<|im_start|>b<|endoftext|>", "cut off, it has no end");
        tokens.push(tokenizer.end());
        assert_eq!((tokenizer.answer(&tokens).as_str(), tokenizer.decode(&tokens).as_str()), ("a<|im_start|>b<|endoftext|>", "ab"));
        tokens.push(tokenizer.end());
        assert_eq!(tokenizer.answer(&tokens), "a<|im_start|>b<|endoftext|><|im_end|>", "one token closes it");
        assert_eq!(tokenizer.answer(&[tokenizer.end()]), "");
        assert_eq!(Tokenizer::bytes().answer(&Tokenizer::bytes().encode("up")), "up");
    }

    /// Llama 2's tokenizer puts a space before each text.
    #[test]
    fn what_follows_an_answer_is_no_beginning_of_a_text() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/qwen3/tokenizer.json");
        let mut file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        file["normalizer"] = serde_json::json!({ "type": "Prepend", "prepend": "_" });
        let template =
            "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% else %} {{ m.content }} {% endif %}{% endfor %}";
        let tokenizer = with_files(&[("tokenizer.json", &file.to_string()), ("chat_template.jinja", template)]).unwrap();
        let read = tokenizer.ask("a").unwrap();
        let answer = tokenizer.encode("b");
        assert_eq!((tokenizer.decode(&read).as_str(), tokenizer.decode(&answer).as_str()), ("_[a]", "_b"));
        assert_eq!(tokenizer.decode(&tokenizer.follow(&read, &answer, "c").unwrap()), "_[a]_b [c]");
        let messages = ["user", "assistant", "user"].map(|role| serde_json::json!({ "role": role, "content": "c" }));
        assert_eq!(tokenizer.decode(&tokenizer.go_on(&read, &answer, &messages, &[], 1).unwrap().unwrap()), "_[a]_b [c]");
    }

    #[test]
    fn a_file_that_makes_the_library_panic_is_refused_with_its_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/qwen3/tokenizer.json");
        let text = std::fs::read_to_string(folder).unwrap();
        for (part, step) in [
            ("normalizer", serde_json::json!({ "type": "Replace", "pattern": { "Regex": "(?=.)" }, "content": "a" })),
            (
                "normalizer",
                serde_json::json!({ "type": "Sequence", "normalizers": [{ "type": "Replace", "pattern": { "Regex": "(?=[a-z])" }, "content": "x" }] }),
            ),
        ] {
            let mut file: Value = serde_json::from_str(&text).unwrap();
            file[part] = step;
            let error = with_files(&[("tokenizer.json", &file.to_string())]).unwrap_err().to_string();
            assert!(error.contains("tokenizer.json") && error.contains("panic"), "{error}");
        }
    }
}
