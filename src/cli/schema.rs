//! `flow schema`: the JSON Schema of the pipeline language, for editors and for checks elsewhere.

use super::output::{answer, Outcome};
use crate::{ops, pipeline};
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub struct Schema {}

impl Schema {
    pub fn run(self) -> Outcome {
        answer(&serde_json::to_string_pretty(&pipeline::schema(&ops::catalog()))?);
        Ok(ExitCode::SUCCESS)
    }
}
