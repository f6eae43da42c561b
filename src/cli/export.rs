//! `flow export`: a run's figures in the files of another program.

use super::error::Error;
use super::output::{finish, CommandResult};
use super::python;
use clap::Args;
use flow_log::{LogError, Run};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ExportArgs {
    /// The runs' folders; one for --duckdb and --parquet
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    #[command(flatten)]
    to: Format,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Format {
    /// Writes an event file a run, in a folder of the run's name, for `tensorboard --logdir DIR`
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// Makes a DuckDB database with all tables of `flow query`: the logged nodes, `metrics`, `trajectories`,
    /// `provenance`
    #[arg(long, value_name = "FILE")]
    duckdb: Option<PathBuf>,
    /// Writes each of these tables as DIR/<table>.parquet
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
}

impl ExportArgs {
    pub fn run(self) -> CommandResult {
        match (&self.to.tensorboard, &self.to.duckdb, &self.to.parquet) {
            (Some(folder), ..) => self.tensorboard(folder),
            (_, Some(file), _) => self.tables(file, flow_log::export_duckdb),
            (.., Some(folder)) => self.tables(folder, flow_log::export_parquet),
            _ => Err(Error::request("name a format: --tensorboard, --duckdb or --parquet")),
        }
    }

    fn tables(&self, to: &Path, export: fn(&Run, &Path) -> Result<Vec<String>, LogError>) -> CommandResult {
        let [run] = self.runs.as_slice() else { return Err(Error::request("of several runs each is exported by itself: name one")) };
        let tables = export(&Run::open(run)?, to)?;
        finish(&format!("{} -> {}", tables.join(", "), to.display()))
    }

    fn tensorboard(&self, to: &Path) -> CommandResult {
        finish(&python::printed(python::command("flow_runs")?.args(["tensorboard", "--"]).arg(to).args(&self.runs))?)
    }
}
