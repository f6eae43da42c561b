//! `flow view`: runs in the browser. It reads the log alone, so it works beside a run that goes on, and on one that
//! died.

mod answers;
mod audit;
mod cells;
mod clusters;
mod compare;
mod credit;
mod curves;
mod episode;
mod experiments;
mod files;
mod folder;
mod follow;
mod graph;
mod guard;
mod imported;
mod iteration;
mod memory;
mod overview;
mod panel;
mod programs;
mod questions;
mod runs;
mod server;
mod study;

pub use files::{write, Written};
pub use follow::FollowingPages;
pub use runs::ServedRuns;

use super::error::{Error, Result};
use super::output::{answer, finish, CommandResult};
use super::query_limit;
use clap::Args;
use guard::Guard;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use study::ShownStudy;

#[derive(Args)]
pub struct ViewArgs {
    /// Runs, or one folder of them; all runs of `runs` unless given. Files of rollouts that `flow import` reads, or a
    /// folder of them, are shown, too, without a run that stays
    runs: Vec<PathBuf>,
    /// A folder of runs: each run in it is listed
    #[arg(long, value_name = "DIR", default_value = "runs", conflicts_with = "runs")]
    folder: PathBuf,
    /// A study's file: its tables are shown, with the runs behind each cell
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "folder"])]
    study: Option<PathBuf>,
    /// The port; a free one unless given
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serves other machines at this address, too; needs `--token`. The connection isn't encrypted
    #[arg(long, value_name = "ADDRESS", requires = "token")]
    host: Option<IpAddr>,
    /// The secret in the printed address, without which no browser is answered
    #[arg(long, value_name = "TEXT")]
    token: Option<String>,
    /// Starts the browser
    #[arg(long)]
    open: bool,
    /// Writes the pages as files into this folder and ends, as `flow report` does: they need no server and no network
    #[arg(long = "static", value_name = "DIR", conflicts_with_all = ["port", "host", "open"])]
    pages: Option<PathBuf>,
    /// How many of the newest iterations `--static` writes with their rows
    #[arg(long, value_name = "N", default_value_t = 2, requires = "pages")]
    rows: usize,
    /// Ends when standard input does: for the run that started it
    #[arg(long, hide = true)]
    until_closed: bool,
}

impl ViewArgs {
    pub fn run(self) -> CommandResult {
        if self.until_closed {
            follow::end_with_input()?;
        }
        let (named, _imported) = imported::imported(self.runs)?;
        let study = self.study.as_deref().map(ShownStudy::read).transpose()?;
        let runs = ServedRuns::new(named, study.as_ref().map_or(self.folder, ShownStudy::home))?.with(study);
        if self.token.as_ref().is_some_and(|token| token.len() < 8 || !token.chars().all(|c| c.is_ascii_alphanumeric())) {
            return Err(Error::request("--token needs eight letters and digits or more"));
        }
        query_limit::limit();
        if let Some(folder) = &self.pages {
            return finish(&write(&runs, folder, self.rows)?.text(None));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).max_blocking_threads(4).enable_all().build()?;
        runtime.block_on(async {
            let at = SocketAddr::new(self.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), self.port);
            let listener = tokio::net::TcpListener::bind(at)
                .await
                .map_err(|error| Error::Request(format!("{at}: {error}; --port names another one")))?;
            let at = listener.local_addr()?;
            let token = self.token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
            let address = format!("http://{at}/{token}");
            answer(&format!("{} at {address}", counted(runs.list().len())));
            if self.open {
                open(&address);
            }
            Ok::<_, Error>(server::serve(listener, runs, Guard::new(at, self.token)).await?)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn counted(runs: usize) -> String {
    match runs {
        1 => "1 run".into(),
        runs => format!("{runs} runs"),
    }
}

/// Starts the desktop's browser. Without one the address, which was printed, is enough.
fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(program).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if started.is_err() {
        super::output::warn(&format!("there is no `{program}` to start a browser with"));
    }
}

/// What a page is answered with.
type Answer = Result<serde_json::Value>;
