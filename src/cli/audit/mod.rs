//! `flow audit`: goes back to turns that were logged, tries their answers again with the weights of that time, and says
//! how their credit agrees with their measured worth.

mod draw;
mod figures;
mod play;
mod source;

pub use figures::Figures;

use super::error::{Error, Result};
use super::machine::Machine;
use super::models;
use super::output::{answer, finish, CommandResult, OutputFormat};
use crate::dataflow::context::RunState;
use crate::ops;
use crate::rollout::action::Decode;
use crate::rollout::sampler::Sampler;
use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use clap::{Args, ValueEnum};
use draw::{draw, restored, Draw, Restored, Rule, Turn};
use flow_core::files;
use flow_env::Worlds;
use flow_log::Run;
use serde::Serialize;
use serde_json::{json, Value};
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

/// Turns whose rows are written at a time.
const TURNS: usize = 16;

/// What is tried at a turn.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Answers {
    /// The logged answer, and the policy's own draws
    Logged,
    /// Every admissible answer besides: with constrained decoding
    All,
}

#[derive(Args)]
pub struct AuditArgs {
    /// The run's folder; its rollout must be logged, and its weights kept (`keep: { every: N }` in the pipeline)
    run: PathBuf,
    /// How many turns are audited; a longer audit goes on with a shorter one
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    turns: u32,
    /// How turns are drawn, among turns with kept weights
    #[arg(long, value_enum, default_value = "uniform")]
    by: Rule,
    /// Which answers are played at each turn
    #[arg(long, value_enum, default_value = "logged")]
    answers: Answers,
    /// Plays of each answer to the end of the episode; the policy's own draws get as many
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    plays: u32,
    /// The column with the credit
    #[arg(long, default_value = "advantage")]
    credit: String,
    /// The discount a turn of rewards from the turn on
    #[arg(long, default_value_t = 1.0)]
    gamma: f64,
    /// Which node played, if several are logged
    #[arg(long)]
    node: Option<String>,
    /// Plays no more episodes than this; the same command again goes on
    #[arg(long, value_name = "EPISODES")]
    budget: Option<usize>,
    /// The seed of the drawn turns and of the plays
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The audit's name, in the table `audit` of the run: one for each choice of settings
    #[arg(long, default_value = "audit", value_parser = name)]
    name: String,
    /// Prints the cost, and plays nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    machine: Machine,
}

/// A name that a folder can have.
fn name(text: &str) -> std::result::Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.into()),
        false => Err("letters, digits, `-` and `_` make one".into()),
    }
}

/// The file with an audit's settings, in its folder.
const SETTINGS: &str = "settings.json";

/// The settings that an audit was made with; none where there is no such file.
///
/// # Errors
/// If the file can't be read.
pub fn settings_of(run: &Run, name: &str) -> Result<Option<Value>> {
    let path = run.audit(name).join(SETTINGS);
    if !path.exists() {
        return Ok(None);
    }
    let text = files::text(&path, 1 << 20).map_err(Error::file(&path))?;
    Ok(Some(serde_json::from_str(&text).map_err(|error| Error::from(error).at(path.display()))?))
}

impl AuditArgs {
    pub fn run(self) -> CommandResult {
        self.machine.alone("an audit")?;
        if !(0.0..=1.0).contains(&self.gamma) {
            return Err(Error::Request(format!("--gamma is {}, but must lie between 0 and 1", self.gamma)));
        }
        let source = Source::open(&self.run, self.node.as_deref())?;
        let drawn = draw(&source.run, &source.table, &self.credit, self.by, &source.weights, self.turns as usize, self.seed)?;
        self.drawable(&source, &drawn)?;
        // Two processes would write the same files.
        let _lock = match self.dry_run {
            true => None,
            false => Some(flow_log::Lock::of(&flow_log::audit_folder(&source.run, &self.name)?)?),
        };
        let done = self.done(&source)?;
        let left: Vec<&Turn> = drawn.turns.iter().filter(|turn| !done.contains(&turn.hash())).collect();
        let ways = restored(&source.run, &source.table, &left.iter().map(|turn| (*turn).clone()).collect::<Vec<_>>())?;
        let cost = self.cost(&source, &drawn, &done, &ways)?;
        if self.dry_run {
            return finish(&cost);
        }
        eprintln!("{cost}");
        let waiting = if left.is_empty() { 0 } else { self.play(&source, &left, &ways, done.len())? };
        let figures = Figures::of(&source.run, &self.name)?;
        match self.machine.format {
            OutputFormat::Json => {
                let mut figures = figures.json();
                figures["run"] = json!(self.run.display().to_string());
                figures["audit"] = json!(self.name);
                figures["credit"] = json!(self.credit);
                figures["left"] = json!(waiting);
                answer(&figures.to_string());
            }
            OutputFormat::Text => {
                let more =
                    if waiting > 0 { format!("{waiting} turns are left: the same command goes on with them\n") } else { String::new() };
                answer(&(figures.text(&self.credit) + &more));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Refuses a draw without turns, with the reason.
    fn drawable(&self, source: &Source, drawn: &Draw) -> Result<()> {
        let run = self.run.display();
        if drawn.credited == 0 {
            return Err(Error::Request(format!(
                "no turn of `{}` in {run} has a `{}`: name the node that makes it in `log`",
                source.table, self.credit
            )));
        }
        if drawn.turns.is_empty() {
            let versions: Vec<String> = source.weights.keys().map(u64::to_string).collect();
            let why = format!(
                "{run} has {} turns with a `{}`, and the weights of none of them: it has versions {}",
                drawn.credited,
                self.credit,
                versions.join(", ")
            );
            return Err(Error::Request(why)
                .help("`keep: { every: 1 }` in a pipeline keeps the weights of each iteration, `every: 10` of each tenth"));
        }
        if self.answers == Answers::All && source.play.agent.decode != Decode::Constrained {
            let why = "--answers all needs the admissible actions, which are logged with `decode: constrained` alone";
            return Err(Error::request(why).help("leave it out: the logged answer is then compared with the policy's own draws"));
        }
        Ok(())
    }

    /// The turns that an earlier call has audited, by their hashes; insists on its settings.
    fn done(&self, source: &Source) -> Result<BTreeSet<u64>> {
        let settings = json!({
            "by": self.by, "answers": self.answers, "plays": self.plays, "credit": self.credit, "gamma": self.gamma, "node": source.table,
            "seed": self.seed, "iterations": source.manifest.committed.len(),
        });
        if let Some(before) = settings_of(&source.run, &self.name)? {
            let other = |name: &String| {
                (before[name] != settings[name]).then(|| format!("`{name}` was {} and is {}", before[name], settings[name]))
            };
            let others: Vec<String> = settings.as_object().into_iter().flatten().filter_map(|(name, _)| other(name)).collect();
            if !others.is_empty() {
                let why = format!("the audit `{}` of {} was begun otherwise: {}", self.name, self.run.display(), others.join(", "));
                return Err(Error::Request(why).help("--name gives this one a name of its own; in a study, its measurement's name does"));
            }
        } else if !self.dry_run {
            let path = source.run.audit(&self.name).join(SETTINGS);
            files::write(&path, settings.to_string().as_bytes()).map_err(Error::file(&path))?;
        }
        if !flow_log::tables(&source.run)?.iter().any(|table| table.name == "audit") {
            return Ok(BTreeSet::new());
        }
        let sql = format!("SELECT iteration, task, sample::UBIGINT AS sample, attempt::UBIGINT AS attempt, turn::UBIGINT AS turn FROM audit WHERE audit = '{}' AND role = 'logged'", self.name);
        let mut done = BTreeSet::new();
        for batch in &flow_log::query(&source.run, &sql)?.batches {
            let number = |i: usize, row: usize| batch.column(i).as_primitive::<UInt64Type>().value(row);
            for row in 0..batch.num_rows() {
                let (task, small) = (batch.column(1).as_string::<i32>().value(row).to_owned(), |i| number(i, row) as u32);
                let turn =
                    Turn { iteration: number(0, row), task, sample: small(2), attempt: small(3), turn: small(4), credit: 0.0, version: 0 };
                done.insert(turn.hash());
            }
        }
        Ok(done)
    }

    /// How many episodes a turn costs.
    fn episodes(&self, restored: &Restored, ends: &[u32]) -> usize {
        play::ways(restored, self.answers == Answers::All, ends).len() * self.plays as usize
    }

    /// What the audit costs, before anything is played.
    fn cost(&self, source: &Source, drawn: &Draw, done: &BTreeSet<u64>, ways: &[Restored]) -> Result<String> {
        // Answers end with the tokens that the logged ones end with.
        let ends: Vec<u32> =
            ways.iter().filter_map(|restored| restored.response.last().copied()).collect::<BTreeSet<_>>().into_iter().collect();
        let episodes: usize = ways.iter().map(|restored| self.episodes(restored, &ends)).sum();
        let turns: usize = ways.iter().map(|restored| self.episodes(restored, &ends) * restored.rest).sum();
        let rule = self.by.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        Ok(format!(
            "{} of {} turns with a `{}` acted with weights that are kept ({} versions of `{}`); {} are drawn ({rule}), {} of them are done\n\
             {} turns are left: {episodes} episodes, some {turns} turns of play",
            drawn.kept,
            drawn.credited,
            self.credit,
            source.weights.len(),
            source.play.agent.model,
            drawn.turns.len(),
            done.len().min(drawn.turns.len()),
            ways.len(),
        ))
    }

    /// Audits these turns, as many as the budget allows; how many are left.
    fn play(&self, source: &Source, turns: &[&Turn], ways: &[Restored], done: usize) -> Result<usize> {
        let hardware = self.machine.hardware()?;
        let policy = models::start(&source.pipeline, hardware, &models::starts(&source.played)?)?;
        let policy = policy.ok_or_else(|| Error::request("the pipeline has no model"))?;
        let shared = RunState::default();
        for (_, program) in ops::programs(&source.pipeline) {
            shared.programs.declare(program);
        }
        let worlds = Worlds::new(shared.programs.clone());
        let mut sampler = Sampler::new(policy.clone(), source.play.clone(), worlds, self.seed)?;
        let ends = sampler.player.tokenizer().ends().to_vec();
        let (mut played, mut audited) = (0, 0);
        for (turns, ways) in turns.chunks(TURNS).zip(ways.chunks(TURNS)) {
            let cost: usize = ways.iter().map(|restored| self.episodes(restored, &ends)).sum();
            if self.budget.is_some_and(|budget| played + cost > budget) {
                break;
            }
            let mut by_version: BTreeMap<u64, Vec<(&Turn, &Restored)>> = BTreeMap::new();
            turns.iter().zip(ways).for_each(|(turn, restored)| by_version.entry(turn.version).or_default().push((*turn, restored)));
            let mut rows = Vec::new();
            for (version, which) in by_version {
                source.restore(&policy, version)?;
                rows.extend(play::tried(&mut sampler, &which, self.answers == Answers::All, self.plays, self.gamma)?);
            }
            flow_log::write_audit(&source.run, &self.name, &format!("turns-{:07}", done + audited), &play::batch(&self.name, &rows)?)?;
            (played, audited) = (played + cost, audited + turns.len());
            eprintln!("{} turns are audited, {played} episodes played", done + audited);
        }
        if audited == 0 {
            let least: usize = ways.iter().take(TURNS).map(|restored| self.episodes(restored, &ends)).sum();
            return Err(Error::Request(format!(
                "--budget {} plays nothing: {TURNS} turns are audited at a time, and the next cost {least} episodes",
                self.budget.unwrap_or(0)
            )));
        }
        Ok(turns.len() - audited)
    }
}
