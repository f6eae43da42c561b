//! `flow graph`: the picture of a pipeline.

use super::{answer, Outcome};
use crate::{ops, pipeline};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Mermaid,
    Dot,
}

#[derive(Args)]
pub struct Graph {
    /// The pipeline file
    pipeline: PathBuf,
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Format,
}

impl Graph {
    pub fn run(self) -> Outcome {
        let pipeline = pipeline::load(&self.pipeline, &[], &ops::catalog()).map_err(|d| d.to_string())?;
        let format = match self.format {
            Format::Mermaid => pipeline::Format::Mermaid,
            Format::Dot => pipeline::Format::Dot,
        };
        answer(&pipeline::draw(&pipeline, format));
        Ok(ExitCode::SUCCESS)
    }
}
