//! `flow schema`: the JSON Schema of the pipeline language, or of a study's file, for editors and for checks elsewhere.

use super::external::{become_program, STUDY};
use super::output::{finish, CommandResult};
use crate::ops;
use clap::Args;

#[derive(Args)]
pub struct SchemaArgs {
    /// The schema of a study's file, in place of a pipeline's
    #[arg(long)]
    study: bool,
}

impl SchemaArgs {
    pub fn run(self) -> CommandResult {
        if self.study {
            return become_program(STUDY, &["--schema".into()]);
        }
        finish(&serde_json::to_string_pretty(&flow_pipeline::schema(&ops::catalog()))?)
    }
}
