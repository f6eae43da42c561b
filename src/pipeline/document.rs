//! A YAML file that is no pipeline: checked against the JSON Schema of its type, with every mistake located.

use super::check::{settings, Subject};
use super::parse::{self, text_of, Report, Text};
use super::{Diagnostics, Wrong};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads the file at `path` as a `T`, with the `path=value` texts of `--set` in place of what it says. `whole` is what messages call it (`the study`); `look` finds what a schema can't see in a
/// file that fits it, each mistake with the path of the value that is wrong, and may complete what was read.
pub fn document<T: DeserializeOwned + JsonSchema>(
    path: &Path,
    whole: &str,
    sets: &[String],
    look: impl FnOnce(&mut T) -> Vec<Wrong>,
) -> Result<T, Diagnostics> {
    let text = text_of(path)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let own = Text { name: path.display().to_string(), text: text.into(), yaml: 0 };
    let texts: Vec<Text> = std::iter::once(own).chain(sets.iter().map(|set| parse::text(set))).collect();
    let mut report = Report::new(&texts);
    let Some(mut tree) = report.read(0) else { return Err(report.finish()) };
    tree.write_out(&mut report);
    for (i, text) in texts.iter().enumerate().skip(1) {
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
    let mut read = match serde_json::from_value::<T>(tree.json()) {
        Ok(read) => read,
        Err(error) => {
            report.add(tree.at, format!("{whole}: {error}"), None);
            return Err(report.finish());
        }
    };
    for wrong in look(&mut read) {
        report.add(tree.deepest(wrong.at.iter().map(String::as_str)).at, wrong.message, wrong.help);
    }
    if report.len() > 0 {
        return Err(report.finish());
    }
    Ok(read)
}
