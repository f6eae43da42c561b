//! What a program says of itself: the answer to `hello`.

use super::malformed::{malformed, quoted, why};
use crate::Fault;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of the protocol that flow greets with, which every program understands.
pub(super) const PROTOCOL: u64 = 2;
/// The newest version that flow speaks: a program that answers with it may ask the policy as an agent program does, and
/// answer when it is ready.
pub(super) const NEWEST: u64 = 3;

/// The tasks of a split.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a split has a number of tasks, or a list of their names")]
pub enum Items {
    /// So many, called by their numbers from 0.
    Count(u64),
    /// These.
    Names(Vec<String>),
}

impl Items {
    /// How many there are.
    pub fn len(&self) -> u64 {
        match self {
            Items::Count(count) => *count,
            Items::Names(names) => names.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a task; `at` counts from 0 and lies below [`Items::len`].
    pub fn name(&self, at: u64) -> String {
        match self {
            Items::Count(_) => at.to_string(),
            Items::Names(names) => names.get(at as usize).cloned().unwrap_or_default(),
        }
    }
}

/// What a program says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hello {
    /// Its name and version.
    pub world: String,
    /// The tasks, by split.
    pub splits: BTreeMap<String, Items>,
    /// How many episodes a process may hold at a time.
    pub live: Option<usize>,
    /// Whether it lists the admissible actions when it is asked to.
    pub actions: bool,
    /// Whether it can be asked what an expert would do.
    pub expert: bool,
    /// The rules, as a full prompt tells them.
    pub rules: String,
    /// The words of its texts, if it names any. An empty list says that single bytes are enough.
    pub words: Option<Vec<String>>,
    /// The range of the environment's own score, if it has one.
    pub score: Option<(f64, f64)>,
    /// Whether task, seed and actions decide every answer.
    pub deterministic: bool,
    /// Whether answers about different episodes come in any order, each when it is ready.
    pub unordered: bool,
    /// Whether an episode may have several calls open at once, so that their order of arrival says nothing.
    pub parallel: bool,
}

/// The answer to `hello` as a program writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHello {
    protocol: u64,
    world: Option<String>,
    splits: BTreeMap<String, Items>,
    live: Option<u64>,
    abilities: Option<Vec<Ability>>,
    rules: Option<String>,
    words: Option<Vec<String>>,
    score: Option<(f64, f64)>,
    deterministic: Option<bool>,
    parallel: Option<bool>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Ability {
    Actions,
    Expert,
    Rollback,
    Copy,
}

/// Words that a program may name.
const MOST_WORDS: usize = 65_536;

impl Hello {
    pub(super) fn read(line: &[u8]) -> Result<Hello, Fault> {
        let none = |e: &serde_json::Error| malformed(format!("its answer to hello is invalid ({}): {}", why(e), quoted(line)));
        let value: Value = serde_json::from_slice(line).map_err(|e| none(&e))?;
        let hello = match value.get("protocol").map(|version| version.as_u64()) {
            Some(Some(PROTOCOL..=NEWEST)) => serde_json::from_value(value).map(Hello::from_raw).map_err(|e| none(&e))?,
            Some(Some(other)) => {
                return Err(malformed(format!("it speaks version {other} of the protocol, flow speaks versions {PROTOCOL} and {NEWEST}")))
            }
            _ => return Err(malformed(format!("its answer to hello is invalid (it has no number `protocol`): {}", quoted(line)))),
        };
        hello.checked()
    }

    fn from_raw(raw: RawHello) -> Hello {
        let abilities = raw.abilities.unwrap_or_default();
        Hello {
            world: raw.world.unwrap_or_default(),
            splits: raw.splits,
            live: raw.live.map(|live| usize::try_from(live).unwrap_or(usize::MAX)),
            actions: abilities.contains(&Ability::Actions),
            expert: abilities.contains(&Ability::Expert),
            rules: raw.rules.unwrap_or_default(),
            words: raw.words,
            score: raw.score,
            deterministic: raw.deterministic.unwrap_or(true),
            unordered: raw.protocol == NEWEST,
            parallel: raw.parallel.unwrap_or(false),
        }
    }

    /// Refuses what the protocol's limits don't allow.
    fn checked(self) -> Result<Hello, Fault> {
        let words = self.words.as_ref().map_or(0, Vec::len);
        if words > MOST_WORDS {
            return Err(malformed(format!("its hello names {words} words, more than {MOST_WORDS}")));
        }
        if self.splits.is_empty() {
            return Err(malformed("its hello names no splits: one at least is needed, such as `\"splits\": {\"train\": 1000}`"));
        }
        if self.live == Some(0) {
            return Err(malformed("its hello says that a process can hold no episode: `live` must be 1 or more"));
        }
        for (split, items) in &self.splits {
            if !is_split(split) {
                return Err(malformed(format!("its hello names a split `{split}`: a name has small letters, digits and `_`")));
            }
            if items.is_empty() {
                return Err(malformed(format!("its split `{split}` has no tasks")));
            }
            if let Items::Names(names) = items {
                if let Some(name) = names.iter().find(|name| !is_item(name)) {
                    let form = "a name has 1 to 128 letters, digits and `. _ / : + -`";
                    return Err(malformed(format!("its split `{split}` names a task {}: {form}", quoted(name.as_bytes()))));
                }
                let mut known = std::collections::BTreeSet::new();
                if let Some(twice) = names.iter().find(|name| !known.insert(name.as_str())) {
                    return Err(malformed(format!("its split `{split}` names the task `{twice}` twice")));
                }
            }
        }
        Ok(self)
    }
}

/// Whether a text can be the name of a split or of a process: it becomes a part of its tasks' names.
pub(super) fn is_split(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether a text can be the name of a program's task.
pub(super) fn is_item(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "._/:+-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_with_its_defaults() {
        let line = br#"{"protocol":2,"world":"corridor 1.0","splits":{"train":3,"test":["a/1","b"]},"live":1,"abilities":["expert"],"words":null,"score":[0,100]}"#;
        let hello = Hello::read(line).unwrap();
        assert_eq!((hello.actions, hello.expert, hello.live), (false, true, Some(1)));
        assert_eq!((hello.splits["train"].name(2), hello.splits["test"].name(1)), ("2".into(), "b".into()));
        assert_eq!((hello.score, hello.deterministic), (Some((0.0, 100.0)), true));
    }

    #[test]
    fn what_is_no_hello_is_refused_with_the_reason() {
        for (line, word) in [
            ("hello", "its answer to hello is invalid (expected value"),
            ("{}", "no number `protocol`"),
            (r#"{"protocol":1,"words":["a"]}"#, "it speaks version 1 of the protocol, flow speaks versions 2 and 3"),
            (r#"{"protocol":4}"#, "it speaks version 4 of the protocol, flow speaks versions 2 and 3"),
            (r#"{"protocol":2,"splits":{},"expert":true}"#, "unknown field `expert`"),
            (r#"{"protocol":2}"#, "missing field `splits`"),
            (r#"{"protocol":2,"splits":{}}"#, "names no splits"),
            (r#"{"protocol":2,"splits":{"train":0}}"#, "`train` has no tasks"),
            (r#"{"protocol":2,"splits":{"train":[]}}"#, "`train` has no tasks"),
            (r#"{"protocol":2,"splits":{"Train":3}}"#, "a split `Train`"),
            (r#"{"protocol":2,"splits":{"train":-3}}"#, "a split has a number of tasks, or a list of their names"),
            (r#"{"protocol":2,"splits":{"train":["a b"]}}"#, "names a task `a b`"),
            (r#"{"protocol":2,"splits":{"train":["a","a"]}}"#, "names the task `a` twice"),
            (r#"{"protocol":2,"splits":{"train":3},"live":0}"#, "`live` must be 1 or more"),
            (r#"{"protocol":2,"splits":{"train":3},"abilities":["fly"]}"#, "unknown variant `fly`"),
        ] {
            let message = Hello::read(line.as_bytes()).unwrap_err().text;
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
