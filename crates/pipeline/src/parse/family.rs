//! `like: FILE`: a pipeline, or a study, with only the differences from another one, which may itself be like a third.

use super::file::text_of;
use super::read::read;
use super::report::{Report, Text};
use super::tree::{Location, Tree};
use crate::Code;
use std::path::{Path, PathBuf};

/// The key that names the file.
pub const LIKE: &str = "like";

/// More files than this are one that is like itself, by links.
const MOST_FILES: usize = 16;

/// The texts of a file and of the files that it is `like`, itself first.
pub struct Lineage {
    pub texts: Vec<Text>,
    /// Why the file that the last of them is `like` can't be read: the place of the `like`, the fault, and what to do.
    pub broken: Option<(Location, String, Option<String>)>,
}

/// The text and those of the files that it is like, one after the other. A text that isn't YAML is the last one: the
/// parser reports it.
pub fn family(own: Text) -> Lineage {
    let mut family = Lineage { texts: vec![own], broken: None };
    let mut known: Vec<PathBuf> = vec![absolute(Path::new(&family.texts[0].name))];
    loop {
        let last = family.texts.len() - 1;
        let Ok((tree, _)) = read(&family.texts[last].text, last) else { return family };
        let Some(like) = tree.get(LIKE).filter(|like| !like.is_null()) else { return family };
        let Some(name) = like.text() else {
            let message = format!("`{LIKE}` must name a file, found {}", like.called());
            family.broken = Some((like.at, message, None));
            return family;
        };
        let path = Path::new(&family.texts[last].name).parent().unwrap_or(Path::new("")).join(name);
        let whole = absolute(&path);
        if known.contains(&whole) || known.len() == MOST_FILES {
            let help = Some("a file that others are like says everything itself".to_owned());
            family.broken = Some((like.at, format!("by way of `{name}` this file would be like itself"), help));
            return family;
        }
        known.push(whole);
        match text_of(&path) {
            Ok(text) => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
                family.texts.push(Text { name: flow_core::files::tidy(&path).display().to_string(), text, yaml: 0 });
            }
            Err(error) => {
                let reason = error.0.first().map(|d| d.message.clone()).unwrap_or_default();
                let help = Some(format!(
                    "looked for {}; paths begin in the folder of the file that names them",
                    flow_core::files::tidy(&path).display()
                ));
                family.broken = Some((like.at, format!("there is no file `{name}` to be like: {reason}"), help));
                return family;
            }
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| std::env::current_dir().unwrap_or_default().join(path))
}

/// The tree of the first `files` texts, each laid upon the one that it is like, after what `prepare` does with it; none
/// where one of them can't be read, which is reported.
pub fn family_tree(
    files: usize,
    broken: Option<(Location, String, Option<String>)>,
    prepare: impl Fn(&mut Tree, &mut Report),
    report: &mut Report,
) -> Option<Tree> {
    let read = |text| {
        let mut tree = report.read(text)?;
        prepare(&mut tree, report);
        Some(tree)
    };
    // All are read, so that one look shows all that is wrong.
    let trees: Vec<Option<Tree>> = (0..files).map(read).collect();
    let whole = broken.is_none();
    if let Some((at, message, help)) = broken {
        let before = report.kind(Code::Like);
        report.add(at, message, help);
        report.kind(before);
    }
    let mut trees = trees.into_iter().collect::<Option<Vec<Tree>>>()?.into_iter().rev();
    let mut tree = trees.next()?;
    for over in trees {
        // What a file tests is its own.
        tree.remove("tests");
        tree.lay(over);
    }
    tree.remove(LIKE);
    whole.then_some(tree)
}
