//! `flow query`: SQL over a run's committed iterations.

use super::{printed, Outcome};
use crate::log;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Csv,
    Json,
    Parquet,
}

#[derive(Args)]
pub struct Query {
    /// The run's folder
    run: PathBuf,
    /// One SELECT; the tables are the logged nodes, `metrics`, `trajectories` and `provenance`
    sql: String,
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

impl Query {
    pub fn run(self) -> Outcome {
        let run = log::Run::open(&self.run).map_err(|e| format!("error: {e}"))?;
        let answer = log::query(&run, &self.sql).map_err(|e| format!("error: {e}"))?;
        let format = match self.format {
            Format::Table => log::AnswerFormat::Table,
            Format::Csv => log::AnswerFormat::Csv,
            Format::Json => log::AnswerFormat::Json,
            Format::Parquet => log::AnswerFormat::Parquet,
        };
        printed(|out| Ok(log::print(&answer, format, out)?))
    }
}
