//! `flow replay`: repeats a run's credit and updates from its logged rollouts, without a game and without a generated
//! token.

use super::candidates;
use super::error::Error;
use super::machine::Machine;
use super::models;
use super::output::CommandResult;
use super::run_folder::free;
use super::session::{info, TrainingSession};
use super::source::{reduced, ReplaySource};
use crate::ops;
use clap::Args;
use flow_dataflow::feed::Feeds;
use flow_log::{Lock, Replays, RunInfo};
use flow_pipeline::{contents, differences, Pipeline};
use std::path::PathBuf;

#[derive(Args)]
pub struct ReplayArgs {
    /// The folder of the run to replay
    run: PathBuf,
    /// Another pipeline than the run's own; its rollouts are those of the same name, or the only one on each side
    #[arg(long, value_name = "PIPELINE")]
    with: Option<PathBuf>,
    /// Overrides a value, as `nodes.advantage.with.baseline=leave_one_out`; a map is merged into the one that is there, and null removes a key
    #[arg(long = "set", value_name = "PATH=VALUE", add = candidates::paths())]
    sets: Vec<String>,
    /// Runs the functions in Python that the run brings, though they haven't run here before
    #[arg(long)]
    run_code: bool,
    /// The new run's folder; runs/<name>-replay (and a number) unless given
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
}

impl ReplayArgs {
    pub fn run(self) -> CommandResult {
        self.machine.require_one_process("a replay")?;
        if self.run_code {
            ops::run_code();
        }
        let source = ReplaySource::open(&self.run)?;
        if self.with.is_none() {
            source.run.same_pipeline(&source.run.manifest()?)?;
        }
        let file = self.with.clone().unwrap_or_else(|| source.run.pipeline());
        // As many iterations as there are, unless fewer are asked for.
        let sets: Vec<String> = [format!("iterations={}", source.iterations()?)].into_iter().chain(self.sets.clone()).collect();
        let whole = flow_pipeline::load(&file, &sets, &ops::replayed(Default::default()))?;
        source.require_iterations(whole.iterations)?;
        let replays = source.rollouts(&whole, &file)?;
        // Once more, now that it is known which nodes have a log's columns.
        let catalog = ops::replayed(source.columns(&replays)?);
        let mut whole = flow_pipeline::load(&file, &sets, &catalog)?;
        whole.keep_files(&catalog);
        let pipeline = reduced(&whole, &replays);
        ops::functions_may_run(&pipeline).map_err(Error::Request)?;
        let feeds = source.feeds(&replays)?;
        let starts = source.starts(&pipeline)?;
        let policy = models::start(&pipeline, self.machine.hardware()?, &starts)?;
        idle(&source, &whole, &pipeline, &replays);
        let root = self.out.clone().unwrap_or_else(|| free(&format!("{}-replay", whole.name)));
        let about = RunInfo { replays: Some(replays.clone()), ..info(&pipeline, policy.as_ref()) };
        let folder = flow_log::Run::create(&root, &whole.to_yaml(&root), &about)?;
        let lock = Some(Lock::take(&folder)?);
        if let Some(policy) = &policy {
            models::save_start(policy, &pipeline, &folder)?;
        }
        let (machine, replays) = (&self.machine, Some(replays));
        TrainingSession { machine, pipeline, policy, folder, first: 0, feeds, past: Feeds::new(), replays, earlier: vec![], lock }.conduct()
    }
}

/// Says which settings differ from the run's and yet change nothing, because what they are about has happened already.
fn idle(source: &ReplaySource, whole: &Pipeline, pipeline: &Pipeline, replays: &Replays) {
    // A run whose own file can't be read can still be replayed with another one.
    let Ok(theirs) = contents(&source.run.pipeline()) else { return };
    let over = |path: &str| {
        let mut steps = path.split('.');
        match (steps.next(), steps.next()) {
            (Some("nodes"), Some(id)) => {
                let both = theirs["nodes"].get(id).is_some() && whole.node(id).is_some();
                both && (pipeline.node(id).is_none() || replays.nodes.contains_key(id))
            }
            (Some("models"), Some(name)) => theirs["models"].get(name).is_some() && whole.models.contains_key(name),
            _ => false,
        }
    };
    let idle: Vec<String> = differences(&theirs, &whole.source).into_iter().map(|d| d.path).filter(|path| over(path)).collect();
    if !idle.is_empty() {
        eprintln!(
            "note: nothing is played and the models begin as they did in {}, so these make no difference: {}",
            replays.run,
            idle.join(", ")
        );
    }
}
