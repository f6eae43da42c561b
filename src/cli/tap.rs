//! `flow tap`: a node's rows as they pass.

use super::episode::{rows, EpisodePrinter};
use super::error::{Error, Result};
use super::output::{printed, CommandResult, OutputFormat};
use clap::Args;
use flow_log::{Lock, Manifest, Run, Status};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct TapArgs {
    /// The run's folder
    run: PathBuf,
    /// A logged node; `trajectories` for all of them joined
    node: String,
    /// Only rows for which this holds, as `reward > 0 and turn = 0`: SQL over the node's columns
    #[arg(long = "where", value_name = "SQL", default_value = "true")]
    condition: String,
    /// Follows the iterations of a running run until it ends
    #[arg(long)]
    follow: bool,
    /// As text that reads as episodes, or one JSON object a row
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// How often a run that goes on is looked at.
const POLL: Duration = Duration::from_millis(250);
/// How many times in a row a run must be found without a writer before it counts as cut off.
const PATIENCE: u32 = 8;
/// How many rows are asked for at once, so that a long run is never held in memory whole.
const ROWS: u64 = 4000;

impl TapArgs {
    pub fn run(self) -> CommandResult {
        let run = Run::open(&self.run)?;
        let manifest = run.manifest()?;
        let select = self.select(&run)?;
        let nodes = manifest.info.nodes.iter().map(|n| n.id.clone()).collect();
        printed(|out| self.follow(&run, manifest, &select, EpisodePrinter::new(nodes).all(true), out))
    }

    /// The query, once DuckDB has accepted it: errors are reported before any row is printed.
    fn select(&self, run: &Run) -> Result<String> {
        let tables = flow_log::tables(run)?;
        let Some(table) = tables.iter().find(|t| t.name == self.node) else {
            let there: Vec<&str> = tables.iter().map(|t| t.name.as_str()).collect();
            return Err(Error::Request(format!("`{}` isn't logged by this run; logged are {}", self.node, there.join(", "))));
        };
        let key: Vec<&str> = flow_core::row::NAME.into_iter().filter(|n| table.columns.iter().any(|(c, _)| c == n)).collect();
        // On lines of its own, so that a comment at its end ends there.
        let select = format!(
            "SELECT * FROM \"{}\" WHERE (\n{}\n) ORDER BY {}",
            self.node,
            self.condition,
            if key.is_empty() { "ALL".into() } else { key.join(", ") }
        );
        flow_log::query_within(run, 0..0, &select).map_err(|e| self.condition_error(&e.to_string()))?;
        Ok(select)
    }

    /// The error in the condition, with the columns of this node only: the other tables are no help here.
    fn condition_error(&self, message: &str) -> Error {
        let own = format!("  {} (", self.node);
        let lines: Vec<&str> = message.lines().filter(|line| !line.starts_with("  ") || line.starts_with(&own)).collect();
        Error::Request(format!("--where {}: {}", self.condition, lines.join("\n")))
    }

    fn follow(&self, run: &Run, mut manifest: Manifest, select: &str, mut printer: EpisodePrinter, out: &mut dyn Write) -> Result<()> {
        let mut next = 0;
        loop {
            for (first, last) in chunks(&manifest, &self.node, next) {
                let answer = flow_log::query_within(run, first..=last, select)?;
                for row in rows(&answer)? {
                    match self.format {
                        OutputFormat::Json => writeln!(out, "{}", serde_json::Value::Object(row))?,
                        OutputFormat::Text => out.write_all(printer.render(row).as_bytes())?,
                    }
                }
                out.flush()?;
            }
            next = manifest.next();
            if manifest.status != Status::Running {
                return Ok(());
            }
            if !self.follow {
                eprintln!("the run goes on; --follow goes with it");
                return Ok(());
            }
            match changed(run, &manifest)? {
                Some(more) => manifest = more,
                None => {
                    eprintln!("the run was cut off; `flow resume {}` goes on with it", self.run.display());
                    return Ok(());
                }
            }
        }
    }
}

/// The committed iterations from `next` on, as stretches (first, last) of some [`ROWS`] rows each.
fn chunks(manifest: &Manifest, node: &str, next: u64) -> Vec<(u64, u64)> {
    let logged = manifest.info.nodes.iter().any(|n| n.id == node);
    let mut chunks: Vec<(u64, u64)> = Vec::new();
    let mut rows = ROWS;
    for iteration in manifest.committed.iter().filter(|i| i.iteration >= next) {
        let more: u64 = iteration.parts.iter().filter(|p| !logged || p.node == node).map(|p| p.rows).sum();
        match chunks.last_mut().filter(|_| rows + more <= ROWS) {
            Some(chunk) => chunk.1 = iteration.iteration,
            None => {
                chunks.push((iteration.iteration, iteration.iteration));
                rows = 0;
            }
        }
        rows += more;
    }
    chunks
}

/// Waits for a manifest with more than `known`; none if no process writes the run any more.
fn changed(run: &Run, known: &Manifest) -> Result<Option<Manifest>> {
    let mut unlocked_polls = 0;
    loop {
        // Check the lock first: what the writer committed before it released the lock is then in the manifest.
        unlocked_polls = if Lock::held(run) { 0 } else { unlocked_polls + 1 };
        let manifest = run.manifest()?;
        if manifest.next() != known.next() || manifest.status != known.status {
            return Ok(Some(manifest));
        }
        // A run that has only just begun takes its lock in a moment.
        if unlocked_polls == PATIENCE {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_log::{Iteration, Part};

    #[test]
    fn long_runs_are_told_in_stretches() {
        let part = |node: &str, rows| Part {
            node: node.into(),
            iteration: 0,
            worker: 0,
            path: String::new(),
            rows,
            bytes: 0,
            sum: 0,
            start: None,
        };
        let iteration = |i, rows| Iteration {
            iteration: i,
            parts: vec![part("a", rows), part("b", 1)],
            metrics: Default::default(),
            weights: vec![],
            seconds: 0.0,
        };
        let committed = vec![iteration(0, 9), iteration(1, ROWS), iteration(2, ROWS / 2), iteration(3, ROWS / 2), iteration(5, 1)];
        let info = flow_log::RunInfo { nodes: vec![flow_log::NodeInfo { id: "a".into(), ..Default::default() }], ..Default::default() };
        let manifest = Manifest { info, status: Status::Running, start: vec![], committed };
        assert_eq!(chunks(&manifest, "a", 0), [(0, 0), (1, 1), (2, 3), (5, 5)]);
        assert_eq!(chunks(&manifest, "a", 3), [(3, 5)]);
        assert_eq!(chunks(&manifest, "trajectories", 2), [(2, 2), (3, 5)], "all nodes count");
        assert_eq!(chunks(&manifest, "a", 6), []);
    }
}
