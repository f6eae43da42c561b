//! A training session, from its first iteration to its summary: what `run`, `resume` and `replay` have in common.

use super::budget::Budget;
use super::decline::Watched;
use super::error::{Error, Result};
use super::machine::Machine;
use super::models::saved_start;
use super::output::CommandResult;
use super::progress::Progress;
use super::reproducibility::Promise;
use super::run_identity::{same, RunStart};
use super::summary::NextCommands;
use super::view::FollowingPages;
use crate::ops;
use flow_core::row;
use flow_dataflow::cluster::end::end_process;
use flow_dataflow::cluster::{Cluster, ClusterError, Meanwhile};
use flow_dataflow::context::RunState;
use flow_dataflow::feed::Feeds;
use flow_dataflow::figures::Figures;
use flow_dataflow::journal::Journal;
use flow_dataflow::lost;
use flow_dataflow::run::{run, Plan};
use flow_log::{Committer, Lock, NodeInfo, Replays, RunInfo, Status};
use flow_pipeline::{Node, Pipeline, Role};
use flow_policy::Policy;
use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Arc;

/// A training run that is ready to start.
pub struct TrainingSession<'a> {
    pub machine: &'a Machine,
    pub pipeline: Pipeline,
    pub policy: Option<Policy>,
    pub folder: flow_log::Run,
    /// The iteration to start with.
    pub first: u64,
    /// Nodes whose rows come from elsewhere.
    pub feeds: Feeds,
    /// What nodes with delayed readers had made before `first`.
    pub past: Feeds,
    /// The run whose rows are replayed, if nothing is played.
    pub replays: Option<Replays>,
    /// The figures of the iterations that an earlier part of the run committed.
    pub earlier: Vec<(u64, Figures)>,
    pub lock: Option<Lock>,
}

impl TrainingSession<'_> {
    /// Trains, and prints the summary.
    pub fn conduct(self) -> CommandResult {
        let budget = Arc::new(Budget::new(self.machine.budget, &self.earlier)?);
        let mut committer = Committer::new(self.folder.clone())?;
        committer.plan(self.pipeline.iterations);
        if self.policy.is_some() && self.folder.manifest()?.start.is_empty() {
            committer.note_start(saved_start(&self.pipeline, &self.folder)?)?;
        }
        let pages = self.machine.view.then(|| FollowingPages::begin(self.folder.root()));
        let (committer, iterations) = (Arc::new(Mutex::new(committer)), self.pipeline.iterations);
        let shared = RunState::default();
        let evaluations: Vec<String> = self.pipeline.nodes.iter().filter(|n| ops::is(n, Role::Measures)).map(|n| n.id.clone()).collect();
        let watched = watched(&self.pipeline);
        let progress = Arc::new(Progress::new(self.first, self.pipeline.iterations, &self.earlier, &evaluations, watched));
        interrupt(&shared, progress.clone())?;
        let (eye, purse, whole) = (progress.clone(), budget.clone(), shared.clone());
        let journal = Journal {
            run: Some(self.folder.clone()),
            committer: Some(committer.clone()),
            observer: Arc::new(move |committed| {
                eye.record(committed, &evaluations);
                if purse.spend(&committed.figures) {
                    whole.stop();
                }
            }),
        };
        let trained = self.pipeline.models.iter().find(|(_, model)| model["train"].is_object()).map(|(name, _)| name);
        // Each process would have the servers take versions as it goes.
        let takes_all = |model: &serde_json::Value| model["serve"].is_object() && model["lora"].is_null() && model["adapter"].is_null();
        let whole = self.pipeline.models.iter().find(|(_, model)| takes_all(model)).map(|(name, _)| name);
        let cluster = match self.machine.hosts()? {
            None => None,
            Some(_) if trained.is_some() => {
                let name = trained.map_or("", String::as_str);
                return Err(Error::Request(format!("`{name}` learns in a trainer, and that asks for one process: leave --hosts out; the trainer may have ranks on any number of hosts")));
            }
            Some(_) if whole.is_some() => {
                let name = whole.map_or("", String::as_str);
                return Err(Error::Request(format!("servers take all weights of `{name}` in place of their own, and that asks for one process: leave --hosts out, or give it `lora`")));
            }
            Some(hosts) => {
                let run = self.folder.root().canonicalize().map_err(Error::file(self.folder.root()))?;
                let news = serde_json::json!(RunStart { run, first: self.first, iterations });
                let meanwhile = Meanwhile { stopped: &|| shared.until().is_some(), tell: &|text| eprintln!("{text}") };
                let same = same(&hosts, self.machine.workers, &self.pipeline);
                match Cluster::join(&hosts, &same, news, &meanwhile) {
                    Ok(cluster) => Some(cluster),
                    Err(stopped @ ClusterError::Stopped) => {
                        committer.lock().finish(Status::Stopped)?;
                        eprintln!("{stopped}");
                        return Ok(ExitCode::from(130));
                    }
                    Err(error) => {
                        committer.lock().finish(Status::Failed(error.to_string()))?;
                        return Err(error.into());
                    }
                }
            }
        };
        let (replay_hint, played) = (replay_hint(&self.pipeline), played(&self.pipeline));
        let ended = run(Plan {
            cluster,
            workers: self.machine.workers as usize,
            first: self.first,
            updates: ops::updates(&self.pipeline),
            feeds: self.feeds,
            past: Arc::new(self.past),
            policy: self.policy,
            journal,
            stall: self.machine.stall(),
            shared: shared.clone(),
            ..Plan::new(self.pipeline, ops::find, ops::adds)
        });
        let summary = progress.finish(&self.folder.pipeline());
        drop(pages);
        let stopped = shared.until().is_some_and(|until| until < iterations);
        let status = match &ended {
            Err(failure) => Status::Failed(failure.to_string()),
            Ok(()) if stopped => Status::Stopped,
            Ok(()) => Status::Finished,
        };
        let root = self.folder.root().display();
        let lost = match &ended {
            Err(failure) => lost::write(&self.folder, failure.iteration, 0, &shared.take_lost(failure.iteration)).ok().flatten(),
            Ok(()) => None,
        };
        let errors = lost.as_ref().map_or(String::new(), |_| format!("; the episodes that failed stand in the table `errors` of {root}"));
        lost.into_iter().for_each(|lost| committer.lock().keep_lost(lost));
        let saved = committer.lock().finish(status);
        if let Err(failure) = ended {
            if self.folder.in_place().is_err() {
                return Err(failure.into());
            }
            let on = format!(
                "{} iterations are committed in {root}; they can be queried, and `flow resume {root}` goes on{errors}",
                summary.iterations
            );
            return Err(Error::from(failure).help(on));
        }
        saved?;
        drop(self.lock);
        let why = budget.over().filter(|_| stopped);
        if stopped {
            let said = why.as_ref().map(|why| format!("{why}: ")).unwrap_or_default();
            eprintln!("{said}stopped after {} iterations; they are committed, and `flow resume {root}` goes on", summary.iterations);
            if why.is_none() {
                return Ok(ExitCode::from(130));
            }
        }
        NextCommands { run: self.folder.root(), replays: self.replays.map(|r| r.run), stopped: why, played, replay_hint }
            .print(self.machine.format, &summary);
        Ok(ExitCode::SUCCESS)
    }
}

/// The nodes whose figures say whether a training falls away.
fn watched(pipeline: &Pipeline) -> Watched {
    let ids = |of: fn(&Node) -> bool| pipeline.nodes.iter().filter(|node| node.all().any(of)).map(|node| node.id.clone()).collect();
    Watched { players: ids(ops::acts), learners: ids(ops::learns_from_rewards), panels: ids(|node| ops::is(node, Role::Measures)) }
}

/// A setting by which a replay could judge the same rows in another way, if the log allows a replay.
fn replay_hint(pipeline: &Pipeline) -> Option<String> {
    let played = ops::unlogged(pipeline).is_empty();
    let setting = |n: &Node| Some(format!("nodes.{}.with.{}", n.id, (ops::operator(&n.op)?.hooks.replay_hint)(&n.with)?));
    pipeline.nodes.iter().filter(|_| played).find_map(setting)
}

/// What is promised of the rows, where models are computed on this device.
fn promise(pipeline: &Pipeline, device: &str) -> String {
    Promise::of(pipeline).map(|promise| promise.text(device)).unwrap_or_default()
}

/// A logged node whose rows are turns of episodes.
fn played(pipeline: &Pipeline) -> Option<String> {
    let mut logged = pipeline.nodes.iter().filter(|n| pipeline.log.contains(&n.id));
    let turns = |n: &&Node| ["action", "reward"].iter().all(|column| n.makes(ops::adds).iter().any(|added| added == column));
    logged.rfind(turns).map(|n| n.id.clone())
}

/// The part of the manifest that describes the pipeline.
pub fn info(pipeline: &Pipeline, policy: Option<&Policy>) -> RunInfo {
    let logged = pipeline.nodes.iter().filter(|n| pipeline.log.contains(&n.id));
    let columns = |node: &Node| {
        let name = row::NAME.iter().map(|column| column.to_string());
        row::in_order(&name.chain(node.makes(ops::adds)).collect::<Vec<_>>())
    };
    let catalog = ops::catalog();
    let upstream = |id: &str| pipeline.upstream(id, &catalog).into_iter().map(String::from).collect();
    let node = |n: &Node| NodeInfo {
        id: n.id.clone(),
        op: n.op.clone(),
        role: n.makers().iter().find_map(|n| ops::role(&n.op)),
        columns: columns(n),
        upstream: upstream(&n.id),
    };
    let nodes = logged.map(node).collect();
    let device = policy.map(|policy| policy.device().to_string()).unwrap_or_default();
    let delay = pipeline.nodes.iter().flat_map(|n| &n.inputs).filter_map(|i| i.staleness).max().unwrap_or(0);
    RunInfo {
        name: pipeline.name.clone(),
        nodes,
        iterations: pipeline.iterations,
        seed: pipeline.seed,
        keep: pipeline.keep.clone(),
        delay,
        promise: promise(pipeline, &device),
        acting: policy
            .map(|policy| policy.acting().iter().map(|(name, act)| (name.clone(), act.name().into())).collect())
            .unwrap_or_default(),
        device,
        ..RunInfo::default()
    }
}

/// The journal of a process that writes its share and leaves the commits to the first.
pub fn journal_of(folder: &flow_log::Run) -> Journal {
    Journal { run: Some(folder.clone()), committer: None, observer: Arc::new(|_| {}) }
}

/// The first Ctrl-C asks for a stop between two iterations, the second one ends the process.
fn interrupt(shared: &RunState, progress: Arc<Progress>) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(|e| Error::from(e).at("signals"))?;
    let shared = shared.clone();
    let watch = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                shared.programs.close();
                end_process(130);
            }
            progress.print_lines(|| eprintln!("\nstopping once this iteration is committed; again ends at once and drops it"));
            shared.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch)?;
    Ok(())
}
