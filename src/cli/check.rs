//! `flow check`: every mistake in one pass.

use super::{answer, Outcome};
use crate::{ops, pipeline};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

#[derive(Args)]
pub struct Check {
    /// Pipeline files
    #[arg(required = true)]
    pipelines: Vec<PathBuf>,
    /// Overrides a value, as `nodes.update.with.lr=1e-4`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl Check {
    pub fn run(self) -> Outcome {
        let catalog = ops::catalog();
        let mut wrong = Vec::new();
        for path in &self.pipelines {
            match pipeline::load(path, &self.sets, &catalog) {
                Ok(pipeline) if self.format == Format::Text => answer(&format!(
                    "{}: {} is fine: {} nodes, {} iterations",
                    path.display(),
                    pipeline.name,
                    pipeline.nodes.len(),
                    pipeline.iterations
                )),
                Ok(_) => {}
                Err(diagnostics) => {
                    if self.format == Format::Text {
                        eprint!("{diagnostics}");
                    }
                    wrong.extend(diagnostics.0);
                }
            }
        }
        if self.format == Format::Json {
            answer(&serde_json::to_string_pretty(&wrong).map_err(|e| e.to_string())?);
        }
        Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
