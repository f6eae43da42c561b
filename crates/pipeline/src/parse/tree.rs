//! YAML as a tree; every value and every key has its location.

use serde_json::{Map, Value};

/// A place: a text, and the number of a value or key in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// 0 is the file, n the n-th override.
    pub text: usize,
    pub spot: Spot,
}

/// What in a text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The n-th value or key in reading order.
    Number(usize),
    /// The n-th character of the only line: the path of an override is no YAML.
    Character(usize),
}

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Tree {
    pub at: Location,
    pub value: Shape,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Null, a boolean, a number or text.
    Scalar(Value),
    List(Vec<Tree>),
    /// In the text's order, keys distinct.
    Map(Vec<TreeEntry>),
}

/// One key and its value.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    pub key: String,
    pub at: Location,
    pub value: Tree,
}

/// The second use of a key in one map.
#[derive(Clone, Debug)]
pub struct Duplicate {
    pub key: String,
    pub at: Location,
    pub first: Location,
}

/// YAML that could not be read: why, and where (line and column from 1).
#[derive(Clone, Debug)]
pub struct Unreadable {
    pub message: String,
    pub line: usize,
    pub column: usize,
}

impl Tree {
    /// The same value as JSON. A float without a fraction becomes an integer, so that `1e3` is a fine count.
    pub fn json(&self) -> Value {
        match &self.value {
            Shape::Scalar(value) => value.clone(),
            Shape::List(items) => items.iter().map(Tree::json).collect(),
            Shape::Map(entries) => Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.json())).collect::<Map<_, _>>()),
        }
    }

    /// The entries of a map; none of anything else.
    pub fn entries(&self) -> &[TreeEntry] {
        match &self.value {
            Shape::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The entry under `key`.
    pub fn entry(&self, key: &str) -> Option<&TreeEntry> {
        self.entries().iter().find(|e| e.key == key)
    }

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.entry(key).map(|e| &e.value)
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Shape::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether nothing is written there.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Shape::Scalar(Value::Null))
    }

    /// The deepest value on the way along `path` (keys, and positions in lists).
    pub fn deepest<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> &'a Tree {
        let mut here = self;
        for step in path {
            let next = match &here.value {
                Shape::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => here.get(step),
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here
    }

    /// The value at this path of keys and positions.
    pub fn at_path(&mut self, path: &[String]) -> Option<&mut Tree> {
        path.iter().try_fold(self, |here, step| match &mut here.value {
            Shape::List(items) => items.get_mut(step.parse::<usize>().ok()?),
            Shape::Map(entries) => entries.iter_mut().find(|e| e.key == *step).map(|e| &mut e.value),
            Shape::Scalar(_) => None,
        })
    }

    /// Takes a key out of a map, if it is there.
    pub fn remove(&mut self, key: &str) {
        if let Shape::Map(entries) = &mut self.value {
            entries.retain(|entry| entry.key != key);
        }
    }

    /// How many items a list has.
    pub fn length(&self) -> usize {
        match &self.value {
            Shape::List(items) => items.len(),
            _ => 0,
        }
    }

    /// What a reader would call the value: `the text "abc"`, `a list`.
    pub fn called(&self) -> String {
        match &self.value {
            Shape::Scalar(Value::Null) => "nothing".into(),
            Shape::Scalar(Value::String(text)) if text.chars().count() > 40 => "a long text".into(),
            Shape::Scalar(Value::String(text)) => format!("the text `{text}`"),
            Shape::Scalar(Value::Number(number)) => format!("the number {number}"),
            Shape::Scalar(other) => format!("`{other}`"),
            Shape::List(_) => "a list".into(),
            Shape::Map(_) => "a map".into(),
        }
    }
}
