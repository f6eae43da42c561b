//! `flow query`: SQL over a run's committed iterations.

use super::error::Error;
use super::output::{printed, printed_raw, CommandResult};
use super::{query_limit, vocabularies};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::PathBuf;

#[derive(Clone, Copy, ValueEnum)]
enum TableFormat {
    Table,
    Csv,
    Json,
    Parquet,
}

#[derive(Args)]
pub struct QueryArgs {
    /// The run's folder
    run: PathBuf,
    /// One SELECT; the tables are the logged nodes, `metrics`, `trajectories` and `provenance`. `-` reads it from
    /// standard input
    sql: String,
    #[arg(long, value_enum, default_value = "table")]
    format: TableFormat,
}

impl QueryArgs {
    pub fn run(self) -> CommandResult {
        let run = flow_log::Run::open(&self.run)?;
        let sql = match self.sql.as_str() {
            "-" => std::io::read_to_string(std::io::stdin())?,
            _ => self.sql,
        };
        query_limit::limit();
        let decode = vocabularies::decoder(&run);
        let format = match self.format {
            TableFormat::Table => flow_log::AnswerFormat::Table,
            TableFormat::Csv => flow_log::AnswerFormat::Csv,
            TableFormat::Json => flow_log::AnswerFormat::Json,
            TableFormat::Parquet => flow_log::AnswerFormat::Parquet,
        };
        match self.format {
            TableFormat::Table | TableFormat::Json => printed(|out| Ok(flow_log::query_to(&run, &sql, format, Some(&decode), out)?)),
            TableFormat::Parquet if std::io::stdout().is_terminal() => {
                Err(Error::request("Parquet is no text: write it to a file with `> answer.parquet`"))
            }
            TableFormat::Csv | TableFormat::Parquet => printed_raw(|out| Ok(flow_log::query_to(&run, &sql, format, Some(&decode), out)?)),
        }
    }
}
