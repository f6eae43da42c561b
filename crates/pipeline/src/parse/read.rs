//! Text to tree, and numbers back to lines and columns.
//!
//! `serde_yaml` reports a location only when reading fails there. So values and keys are numbered in reading order, and
//! the location of number n is found by reading once more and failing at n on purpose. That costs a second reading for
//! each mistake, and nothing for a file without one.

use super::depth::too_deep;
use super::tree::{Duplicate, Location, Shape, Spot, Tree, TreeEntry, Unreadable};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;

/// More values than this are taken for a mistake: short texts with many aliases can stand for billions.
const MOST_VALUES: usize = 50_000;

/// Reads a text; a key that stands twice keeps its first value and is reported.
pub fn read(text: &str, number: usize) -> Result<(Tree, Vec<Duplicate>), Unreadable> {
    if let Some(deep) = too_deep(text) {
        return Err(deep);
    }
    let walk = ReadPass { text: number, next: Cell::new(0), stop: None, duplicates: RefCell::new(Vec::new()) };
    let tree = ValueReader(&walk).deserialize(serde_yaml::Deserializer::from_str(text)).map_err(|e| unreadable(&e, text))?;
    Ok((tree, walk.duplicates.into_inner()))
}

/// Line and column, from 1, of the `spot`-th value or key.
pub fn locate(text: &str, spot: usize) -> (usize, usize) {
    let walk = ReadPass { text: 0, next: Cell::new(0), stop: Some(spot), duplicates: RefCell::new(Vec::new()) };
    let location = ValueReader(&walk).deserialize(serde_yaml::Deserializer::from_str(text)).err().and_then(|e| e.location());
    location.map_or((1, 1), |l| (l.line(), l.column()))
}

fn unreadable(error: &serde_yaml::Error, text: &str) -> Unreadable {
    let (line, column) = error.location().map_or((1, 1), |l| (l.line(), l.column()));
    let whole = error.to_string();
    let tab = text.lines().nth(line.saturating_sub(1)).is_some_and(|line| line.contains('\t'));
    if let Some(own) = own_words(&whole, line, column).filter(|_| !tab) {
        return own;
    }
    // The place is separated from the message, and the path before it is dropped: it means nothing to a reader of the
    // text.
    let message = whole.split(" at line ").next().unwrap_or_default();
    let message = match message.rsplit_once(": ") {
        Some((_, last)) if last.contains("a name as the key") => "a key must be a name",
        _ if tab && message.contains("cannot start any token") => "a line can't begin with a tab",
        _ if message.contains("unknown anchor") => "this alias stands for nothing",
        _ if message.contains("recursion limit") => "values are nested too deeply",
        _ if message.contains("more than one document") => "a file holds one pipeline, and behind `---` there is another",
        Some((_, last)) => last,
        None => message,
    };
    Unreadable { message: message.into(), line, column }
}

/// What libyaml's commonest complaints mean, and where: at what was opened and isn't closed, if that is the fault.
fn own_words(whole: &str, line: usize, column: usize) -> Option<Unreadable> {
    let opened = |what: &str| {
        let (_, place) = whole.split_once(what)?.1.split_once(" at line ")?;
        let (line, column) = place.split_once(" column ")?;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<usize>().ok();
        Some((digits(line)?, digits(column)?))
    };
    let here = |message: &str| Some(Unreadable { message: message.into(), line, column });
    let from = |what: &str, message: &str| {
        let (line, column) = opened(what).unwrap_or((line, column));
        Some(Unreadable { message: message.into(), line, column })
    };
    match whole {
        _ if whole.contains("while parsing a flow mapping") => {
            from("while parsing a flow mapping", "this `{` isn't closed: a `}` is missing, or a `,` between two settings")
        }
        _ if whole.contains("while parsing a flow sequence") => {
            from("while parsing a flow sequence", "this `[` isn't closed: a `]` is missing, or a `,` between two items")
        }
        _ if whole.contains("while scanning a quoted scalar") => from("while scanning a quoted scalar", "this quote isn't closed"),
        _ if whole.contains("mapping values are not allowed") => {
            here("a `:` can't be here: either the line is indented too far, or its text needs quotes")
        }
        _ if whole.contains("did not find expected key") => {
            here("this line is indented otherwise than the lines of its map: those of one map begin in one column")
        }
        _ if whole.contains("did not find expected '-' indicator") => {
            here("this line is indented otherwise than the items of its list: each begins with `- ` in one column")
        }
        _ if whole.contains("could not find expected ':'") => {
            from("while scanning a simple key", "this line is no setting: a `:` with a space after it is missing")
        }
        _ if whole.contains("cannot start any token") => here("a text can't begin with this character: put the text in quotes"),
        _ => None,
    }
}

/// One reading: the count so far, and the number to fail at.
struct ReadPass {
    text: usize,
    next: Cell<usize>,
    stop: Option<usize>,
    duplicates: RefCell<Vec<Duplicate>>,
}

impl ReadPass {
    fn enter<E: Error>(&self) -> Result<Location, E> {
        let number = self.next.get();
        self.next.set(number + 1);
        if self.stop == Some(number) {
            return Err(E::custom("here"));
        }
        if number > MOST_VALUES {
            return Err(E::custom(format!("more than {MOST_VALUES} values, counting what each `*name` stands for")));
        }
        Ok(Location { text: self.text, spot: Spot::Number(number) })
    }

    fn scalar<E: Error>(&self, value: impl Into<Value>) -> Result<Tree, E> {
        Ok(Tree { at: self.enter()?, value: Shape::Scalar(value.into()) })
    }
}

/// Reads the next value, whatever it is.
struct ValueReader<'a>(&'a ReadPass);

impl<'de> DeserializeSeed<'de> for ValueReader<'_> {
    type Value = Tree;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_> {
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
        while let Some(item) = items.next_element_seed(ValueReader(self.0))? {
            list.push(item);
        }
        Ok(Tree { at, value: Shape::List(list) })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Tree, A::Error> {
        let at = self.0.enter()?;
        let mut entries: Vec<TreeEntry> = Vec::new();
        let mut places = HashMap::new();
        while let Some((key, at)) = pairs.next_key_seed(KeyReader(self.0))? {
            let value = pairs.next_value_seed(ValueReader(self.0))?;
            match places.get(&key) {
                Some(&first) => self.0.duplicates.borrow_mut().push(Duplicate { key, at, first }),
                None => {
                    places.insert(key.clone(), at);
                    entries.push(TreeEntry { key, at, value });
                }
            }
        }
        Ok(Tree { at, value: Shape::Map(entries) })
    }
}

/// Reads a key. A bare number or `true` counts as the text it is written with.
struct KeyReader<'a>(&'a ReadPass);

impl<'de> DeserializeSeed<'de> for KeyReader<'_> {
    type Value = (String, Location);
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyReader<'_> {
    type Value = (String, Location);
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name as the key")
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok((value.into(), self.0.enter()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, tree: &Tree) -> (usize, usize) {
        match tree.at.spot {
            Spot::Number(n) => locate(text, n),
            Spot::Character(_) => unreachable!("only overrides have those"),
        }
    }

    #[test]
    fn values_and_keys_are_found_again() {
        let text = "a: 1\nb:\n  - x\n  - { c: \"é\", d: [1, ~] }\ne:\n  f: g\n";
        let (tree, _) = read(text, 0).unwrap();
        let at = |path: &[&str]| place(text, tree.deepest(path.iter().copied()));
        assert_eq!(at(&["a"]), (1, 4));
        assert_eq!(at(&["b", "0"]), (3, 5));
        assert_eq!(at(&["b", "1", "d"]), (4, 18), "columns count characters");
        assert_eq!(at(&["b", "1", "d", "1"]), (4, 22));
        assert_eq!(at(&["e", "f"]), (6, 6));
        let Spot::Number(key) = tree.get("e").unwrap().entry("f").unwrap().at.spot else { panic!() };
        assert_eq!(locate(text, key), (6, 3));
    }

    #[test]
    fn the_first_of_two_equal_keys_stays_and_the_second_is_reported() {
        let text = "a: 1\nb: { c: 1, c: 2 }\na: 3\n";
        let (tree, duplicates) = read(text, 0).unwrap();
        assert_eq!(tree.json(), serde_json::json!({ "a": 1, "b": { "c": 1 } }));
        assert_eq!(duplicates.iter().map(|d| d.key.as_str()).collect::<Vec<_>>(), ["c", "a"]);
        let Spot::Number(second) = duplicates[1].at.spot else { panic!() };
        assert_eq!(locate(text, second), (3, 1));
    }

    #[test]
    fn what_libyaml_complains_of_is_said_in_own_words_and_at_its_line() {
        for (text, line, says) in [
            ("a: 1\nb: { c: 1, d: 2\ne: 3\nf: 4\n", 2, "this `{` isn't closed"),
            ("a: 1\nb: { c: 1 d: 2 }\n", 2, ""),
            ("a: [1, 2\nb: 3\n", 1, "this `[` isn't closed"),
            ("a: 1\nb: \"text\nc: 3\n", 2, "this quote isn't closed"),
            ("a:\n  b: 1\n   c: 2\n", 3, "a `:` can't be here"),
            ("a:\n    b: 1\n  c: 2\n", 3, "indented otherwise than the lines of its map"),
            ("a:\n  - 1\n b: 2\n", 3, "indented otherwise"),
            ("a: 1\nb\nc: 3\n", 2, "is no setting"),
            ("a: what: now\n", 1, "a `:` can't be here"),
            ("a: @b\n", 1, "put the text in quotes"),
        ] {
            let error = read(text, 0).map(|(tree, _)| tree.json()).unwrap_err();
            assert!(error.message.contains(says) && error.line == line, "{text}: {}:{} {}", error.line, error.column, error.message);
            assert!(!error.message.contains("did not find") && !error.message.contains("while "), "{text}: {}", error.message);
        }
    }

    #[test]
    fn floats_without_a_fraction_are_whole() {
        let (tree, _) = read("[1e3, 2.0, 0.5, .inf, 1e-6, 1e15]", 0).unwrap();
        assert_eq!(tree.json().to_string(), r#"[1000,2,0.5,".inf",1e-6,1000000000000000]"#);
    }

    #[test]
    fn what_stands_for_billions_is_refused_soon() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..30 {
            text += &format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}, *a{0}, *a{0}, *a{0}]\n", i - 1);
        }
        assert!(read(&text, 0).unwrap_err().message.contains("50000 values"));
        assert!(read("a: &a [*a]", 0).is_err());
    }
}
