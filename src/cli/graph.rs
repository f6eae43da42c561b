//! `flow graph`: the picture of a pipeline.

use super::output::{answer, CommandResult};
use crate::{ops, pipeline};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Clone, Copy, ValueEnum)]
enum GraphFormat {
    Mermaid,
    Dot,
}

#[derive(Args)]
pub struct GraphArgs {
    /// The pipeline file
    pipeline: PathBuf,
    #[arg(long, value_enum, default_value = "mermaid")]
    format: GraphFormat,
}

impl GraphArgs {
    pub fn run(self) -> CommandResult {
        let pipeline = pipeline::load(&self.pipeline, &[], &ops::catalog())?;
        let format = match self.format {
            GraphFormat::Mermaid => pipeline::PictureFormat::Mermaid,
            GraphFormat::Dot => pipeline::PictureFormat::Dot,
        };
        answer(&pipeline::draw(&pipeline, format));
        Ok(ExitCode::SUCCESS)
    }
}
