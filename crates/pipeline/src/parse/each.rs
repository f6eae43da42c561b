//! `for:` in a document: an item of a list, or an entry of a map, that is written once and stands for several.
//!
//! `- { for: { k: [1, 2] }, name: "pass@{k}" }` is `- { name: pass@1 }` and `- { name: pass@2 }`. With several names
//! every combination is meant, the last name changing first. A text that is `{k}` and nothing else becomes the value
//! itself; keys are filled as well.

use super::report::{listed, Report};
use super::tree::{Shape, Tree, TreeEntry};
use serde_json::Value;

/// The key.
const FOR: &str = "for";

/// So many copies are meant by mistake.
const MOST_COPIES: usize = 1000;

/// One value a name.
type Values = Vec<(String, Value)>;

impl Tree {
    /// Writes out every `for` in here; what is wrong with one is reported.
    pub fn write_out(&mut self, report: &mut Report) {
        match &mut self.value {
            Shape::Scalar(_) => {}
            Shape::List(items) => {
                let each = std::mem::take(items).into_iter().flat_map(|item| match values("", &item, report) {
                    Some(all) => all.iter().map(|values| item.filled(values)).collect(),
                    None => vec![item],
                });
                *items = each.collect();
                items.iter_mut().for_each(|item| item.write_out(report));
            }
            Shape::Map(entries) => {
                let each = std::mem::take(entries).into_iter().flat_map(|entry| match values(&entry.key, &entry.value, report) {
                    Some(all) => all.iter().map(|values| entry.filled(values)).collect(),
                    None => vec![entry],
                });
                *entries = each.collect();
                entries.iter_mut().for_each(|entry| entry.value.write_out(report));
            }
        }
    }

    fn filled(&self, values: &Values) -> Tree {
        let value = match &self.value {
            Shape::Scalar(Value::String(text)) => Shape::Scalar(filled(text, values)),
            Shape::Scalar(value) => Shape::Scalar(value.clone()),
            Shape::List(items) => Shape::List(items.iter().map(|item| item.filled(values)).collect()),
            Shape::Map(entries) => Shape::Map(entries.iter().filter(|entry| entry.key != FOR).map(|entry| entry.filled(values)).collect()),
        };
        Tree { at: self.at, value }
    }
}

impl TreeEntry {
    fn filled(&self, values: &Values) -> TreeEntry {
        TreeEntry { key: written(&filled(&self.key, values)), at: self.at, value: self.value.filled(values) }
    }
}

/// The text with each `{name}` in it replaced; the value itself where there is nothing else.
fn filled(text: &str, values: &Values) -> Value {
    let place = |name: &str| format!("{{{name}}}");
    match values.iter().find(|(name, _)| text == place(name)) {
        Some((_, value)) => value.clone(),
        None => values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&place(name), &written(value))).into(),
    }
}

fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// Every combination of the values under the tree's `for`, whose key is `name`; none without one, or where something is
/// wrong with it, which is reported.
fn values(name: &str, tree: &Tree, report: &mut Report) -> Option<Vec<Values>> {
    let entry = tree.entry(FOR)?;
    let mut all: Vec<Values> = vec![vec![]];
    let before = report.len();
    if entry.value.entries().is_empty() {
        let message = format!("`{FOR}` must be a map from names to lists, found {}", entry.value.called());
        report.add(entry.value.at, message, Some(format!("write `{FOR}: {{ k: [1, 2, 3] }}`, and `{{k}}` where its values belong")));
        return None;
    }
    for TreeEntry { key, at, value } in entry.value.entries() {
        let Shape::List(items) = &value.value else {
            report.add(value.at, format!("`{key}` must be a list of values, found {}", value.called()), None);
            continue;
        };
        let scalar = |item: &Tree| match &item.value {
            Shape::Scalar(value) => Some(value.clone()),
            _ => None,
        };
        if let Some(item) = items.iter().find(|item| scalar(item).is_none()) {
            report.add(item.at, format!("a value of `{key}` must be a text or a number, found {}", item.called()), None);
            continue;
        }
        let place = format!("{{{key}}}");
        if !name.contains(&place) && !mentions(tree, &place) {
            report.add(*at, format!("nothing says `{{{key}}}`, so all copies would be the same"), None);
            continue;
        }
        let longer = |values: &Values| {
            let each = items.iter().filter_map(scalar).map(|value| values.iter().cloned().chain([(key.clone(), value)]).collect());
            each.collect::<Vec<Values>>()
        };
        all = all.iter().flat_map(longer).collect();
        if all.len() > MOST_COPIES {
            let names: Vec<&str> = entry.value.entries().iter().map(|entry| entry.key.as_str()).collect();
            report.add(entry.at, format!("{} stand for more than {MOST_COPIES} copies", listed(&names, "and")), None);
            return None;
        }
    }
    (report.len() == before).then_some(all)
}

/// Whether a text in the tree, or a key, has this in it.
fn mentions(tree: &Tree, place: &str) -> bool {
    match &tree.value {
        Shape::Scalar(value) => value.as_str().is_some_and(|text| text.contains(place)),
        Shape::List(items) => items.iter().any(|item| mentions(item, place)),
        Shape::Map(entries) => entries.iter().any(|entry| entry.key.contains(place) || mentions(&entry.value, place)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::super::report::Text;
    use super::*;
    use serde_json::json;

    fn written_out(text: &str) -> Result<Value, String> {
        let texts = [Text { name: "x".into(), text: text.into(), yaml: 0 }];
        let mut report = Report::new(&texts);
        let mut tree = read(text, 0).unwrap().0;
        tree.write_out(&mut report);
        match report.len() {
            0 => Ok(tree.json()),
            _ => Err(report.finish().0[0].message.clone()),
        }
    }

    #[test]
    fn an_item_or_an_entry_stands_for_several() {
        let list = "columns:\n  - { for: { k: [1, 2] }, name: 'pass@{k}', attempt: '{k}', query: 'a >= {k}' }\n  - { name: last }";
        let column = |k: u64| json!({ "name": format!("pass@{k}"), "attempt": k, "query": format!("a >= {k}") });
        assert_eq!(written_out(list).unwrap(), json!({ "columns": [column(1), column(2), { "name": "last" }] }));
        let map = "runs:\n  'x-{size}-{lr}': { for: { size: [s, l], lr: [1, 2] }, set: { nodes.update.with.lr: '{lr}' } }";
        let runs = written_out(map).unwrap();
        assert_eq!(runs["runs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["x-s-1", "x-s-2", "x-l-1", "x-l-2"]);
        assert_eq!(runs["runs"]["x-l-2"], json!({ "set": { "nodes.update.with.lr": 2 } }));
    }

    #[test]
    fn what_is_wrong_with_it_is_told() {
        for (text, message) in [
            ("- { for: 3, a: 1 }", "`for` must be a map from names to lists, found the number 3"),
            ("- { for: { k: 3 }, a: '{k}' }", "`k` must be a list of values, found the number 3"),
            ("- { for: { k: [[1]] }, a: '{k}' }", "a value of `k` must be a text or a number, found a list"),
            ("- { for: { k: [1, 2] }, a: 1 }", "nothing says `{k}`, so all copies would be the same"),
        ] {
            assert_eq!(written_out(text), Err(message.into()), "{text}");
        }
    }
}
