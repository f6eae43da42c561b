//! YAML as a tree in which every value and every key knows where it stands.
//!
//! `serde_yaml` tells a place only when reading fails there. So values and keys are numbered in reading order, and
//! the place of number n is found by reading once more and failing at n on purpose. That costs a second reading for
//! each mistake, and nothing for a file without one.

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;

/// More values than this are taken for a mistake: short texts with many aliases can stand for billions.
const MOST_VALUES: usize = 50_000;

/// A place: a text, and the number of a value or key in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
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
    pub at: At,
    pub value: Shape,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Null, a boolean, a number or text.
    Scalar(Value),
    List(Vec<Tree>),
    /// In the text's order, keys distinct.
    Map(Vec<Entry>),
}

/// One key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub at: At,
    pub value: Tree,
}

/// The second use of a key in one map.
#[derive(Clone, Debug)]
pub struct Duplicate {
    pub key: String,
    pub at: At,
    pub first: At,
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
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Shape::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The entry under `key`.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
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

/// Reads a text; a key that stands twice keeps its first value and is reported.
pub fn read(text: &str, number: usize) -> Result<(Tree, Vec<Duplicate>), Unreadable> {
    let walk = Walk { text: number, next: Cell::new(0), stop: None, duplicates: RefCell::new(Vec::new()) };
    let tree = Reading(&walk).deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|e| unreadable(&e))?;
    Ok((tree, walk.duplicates.into_inner()))
}

/// Line and column, from 1, of the `spot`-th value or key.
pub fn locate(text: &str, spot: usize) -> (usize, usize) {
    let walk = Walk { text: 0, next: Cell::new(0), stop: Some(spot), duplicates: RefCell::new(Vec::new()) };
    let found = Reading(&walk).deserialize(serde_yaml::Deserializer::from_str(text)).err().and_then(|e| e.location());
    found.map_or((1, 1), |l| (l.line(), l.column()))
}

fn unreadable(error: &serde_yaml::Error) -> Unreadable {
    let (line, column) = error.location().map_or((1, 1), |l| (l.line(), l.column()));
    let whole = error.to_string();
    // The place is told apart from the message, and a path before it means nothing to a reader of the text.
    let message = whole.split(" at line ").next().unwrap_or_default();
    let message = match message.rsplit_once(": ") {
        Some((_, last)) if last.contains("a name as the key") => "a key must be a name",
        Some((_, last)) => last,
        None => message,
    };
    Unreadable { message: message.into(), line, column }
}

/// One reading: the count so far, and the number to fail at.
struct Walk {
    text: usize,
    next: Cell<usize>,
    stop: Option<usize>,
    duplicates: RefCell<Vec<Duplicate>>,
}

impl Walk {
    fn enter<E: Error>(&self) -> Result<At, E> {
        let number = self.next.get();
        self.next.set(number + 1);
        if self.stop == Some(number) {
            return Err(E::custom("here"));
        }
        if number > MOST_VALUES {
            return Err(E::custom(format!("more than {MOST_VALUES} values, aliases counted as often as they are used")));
        }
        Ok(At { text: self.text, spot: Spot::Number(number) })
    }

    fn scalar<E: Error>(&self, value: impl Into<Value>) -> Result<Tree, E> {
        Ok(Tree { at: self.enter()?, value: Shape::Scalar(value.into()) })
    }
}

/// Reads the next value, whatever it is.
struct Reading<'a>(&'a Walk);

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Tree;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Tree;
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        self.0.scalar(Value::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        self.0.scalar(value)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        self.0.scalar(value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        self.0.scalar(value)
    }
    fn visit_u128<E: Error>(self, value: u128) -> Result<Tree, E> {
        Err(E::custom(format!("the number {value} is too large")))
    }
    fn visit_i128<E: Error>(self, value: i128) -> Result<Tree, E> {
        Err(E::custom(format!("the number {value} is too large")))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        if value.fract() == 0.0 && value.abs() < 9e15 {
            return self.0.scalar(value as i64);
        }
        // JSON has no infinity: as text it is refused wherever a number is wanted.
        let text = if value.is_nan() {
            ".nan"
        } else if value > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        self.0.scalar(Number::from_f64(value).map_or(Value::from(text), Value::Number))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        self.0.scalar(value)
    }
    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Tree, A::Error> {
        Err(A::Error::custom("tags (`!name`) have no meaning here"))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let at = self.0.enter()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Reading(self.0))? {
            list.push(item);
        }
        Ok(Tree { at, value: Shape::List(list) })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Tree, A::Error> {
        let at = self.0.enter()?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut places = HashMap::new();
        while let Some((key, at)) = pairs.next_key_seed(Key(self.0))? {
            let value = pairs.next_value_seed(Reading(self.0))?;
            match places.get(&key) {
                Some(&first) => self.0.duplicates.borrow_mut().push(Duplicate { key, at, first }),
                None => {
                    places.insert(key.clone(), at);
                    entries.push(Entry { key, at, value });
                }
            }
        }
        Ok(Tree { at, value: Shape::Map(entries) })
    }
}

/// Reads a key. A bare number or `true` counts as the text it is written with.
struct Key<'a>(&'a Walk);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = (String, At);
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = (String, At);
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name as the key")
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok((value.into(), self.0.enter()?))
    }
}
