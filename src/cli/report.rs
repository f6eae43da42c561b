//! `flow report`: the pages of `flow view` as files that need no server and no network.

use super::error::{Error, Result};
use super::output::{finish, CommandResult, OutputFormat};
use super::query_limit;
use super::tokens::TokenCounts;
use super::view::{write, ServedRuns, Written};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct ReportArgs {
    /// The runs' folders. Runs of one pipeline and several seeds are one curve with a band
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The folder to write; `report` in the run's folder, or here for several runs, unless given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How many of the newest iterations are written with their rows
    #[arg(long, value_name = "N", default_value_t = 2)]
    rows: usize,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// The written pages.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct ReportAnswer {
    #[serde(flatten)]
    written: Written,
    /// How many runs they show.
    runs: usize,
    tokens: TokenCounts,
}

impl ReportArgs {
    pub fn run(self) -> CommandResult {
        query_limit::limit();
        let out = match (self.out, self.runs.as_slice()) {
            (Some(out), _) => out,
            (None, [only]) => only.join("report"),
            (None, _) => "report".into(),
        };
        let served = ServedRuns::new(self.runs, PathBuf::new())?;
        let manifests = served.list().iter().map(|run| Ok((run.folder.clone(), run.manifest()?))).collect::<Result<Vec<_>>>()?;
        if let Some((folder, _)) = manifests.iter().find(|(_, manifest)| manifest.committed.is_empty()) {
            return Err(Error::Request(format!("{folder} has no committed iteration yet: there is nothing to show")));
        }
        let written = write(&served, &out, self.rows).map_err(|error| error.help("--out DIR names another place"))?;
        let tokens = TokenCounts::of(manifests.iter().map(|(_, manifest)| manifest.as_ref()));
        let runs = manifests.len();
        finish(&match self.format {
            OutputFormat::Json => serde_json::to_string(&ReportAnswer { written, runs, tokens })?,
            OutputFormat::Text => {
                let count = if runs == 1 { "1 run".into() } else { format!("{runs} runs") };
                format!("{count}: {}", written.text(tokens.line()))
            }
        })
    }
}
