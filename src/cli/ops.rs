//! `flow ops`: the operator table, for a person.

use super::{answer, Outcome};
use crate::pipeline::{Delay, OperatorSpec};
use crate::{ops, row};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;

#[derive(Args)]
pub struct Ops {
    /// Explains this operator
    operator: Option<String>,
    /// Lists the columns instead, as Markdown
    #[arg(long, conflicts_with = "operator")]
    columns: bool,
}

impl Ops {
    pub fn run(self) -> Outcome {
        if self.columns {
            answer(&columns());
            return Ok(ExitCode::SUCCESS);
        }
        let catalog = ops::catalog();
        let Some(name) = self.operator else {
            let mut text = String::new();
            for spec in &catalog.operators {
                text.push_str(&format!("{:<12} {}\n", spec.name, spec.about));
            }
            answer(&format!("{text}\n`flow ops NAME` explains one."));
            return Ok(ExitCode::SUCCESS);
        };
        match catalog.operator(&name) {
            Some(spec) => answer(&explain(spec)),
            None => {
                let names: Vec<&str> = catalog.operators.iter().map(|o| o.name).collect();
                return Err(format!("error: there is no operator `{name}`; there are {}", names.join(", ")));
            }
        }
        Ok(ExitCode::SUCCESS)
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
        text.push_str(&format!("  {:<10} {}{optional}{delay}\n             needs {}\n", port.name, port.about, port.needs.join(", ")));
    }
    if spec.ports.is_empty() {
        text.push_str("  none\n");
    }
    let keeps = if spec.keeps { "the input's columns and " } else { "" };
    text.push_str(&format!("\nmakes\n  {keeps}{}\n\nwith\n", spec.adds.join(", ")));
    let cases = cases(&spec.settings);
    let of_a_case = |name: &String| cases.iter().any(|(_, then)| own(then).any(|(other, _)| other == name));
    let common = spec.settings["properties"].as_object().into_iter().flatten().filter(|(name, _)| !of_a_case(name));
    common.for_each(|(name, property)| text.push_str(&setting(name, property, &spec.settings)));
    for (when, then) in &cases {
        text.push_str(&format!("\nand with `{when}`\n"));
        own(then).for_each(|(name, property)| text.push_str(&setting(name, property, then)));
    }
    text
}

/// A setting as a line; `schema` says whether it is required.
fn setting(name: &str, property: &Value, schema: &Value) -> String {
    let required = schema["required"].as_array().into_iter().flatten().any(|required| required == name);
    let default = match &property["default"] {
        _ if required => " (required)".to_owned(),
        Value::Null => String::new(),
        value => format!(" (default {value})"),
    };
    let about = property["description"].as_str().unwrap_or("").replace('\n', " ");
    format!("  {name:<14} {about}{default}\n")
}

/// The values of a setting that bring settings of their own: `env: sokoban`, and what the schema then says.
fn cases(settings: &Value) -> Vec<(String, &Value)> {
    let case = |case| {
        let (key, value) = Value::get(case, "if")?["properties"].as_object()?.iter().next()?;
        let then = case.get("then")?;
        own(then).next()?;
        Some((format!("{key}: {}", value["const"].as_str()?), then))
    };
    settings["allOf"].as_array().into_iter().flatten().filter_map(case).collect()
}

/// The settings that have a place here. Those of another case are there too, as `false`.
fn own(then: &Value) -> impl Iterator<Item = (&String, &Value)> {
    then["properties"].as_object().into_iter().flatten().filter(|(_, property)| property.is_object())
}
