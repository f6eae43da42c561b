//! A text that lists several entries, a line each: what a policy writes when it is asked for strategies and warnings
//! (SLEA-RL, section 3.2).
//!
//! A line is `- strategy/principle: look into every drawer`: a bullet or a number, which may be left out, then the kind
//! and, behind a `/`, the level of the entry, as far as the list knows kinds and levels, then a colon and the text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which lists can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListSettings {
    /// The kinds of entries. A line begins with its kind; if this list is empty, a line is a text.
    pub kinds: Vec<String>,
    /// The levels of entries. A level may follow the kind; a line without one has the first.
    pub levels: Vec<String>,
    /// Lines that become entries, at most; those behind them are left out.
    #[schemars(range(min = 1, max = 1000))]
    pub most: Option<usize>,
}

/// One line, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// What the entry is, such as `warning`; empty where kinds have no meaning.
    pub kind: String,
    /// How general it is, such as `principle`; empty where levels have no meaning.
    pub level: String,
    /// Its text.
    pub text: String,
}

impl ListSettings {
    /// The items of a text, in its order, and the lines that can't be read.
    pub fn read<'t>(&self, text: &'t str) -> (Vec<Item>, Vec<&'t str>) {
        let (mut items, mut unread) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match self.item(line) {
                Some(item) => items.push(item),
                None => unread.push(line),
            }
        }
        items.truncate(self.most.unwrap_or(usize::MAX));
        (items, unread)
    }

    fn item(&self, line: &str) -> Option<Item> {
        let line = unmarked(line);
        let whole = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        if self.kinds.is_empty() {
            return Some(Item { text: whole(line)?, ..Item::default() });
        }
        let (head, text) = line.split_once(':')?;
        let (kind, level) = head.split_once('/').map_or((head, None), |(kind, level)| (kind, Some(level)));
        let one = |names: &[String], word: &str| names.iter().find(|name| name.eq_ignore_ascii_case(word.trim())).cloned();
        let level = match level {
            Some(level) => one(&self.levels, level)?,
            None => self.levels.first().cloned().unwrap_or_default(),
        };
        Some(Item { kind: one(&self.kinds, kind)?, level, text: whole(text)? })
    }
}

/// A line without the bullet or the number before it.
pub fn unmarked(line: &str) -> &str {
    if let Some(rest) = ["- ", "* ", "• "].iter().find_map(|bullet| line.strip_prefix(bullet)) {
        return rest;
    }
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.len() < line.len();
    [". ", ") "].iter().find_map(|mark| rest.strip_prefix(mark)).filter(|_| numbered).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(with: serde_json::Value) -> ListSettings {
        serde_json::from_value(with).unwrap()
    }

    #[test]
    fn a_line_is_an_entry_of_its_kind_and_level() {
        let list = list(serde_json::json!({ "kinds": ["strategy", "warning"], "levels": ["principle", "pattern"] }));
        let text =
            "- strategy/pattern: look first\n2) Warning: don't wait: act\n\nso far so good\n* trap: x\n- warning/deep: y\n- strategy: ";
        let (items, unread) = list.read(text);
        let item = |kind: &str, level: &str, text: &str| Item { kind: kind.into(), level: level.into(), text: text.into() };
        assert_eq!(items, [item("strategy", "pattern", "look first"), item("warning", "principle", "don't wait: act")]);
        assert_eq!(unread, ["so far so good", "* trap: x", "- warning/deep: y", "- strategy:"]);
    }

    #[test]
    fn without_kinds_a_line_is_a_text() {
        let (items, unread) = list(serde_json::json!({ "most": 2 })).read("1. one: two\n- 3 doors\nthree");
        assert_eq!((items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>(), unread.len()), (vec!["one: two", "3 doors"], 0));
    }
}
