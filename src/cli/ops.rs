//! `flow ops`: the operator table, for a person.

use super::candidates;
use super::error::Error;
use super::output::{finish, CommandResult};
use super::reference::reference;
use super::schema_text::{forms, items, settings, Setting};
use crate::ops;
use clap::Args;
use flow_core::row;
use flow_pipeline::{Delay, OperatorSpec};
use serde_json::Value;

#[derive(Args)]
pub struct OpsArgs {
    /// Explains this operator; `models` and `agents` explain what an entry of `models:` and of `agents:` may be
    #[arg(add = candidates::operators())]
    operator: Option<String>,
    /// Lists the columns instead, as Markdown
    #[arg(long, conflicts_with = "operator")]
    columns: bool,
    /// Everything about all operators and models, as Markdown: docs/reference.md
    #[arg(long, conflicts_with_all = ["operator", "columns"])]
    reference: bool,
}

impl OpsArgs {
    pub fn run(self) -> CommandResult {
        let catalog = ops::catalog();
        finish(&match self.operator.as_deref() {
            _ if self.columns => columns(),
            _ if self.reference => reference(&catalog)?,
            None => {
                let line = |name: &str, about: &str| format!("{name:<12} {about}\n");
                let all: String = catalog.operators.iter().map(|spec| line(spec.name, spec.about)).collect();
                format!("{all}\n`flow ops NAME` explains one, `flow ops models` the models, `flow ops agents` the agents.")
            }
            Some("models") => models(&catalog.model),
            Some("agents") => agents(&catalog.agent),
            Some(name) => match catalog.operator(name) {
                Some(spec) => explain(spec),
                None => {
                    let names: Vec<&str> = catalog.operators.iter().map(|o| o.name).collect();
                    return Err(Error::Request(format!("there is no operator `{name}`; there are {}", names.join(", "))));
                }
            },
        })
    }
}

/// Every column, as the table that lies in `schemas/`.
fn columns() -> String {
    let mut text = "# Columns\n\n| column | type | meaning |\n| --- | --- | --- |\n".to_owned();
    for column in row::COLUMNS {
        text.push_str(&format!("| `{}` | {} | {} |\n", column.name, column.kind.name(), column.about));
    }
    text.push_str("\n# Reasons\n\nWhat column `used` says besides `yes`.\n\n| reason | meaning |\n| --- | --- |\n");
    for (reason, about) in row::REASONS {
        text.push_str(&format!("| `{reason}` | {about} |\n"));
    }
    let defaults = row::COLUMNS.iter().filter_map(|c| Some(format!("`{}` {}", c.name, row::lines::default(c.name)?.json())));
    text + &format!("\nA row in a test's file may leave these out, and then has {}.\n", defaults.collect::<Vec<_>>().join(", "))
}

fn explain(spec: &OperatorSpec) -> String {
    let mut text = format!("{}: {}\n\ninputs\n", spec.name, spec.about);
    for port in spec.ports {
        let optional = if port.optional { " (optional)" } else { "" };
        let delay = if port.delay == Delay::Always { ", from an earlier iteration" } else { "" };
        text.push_str(&format!("  {:<10} {}{optional}{delay}\n", port.name, port.about));
        if !port.needs.is_empty() {
            text.push_str(&format!("             needs {}\n", port.needs.join(", ")));
        }
    }
    if spec.ports.is_empty() {
        text.push_str("  none\n");
    }
    let columns: Vec<&str> = spec.keeps.then_some("the input's columns").into_iter().chain(spec.adds.iter().copied()).collect();
    text.push_str(&format!("\nmakes\n  {}\n\nwith\n", columns.join(", ")));
    text + &listed(&settings(&spec.settings))
}

/// What an entry of `models:` may be.
/// What an agent is, and what its context and its answer are made of.
fn agents(schema: &Value) -> String {
    let mut text = format!("An entry of `agents:`, or the same settings inline under `agent`.\n\n{}", listed(&settings(schema)));
    for (list, what) in [("context", "\nA source of its `context` is one of these.\n"), ("answer", "\nA part of its `answer`:\n")] {
        text += what;
        for (about, shape) in forms(&items(schema, list)) {
            text += &format!("\n{about}\n{}", listed(&settings(&shape)));
        }
    }
    text
}

fn models(schema: &Value) -> String {
    let mut text = String::from("An entry of `models:` is one of these.\n");
    for (about, shape) in forms(schema) {
        text += &format!("\n{about}\n{}", listed(&settings(&shape)));
    }
    text
}

/// So wide is a line, and so far in stands what is said of a setting.
const WIDTH: usize = 110;
const INDENT: usize = 19;

fn listed(settings: &[Setting]) -> String {
    let (mut text, mut current_case) = (String::new(), &None);
    for setting in settings {
        let Setting { when, name, about, kind, words, required, default } = setting;
        if let Some(case) = when.as_ref().filter(|_| when != current_case) {
            text += &format!("\nand with `{case}`\n");
        }
        current_case = when;
        let mut description: Vec<String> = vec![about.trim().to_string()].into_iter().filter(|a| !a.is_empty()).collect();
        description.extend((!kind.is_empty()).then(|| format!("[{kind}]")));
        description.extend(required.then(|| "(required)".to_string()));
        description.extend(default.as_ref().map(|default| format!("(default {default})")));
        // A name that is too long for its column has the line for itself.
        let (head, first) = if name.len() + 3 > INDENT { (format!("  {name}\n"), "") } else { (String::new(), name.as_str()) };
        text += &head;
        text += &wrapped(&format!("  {first:<width$}", width = INDENT - 2), &description.join(" "));
        for (word, about) in words {
            let about = if about.is_empty() { String::new() } else { format!(": {about}") };
            text += &wrapped(&format!("{:INDENT$}- ", ""), &format!("{word}{about}"));
        }
    }
    text
}

/// The words of a text behind a lead, and its further lines as far in as the lead is wide.
fn wrapped(lead: &str, text: &str) -> String {
    let indent = lead.chars().count();
    let (mut out, mut width) = (lead.to_string(), indent);
    for (i, word) in text.split_whitespace().enumerate() {
        let long = word.chars().count();
        if i > 0 && width + 1 + long > WIDTH {
            out += &format!("\n{:indent$}", "");
            width = indent;
        } else if i > 0 {
            out.push(' ');
            width += 1;
        }
        out += word;
        width += long;
    }
    out.trim_end().to_string() + "\n"
}
