//! `flow run`: trains.

use super::check::Format;
use super::progress::{Progress, Summary};
use super::{answer, Outcome};
use crate::dataflow::context::Shared;
use crate::dataflow::journal::Journal;
use crate::dataflow::run::{run, Plan};
use crate::log::{self, Committer, NodeInfo, RunInfo, Status};
use crate::pipeline::{self, Pipeline};
use crate::policy::{ModelSettings, Policy};
use crate::{ops, row};
use clap::Args;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Args)]
pub struct Run {
    /// The pipeline file
    pipeline: PathBuf,
    /// Overrides a value, as `nodes.update.with.lr=1e-4`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Worker threads of the dataflow; the rows are the same on any number
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// The run's folder; runs/<name> (and a number) unless given
    #[arg(long)]
    out: Option<PathBuf>,
    /// Checks everything, makes the models, and stops before the first iteration
    #[arg(long)]
    dry_run: bool,
    /// Threads of libtorch; one a core unless given here or by OMP_NUM_THREADS
    #[arg(long)]
    threads: Option<usize>,
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl Run {
    pub fn run(self) -> Outcome {
        let pipeline = pipeline::load(&self.pipeline, &self.sets, &ops::catalog()).map_err(|d| d.to_string())?;
        let policy = models(&pipeline, self.threads()).map_err(|e| format!("error: {e}"))?;
        if self.dry_run {
            answer(&format!("{} is ready to run: {} nodes, {} iterations", pipeline.name, pipeline.nodes.len(), pipeline.iterations));
            return Ok(ExitCode::SUCCESS);
        }
        let root = self.out.clone().unwrap_or_else(|| free(&pipeline.name));
        let folder = log::Run::create(&root, &pipeline.to_yaml(), &info(&pipeline)).map_err(|e| format!("error: {e}"))?;
        let committer = Arc::new(Mutex::new(Committer::new(folder.clone()).map_err(|e| format!("error: {e}"))?));
        let shared = Shared::default();
        interrupt(&shared)?;
        let progress = Arc::new(Progress::new(pipeline.iterations, false));
        let evaluations: Vec<String> = pipeline.nodes.iter().filter(|n| n.op == "evaluate").map(|n| n.id.clone()).collect();
        let eye = progress.clone();
        let journal = Journal {
            run: Some(folder),
            committer: Some(committer.clone()),
            observer: Arc::new(move |committed| eye.saw(committed, &evaluations)),
        };
        let models: Vec<String> = pipeline.models.keys().cloned().collect();
        let plan = Plan {
            pipeline,
            workers: self.workers as usize,
            policy: policy.clone(),
            find: ops::find,
            adds: ops::adds,
            journal,
            shared: shared.clone(),
        };
        let ended = run(plan);
        let summary = progress.finish();
        let status = match &ended {
            Err(failure) => Status::Failed(failure.to_string()),
            Ok(()) if shared.stopping() => Status::Stopped,
            Ok(()) => Status::Finished,
        };
        let kept = committer.lock().unwrap_or_else(PoisonError::into_inner).finish(status).map_err(|e| format!("error: {e}"));
        if let Err(failure) = ended {
            let run = root.display();
            return Err(format!("error: {failure}\n{} iterations are committed in {run} and can be queried", summary.iterations));
        }
        kept?;
        if let Some(policy) = &policy {
            for model in &models {
                save(policy, model, &root).map_err(|e| format!("error: {e}"))?;
            }
        }
        if shared.stopping() {
            eprintln!(
                "stopped after {} iterations; they are committed in {}, with the weights they made",
                summary.iterations,
                root.display()
            );
            return Ok(ExitCode::from(130));
        }
        self.say(&root, &summary)?;
        Ok(ExitCode::SUCCESS)
    }

    fn threads(&self) -> usize {
        let named = std::env::var("OMP_NUM_THREADS").ok().and_then(|t| t.parse().ok());
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        self.threads.or(named).filter(|t| *t > 0).unwrap_or_else(cores)
    }

    fn say(&self, root: &Path, summary: &Summary) -> Result<(), String> {
        let run = root.display().to_string();
        if self.format == Format::Json {
            let object = serde_json::json!({
                "run": run, "iterations": summary.iterations, "success_before": summary.before, "success_after": summary.after, "seconds": summary.seconds,
            });
            answer(&object.to_string());
            return Ok(());
        }
        let percent = |x: f64| format!("{:.1}%", 100.0 * x);
        let mut text = format!("{} iterations in {:.0} s -> {run}\n", summary.iterations, summary.seconds);
        if let (Some(before), Some(after)) = (summary.before, summary.after) {
            text.push_str(&format!("success on the frozen panel: {} before training, {} after\n", percent(before), percent(after)));
        }
        text.push_str("\nTry next:\n");
        text.push_str(&format!(
            "  flow query {run} \"select node, iteration, value as success from metrics where name = 'success' order by all\"\n"
        ));
        text.push_str(&format!("  flow query {run} \"select task, sample, turn, action, reward from trajectories limit 20\"\n"));
        text.push_str(&format!("  flow graph {}\n", self.pipeline.display()));
        answer(&text);
        Ok(())
    }
}

/// The first of runs/name, runs/name-2, ... that isn't there.
fn free(name: &str) -> PathBuf {
    let path = |n: u32| PathBuf::from("runs").join(if n == 1 { name.to_owned() } else { format!("{name}-{n}") });
    (1..).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1))
}

fn info(pipeline: &Pipeline) -> RunInfo {
    let logged = pipeline.nodes.iter().filter(|n| pipeline.log.contains(&n.id));
    let columns = |op: &str| {
        row::COLUMNS.iter().map(|c| c.name).filter(|c| row::NAME.contains(c) || ops::adds(op).contains(c)).map(String::from).collect()
    };
    let nodes = logged.map(|n| NodeInfo { id: n.id.clone(), op: n.op.clone(), columns: columns(&n.op) }).collect();
    RunInfo { name: pipeline.name.clone(), nodes, iterations: pipeline.iterations, seed: pipeline.seed }
}

/// The policy thread with the pipeline's models; none for a pipeline without models.
fn models(pipeline: &Pipeline, threads: usize) -> Result<Option<Policy>, String> {
    if pipeline.models.is_empty() {
        return Ok(None);
    }
    let mut models: BTreeMap<String, ModelSettings> = BTreeMap::new();
    for (name, value) in &pipeline.models {
        let mut settings = serde_json::from_value(value.clone()).map_err(|e| format!("models.{name}: {e}"))?;
        if let ModelSettings::Load(load) = &mut settings {
            load.load = newest(Path::new(&load.load), name).display().to_string();
        }
        models.insert(name.clone(), settings);
    }
    Policy::start(&models, &ops::words(pipeline)?, pipeline.seed, threads).map(Some).map_err(|e| e.to_string())
}

/// Where a model lies: `path` itself, or, if that is a run, the newest weights that the run left of the model.
fn newest(path: &Path, model: &str) -> PathBuf {
    let versions = std::fs::read_dir(path.join("weights")).into_iter().flatten().flatten();
    let version = versions.filter_map(|v| Some((v.file_name().to_str()?.parse::<u64>().ok()?, v.path()))).max();
    version.map_or(path.to_owned(), |(_, folder)| folder.join(model))
}

fn save(policy: &Policy, model: &str, root: &Path) -> Result<(), String> {
    let version = policy.versions(model).map_err(|e| e.to_string())?.last().copied().unwrap_or(0);
    policy.save(model, &root.join("weights").join(version.to_string()).join(model)).map_err(|e| e.to_string())
}

/// The first Ctrl-C asks for a stop between two iterations, the second one ends the process.
fn interrupt(shared: &Shared) -> Result<(), String> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(|e| format!("error: signals: {e}"))?;
    let shared = shared.clone();
    let watch = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(130);
            }
            eprintln!("\nstopping once the iteration in hand is committed; again to end at once, which drops it");
            shared.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map(drop).map_err(|e| format!("error: {e}"))
}
