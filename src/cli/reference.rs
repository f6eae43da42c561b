//! The reference of the pipeline language as Markdown, made from the operator table: `flow ops --reference`.

use super::error::Result;
use super::external::{self, STUDY};
use super::schema_text::{forms, items, settings, Setting};
use flow_pipeline::{Catalog, Delay, OperatorSpec};
use serde_json::Value;

/// The whole page.
///
/// # Errors
/// If the program `flow-study`, which has the schema of a study's file, isn't there.
pub fn reference(catalog: &Catalog) -> Result<String> {
    let mut text = String::from(
        "# Reference\n\nMade from the operator table by `make schema`; a test holds it to that. `flow ops NAME` prints a part of it, \
         [`schemas/columns.md`](../schemas/columns.md) has the columns, and editors complete and check pipelines by \
         [`schemas/flow.schema.json`](../schemas/flow.schema.json).\n\n## Operators\n\n",
    );
    for spec in &catalog.operators {
        text += &format!("- [`{0}`](#{0}): {1}\n", spec.name, spec.about);
    }
    catalog.operators.iter().for_each(|spec| text += &operator(spec));
    text += &format!(
        "\n## Agents\n\nAn entry of `agents:`, or the same settings inline under `agent`.\n\n{}\nA source of an agent's `context` is one of these.\n",
        table(&settings(&catalog.agent))
    );
    for (about, shape) in forms(&items(&catalog.agent, "context")) {
        text += &format!("\n{about}\n\n{}", table(&settings(&shape)));
    }
    text += &format!("\nA part of its `answer`:\n\n{}", table(&settings(&forms(&items(&catalog.agent, "answer"))[0].1)));
    text += "\n## Models\n\nAn entry of `models:` is one of these.\n";
    for (about, shape) in forms(&catalog.model) {
        text += &format!("\n{about}\n\n{}", table(&settings(&shape)));
    }
    let study = study()?;
    text += &format!(
        "\n## Studies\n\nThe file of `flow study`; [`schemas/study.schema.json`](../schemas/study.schema.json) is its schema.\n\n{}",
        table(&settings(&study))
    );
    for (name, about) in [
        ("RunSpec", "An entry of `runs`."),
        ("MeasurementSpec", "An entry of `measurements`."),
        ("TableSpec", "An item of `tables`."),
        ("RowSpec", "One of its `rows`."),
        ("ColumnSpec", "One of its `columns`."),
    ] {
        let mut shape = study["$defs"][name].clone();
        shape["$defs"] = study["$defs"].clone();
        text += &format!("\n{about}\n\n{}", table(&settings(&shape)));
    }
    Ok(text)
}

/// The schema of a study's file, one that is `like` no other.
fn study() -> Result<Value> {
    let output = external::command(STUDY)?.arg("--schema").output()?;
    let mut schema: Value = serde_json::from_slice(&output.stdout)?;
    schema["required"] = schema["then"]["required"].take();
    // `like` and `for`, which any file may have, are in the pages.
    let shapes = schema["$defs"].as_object_mut().into_iter().flat_map(|shapes| shapes.values_mut());
    shapes.filter_map(|shape| shape["properties"].as_object_mut()).for_each(|all| drop(all.remove("for")));
    if let Some(all) = schema["properties"].as_object_mut() {
        all.remove("like");
    }
    Ok(schema)
}

fn operator(spec: &OperatorSpec) -> String {
    let mut text = format!("\n## {}\n\n{}.\n\n", spec.name, sentence(spec.about));
    if spec.ports.is_empty() {
        text += "It has no inputs.";
    } else {
        text += "| input | rows | columns that it needs |\n| --- | --- | --- |\n";
        for port in spec.ports {
            let name = if port.name == "*" { "any names".to_string() } else { format!("`{}`", port.name) };
            let optional = if port.optional { "; may be left out" } else { "" };
            let delay = match port.delay {
                Delay::Never => "",
                Delay::Either => "; of this iteration or of an earlier one",
                Delay::Always => "; of an earlier iteration",
            };
            text += &format!("| {name} | {}{optional}{delay} | {} |\n", cell(port.about), quoted(port.needs));
        }
    }
    text += &match (spec.keeps, spec.adds) {
        (true, []) => "\nIt makes the columns of its input.".into(),
        (true, adds) => format!("\nIt makes the columns of its input and {}.", quoted(adds)),
        (false, adds) => format!("\nIt makes {}.", quoted(adds)),
    };
    if spec.loops {
        text += " It may stand in a loop.";
    }
    let all = settings(&spec.settings);
    if all.is_empty() {
        return text + "\n";
    }
    text + "\n\n" + &table(&all)
}

fn table(settings: &[Setting]) -> String {
    let mut text = String::from("| setting | default | meaning |\n| --- | --- | --- |\n");
    for Setting { when, name, about, kind, words, required, default } in settings {
        let default = match default {
            _ if *required => "*required*".to_string(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        let kind = if kind.is_empty() { String::new() } else { format!(" *{kind}*") };
        let word = |(word, about): &(String, String)| match about.is_empty() {
            true => format!("<br>`{word}`"),
            false => format!("<br>`{word}`: {}", cell(about)),
        };
        let words: String = words.iter().map(word).collect();
        let when = when.as_ref().map(|case| format!("With `{case}`. ")).unwrap_or_default();
        text += &format!("| `{name}` | {default} | {when}{}{kind}{words} |\n", cell(about));
    }
    text
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

/// With a capital and without a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// A text that stays in its cell, and is no HTML.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
