//! Loads a file or a text: the result is a checked pipeline, or every mistake in it.

use super::check::check;
use super::embed::embed;
use super::parse::{self, family, refused, text_of, Lineage, Report, Text};
use super::paths;
use super::{Catalog, Code, Diagnostic, Diagnostics, Mistake, Pipeline};
use serde_json::Value;
use std::path::Path;

/// Finds files that a valid pipeline names and that don't exist.
pub type Look<'a> = &'a dyn Fn(&Pipeline) -> Vec<Mistake>;

/// Reads and checks a pipeline file; `sets` are the `path=value` texts of `--set`.
pub fn load(path: &Path, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    understand(&path.display().to_string(), &text_of(path)?, sets, catalog, Looks::default())
}

/// As [`load`], for the copy that a run keeps: what isn't found from its folder is looked for from `origin`, where that
/// folder was.
pub fn load_moved(path: &Path, origin: &Path, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    let looks = Looks { origin: Some(origin), ..Looks::default() };
    understand(&path.display().to_string(), &text_of(path)?, sets, catalog, looks)
}

/// As [`load`], and looks whether the files that its tests name are there, which a run has no use for.
pub fn load_with_tests(path: &Path, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    understand(&path.display().to_string(), &text_of(path)?, sets, catalog, Looks { tests: true, ..Looks::default() })
}

/// As [`load`], for a pipeline that is to run on this machine: `look` sees it once it has no mistake, and the texts of
/// files that belong to it are part of its source. With `tests` the files of its tests are looked for too.
pub fn load_to_run(path: &Path, sets: &[String], catalog: &Catalog, tests: bool, look: Look) -> Result<Pipeline, Diagnostics> {
    understand(&path.display().to_string(), &text_of(path)?, sets, catalog, Looks { tests, look: Some(look), origin: None })
}

/// What is looked for on disk.
#[derive(Default)]
struct Looks<'a> {
    tests: bool,
    look: Option<Look<'a>>,
    /// Another folder that paths of the file may begin in.
    origin: Option<&'a Path>,
}

/// Checks a pipeline given as text; `name` is what messages call the file.
pub fn parse(name: &str, text: &str, sets: &[String], catalog: &Catalog) -> Result<Pipeline, Diagnostics> {
    understand(name, text, sets, catalog, Looks::default())
}

/// The contents of a pipeline file, without a check of their meaning: another version may have written the file.
pub fn contents(path: &Path) -> Result<Value, Diagnostics> {
    let text = text_of(path)?;
    // Only a file that was damaged gets here: a run writes YAML.
    let unread = |what: String| refused(path, format!("this is no YAML: {what}"));
    parse::read(text.strip_prefix('\u{feff}').unwrap_or(&text), 0).map(|(tree, _)| tree.json()).map_err(|e| unread(e.message))
}

fn understand(name: &str, text: &str, sets: &[String], catalog: &Catalog, looks: Looks) -> Result<Pipeline, Diagnostics> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.lines().all(|line| line.trim_start().starts_with('#') || line.trim().is_empty()) {
        let message = "the file is empty".into();
        let help = Some("a pipeline has at least `flow`, `iterations` and `nodes`".into());
        return Err(Diagnostics(vec![Diagnostic { code: Code::File, message, file: name.into(), line: 1, column: 1, help, source: None }]));
    }
    let Lineage { mut texts, broken } = family(Text { name: name.into(), text: text.into(), yaml: 0 });
    let files = texts.len();
    texts.extend(sets.iter().map(|set| parse::text(set)));
    let mut report = Report::new(&texts);
    let Some(mut tree) = parse::family_tree(files, broken, |_, _| (), &mut report) else { return Err(report.finish()) };
    report.kind(Code::Set);
    for (i, text) in texts.iter().enumerate().skip(files) {
        parse::apply(&mut tree, i, text, &mut report);
    }
    let folders: Vec<&Path> = texts[..files].iter().map(|text| folder(&text.name)).collect();
    let paths = paths::resolve(&mut tree, &folders, looks.origin, catalog);
    let Some(mut pipeline) = check(&tree, folders[0], looks.tests, catalog, &mut report) else { return Err(report.finish()) };
    pipeline.paths = paths;
    report.kind(Code::Missing);
    for mistake in looks.look.map(|look| look(&pipeline)).unwrap_or_default() {
        report.add(tree.deepest(pipeline.written(&mistake.at)).at, mistake.message, mistake.help);
    }
    if report.len() > 0 {
        return Err(report.finish());
    }
    if looks.look.is_some() {
        embed(&mut pipeline, catalog);
    }
    Ok(pipeline)
}

/// The folder of a file.
fn folder(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{catalog, GOOD, LOOPED};
    use crate::parse::MOST_BYTES;
    use crate::Input;

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
        assert_eq!(parse("x", &first.to_yaml("".as_ref()), &[], &catalog()).unwrap(), first);
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
                if let Err(diagnostics) = parse("x", &text, &[], &catalog) {
                    assert!(!diagnostics.0.is_empty());
                    diagnostics.to_string();
                }
            }
        }
    }

    #[test]
    fn a_hopeless_file_is_answered_within_bounds() {
        let nodes: String = (0..3000).map(|i| format!("  n{i}: {{ op: gruop, inputs: m{i} }}\n")).collect();
        let diagnostics = parse("x", &format!("flow: x\niterations: 1\nnodes:\n{nodes}"), &[], &catalog()).unwrap_err();
        assert_eq!(diagnostics.0.len(), 100);
        let folder = std::env::temp_dir().join(format!("flow-pipeline-{}", std::process::id()));
        std::fs::write(&folder, "# ".repeat(MOST_BYTES)).unwrap();
        let diagnostics = load(&folder, &[], &catalog()).unwrap_err().to_string();
        std::fs::remove_file(&folder).unwrap();
        assert!(diagnostics.contains("longer than 256 KiB"), "{diagnostics}");
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
            let diagnostics = parse("x", &GOOD.replacen(from, to, 1), &[], &catalog()).unwrap_err();
            assert_eq!(diagnostics.0.len(), 1, "{diagnostics}");
            assert!(diagnostics.0[0].message.contains(message), "{diagnostics}");
        }
    }
}
