//! The pipeline language: a YAML file in, a checked [`Pipeline`] or every mistake in it out.
//!
//! This is the only code that knows YAML, and it knows no operator: those come as data, in a [`Catalog`].
//! A file is read into a tree that remembers where each value stands, overrides are put in, then everything is checked
//! in one pass, so that one look shows all that is wrong.

mod body;
mod catalog;
mod check;
mod choices;
mod diagnose;
mod differ;
mod draw;
mod edges;
#[cfg(test)]
mod fake;
mod fed;
mod flow;
mod keep;
mod loops;
mod names;
mod nodes;
mod overlap;
mod part;
mod read;
mod report;
mod schema;
mod sets;
mod settings;
mod tree;
mod trial;

pub use catalog::{Catalog, Delay, Need, OperatorSpec, Port, Wrong};
pub use diagnose::{Diagnostic, Diagnostics};
pub use differ::{contents, differences, Difference};
pub use draw::{draw, Format};
pub use keep::Keep;
pub use loops::{Body, Until, LOOP};
pub use overlap::{overlaps, Overlap};
pub use part::Needed;
pub use schema::schema;
pub use trial::Test;

use check::Sketch;
use report::{Report, Text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// A pipeline that passed every check, overrides applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    pub name: String,
    pub about: String,
    pub iterations: u64,
    pub seed: u64,
    /// The entries of `models:`, each fitting the catalog's schema.
    pub models: BTreeMap<String, Value>,
    /// Every node after the nodes that it reads in time; otherwise in the file's order.
    pub nodes: Vec<Node>,
    /// The nodes whose rows are logged.
    pub log: Vec<String>,
    /// Which old weights stay on disk.
    pub keep: Keep,
    /// Rows fed and rows expected; no part of `source`.
    pub tests: Vec<Test>,
    /// The file as it was understood, without its tests: a run has no use for them.
    pub source: Value,
}

/// One operator at work, or a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub id: String,
    /// The operator; [`LOOP`] for a loop.
    pub op: String,
    /// In the file's order. A loop has one for each node outside and each staleness that its inner nodes read, with the port called
    /// after the node.
    pub inputs: Vec<Input>,
    /// Its settings, fitting the operator's schema; nothing for a loop.
    pub with: Value,
    /// What stands in it, if it is a loop.
    pub body: Option<Body>,
}

/// One edge, seen from the node that reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub port: String,
    /// The node that is read.
    pub from: String,
    /// `None`: in time. `Some(k)`: delayed, with the path summary `k + 1`.
    pub staleness: Option<u64>,
}

impl Pipeline {
    /// The resolved pipeline as YAML: what a run keeps, and what reads back as the same pipeline.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(&self.source).unwrap_or_default()
    }

    /// The node called `id`; those inside a loop are the loop's affair.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.id == id)
    }

    /// The nodes that the rows of the node `id` came through in their iteration, in topological order. An order between two
    /// updates is no way for rows.
    pub fn upstream(&self, id: &str) -> Vec<&str> {
        let mut found: Vec<&str> = vec![id];
        for node in self.nodes.iter().rev() {
            if found.contains(&node.id.as_str()) {
                found.extend(
                    node.inputs
                        .iter()
                        .filter(|i| i.staleness.is_none() && (i.port != "weights" || node.body.is_some()))
                        .map(|i| i.from.as_str()),
                );
            }
        }
        self.nodes.iter().map(|n| n.id.as_str()).filter(|n| *n != id && found.contains(n)).collect()
    }
}

/// A longer file is no pipeline that a person wrote.
const MOST_BYTES: usize = 256 * 1024;

/// Reads and checks a pipeline file; `sets` are the `path=value` texts of `--set`.
pub fn load(path: &Path, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    understand(&path.display().to_string(), &text_of(path)?, sets, catalog, false)
}

/// As [`load`], and looks whether the files that its tests name are there, which a run has no use for.
pub fn load_with_tests(path: &Path, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    understand(&path.display().to_string(), &text_of(path)?, sets, catalog, true)
}

/// The text of a pipeline file.
fn text_of(path: &Path) -> Result<String, Diagnostics> {
    let file = std::fs::File::open(path).map_err(|e| refused(path, format!("the file can't be opened: {}", plainly(&e))))?;
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know: the file may be a device without an end.
    let read = file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| refused(path, format!("the file can't be read: {}", plainly(&e))))?;
    if bytes.len() > MOST_BYTES {
        return Err(refused(path, format!("the file is longer than {} KiB, that is no pipeline", MOST_BYTES / 1024)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        refused(path, format!("the file is not text in UTF-8: line {line} has a byte that belongs to no character"))
    })
}

/// What is wrong with a file as a whole.
fn refused(path: &Path, message: String) -> Diagnostics {
    Diagnostics(vec![Diagnostic { message, file: path.display().to_string(), line: 1, column: 1, help: None, source: None }])
}

/// An error of the operating system without its number.
fn plainly(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Checks a pipeline given as text; `name` is what messages call the file.
pub fn parse(name: &str, text: &str, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    understand(name, text, sets, catalog, false)
}

fn understand(name: &str, text: &str, sets: &[String], catalog: &Catalog, look: bool) -> Result<Pipeline, Diagnostics> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut texts = vec![Text { name: name.into(), text: text.into(), yaml: 0 }];
    texts.extend(sets.iter().map(|set| sets::text(set)));
    let mut report = Report::new(&texts);
    if text.lines().all(|line| line.trim_start().starts_with('#') || line.trim().is_empty()) {
        let message = "the file is empty".into();
        let help = Some("a pipeline has at least `flow`, `iterations` and `nodes`".into());
        return Err(Diagnostics(vec![Diagnostic { message, file: name.into(), line: 1, column: 1, help, source: None }]));
    }
    let (mut tree, duplicates) = match read::read(text, 0) {
        Ok(read) => read,
        Err(error) => {
            report.unreadable(0, error);
            return Err(report.finish());
        }
    };
    for duplicate in duplicates {
        let help = format!("the first is in line {}", report.line(duplicate.first));
        report.add(duplicate.at, format!("the key `{}` stands here twice", duplicate.key), Some(help));
    }
    for (i, text) in texts.iter().enumerate().skip(1) {
        sets::apply(&mut tree, i, text, &mut report);
    }
    let mut sketch = check::check(&tree, catalog, &mut report);
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    trial::tests(&tree, folder, look, &mut sketch, &mut report);
    let order = flow::order(&sketch.nodes, &mut report);
    flow::columns(&sketch.nodes, &order.cyclic, catalog, &mut report);
    flow::ends(&sketch, &mut report);
    if report.len() > 0 {
        return Err(report.finish());
    }
    let pipeline = finished(sketch, &order.sorted, tree.json());
    for wrong in (catalog.wrong)(&pipeline) {
        report.add(tree.deepest(pipeline.written(&wrong.at)).at, wrong.message, wrong.help);
    }
    if report.len() > 0 {
        return Err(report.finish());
    }
    Ok(pipeline)
}

fn finished(sketch: Sketch, order: &[usize], mut source: Value) -> Pipeline {
    if let Some(source) = source.as_object_mut() {
        source.shift_remove("tests");
    }
    let nodes = nodes::within(None, &sketch.nodes, order);
    let Sketch { name, about, iterations, seed, models, log, keep, tests, .. } = sketch;
    Pipeline { name, about, iterations, seed, models, nodes, log, keep, tests, source }
}

#[cfg(test)]
mod tests {
    use super::fake::{catalog, GOOD, LOOPED};
    use super::*;

    #[test]
    fn a_good_file_becomes_a_pipeline() {
        let pipeline = parse("x", GOOD, &[], &catalog()).unwrap();
        assert_eq!((pipeline.name.as_str(), pipeline.about.as_str(), pipeline.iterations, pipeline.seed), ("eapo", "a test", 3, 0));
        assert_eq!(pipeline.models["actor"]["new"], "tiny");
        assert_eq!(pipeline.log, ["rollout", "update"]);
        let input = |port: &str, from: &str, staleness| Input { port: port.into(), from: from.into(), staleness };
        assert_eq!(pipeline.node("rollout").unwrap().inputs, [input("tasks", "tasks", None), input("weights", "update", Some(0))]);
        assert_eq!(pipeline.node("group").unwrap().inputs, [input("rows", "rollout", None)]);
    }

    #[test]
    fn the_source_reads_back_as_the_same_pipeline() {
        let first = parse("x", GOOD, &["nodes.update.with.lr=0.1".into()], &catalog()).unwrap();
        assert_eq!(parse("x", &first.to_yaml(), &[], &catalog()).unwrap(), first);
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_make_no_difference() {
        let other = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
        assert_eq!(parse("x", &other, &[], &catalog()).unwrap(), parse("x", GOOD, &[], &catalog()).unwrap());
        let broken = parse("x", &other.replace("gamma", "gama"), &[], &catalog()).unwrap_err();
        assert_eq!((broken.0[0].line, broken.0[0].column), (13, 71));
    }

    /// Every file that typing these passes through, and every slip of one character, gets an answer.
    #[test]
    fn no_text_makes_it_panic() {
        let catalog = catalog();
        for (whole, i, c) in [GOOD, LOOPED].into_iter().flat_map(|whole| whole.char_indices().map(move |(i, c)| (whole, i, c))) {
            let (before, after) = (&whole[..i], &whole[i + c.len_utf8()..]);
            for text in [
                before.to_string(),
                format!("{before}{after}"),
                format!("{before}:{after}"),
                format!("{before}[{after}"),
                format!("{before}é{c}{after}"),
            ] {
                if let Err(found) = parse("x", &text, &[], &catalog) {
                    assert!(!found.0.is_empty());
                    found.to_string();
                }
            }
        }
    }

    #[test]
    fn a_hopeless_file_is_answered_within_bounds() {
        let nodes: String = (0..3000).map(|i| format!("  n{i}: {{ op: gruop, inputs: m{i} }}\n")).collect();
        let found = parse("x", &format!("flow: x\niterations: 1\nnodes:\n{nodes}"), &[], &catalog()).unwrap_err();
        assert_eq!(found.0.len(), 100);
        let folder = std::env::temp_dir().join(format!("flow-pipeline-{}", std::process::id()));
        std::fs::write(&folder, "# ".repeat(MOST_BYTES)).unwrap();
        let found = load(&folder, &[], &catalog()).unwrap_err().to_string();
        std::fs::remove_file(&folder).unwrap();
        assert!(found.contains("longer than 256 KiB"), "{found}");
    }

    #[test]
    fn a_typing_error_is_told_once() {
        for (from, to, message) in [
            ("inputs: rollout", "inputs: rolout", "there is no node `rolout`"),
            ("op: group", "op: gruop", "there is no operator `gruop`"),
            ("tasks: { op", "taks: { op", "there is no node `tasks`"),
            ("{ model: actor, lr", "{ model: acter, lr", "there is no model `acter`"),
            ("iterations:", "iteratons:", "a pipeline has no key `iteratons`"),
            ("inputs: rollout", "input: rollout", "a node has no key `input`"),
            ("by: [task, state]", "by: [task, stat]", "there is no column `stat`"),
            ("weights: { after: update, staleness: 0 }", "weights: update", "takes what an earlier iteration made"),
        ] {
            let found = parse("x", &GOOD.replacen(from, to, 1), &[], &catalog()).unwrap_err();
            assert_eq!(found.0.len(), 1, "{found}");
            assert!(found.0[0].message.contains(message), "{found}");
        }
    }
}
