//! One training, from the first iteration it makes to its summary: what `run`, `resume` and `replay` have in common.

use super::check::Format;
use super::progress::{Progress, Summary};
use super::together::{same, News};
use super::{answer, Outcome};
use crate::dataflow::cluster::end::end_process;
use crate::dataflow::cluster::{Cluster, ClusterError, Hosts, Meanwhile};
use crate::dataflow::context::Shared;
use crate::dataflow::feed::Feeds;
use crate::dataflow::journal::Journal;
use crate::dataflow::run::{run, Plan};
use crate::log::{self, Committer, Lock, NodeInfo, Replays, RunInfo, Status};
use crate::pipeline::{Node, Pipeline};
use crate::policy::Policy;
use crate::{ops, row};
use clap::Args;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What a machine gives to a training; never part of a pipeline.
#[derive(Args)]
pub struct Machine {
    /// Worker threads of the dataflow; the rows are the same on any number
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// A file with one `address:port` a line, one for each process of the run; all of them start with the same arguments
    /// but --process. The connections have no authentication: use loopback or a private network
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Which line of --hosts this process is, from 0
    #[arg(long, default_value_t = 0, requires = "hosts", value_name = "P")]
    pub process: usize,
    /// Threads of libtorch; one a core unless given here or by OMP_NUM_THREADS
    #[arg(long)]
    threads: Option<usize>,
    /// Ends the run when nothing at all has moved for this long, and says who waits for whom; 0 never does
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    stall: u64,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

impl Machine {
    /// The processes of the run, if it has more than one.
    pub fn hosts(&self) -> Result<Option<Hosts>, String> {
        let Some(path) = &self.hosts else { return Ok(None) };
        let named = |e: &dyn std::error::Error| format!("error: {}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        Hosts::parse(&text, self.process).map(Some).map_err(|e| named(&e))
    }

    /// Insists on one process.
    pub fn alone(&self, what: &str) -> Result<(), String> {
        match self.hosts {
            Some(_) => Err(format!("error: {what} plays nothing and runs in one process: leave --hosts out")),
            None => Ok(()),
        }
    }

    /// How long a run may stand still.
    pub fn stall(&self) -> Option<Duration> {
        (self.stall > 0).then(|| Duration::from_secs(self.stall))
    }

    pub fn threads(&self) -> usize {
        let named = std::env::var("OMP_NUM_THREADS").ok().and_then(|t| t.parse().ok());
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        self.threads.or(named).filter(|t| *t > 0).unwrap_or_else(cores)
    }
}

/// A training that is ready to start.
pub struct Session<'a> {
    pub machine: &'a Machine,
    pub pipeline: Pipeline,
    pub policy: Option<Policy>,
    pub folder: log::Run,
    /// The iteration to start with.
    pub first: u64,
    /// Nodes whose rows come from elsewhere.
    pub feeds: Feeds,
    /// What nodes with delayed readers had made before `first`.
    pub past: Feeds,
    /// The run whose rows are repeated, if nothing is played.
    pub replays: Option<Replays>,
    /// Success on the frozen panel before any training, where an earlier part of the run measured it.
    pub before: Option<f64>,
    pub lock: Option<Lock>,
}

impl Session<'_> {
    /// Trains, and says how it went.
    pub fn conduct(self) -> Outcome {
        let mut committer = Committer::new(self.folder.clone()).map_err(|e| format!("error: {e}"))?;
        committer.plan(self.pipeline.iterations);
        let (committer, iterations) = (Arc::new(Mutex::new(committer)), self.pipeline.iterations);
        let shared = Shared::default();
        interrupt(&shared)?;
        let progress = Arc::new(Progress::new(self.first, self.pipeline.iterations, self.before));
        let evaluations: Vec<String> = self.pipeline.nodes.iter().filter(|n| n.op == "evaluate").map(|n| n.id.clone()).collect();
        let eye = progress.clone();
        let journal = Journal {
            run: Some(self.folder.clone()),
            committer: Some(committer.clone()),
            observer: Arc::new(move |committed| eye.saw(committed, &evaluations)),
        };
        let cluster = match self.machine.hosts()? {
            None => None,
            Some(hosts) => {
                let run = self.folder.root().canonicalize().map_err(|e| format!("error: {e}"))?;
                let news = serde_json::json!(News { run, first: self.first, iterations });
                let meanwhile = Meanwhile { stopped: &|| shared.until().is_some(), tell: &|text| eprintln!("{text}") };
                let same = same(&hosts, self.machine.workers, &self.pipeline);
                match Cluster::join(&hosts, &same, news, &meanwhile) {
                    Ok(cluster) => Some(cluster),
                    Err(stopped @ ClusterError::Stopped) => {
                        committer.lock().finish(Status::Stopped).map_err(|e| format!("error: {e}"))?;
                        eprintln!("{stopped}");
                        return Ok(ExitCode::from(130));
                    }
                    Err(error) => {
                        committer.lock().finish(Status::Failed(error.to_string())).map_err(|e| format!("error: {e}"))?;
                        return Err(format!("error: {error}"));
                    }
                }
            }
        };
        let advantage = regraded(&self.pipeline);
        let ended = run(Plan {
            cluster,
            workers: self.machine.workers as usize,
            first: self.first,
            updates: ops::updates(&self.pipeline),
            feeds: self.feeds,
            past: self.past,
            policy: self.policy,
            journal,
            stall: self.machine.stall(),
            shared: shared.clone(),
            ..Plan::new(self.pipeline, ops::find, ops::adds)
        });
        let summary = progress.finish();
        let stopped = shared.until().is_some_and(|until| until < iterations);
        let status = match &ended {
            Err(failure) => Status::Failed(failure.to_string()),
            Ok(()) if stopped => Status::Stopped,
            Ok(()) => Status::Finished,
        };
        let kept = committer.lock().finish(status).map_err(|e| format!("error: {e}"));
        let root = self.folder.root().display();
        if let Err(failure) = ended {
            let on =
                format!("{} iterations are committed in {root}; they can be queried, and `flow resume {root}` goes on", summary.iterations);
            return Err(format!("error: {failure}\n{on}"));
        }
        kept?;
        drop(self.lock);
        if stopped {
            eprintln!("stopped after {} iterations; they are committed, and `flow resume {root}` goes on", summary.iterations);
            return Ok(ExitCode::from(130));
        }
        say(self.machine.format, self.folder.root(), self.replays.map(|r| r.run), advantage, &summary);
        Ok(ExitCode::SUCCESS)
    }
}

/// A node by which a replay could judge the same rows in another way, if the log allows a replay.
fn regraded(pipeline: &Pipeline) -> Option<String> {
    let played = pipeline.nodes.iter().filter(|n| ops::rolls_out(n)).all(|n| pipeline.log.contains(&n.id));
    pipeline.nodes.iter().find(|n| played && n.op == "advantage").map(|n| n.id.clone())
}

/// The summary, with what one may want to do next.
fn say(format: Format, root: &Path, replays: Option<String>, advantage: Option<String>, summary: &Summary) {
    let run = root.display().to_string();
    if format == Format::Json {
        let object = serde_json::json!({
            "run": run, "replays": replays, "iterations": summary.iterations, "success_before": summary.before, "success_after": summary.after, "failed": summary.failed, "seconds": summary.seconds,
        });
        return answer(&object.to_string());
    }
    let percent = |x: f64| format!("{:.1}%", 100.0 * x);
    let mut text = format!("{} iterations in {:.0} s -> {run}\n", summary.iterations, summary.seconds);
    if let (Some(before), Some(after)) = (summary.before, summary.after) {
        text.push_str(&format!("success on the frozen panel: {} before training, {} after\n", percent(before), percent(after)));
    }
    if summary.failed > 0 {
        text.push_str(&format!("{} episodes failed and were left out\n", summary.failed));
    }
    text.push_str("\nTry next:\n");
    if let Some(other) = replays {
        text.push_str(&format!("  flow diff {other} {run}\n"));
        return answer(&text);
    }
    if summary.failed > 0 {
        text.push_str(&format!(
            "  flow query {run} \"select cause, count(*) as episodes, any_value(error) as error from errors group by cause\"\n"
        ));
    }
    text.push_str(&format!(
        "  flow query {run} \"select node, iteration, value as success from metrics where name = 'success' order by all\"\n"
    ));
    text.push_str(&format!("  flow query {run} \"select task, sample, turn, action, reward from trajectories limit 20\"\n"));
    if let Some(node) = advantage {
        text.push_str(&format!("  flow replay {run} --set nodes.{node}.with.baseline=leave_one_out\n"));
    }
    answer(&text);
}

/// What the manifest says of a pipeline.
pub fn info(pipeline: &Pipeline) -> RunInfo {
    let logged = pipeline.nodes.iter().filter(|n| pipeline.log.contains(&n.id));
    let columns = |node: &Node| {
        let makes = node.makes(ops::adds);
        row::COLUMNS.iter().map(|c| c.name).filter(|c| row::NAME.contains(c) || makes.contains(c)).map(String::from).collect()
    };
    let upstream = |id: &str| Some(pipeline.upstream(id).into_iter().map(String::from).collect());
    let node = |n: &Node| NodeInfo { id: n.id.clone(), op: n.op.clone(), columns: columns(n), upstream: upstream(&n.id) };
    let nodes = logged.map(node).collect();
    let delay = pipeline.nodes.iter().flat_map(|n| &n.inputs).filter_map(|i| i.staleness).max().unwrap_or(0);
    RunInfo {
        name: pipeline.name.clone(),
        nodes,
        iterations: pipeline.iterations,
        seed: pipeline.seed,
        keep: pipeline.keep.clone(),
        delay,
        replays: None,
    }
}

/// The journal of a process that writes its share and leaves the commits to the first.
pub fn journal_of(folder: &log::Run) -> Journal {
    Journal { run: Some(folder.clone()), committer: None, observer: Arc::new(|_| {}) }
}

/// The first Ctrl-C asks for a stop between two iterations, the second one ends the process.
fn interrupt(shared: &Shared) -> Result<(), String> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(|e| format!("error: signals: {e}"))?;
    let shared = shared.clone();
    let watch = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                shared.outside.close();
                end_process(130);
            }
            eprintln!("\nstopping once the iteration in hand is committed; again to end at once, which drops it");
            shared.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map(drop).map_err(|e| format!("error: {e}"))
}
