//! A YAML file that is no pipeline: checked against the JSON Schema of its type, with every mistake located.

use super::check::{settings, Subject};
use super::marks::{self, FILE};
use super::parse::{self, family, text_of, Lineage, Report, Text, Tree};
use super::{paths, Diagnostics, Mistake};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Reads the file at `path` as a `T`, laid upon the file that it is `like`, with the `path=value` texts of `--set`
/// applied. `whole` is what messages call it (`the study`); `look` finds what a schema can't see in a file that fits
/// it, each mistake with the path of the value that is wrong. What the schema marks as a file begins in the folder of
/// the text that names it, in a `--set` in that of `path`.
pub fn document<T: DeserializeOwned + JsonSchema>(
    path: &Path,
    whole: &str,
    sets: &[String],
    look: impl FnOnce(&T) -> Vec<Mistake>,
) -> Result<T, Diagnostics> {
    let text = text_of(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let Lineage { mut texts, broken } = family(Text { name: path.display().to_string(), text: text.into(), yaml: 0 });
    let files = texts.len();
    texts.extend(sets.iter().map(|set| parse::text(set)));
    let mut report = Report::new(&texts);
    let Some(mut tree) = parse::family_tree(files, broken, Tree::write_out, &mut report) else { return Err(report.finish()) };
    for (i, text) in texts.iter().enumerate().skip(files) {
        parse::apply(&mut tree, i, text, &mut report);
    }
    if report.len() > 0 {
        return Err(report.finish());
    }
    let schema = schemars::schema_for!(T).to_value();
    let subject = Subject { whole: whole.into(), schema: &schema, owner: tree.at };
    settings::check(&tree, &subject, &mut report);
    if report.len() > 0 {
        return Err(report.finish());
    }
    let folder = |text: &Text| Path::new(&text.name).parent().unwrap_or(Path::new("")).to_owned();
    let mut folders: Vec<PathBuf> = texts[..files].iter().map(folder).collect();
    folders.resize(texts.len(), folders[0].clone());
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    for named in marks::marked(&tree.json(), &schema).iter().filter(|named| named.mark == FILE) {
        paths::rewritten(&mut tree, &named.path, &folders);
    }
    let read = match serde_json::from_value::<T>(tree.json()) {
        Ok(read) => read,
        Err(error) => {
            report.add(tree.at, format!("{whole}: {error}"), None);
            return Err(report.finish());
        }
    };
    for mistake in look(&read) {
        report.add(tree.deepest(mistake.at.iter().map(String::as_str)).at, mistake.message, mistake.help);
    }
    if report.len() > 0 {
        return Err(report.finish());
    }
    Ok(read)
}
