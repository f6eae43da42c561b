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
    let required: Vec<&str> = spec.settings["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in spec.settings["properties"].as_object().into_iter().flatten() {
        let default = match &property["default"] {
            _ if required.contains(&name.as_str()) => " (required)".to_owned(),
            Value::Null => String::new(),
            value => format!(" (default {value})"),
        };
        let about = property["description"].as_str().unwrap_or("").replace('\n', " ");
        text.push_str(&format!("  {name:<14} {about}{default}\n"));
    }
    text
}
