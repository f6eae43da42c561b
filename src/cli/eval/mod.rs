//! `flow eval`: plays a frozen panel the way a run plays, and says how much of it is won within 1, 2, ... attempts.

mod recipe;
mod score;

pub use score::Score;

use super::error::{Error, Result};
use super::log_inputs::changes;
use super::machine::Machine;
use super::models;
use super::output::{finish, CommandResult, OutputFormat};
use super::session::info;
use crate::cli::candidates;
use crate::ops;
use clap::Args;
use flow_core::row;
use flow_dataflow::context::RunState;
use flow_dataflow::feed::{Feed, Feeds};
use flow_dataflow::journal::Journal;
use flow_dataflow::run::{run, Plan};
use flow_dataflow::Sink;
use flow_env::{Game, Panel};
use flow_log::{Committer, Status};
use flow_pipeline::Pipeline;
use flow_rollout::agent::EVALUATION_TEMPERATURE;
use flow_rollout::settings::EVALUATION_SEED;
use parking_lot::Mutex;
use recipe::recipe;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub struct EvalArgs {
    /// A run's folder, whose newest weights play; or, with --like, a folder with a model; none for a model that a
    /// server runs
    #[arg(required_unless_present = "like")]
    run: Option<PathBuf>,
    /// The frozen panel of tasks
    #[arg(long)]
    panel: PathBuf,
    /// The pipeline to play by; the run's own unless given
    #[arg(long, value_name = "PIPELINE")]
    like: Option<PathBuf>,
    /// Which of its nodes plays, if there are several: a rollout, or a loop with one
    #[arg(long)]
    node: Option<String>,
    /// Attempts at a task, until one succeeds; as many as the loop has unless given, and 1 without a loop
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: Option<u32>,
    /// Trials a task
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// Sampling temperature; 0 takes the likeliest
    #[arg(long, default_value_t = EVALUATION_TEMPERATURE)]
    temperature: f64,
    /// Turns after which an episode is cut; as in training unless given
    #[arg(long)]
    max_turns: Option<u32>,
    /// Plays with this run's memory, read as the pipeline reads its memory; a rollout without a loop reads one
    #[arg(long, value_name = "RUN")]
    memory: Option<PathBuf>,
    /// The seed of all draws; by default that of `evaluate`
    #[arg(long, default_value_t = EVALUATION_SEED)]
    seed: u64,
    /// Overrides a value of the played node, as `nodes.trial.with.reflect.keep=none`: `nodes.NODE.with` are settings of
    /// `evaluate`
    #[arg(long = "set", value_name = "PATH=VALUE", add = candidates::paths())]
    sets: Vec<String>,
    /// Keeps the rows in this folder, as a run that can be queried and shown
    #[arg(long)]
    out: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
}

impl EvalArgs {
    pub fn run(self) -> CommandResult {
        self.machine.require_one_process("an evaluation")?;
        let panel = Panel::load(&self.panel)?;
        let (trained, evaluation) = self.recipe()?;
        let shared = RunState::default();
        for (_, program) in ops::programs(&trained) {
            shared.programs.declare(program);
        }
        panel.verify(&shared.programs)?;
        let policy = models::start(&evaluation, self.machine.hardware()?, &models::Starts::default())?;
        // An override may have emptied the log.
        let node = evaluation.log.first().cloned().ok_or_else(|| Error::request("`log` must name the node that plays"))?;
        let sink = Sink::of([node.clone()].into());
        eprintln!("playing {} tasks of {}", panel.tasks.len(), panel.name);
        let trained_on: BTreeSet<String> = ops::games(&trained).filter_map(|(_, game)| Some(environment(&game.ok()?))).collect();
        if let Some(note) = unknown_environment(&trained_on, &panel) {
            eprintln!("note: {note}");
        }
        let folder = self
            .out
            .as_ref()
            .map(|out| flow_log::Run::create(out, &evaluation.to_yaml(out), &info(&evaluation, policy.as_ref())))
            .transpose()?;
        let committer = folder.clone().map(|folder| Committer::new(folder).map(|c| Arc::new(Mutex::new(c)))).transpose()?;
        let journal = Journal { run: folder, committer: committer.clone(), observer: Arc::new(|_| {}) };
        let version = self.version(&evaluation)?;
        let attempts = evaluation.node(&node).and_then(|n| n.with.raw()["attempts"].as_u64()).map_or(1, |attempts| attempts as u32);
        let memory_changes = self.remembered(&evaluation)?;
        let plan = Plan::new(evaluation, ops::find, ops::adds);
        run(Plan {
            workers: self.machine.workers as usize,
            feeds: memory_changes.clone(),
            initial: memory_changes.into(),
            policy,
            journal,
            stall: self.machine.stall(),
            sink: Some(sink.clone()),
            shared,
            ..plan
        })?;
        committer.map_or(Ok(()), |committer| committer.lock().finish(Status::Finished))?;
        let rows = row::sorted(&sink.take(&node))?;
        let subject = self.run.as_ref().or(self.like.as_ref()).map(|path| path.display().to_string()).unwrap_or_default();
        let score = Score::of(&panel, (subject, self.temperature, self.seed), (self.samples, attempts), rows.as_ref(), version)?;
        finish(&match self.machine.format {
            OutputFormat::Json => json!(score).to_string(),
            OutputFormat::Text => score.text(),
        })
    }

    /// What the memory held when its run ended: all of its changes in iteration 0, the iteration of the panel.
    fn remembered(&self, evaluation: &Pipeline) -> Result<Feeds> {
        let Some(path) = &self.memory else { return Ok(Feeds::new()) };
        let (folder, mut memory_changes) = (flow_log::Run::open(path)?, Feeds::new());
        for node in evaluation.nodes.iter().filter(|n| ops::remembers(n)) {
            let help = format!("`--memory` names a run whose `{}` remembers, and logs it", node.id);
            let changes = changes(node, &folder, &folder.manifest()?).map_err(|e| e.help(help))?;
            memory_changes.insert(
                node.id.clone(),
                Arc::new(move |iteration: u64| if iteration == 0 { changes(u64::MAX) } else { Ok(vec![]) }) as Feed,
            );
        }
        Ok(memory_changes)
    }

    /// Which version of its weights plays, if it is a run's.
    fn version(&self, evaluation: &Pipeline) -> Result<Option<u64>> {
        let (Some((model, settings)), Some(path)) = (evaluation.models.iter().next(), &self.run) else { return Ok(None) };
        let Some(run) = models::run_at(path)?.filter(|_| !ops::remote(settings)) else { return Ok(None) };
        Ok(models::newest_of(&run, model)?.map(|weights| weights.version))
    }

    /// The pipeline that trains, and the one that plays the panel as it does.
    fn recipe(&self) -> Result<(Pipeline, Pipeline)> {
        let own = self.run.as_ref().filter(|_| self.like.is_none()).map(|run| (run, run.join("pipeline.yaml")));
        if let Some((run, _)) = own.as_ref().filter(|(_, file)| !file.exists()) {
            let why = format!("{} is no run: it has no pipeline.yaml, which would say how to play", run.display());
            let help = models::pruned(run).unwrap_or_else(|| "name a pipeline that does: --like PIPELINE".into());
            return Err(Error::Request(why).help(help));
        }
        // One of the two is given.
        let file = own.map(|(_, file)| file).or_else(|| self.like.clone()).unwrap_or_default();
        let trained = flow_pipeline::load(&file, &[], &ops::replayed(Default::default()))?;
        let text = recipe(&trained, self).map_err(|e| e.at(file.display()))?;
        // That a panel is of tasks which are trained on is no mistake where that is asked for.
        let played = flow_pipeline::parse("what is evaluated", &text, &self.sets, &ops::replayed(Default::default()))?;
        Ok((trained, played))
    }
}

/// The name of a game's environment, with that of its program where it has one.
fn environment(game: &Game) -> String {
    game.program().map_or_else(|| game.env().to_owned(), |program| format!("{} {}", game.env(), program.name))
}

/// That the panel's tasks are of an environment which the pipeline has no tasks of: its policy has never read such texts.
fn unknown_environment(trained_on: &BTreeSet<String>, panel: &Panel) -> Option<String> {
    let measured: BTreeSet<String> = panel.tasks.iter().map(|task| environment(&task.game)).collect();
    let unknown: Vec<&str> = measured.difference(trained_on).map(String::as_str).collect();
    let known: Vec<&str> = trained_on.iter().map(String::as_str).collect();
    (!unknown.is_empty() && !known.is_empty()).then(|| {
        format!(
            "the panel {} has tasks of `{}`, and the pipeline plays `{}`: its policy was not trained on them; name a panel of `{}`, unless \
             transfer is what you measure",
            panel.name,
            unknown.join("`, `"),
            known.join("`, `"),
            known.join("` or `")
        )
    })
}
