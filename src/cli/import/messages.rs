//! Messages of a conversation: their text, and which call goes on from which.

use crate::seed::{mix, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A message, whatever its format.
#[derive(Clone, Default)]
pub struct Message {
    pub role: String,
    pub text: String,
    pub thought: String,
    /// Calls of tools, as `name(arguments)`.
    pub tools: Vec<String>,
}

impl Message {
    /// What it says, without its thought.
    pub fn said(&self) -> String {
        let parts = [self.text.as_str()].into_iter().chain(self.tools.iter().map(String::as_str));
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// With its thought.
    pub fn whole(&self) -> String {
        let thought = if self.thought.is_empty() { String::new() } else { format!("<think>\n{}\n</think>\n", self.thought) };
        thought + &self.said()
    }

    pub fn hash(&self) -> u64 {
        mix(text(&self.role), text(&self.said()))
    }
}

/// The text of a content: a text, or the texts among its parts.
pub fn content(value: &Value) -> String {
    let part = |part: &Value| ["text", "refusal"].iter().find_map(|key| part[key].as_str().map(String::from));
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(part).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// A call of a tool. Arguments that are JSON have one spelling.
pub fn tool(call: &Value) -> String {
    let raw = call["arguments"].as_str().unwrap_or_default();
    let canonical = serde_json::from_str::<Value>(raw).map(|mut arguments| {
        arguments.sort_all_objects();
        arguments.to_string()
    });
    format!("{}({})", call["name"].as_str().unwrap_or_default(), canonical.unwrap_or_else(|_| raw.into()))
}

/// New messages before a call, as its observation.
pub fn observation(new: &[&Message]) -> String {
    let text = match new {
        [only] => only.said(),
        all => all.iter().map(|m| format!("{}: {}", m.role, m.said())).collect::<Vec<_>>().join("\n"),
    };
    if text.is_empty() {
        "(no text)".into()
    } else {
        text
    }
}

/// The calls of an episode so far.
#[derive(Default)]
pub struct Calls {
    asked: BTreeMap<(u64, u64), u64>,
    continued: BTreeSet<u64>,
    roots: Vec<Root>,
}

/// What tells conversations apart: the system message, the first user message, the number of messages.
#[derive(Clone, Copy)]
struct Root {
    system: u64,
    user: u64,
    length: usize,
}

impl Calls {
    /// The name of a call that goes on from `parent` with the messages `new`, of all the messages `path`; and why it is
    /// no plain continuation.
    pub fn add(&mut self, parent: u64, new: &[&Message], path: &[&Message]) -> (u64, &'static str) {
        let asked = new.iter().fold(0, |hash, message| mix(hash, message.hash()));
        let count = self.asked.entry((parent, asked)).or_default();
        let (call, again) = (mix(mix(parent, asked), *count).max(1), *count > 0);
        *count += 1;
        let first = |role: &str| path.iter().find(|m| m.role == role).map_or(0, |m| m.hash());
        let root = Root { system: first("system"), user: first("user"), length: path.len() };
        let fork = match (again, parent) {
            (true, _) => "again",
            (_, 0) => self.begins(root),
            _ if self.continued.contains(&parent) => "edited",
            _ => "",
        };
        self.continued.insert(parent);
        self.roots.push(root);
        (call, fork)
    }

    /// Why a call begins another conversation.
    fn begins(&self, root: Root) -> &'static str {
        let Some(first) = self.roots.first() else { return "" };
        let kin = self.roots.iter().filter(|other| other.system == root.system);
        let same: Vec<&Root> = kin.clone().filter(|other| other.user == root.user).collect();
        if same.is_empty() && root.system != first.system {
            return "sub_agent";
        }
        let longest = if !same.is_empty() || root.system == 0 { same.iter().map(|r| r.length).max() } else { kin.map(|r| r.length).max() };
        if root.length < longest.unwrap_or(0) {
            "compacted"
        } else {
            "edited"
        }
    }
}

/// A part of a task's name: letters and digits as they are, all else as `-`.
pub fn plain(name: &str) -> String {
    let kept: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' }).take(40).collect();
    kept.trim_matches(['-', '.']).to_string()
}
