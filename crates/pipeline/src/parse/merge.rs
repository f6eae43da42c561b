//! A tree laid over another one: how a file has only the differences from the file that it is `like`, and how `--set`
//! changes a value.

use super::tree::{Shape, Tree};

/// The keys that say what form a model has. A value of one form replaces a value of another: their settings don't mix.
const FORMS: [&str; 5] = ["new", "load", "on", "encode", "openai"];

impl Tree {
    /// Lays `over` upon this: maps are merged key by key, a null takes the key away, and anything else replaces the old
    /// value, as does a model of another form. Every value keeps the place that it was read from.
    pub fn lay(&mut self, over: Tree) {
        // A node may be called so, too; a form's value is a text.
        let form = |tree: &Tree| FORMS.into_iter().find(|form| tree.get(form).is_some_and(|value| value.text().is_some()));
        if let (Some(form), Some(other)) = (form(self), form(&over)) {
            if form != other {
                return *self = over.without_nulls();
            }
        }
        let (Shape::Map(below), Shape::Map(_)) = (&mut self.value, &over.value) else { return *self = over };
        let Tree { at, value: Shape::Map(above) } = over else { return };
        for entry in above {
            match below.iter_mut().position(|known| known.key == entry.key) {
                Some(i) if entry.value.is_null() => drop(below.remove(i)),
                Some(i) => {
                    below[i].at = entry.at;
                    below[i].value.lay(entry.value);
                }
                None if entry.value.is_null() => {}
                None => below.push(entry),
            }
        }
        self.at = at;
    }

    /// Without the keys that take a key away: there is nothing below it.
    fn without_nulls(mut self) -> Tree {
        if let Shape::Map(entries) = &mut self.value {
            entries.retain(|entry| !entry.value.is_null());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read;

    #[test]
    fn maps_merge_a_null_takes_away_and_the_rest_is_replaced() {
        let (mut base, _) = read("a: { b: 1, c: [1, 2], d: { e: 1 } }\nf: 2", 0).unwrap();
        let (over, _) = read("a: { c: [3], d: { e: null, g: 5 }, h: 4 }", 1).unwrap();
        base.lay(over);
        assert_eq!(base.json(), serde_json::json!({ "a": { "b": 1, "c": [3], "d": { "g": 5 }, "h": 4 }, "f": 2 }));
        let from = |path: &[&str]| base.deepest(path.iter().copied()).at.text;
        assert_eq!((from(&["a", "b"]), from(&["a", "c"]), from(&["a", "d", "g"]), from(&["f"])), (0, 1, 1, 0));
    }

    #[test]
    fn a_model_of_another_form_takes_its_place() {
        let laid = |base: &str, over: &str| {
            let mut base = read(base, 0).unwrap().0;
            base.lay(read(over, 1).unwrap().0);
            base.json().to_string()
        };
        assert_eq!(laid("a: { load: x, lora: { rank: 4 } }", "a: { new: tiny }"), r#"{"a":{"new":"tiny"}}"#);
        assert_eq!(laid("a: { load: x, of: b }", "a: { load: y }"), r#"{"a":{"load":"y","of":"b"}}"#);
        assert_eq!(laid("a: { load: x, of: b }", "a: { load: null, new: tiny, of: null }"), r#"{"a":{"new":"tiny"}}"#);
        assert_eq!(laid("{ load: { a: 1 } }", "{ new: { a: 2 } }"), r#"{"load":{"a":1},"new":{"a":2}}"#, "nodes of these names");
        assert_eq!(laid("{ a: 1 }", "{ b: null }"), r#"{"a":1}"#);
    }
}
