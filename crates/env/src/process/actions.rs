//! The actions that an answer lists: all of them, or how the list differs from the one before it.

use super::malformed::{malformed, quoted};
use crate::Fault;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Actions that a list may have, and the bytes of each.
const MOST: (usize, usize) = (10_000, 4096);
/// What an answer says of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`actions` are a list of texts, or a change of one: {\"drop\": [1], \"add\": [[0, \"look\"]]}")]
pub(super) enum Actions {
    Full(Vec<String>),
    ListChange(ListChange),
}

/// How a list of actions differs from the one before it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListChange {
    /// Places in the old list, ascending.
    #[serde(default)]
    drop: Vec<usize>,
    /// Places in the new list with their texts, ascending.
    #[serde(default)]
    add: Vec<(usize, String)>,
}

impl ListChange {
    /// The new list: first all of `drop` are removed, then each of `add` is inserted, in order.
    fn apply(self, old: &[String]) -> Option<Vec<String>> {
        let rising = |places: &[usize]| places.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising(&self.drop) || !rising(&self.add.iter().map(|add| add.0).collect::<Vec<_>>()) {
            return None;
        }
        if self.drop.last().is_some_and(|last| *last >= old.len()) {
            return None;
        }
        let mut dropped = self.drop.into_iter().peekable();
        let mut remaining = old.iter().enumerate().filter(|(at, _)| dropped.next_if_eq(at).is_none()).map(|(_, text)| text.clone());
        let mut new = Vec::with_capacity(old.len() + self.add.len());
        for (place, text) in self.add {
            while new.len() < place {
                new.push(remaining.next()?);
            }
            new.push(text);
        }
        new.extend(remaining);
        Some(new)
    }
}

impl Actions {
    /// The whole list, after the one that the episode had last.
    pub(super) fn after(self, last: Option<&[String]>) -> Result<Vec<String>, Fault> {
        match self {
            Actions::Full(actions) => Ok(actions),
            Actions::ListChange(change) => {
                let old = last.ok_or_else(|| malformed("its `actions` are a change, and there is no list before it"))?;
                change.apply(old).ok_or_else(|| malformed("its change of `actions` names places that aren't there, or not in order"))
            }
        }
    }
}

/// Refuses a list that is longer than it may be, or that names an action twice.
pub(super) fn within_limits(actions: &[String]) -> Result<(), Fault> {
    let (most, longest) = MOST;
    if actions.len() > most {
        return Err(malformed(format!("it names {} actions, more than {most}", actions.len())));
    }
    if let Some(long) = actions.iter().find(|action| action.len() > longest) {
        return Err(malformed(format!("one of its actions has {} bytes, more than {longest}: {}", long.len(), quoted(long.as_bytes()))));
    }
    let mut known = BTreeSet::new();
    match actions.iter().find(|action| !known.insert(action.as_str())) {
        Some(twice) => Err(malformed(format!("it names the action {} twice", quoted(twice.as_bytes())))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_actions_is_applied_to_the_list_before_it() {
        let read = |text: &str| serde_json::from_str::<Actions>(text).unwrap();
        let last = ["look", "take key", "go north"].map(String::from);
        let opened = read(r#"{"drop":[1],"add":[[0,"open door"]]}"#).after(Some(&last)).unwrap();
        assert_eq!(opened, ["open door", "look", "go north"]);
        assert_eq!(read(r#"{"drop":[0,2],"add":[[1,"a"],[2,"b"]]}"#).after(Some(&opened)).unwrap(), ["look", "a", "b"]);
        for change in [r#"{"drop":[3]}"#, r#"{"drop":[1,0]}"#, r#"{"add":[[9,"x"]]}"#, r#"{"add":[[1,"x"],[0,"y"]]}"#] {
            let message = read(change).after(Some(&opened)).unwrap_err().text;
            assert!(message.contains("change of `actions`"), "{change}: {message}");
        }
        let message = read(r#"{"drop":[1]}"#).after(None).unwrap_err().text;
        assert!(message.contains("there is no list before it"), "{message}");
        assert_eq!(read(r#"["wait"]"#).after(Some(&opened)).unwrap(), ["wait"]);
    }
}
