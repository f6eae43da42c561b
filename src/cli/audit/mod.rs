//! `flow audit`: goes back to turns that were logged, tries their answers again with the weights of that time, and says
//! how their credit agrees with their measured worth.

mod draw;
mod entries;
mod figures;
mod play;
mod recall;
mod source;
mod worths;

pub use figures::Figures;
pub use worths::Worths;

use super::error::{Error, Result};
use super::machine::Machine;
use super::models;
use super::output::{answer, finish, CommandResult, OutputFormat};
use crate::ops;
use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use clap::{Args, ValueEnum};
use draw::{draw, restored, Draw, Restored, Rule, Turn};
use entries::EntryUse;
use flow_core::files;
use flow_dataflow::context::RunState;
use flow_env::Environments;
use flow_log::Run;
use flow_policy::Policy;
use flow_rollout::action::Decode;
use flow_rollout::sampler::Sampler;
use recall::Memories;
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
    /// The audit's name, in the table `audit` of the run: one for each choice of settings; `audit` or `memory` unless given
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Audits the agent's memory, or its notes on earlier attempts: plays whole episodes with the memory of that time, without
    /// one of its entries, with another task's in its place, and with nothing in it. `--turns` counts episodes
    #[arg(long, conflicts_with_all = ["answers", "by", "credit"])]
    memory: bool,
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

/// The episodes of an audit of a memory that are played before their rows are written.
const EPISODES: usize = 8;

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

/// The figures of an audit, of turns or of a memory.
#[derive(Serialize, schemars::JsonSchema)]
pub struct AuditAnswer<'a, F> {
    #[serde(flatten)]
    figures: F,
    /// The column with the credit; none of a memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    credit: Option<&'a str>,
    run: String,
    /// The audit's name.
    audit: &'a str,
    /// How many turns or episodes wait for another call.
    left: usize,
}

impl AuditArgs {
    pub fn run(self) -> CommandResult {
        self.machine.require_one_process("an audit")?;
        if !(0.0..=1.0).contains(&self.gamma) {
            return Err(Error::Request(format!("--gamma is {}, but must lie between 0 and 1", self.gamma)));
        }
        let source = Source::open(&self.run, self.node.as_deref(), self.memory)?;
        if self.memory {
            return self.of_memory(&source);
        }
        let drawn = draw(&source.run, &source.table, &self.credit, self.by, &source.weights, self.turns as usize, self.seed)?;
        self.drawable(&source, &drawn)?;
        let _lock = self.lock(&source)?;
        let done = self.done(&source)?;
        let left: Vec<&Turn> = drawn.turns.iter().filter(|turn| !done.contains(&turn.hash())).collect();
        let ways = restored(&source.run, &source.table, &left.iter().map(|turn| (*turn).clone()).collect::<Vec<_>>())?;
        let cost = self.cost(&source, &drawn, &done, &ways)?;
        if self.dry_run {
            return finish(&cost);
        }
        eprintln!("{cost}");
        let waiting = if left.is_empty() { 0 } else { self.play(&source, &left, &ways, done.len())? };
        let figures = Figures::of(&source.run, self.name())?;
        self.answer(&figures, Some(&self.credit), || figures.text(&self.credit), waiting)
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(if self.memory { "memory" } else { "audit" })
    }

    /// Keeps other processes from writing the same files, where this one writes any.
    fn lock(&self, source: &Source) -> Result<Option<flow_log::Lock>> {
        let lock = || Ok(flow_log::Lock::of(&flow_log::audit_folder(&source.run, self.name())?)?);
        (!self.dry_run).then(lock).transpose()
    }

    /// Prints the figures, and how many turns or episodes wait for another call.
    fn answer(&self, figures: impl Serialize, credit: Option<&str>, text: impl Fn() -> String, left: usize) -> CommandResult {
        match self.machine.format {
            OutputFormat::Json => {
                let run = self.run.display().to_string();
                answer(&json!(AuditAnswer { figures, credit, run, audit: self.name(), left }).to_string());
            }
            OutputFormat::Text => {
                let what = if self.memory { "episodes" } else { "turns" };
                let more = if left > 0 { format!("{left} {what} are left: the same command goes on with them\n") } else { String::new() };
                answer(&(text() + &more));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Audits the agent's memory.
    fn of_memory(&self, source: &Source) -> CommandResult {
        let memories = Memories::of(source)?;
        let (kept, drawn) = entries::draw(source, memories.is_empty(), self.turns as usize, self.seed)?;
        if drawn.is_empty() {
            let why = format!(
                "no first turn of `{}` in {} held entries of a memory, or notes, and has its weights",
                source.table,
                self.run.display()
            );
            let help = match memories.is_empty() {
                true => "its agent reads no memory, so episodes with notes on earlier attempts are looked for: a loop with `reflect` makes these",
                false => "`keep: { every: 1 }` in a pipeline keeps the weights of each iteration, `every: 10` of each tenth",
            };
            return Err(Error::Request(why).help(help));
        }
        let _lock = self.lock(source)?;
        let done = self.done(source)?;
        let left: Vec<&EntryUse> = drawn.iter().filter(|used| !done.contains(&used.turn.hash())).collect();
        let each = recall::WAYS.len() * self.plays as usize;
        let cost = format!(
            "{kept} episodes began with entries of a memory, or with notes, and have their weights; {} are drawn, {} of them are done\n\
             {} episodes are left: {} plays",
            drawn.len(),
            done.len().min(drawn.len()),
            left.len(),
            left.len() * each
        );
        if self.dry_run {
            return finish(&cost);
        }
        eprintln!("{cost}");
        let affordable = self.budget.map_or(left.len(), |budget| (budget / each).min(left.len()));
        if affordable == 0 && !left.is_empty() {
            return Err(Error::Request(format!("--budget {} plays nothing: an episode costs {each} plays", self.budget.unwrap_or(0))));
        }
        let now = &left[..affordable];
        if !now.is_empty() {
            let (policy, mut sampler) = self.sampler(source)?;
            for (n, uses) in now.chunks(EPISODES).enumerate() {
                let mut rows = Vec::new();
                for used in uses {
                    source.restore(&policy, used.turn.version)?;
                    rows.extend(entries::tried((&mut sampler, &policy), source, &memories, used, (self.plays, self.gamma))?);
                }
                let before = done.len() + n * EPISODES;
                flow_log::write_audit(&source.run, self.name(), &format!("episodes-{before:07}"), &play::batch(self.name(), &rows)?)?;
                eprintln!("{} episodes are audited", before + uses.len());
            }
        }
        let figures = Worths::of(&source.run, self.name())?;
        self.answer(&figures, None, || figures.text(), left.len() - affordable)
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
            "by": self.by, "answers": if self.memory { json!("memory") } else { json!(self.answers) }, "plays": self.plays, "credit": self.credit, "gamma": self.gamma, "node": source.table,
            "seed": self.seed, "iterations": source.manifest.committed.len(),
        });
        if let Some(before) = settings_of(&source.run, self.name())? {
            let other = |name: &String| {
                (before[name] != settings[name]).then(|| format!("`{name}` was {} and is {}", before[name], settings[name]))
            };
            let others: Vec<String> = settings.as_object().into_iter().flatten().filter_map(|(name, _)| other(name)).collect();
            if !others.is_empty() {
                let why = format!("the audit `{}` of {} was begun otherwise: {}", self.name(), self.run.display(), others.join(", "));
                return Err(Error::Request(why).help("--name gives this one a name of its own; in a study, its measurement's name does"));
            }
        } else if !self.dry_run {
            let path = source.run.audit(self.name()).join(SETTINGS);
            files::write(&path, settings.to_string().as_bytes()).map_err(Error::file(&path))?;
        }
        if !flow_log::tables(&source.run)?.iter().any(|table| table.name == "audit") {
            return Ok(BTreeSet::new());
        }
        let sql = format!("SELECT iteration, task, sample::UBIGINT AS sample, attempt::UBIGINT AS attempt, turn::UBIGINT AS turn FROM audit WHERE audit = '{}' AND role = '{}'", self.name(), if self.memory { "policy" } else { "logged" });
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

    /// The models of the run, and a sampler that plays with them as it did.
    fn sampler(&self, source: &Source) -> Result<(Policy, Sampler)> {
        let policy = models::start(&source.pipeline, self.machine.hardware()?, &models::starts(&source.played)?)?;
        let policy = policy.ok_or_else(|| Error::request("the pipeline has no model"))?;
        let shared = RunState::default();
        for (_, program) in ops::programs(&source.pipeline) {
            shared.programs.declare(program);
        }
        let sampler = Sampler::new(policy.clone(), source.play.clone(), Environments::new(shared.programs.clone()), self.seed)?;
        Ok((policy, sampler))
    }

    /// Audits these turns, as many as the budget allows; how many are left.
    fn play(&self, source: &Source, turns: &[&Turn], ways: &[Restored], done: usize) -> Result<usize> {
        let (policy, mut sampler) = self.sampler(source)?;
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
            flow_log::write_audit(&source.run, self.name(), &format!("turns-{:07}", done + audited), &play::batch(self.name(), &rows)?)?;
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
