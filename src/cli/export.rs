//! `flow export`: a run's figures in the files of another program.

use super::error::{Error, Result};
use super::events::Events;
use super::output::{finish, CommandResult};
use clap::Args;
use flow_core::files;
use flow_core::printable::shell_word;
use flow_log::{LogError, Run};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

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

/// What the file is called. The same name each time, so that a later export takes the place of an earlier one.
const FILE: &str = "events.out.tfevents.flow";

impl ExportArgs {
    pub fn run(self) -> CommandResult {
        match (&self.to.tensorboard, &self.to.duckdb, &self.to.parquet) {
            (Some(folder), ..) => self.tensorboard(folder),
            (_, Some(file), _) => self.tables(file, flow_log::export_duckdb),
            (.., Some(folder)) => self.tables(folder, flow_log::export_parquet),
            _ => Err(Error::request("name a format: --tensorboard, --duckdb or --parquet")),
        }
    }

    fn tables(&self, to: &Path, export: fn(&Run, &Path) -> std::result::Result<Vec<String>, LogError>) -> CommandResult {
        let [run] = self.runs.as_slice() else { return Err(Error::request("of several runs each is exported by itself: name one")) };
        let tables = export(&Run::open(run)?, to)?;
        finish(&format!("{} -> {}", tables.join(", "), to.display()))
    }

    fn tensorboard(&self, to: &Path) -> CommandResult {
        let mut names: Vec<String> = Vec::new();
        let mut written = 0;
        for folder in &self.runs {
            let run = Run::open(folder)?;
            let name = free(&names, folder);
            let into = to.join(&name);
            std::fs::create_dir_all(&into).map_err(Error::file(&into))?;
            written += events(&run, &into.join(FILE))?;
            names.push(name);
        }
        let (runs, dir) = (names.len(), shell_word(&to.display().to_string()));
        let plural = if runs == 1 { "" } else { "s" };
        finish(&format!("{written} numbers of {runs} run{plural} -> {}\n\nTry next:\n  tensorboard --logdir {dir}", to.display()))
    }
}

/// The run's name among those of the others: its folder's, and a number if another has that already.
fn free(names: &[String], folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
    let name = whole.file_name().map_or("run".into(), |name| name.to_string_lossy().into_owned());
    let nth = |n: usize| if n == 1 { name.clone() } else { format!("{name}-{n}") };
    (1..).map(nth).find(|name| !names.contains(name)).unwrap_or_default()
}

/// Writes every figure of every committed iteration; answers with their number.
fn events(run: &Run, path: &Path) -> Result<usize> {
    let manifest = run.manifest()?;
    let file = run.root().join("manifest.json");
    let ended = std::fs::metadata(&file).and_then(|m| m.modified()).map_err(Error::file(&file))?;
    let ended = ended.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    // The manifest was written last when the last iteration was committed; before that each took its seconds.
    let mut time = ended - manifest.committed.iter().map(|i| i.seconds).sum::<f64>();
    let out = BufWriter::new(File::create(path).map_err(Error::file(path))?);
    let mut events = Events::new(out, time).map_err(Error::file(path))?;
    let pipeline = files::text(&run.pipeline(), 64 << 20).map_err(Error::file(&run.pipeline()))?;
    // Four spaces make a block of code in Markdown.
    let code: String = pipeline.lines().map(|line| format!("    {line}\n")).collect();
    events.text(time, "pipeline", &code).map_err(Error::file(path))?;
    let mut count = 0;
    for iteration in &manifest.committed {
        time += iteration.seconds;
        let named = |(node, figures): (&String, &std::collections::BTreeMap<String, f64>)| {
            figures.iter().map(|(name, value)| (format!("{node}/{name}"), *value)).collect::<Vec<_>>()
        };
        let figures: Vec<(String, f64)> = iteration.metrics.iter().flat_map(named).collect();
        count += figures.len();
        let numbers = figures.iter().map(|(tag, value)| (tag.as_str(), *value));
        events.numbers(time, iteration.iteration, numbers).map_err(Error::file(path))?;
    }
    events.finish().map_err(Error::file(path))?;
    Ok(count)
}
