//! What a program says of itself: the answer to `hello`, in either version of the protocol.

use super::malformed::{malformed, quoted, why};
use crate::env::Fault;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The versions of the protocol that are spoken, the newest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Tasks are seeds, and every view lists the actions.
    #[default]
    One,
    /// Splits, `close`, and actions on request.
    Two,
}

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
    /// In which version of the protocol it is spoken to.
    pub version: Version,
    /// What it is, and of which version; empty in protocol 1.
    pub world: String,
    /// The tasks, by split; none in protocol 1, where a task is its seed.
    pub splits: BTreeMap<String, Items>,
    /// How many episodes a process may hold at a time.
    pub live: Option<usize>,
    /// Whether it lists the admissible actions when it is asked to; a program of protocol 1 always does.
    pub actions: bool,
    /// Whether it can be asked what an expert would do.
    pub expert: bool,
    /// The rules, as a full prompt tells them.
    pub rules: String,
    /// The words of its texts.
    pub words: Vec<String>,
    /// The range of the world's own score, if it has one.
    pub score: Option<(f64, f64)>,
    /// Whether task, seed and actions decide every answer.
    pub deterministic: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    #[serde(rename = "protocol")]
    _protocol: u64,
    words: Option<Vec<String>>,
    rules: Option<String>,
    expert: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Two {
    #[serde(rename = "protocol")]
    _protocol: u64,
    world: Option<String>,
    splits: BTreeMap<String, Items>,
    live: Option<u64>,
    abilities: Option<Vec<Ability>>,
    rules: Option<String>,
    words: Option<Vec<String>>,
    score: Option<(f64, f64)>,
    deterministic: Option<bool>,
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
        let none = |e: &serde_json::Error| malformed(format!("its answer to hello is none ({}): {}", why(e), quoted(line)));
        let value: Value = serde_json::from_slice(line).map_err(|e| none(&e))?;
        let hello = match value.get("protocol").map(|version| version.as_u64()) {
            Some(Some(1)) => serde_json::from_value(value).map(Hello::one).map_err(|e| none(&e))?,
            Some(Some(2)) => serde_json::from_value(value).map(Hello::two).map_err(|e| none(&e))?,
            Some(Some(other)) => return Err(malformed(format!("it speaks version {other} of the protocol, this program 1 and 2"))),
            _ => return Err(malformed(format!("its answer to hello is none (it has no number `protocol`): {}", quoted(line)))),
        };
        hello.checked()
    }

    fn one(one: One) -> Hello {
        Hello {
            version: Version::One,
            actions: true,
            expert: one.expert.unwrap_or(false),
            rules: one.rules.unwrap_or_default(),
            words: one.words.unwrap_or_default(),
            deterministic: true,
            ..Hello::default()
        }
    }

    fn two(two: Two) -> Hello {
        let abilities = two.abilities.unwrap_or_default();
        Hello {
            version: Version::Two,
            world: two.world.unwrap_or_default(),
            splits: two.splits,
            live: two.live.map(|live| usize::try_from(live).unwrap_or(usize::MAX)),
            actions: abilities.contains(&Ability::Actions),
            expert: abilities.contains(&Ability::Expert),
            rules: two.rules.unwrap_or_default(),
            words: two.words.unwrap_or_default(),
            score: two.score,
            deterministic: two.deterministic.unwrap_or(true),
        }
    }

    /// Refuses what the protocol's limits don't allow.
    fn checked(self) -> Result<Hello, Fault> {
        if self.words.len() > MOST_WORDS {
            return Err(malformed(format!("its hello names {} words, more than {MOST_WORDS}", self.words.len())));
        }
        if self.version == Version::One {
            return Ok(self);
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
    fn a_program_of_either_version_is_understood() {
        let one = Hello::read(br#"{"protocol":1,"words":["a"],"expert":true}"#).unwrap();
        assert_eq!((one.version, one.actions, one.expert, one.live, one.splits.len()), (Version::One, true, true, None, 0));
        let two = br#"{"protocol":2,"world":"corridor 1.0","splits":{"train":3,"test":["a/1","b"]},"live":1,"abilities":["expert"],"words":null,"score":[0,100]}"#;
        let two = Hello::read(two).unwrap();
        assert_eq!((two.version, two.actions, two.expert, two.live), (Version::Two, false, true, Some(1)));
        assert_eq!((two.splits["train"].name(2), two.splits["test"].name(1)), ("2".into(), "b".into()));
        assert_eq!((two.score, two.deterministic), (Some((0.0, 100.0)), true));
    }

    #[test]
    fn what_is_no_hello_is_refused_with_the_reason() {
        for (line, word) in [
            ("hello", "its answer to hello is none (expected value"),
            ("{}", "no number `protocol`"),
            (r#"{"protocol":3}"#, "it speaks version 3 of the protocol"),
            (r#"{"protocol":1,"splits":{}}"#, "unknown field `splits`"),
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
            let said = Hello::read(line.as_bytes()).unwrap_err().text;
            assert!(said.contains(word), "{line}: {said}");
        }
    }
}
