//! Messages of a conversation: their text, and which call goes on from which.

use super::fields::unread;
use flow_core::seed::{mix, text};
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

/// The fields of a message that are read, or change nothing.
const FIELDS: [&str; 27] = [
    "role",
    "from",
    "value",
    "content",
    "content.*.type",
    "content.*.text",
    "content.*.refusal",
    "content.*.thinking",
    "content.*.reasoning",
    "content.*.signature",
    "content.*.annotations.**",
    "content.*.logprobs.**",
    "reasoning_content",
    "reasoning",
    "thinking",
    "thinking_blocks.**",
    "provider_specific_fields.**",
    "tool_calls.*.id",
    "tool_calls.*.type",
    "tool_calls.*.index",
    "tool_calls.*.name",
    "tool_calls.*.arguments.**",
    "tool_calls.*.function.name",
    "tool_calls.*.function.arguments.**",
    "tool_call_id",
    "function_call.**",
    "name",
];

impl Message {
    /// A message of OpenAI's chats or of ShareGPT; the names of fields that aren't read are added to `names`.
    pub fn read(value: &Value, names: &mut BTreeSet<String>) -> Message {
        unread(value, &FIELDS, names);
        let role = value["role"].as_str().or_else(|| value["from"].as_str()).unwrap_or_default();
        let said = if value["content"].is_null() { &value["value"] } else { &value["content"] };
        let mut message = Message {
            role: match role {
                "human" => "user",
                "gpt" | "model" | "bot" | "chatgpt" | "function_call" => "assistant",
                "observation" | "function" | "function_response" | "ipython" => "tool",
                other => other,
            }
            .into(),
            text: content(said),
            thought: ["reasoning_content", "reasoning", "thinking"].iter().find_map(|key| value[key].as_str()).unwrap_or_default().into(),
            tools: value["tool_calls"].as_array().into_iter().flatten().map(tool).collect(),
        };
        message.tools.extend(Some(&value["function_call"]).filter(|call| call.is_object()).map(tool));
        if role == "function_call" {
            // ShareGPT writes the call as a text of JSON.
            if let Ok(call) = serde_json::from_str::<Value>(&message.text) {
                (message.tools, message.text) = (vec![tool(&call)], String::new());
            }
        }
        let thoughts = |key: &str| texts(said, &[key]);
        if message.thought.is_empty() {
            message.thought = [thoughts("thinking"), thoughts("reasoning")].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        }
        message
    }
}

/// The text of a content: a text, or the texts among its parts.
pub fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        parts => texts(parts, &["text", "refusal"]),
    }
}

/// The texts that the parts of a content have by one of these names.
fn texts(parts: &Value, keys: &[&str]) -> String {
    let part = |part: &Value| keys.iter().find_map(|key| part[key].as_str().map(String::from));
    parts.as_array().into_iter().flatten().filter_map(part).collect::<Vec<_>>().join("\n")
}

/// A call of a tool, whose name and arguments may be in a `function` of their own. Arguments are an object, or its
/// text; they have one spelling.
pub fn tool(call: &Value) -> String {
    let call = if call["function"].is_object() { &call["function"] } else { call };
    let arguments = match &call["arguments"] {
        Value::String(text) => serde_json::from_str::<Value>(text).map_err(|_| text.clone()),
        Value::Null => Err(String::new()),
        other => Ok(other.clone()),
    };
    let spelled = arguments.map(|mut arguments| {
        arguments.sort_all_objects();
        arguments.to_string()
    });
    format!("{}({})", call["name"].as_str().unwrap_or_default(), spelled.unwrap_or_else(|text| text))
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
