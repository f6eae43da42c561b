//! `--set path=value`: overrides, put into the tree before it is checked, so that they are checked like the file itself.

use super::read::read;
use super::report::{Report, Text};
use super::tree::{At, Entry, Shape, Spot, Tree};

/// The keys that an override may add to a map on its way, with a map of their own behind them.
const OPENED: [&str; 3] = ["with", "inputs", "models"];

/// The override as a text that places can point into.
pub fn text(set: &str) -> Text {
    let (path, yaml) = set.split_once('=').map_or((set, set.len()), |(path, _)| (path, path.len() + 1));
    Text { name: format!("--set {path}"), text: set.into(), yaml }
}

/// Puts the override with this number into the tree, or reports why that cannot be done.
pub fn apply(tree: &mut Tree, number: usize, text: &Text, report: &mut Report) {
    let at = |character| At { text: number, spot: Spot::Character(character) };
    let Some((path, value)) = text.text.split_once('=') else {
        return report.add(
            at(0),
            format!("`{}` has no `=`", text.text),
            Some("write `--set path=value`, such as `--set iterations=10`".into()),
        );
    };
    if path.trim().is_empty() {
        return report.add(
            at(0),
            "there is no path before the `=`",
            Some("write `--set path=value`, such as `--set iterations=10`".into()),
        );
    }
    let value = if value.trim().is_empty() { "null" } else { value };
    let mut value = match read(value, number) {
        Ok((value, duplicates)) => {
            for duplicate in duplicates {
                report.add(duplicate.at, format!("the key `{}` stands here twice", duplicate.key), None);
            }
            value
        }
        Err(error) => return report.unreadable(number, error),
    };
    if text.text[text.yaml..].trim().is_empty() {
        value.at = at(path.chars().count());
    }
    let mut here = tree;
    let mut character = 0;
    let mut walked = String::new();
    let steps: Vec<&str> = path.split('.').collect();
    for (i, step) in steps.iter().enumerate() {
        let place = at(character);
        character += step.chars().count() + 1;
        if step.is_empty() {
            return report.add(place, format!("the path `{path}` has an empty step"), Some("steps are parted by single dots".into()));
        }
        let last = i + 1 == steps.len();
        let known: Vec<String> = here.entries().iter().map(|e| e.key.clone()).collect();
        if here.is_null() && i > 0 {
            here.value = Shape::Map(Vec::new());
        }
        here = match &mut here.value {
            Shape::Scalar(_) => {
                return report.add(place, format!("`{walked}` is a single value, there is nothing inside it called `{step}`"), None);
            }
            Shape::List(items) => {
                let length = items.len();
                match step.parse::<usize>().ok().and_then(|n| items.get_mut(n)) {
                    Some(item) => item,
                    None => {
                        let help = if length == 0 { "the list is empty".into() } else { format!("its items are 0 to {}", length - 1) };
                        return report.add(place, format!("the list `{walked}` has no item `{step}`"), Some(help));
                    }
                }
            }
            Shape::Map(entries) => {
                let found = entries.iter().position(|e| e.key == *step);
                // A node or a model made up by an override would have been a typing error nearly every time.
                if found.is_none() && !(last && walked != "nodes" || !last && OPENED.contains(step)) {
                    let whole = if walked.is_empty() { step.to_string() } else { format!("{walked}.{step}") };
                    return report.add(
                        place,
                        format!("there is no `{whole}` in the file"),
                        report.nearest(step, known.iter().map(String::as_str)),
                    );
                }
                let index = found.unwrap_or_else(|| {
                    let empty = Tree { at: place, value: Shape::Map(Vec::new()) };
                    entries.push(Entry { key: step.to_string(), at: place, value: empty });
                    entries.len() - 1
                });
                &mut entries[index].value
            }
        };
        walked = if walked.is_empty() { step.to_string() } else { format!("{walked}.{step}") };
    }
    *here = value;
}
