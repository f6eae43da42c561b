//! `flow graph`: the picture of a pipeline.

use super::output::{answer, Outcome};
use crate::{ops, pipeline};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Clone, Copy, ValueEnum)]
enum Picture {
    Mermaid,
    Dot,
}

#[derive(Args)]
pub struct Graph {
    /// The pipeline file
    pipeline: PathBuf,
    #[arg(long, value_enum, default_value = "mermaid")]
    format: Picture,
}

impl Graph {
    pub fn run(self) -> Outcome {
        let pipeline = pipeline::load(&self.pipeline, &[], &ops::catalog())?;
        let format = match self.format {
            Picture::Mermaid => pipeline::PictureFormat::Mermaid,
            Picture::Dot => pipeline::PictureFormat::Dot,
        };
        answer(&pipeline::draw(&pipeline, format));
        Ok(ExitCode::SUCCESS)
    }
}
