//! `--set path=value`: overrides, put into the tree before it is checked, so that they are checked like the file
//! itself.

use super::read::read;
use super::report::{Report, Text};
use super::tree::{Location, Shape, Spot, Tree, TreeEntry};

/// The keys that an override may add to a map on its way, with a map of their own behind them.
const OPENED: [&str; 4] = ["with", "inputs", "models", "agents"];

/// The override as a text that places can point into.
pub fn text(set: &str) -> Text {
    let (path, yaml) = set.split_once('=').map_or((set, set.len()), |(path, _)| (path, path.len() + 1));
    Text { name: format!("--set {path}"), text: set.into(), yaml }
}

/// Puts the override with this number into the tree, or reports why that cannot be done.
pub fn apply(tree: &mut Tree, number: usize, text: &Text, report: &mut Report) {
    let at = |character| Location { text: number, spot: Spot::Character(character) };
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
            Shape::Scalar(value) => {
                // Where the name of an agent stands, its settings stand under `agents`.
                let agent = value.as_str().filter(|_| walked.ends_with(".agent"));
                let help = agent.map(|agent| format!("write `agents.{agent}.{}`", steps[i..].join(".")));
                return report.add(place, format!("`{walked}` is a single value, there is nothing inside it called `{step}`"), help);
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
                let position = entries.iter().position(|e| e.key == *step);
                // A node or a model made up by an override would have been a typing error nearly every time.
                let opens = if last { !holds_nodes(&walked) } else { OPENED.contains(step) };
                if position.is_none() && !opens {
                    let whole = if walked.is_empty() { step.to_string() } else { format!("{walked}.{step}") };
                    return report.add(
                        place,
                        format!("there is no `{whole}` in the file"),
                        report.nearest(step, known.iter().map(String::as_str)),
                    );
                }
                if let Some(index) = position.filter(|_| last && value.is_null()) {
                    // As in a file that is `like` another: a null takes the key away.
                    entries.remove(index);
                    return;
                }
                if position.is_none() && last && value.is_null() && !text.text[text.yaml..].trim().is_empty() {
                    let help = report.nearest(step, known.iter().map(String::as_str));
                    return report.add(place, format!("there is no `{path}` that `null` could take away"), help);
                }
                let index = position.unwrap_or_else(|| {
                    let empty = Tree { at: place, value: Shape::Map(Vec::new()) };
                    entries.push(TreeEntry { key: step.to_string(), at: place, value: empty });
                    entries.len() - 1
                });
                &mut entries[index].value
            }
        };
        walked = if walked.is_empty() { step.to_string() } else { format!("{walked}.{step}") };
    }
    here.lay(value);
}

/// Whether the map at this path has nodes for entries: the pipeline's, or those of a loop.
fn holds_nodes(path: &str) -> bool {
    let steps: Vec<&str> = path.split('.').collect();
    matches!(steps[..], ["nodes"] | ["nodes", _, "nodes"])
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD};
    use crate::parse;

    fn with(sets: &[&str]) -> Result<crate::Pipeline, String> {
        let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
        parse("good.yaml", GOOD, &sets, &catalog()).map_err(|d| d.to_string())
    }

    #[test]
    fn the_last_override_wins_and_is_part_of_the_source() {
        let pipeline = with(&["nodes.update.with.lr=1e-3", "nodes.update.with.lr=0.5", "iterations=9", "log.1=group"]).unwrap();
        assert_eq!(pipeline.node("update").unwrap().with.raw()["lr"], 0.5);
        assert_eq!((pipeline.iterations, pipeline.source["iterations"].as_u64()), (9, Some(9)));
        assert_eq!(pipeline.log, ["rollout", "group"]);
    }

    #[test]
    fn what_is_missing_is_made_under_a_map_that_is_there() {
        let pipeline = with(&["seed=3", "nodes.advantage.with.gamma=0.5", "nodes.update.with.kl={ weight: 1, kind: k2 }"]).unwrap();
        assert_eq!(pipeline.seed, 3);
        assert_eq!(pipeline.node("update").unwrap().with.raw()["kl"]["kind"], "k2");
        assert!(with(&["nodes.updat.with.lr=1"]).unwrap_err().contains("did you mean `update`?"));
        assert!(with(&["nodes.update.with.lrr=null"]).unwrap_err().contains("did you mean `lr`?"));
        assert!(with(&["nodes.new=1"]).unwrap_err().contains("there is no `nodes.new`"));
    }

    #[test]
    fn overrides_are_located_in_their_own_text() {
        let message = with(&["nodes.update.with={ model: actor, lr: 1, klip: 2 }"]).unwrap_err();
        assert!(message.contains("--> --set nodes.update.with:1:42\n"), "{message}");
        let message = with(&["seed=1", "iterations=0"]).unwrap_err();
        assert!(message.contains("--> --set iterations:1:12\n") && message.contains("1 | iterations=0\n"), "{message}");
    }

    #[test]
    fn nonsense_is_refused_without_a_panic() {
        for set in [
            "",
            "=",
            "==",
            ".",
            ".=",
            "a",
            "a.b.c=1",
            "=1",
            "flow.x=1",
            "log.9=x",
            "nodes=",
            "nodes.=1",
            "é=ü",
            "nodes.group.with.by.é=1",
            "seed={",
            "seed=\n",
            "models.actor=*a",
            "nodes.tasks=3",
        ] {
            assert!(with(&[set]).is_err(), "{set}");
        }
    }
}
