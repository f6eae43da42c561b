//! `flow graph`: the picture of a pipeline.

use super::output::{finish, CommandResult};
use crate::ops;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

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
        ops::run_code();
        let pipeline = flow_pipeline::load(&self.pipeline, &[], &ops::catalog())?;
        let format = match self.format {
            GraphFormat::Mermaid => flow_pipeline::PictureFormat::Mermaid,
            GraphFormat::Dot => flow_pipeline::PictureFormat::Dot,
        };
        finish(&flow_pipeline::draw(&pipeline, format))
    }
}
