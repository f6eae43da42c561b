//! `flow import`: reads another trainer's rollouts into a run that can be queried, shown, reported and replayed.
//!
//! Python reads the formats, this file makes rows. The files are read twice, a line at a time: first to find what can't be read and which columns every row has, then
//! to write them. So nothing is left behind where a line can't be read, and memory holds a part of the rows, whatever
//! the files' length.

mod episode;
mod source;

use super::error::{Error, Result};
use super::output::{answer, finish, warn, CommandResult};
use super::run_folder::free;
use crate::ops;
use crate::ops::import::NODE;
use clap::Args;
use episode::{table, Coverage, Episode};
use flow_core::printable::shell_word;
use flow_core::row;
use flow_dataflow::{lost, Lost};
use flow_log::{Committer, Lock, Metrics, NodeInfo, Part, RunInfo, Status};
use source::{detect, Format, Source, Tally};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ImportArgs {
    /// The files, such as traces.jsonl, rollouts.jsonl, or a conversation with a reward a line; or a folder of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Their format; found from the first line unless given
    #[arg(long, value_enum)]
    from: Option<Format>,
    /// The run's folder; runs/import-<file> (and a number) unless given
    #[arg(long)]
    out: Option<PathBuf>,
    /// Leaves lines out that can't be read, and counts them
    #[arg(long)]
    skip_bad: bool,
}

/// How many fields that aren't read are named.
const SHOWN: usize = 12;

/// Rows are written when there are this many turns, or this many bytes of them.
const TURNS: usize = 4096;
const BYTES: usize = 64 << 20;

impl ImportArgs {
    pub fn run(self) -> CommandResult {
        let root = self.write(|name| self.out.clone().unwrap_or_else(|| free(name)))?;
        let folder = shell_word(&root.display().to_string());
        finish(&format!("\nTry next:\n  flow show {folder}\n  flow query {folder} \"select task, sum(reward) from {NODE} group by task\""))
    }

    /// The run of a file or a folder in the folder `root`, without the lines that can't be read.
    pub fn readable(path: PathBuf, root: &Path) -> Result<PathBuf> {
        ImportArgs { files: vec![path], from: None, out: None, skip_bad: true }.write(|_| root.into())
    }

    /// Writes the run into the folder that its name leads to, and says what it has.
    fn write(&self, root: impl FnOnce(&str) -> PathBuf) -> Result<PathBuf> {
        let format = self.from.map_or_else(|| detect(&self.files[0]), Ok)?;
        let source = Source { files: &self.files, format, skip: self.skip_bad };
        let (mut coverage, mut last) = (Coverage::default(), None);
        let tally = source.each(&mut |episode| {
            coverage.add(&episode);
            last = last.max(Some(episode.iteration));
            Ok(())
        })?;
        let Some(last) = last else {
            let first = tally.first.map_or_else(String::new, |first| format!(": {first}"));
            return Err(Error::Request(format!("there is no episode in {} lines{first}", tally.lines)));
        };
        let absent = coverage.absent();
        let stem = self.files[0].file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("import-{}", plain(&stem)).trim_end_matches('-').to_owned();
        let root = root(&name);
        let op = ops::importing();
        let columns = row::in_order(&op.adds.iter().map(|column| column.to_string()).collect::<Vec<_>>());
        let columns: Vec<String> = columns.into_iter().filter(|column| absent.iter().all(|(name, _)| name != column)).collect();
        let node = NodeInfo { id: NODE.into(), op: op.name.into(), role: Some(op.role), columns, upstream: vec![] };
        let iterations = last + 1;
        let info = RunInfo { name: name.clone(), iterations, nodes: vec![node], ..RunInfo::default() };
        let run = flow_log::Run::create(&root, &self.pipeline(&name, format, iterations), &info)?;
        let _lock = Lock::take(&run)?;
        let mut committer = Committer::new(run.clone())?;
        let mut writer = Writer::new(&run, &absent);
        source.each(&mut |episode| writer.take(episode))?;
        let said = writer.finish(&mut committer)?;
        committer.finish(Status::Finished)?;
        answer(&format!("{said} -> {}", root.display()));
        report(&tally, &absent, coverage.turns);
        Ok(root)
    }

    /// The smallest pipeline that says where the rows come from. A text of JSON is one of YAML.
    fn pipeline(&self, name: &str, format: Format, iterations: u64) -> String {
        let from = format.name();
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let with = serde_json::json!({ "from": from, "files": files });
        let op = ops::importing().name;
        format!(
            "flow: {name}\nabout: rollouts of another trainer, to be replayed with other credit\niterations: {iterations}\nnodes:\n  \
             {NODE}: {{ op: {op}, with: {with} }}\nlog: [{NODE}]\n"
        )
    }
}

/// A file's name as a part of a run's: letters and digits as they are, all else as `-`.
fn plain(name: &str) -> String {
    let kept: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' }).take(40).collect();
    kept.trim_matches(['-', '.']).to_string()
}

/// Says what the rows don't have, and what can't be done without it.
fn report(tally: &Tally, absent: &[(&str, usize)], turns: usize) {
    if tally.frozen > 0 {
        eprintln!("note: {} traces of agents that are not trained are left out", tally.frozen);
    }
    if !tally.unread.is_empty() {
        let names: Vec<String> = tally.unread.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        let more = tally.unread.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        warn(&format!("fields of the files that aren't read: {}{more}", names.join(", ")));
    }
    if let Some(first) = &tally.first {
        warn(&format!("{} of {} lines can't be read and are left out, the first one: {first}", tally.bad, tally.lines));
    }
    // Few files have advantages.
    let absent: Vec<_> = absent.iter().filter(|lack| **lack != ("advantage", 0)).collect();
    for (columns, why) in LACKS {
        let lacking: Vec<String> =
            absent.iter().filter(|(name, _)| columns.contains(name)).map(|(name, n)| named(name, *n, turns)).collect();
        if !lacking.is_empty() {
            eprintln!("note: absent: {}{why}", lacking.join(", "));
        }
    }
}

/// Columns that a run may lack, and what can't be done without them.
const LACKS: [(&[&str], &str); 6] = [
    (&["prompt_tokens", "response_tokens", "choices"], ": without token ids rows can be grouped and compared, not trained on"),
    (&["logprobs"], ": without the log-probabilities that were sampled with an update has no ratio to clip"),
    (&["temperature"], ": an update takes the log-probabilities as those at temperature 1, or at its own `temperature`"),
    (&["weights"], ": without the version of the policy the age of rows is unknown"),
    (&["type", "response_cut"], ""),
    (&["advantage"], ""),
];

fn named(column: &str, having: usize, turns: usize) -> String {
    if having == 0 {
        format!("`{column}`")
    } else {
        format!("`{column}` (only {having} of {turns} turns have it)")
    }
}

/// Writes episodes as they come, a part at a time; commits once all are written.
struct Writer<'a> {
    run: &'a flow_log::Run,
    absent: &'a [(&'static str, usize)],
    pending: BTreeMap<u64, Pending>,
    turns: usize,
    bytes: usize,
    parts: BTreeMap<u64, Vec<Part>>,
    /// The numbers of a task's samples that are taken.
    samples: BTreeMap<(u64, String), BTreeSet<u32>>,
    sums: BTreeMap<u64, Sums>,
    written: usize,
}

/// What is not written yet of an iteration.
#[derive(Default)]
struct Pending {
    episodes: Vec<(u32, Episode)>,
    failures: Vec<Lost>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    episodes: usize,
    failed: usize,
    turns: usize,
    won: usize,
    reward: f64,
}

impl<'a> Writer<'a> {
    fn new(run: &'a flow_log::Run, absent: &'a [(&'static str, usize)]) -> Writer<'a> {
        let (pending, parts, samples, sums) = Default::default();
        Writer { run, absent, pending, turns: 0, bytes: 0, parts, samples, sums, written: 0 }
    }

    fn take(&mut self, episode: Episode) -> Result<()> {
        let taken = self.samples.entry((episode.iteration, episode.task.clone())).or_default();
        let next = taken.last().map_or(0, |last| last.saturating_add(1));
        let sample = episode.sample.filter(|sample| !taken.contains(sample)).unwrap_or(next);
        taken.insert(sample);
        let sums = self.sums.entry(episode.iteration).or_default();
        let pending = self.pending.entry(episode.iteration).or_default();
        sums.episodes += 1;
        match &episode.failure {
            Some(failure) => {
                sums.failed += 1;
                let (task, node, error) = (episode.task.clone(), NODE.into(), failure.error.clone());
                let (cause, tries) = (failure.cause.name(), failure.tries);
                self.bytes += error.len();
                self.turns += 1;
                pending.failures.push(Lost { task, sample, attempt: 0, turn: 0, phase: "play", node, cause, error, tries });
            }
            None => {
                sums.turns += episode.calls.len();
                sums.won += usize::from(episode.reward >= 1.0);
                sums.reward += f64::from(episode.reward);
                self.turns += episode.calls.len();
                self.bytes += episode.calls.iter().map(episode::Call::bytes).sum::<usize>();
                pending.episodes.push((sample, episode));
            }
        }
        if self.turns >= TURNS || self.bytes >= BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        for (iteration, Pending { episodes, failures }) in std::mem::take(&mut self.pending) {
            let parts = self.parts.entry(iteration).or_default();
            if !episodes.is_empty() {
                parts.push(flow_log::write_part(self.run, NODE, iteration, self.written, &table(&episodes, self.absent)?)?);
            }
            parts.extend(lost::write(self.run, iteration, self.written, &failures)?);
            self.written += 1;
        }
        (self.turns, self.bytes) = (0, 0);
        Ok(())
    }

    /// Commits the iterations, and says what they have.
    fn finish(mut self, committer: &mut Committer) -> Result<String> {
        self.write()?;
        let mut all = Sums::default();
        for (iteration, parts) in std::mem::take(&mut self.parts) {
            let sums = self.sums.get(&iteration).copied().unwrap_or_default();
            let compared = (sums.episodes - sums.failed) as f64;
            let share = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
            let figures = [
                ("success", share(sums.won as f64, sums.episodes as f64)),
                ("return", share(sums.reward, compared)),
                ("turns", sums.turns as f64),
                ("failed", sums.failed as f64),
            ];
            let figures = figures.map(|(name, value)| (name.to_owned(), value)).into();
            committer.commit(iteration, parts, Metrics::from([(NODE.to_owned(), figures)]), vec![])?;
            (all.episodes, all.failed, all.turns) = (all.episodes + sums.episodes, all.failed + sums.failed, all.turns + sums.turns);
        }
        let tasks: BTreeSet<&String> = self.samples.keys().map(|(_, task)| task).collect();
        let failed = if all.failed > 0 { format!(", {} failed (table `errors`)", all.failed) } else { String::new() };
        Ok(format!("{} episodes of {} tasks, {} turns{failed}", all.episodes, tasks.len(), all.turns))
    }
}
