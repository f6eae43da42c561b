//! `rollout` inside a loop: an attempt begins as soon as what it is told is there, beside those of other tasks that are being played.

use super::figures;
use super::inputs::{names, newest};
use crate::dataflow::context::{Shared, Trial};
use crate::dataflow::streaming::{Made, Piece, Streaming};
use crate::dataflow::{Failed, Figure};
use crate::pipeline::Until;
use crate::rollout::context::NotesSettings;
use crate::rollout::episode::{Finished, Start};
use crate::rollout::exchange::{Exchange, Whose};
use crate::rollout::notes::{self, Unwritten};
use crate::rollout::record;
use crate::rollout::sampler::Sampler;
use crate::rollout::summary::Summary;
use crate::row::{self, RowError};
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use std::time::Instant;

/// The inputs by number.
pub const TASKS: usize = 0;
pub const MEMORY: usize = 1;

/// Plays the attempts of an iteration.
pub struct Attempts {
    pub sampler: Sampler,
    pub samples: u32,
    /// How further attempts are told of those before.
    pub notes: NotesSettings,
    pub trial: Trial,
    pub node: String,
    pub shared: Shared,
    pub version: u64,
    /// Whose random numbers are drawn: the iteration's own, unless there is one here.
    pub drawn: Option<u64>,
    pub now: Iteration,
}

/// What is known of the iteration.
pub struct Iteration {
    number: u64,
    start: Instant,
    /// Which piece an episode came from.
    pieces: BTreeMap<usize, u64>,
    /// How many episodes a piece has yet to bring to their end.
    left: BTreeMap<u64, usize>,
    /// By task and sample, the attempt in which a trial was won first.
    trials: BTreeMap<(String, u32), Option<u32>>,
    /// Attempts that wait for another task's notes.
    exchange: Exchange,
}

impl Default for Iteration {
    fn default() -> Self {
        let (number, pieces, left, trials, exchange) = Default::default();
        Iteration { number, start: Instant::now(), pieces, left, trials, exchange }
    }
}

impl Streaming for Attempts {
    fn begin(&mut self, iteration: u64, gates: Vec<Vec<RecordBatch>>) -> Result<(), Failed> {
        self.version = newest(self.version, gates.first())?;
        self.sampler.clear(&Summary::default());
        self.now = Iteration { number: iteration, ..Iteration::default() };
        Ok(())
    }

    fn take(&mut self, piece: Piece) -> Result<(), Failed> {
        let starts = if piece.port == TASKS { self.first(&piece)? } else { self.further(&piece)? };
        if piece.port == TASKS {
            self.now.exchange.begun(0, starts.len());
        } else if self.notes.notes == Whose::Another && !starts.is_empty() {
            self.now.exchange.hold(piece.id, starts);
            return self.exchanged();
        }
        self.now.left.insert(piece.id, 0);
        self.play(starts.into_iter().map(|start| (piece.id, start)).collect())
    }

    fn idle(&self) -> bool {
        self.now.left.is_empty()
    }

    fn work(&mut self) -> Result<Vec<Made>, Failed> {
        let over = if self.sampler.idle() { vec![] } else { self.sampler.step()? };
        let mut by_piece: BTreeMap<u64, Vec<Finished>> = BTreeMap::new();
        for ended in over {
            let trial = self.now.trials.entry((ended.start.task.clone(), ended.start.sample)).or_default();
            *trial = trial.or(ended.won().then_some(ended.start.attempt));
            let over = self.trial.until == Until::Won && trial.is_some() || ended.turns.is_empty();
            self.now.exchange.ended(ended.start.attempt, !over);
            let piece = self.now.pieces.remove(&ended.number).unwrap_or_default();
            by_piece.entry(piece).or_default().push(ended);
        }
        let mut made = Vec::new();
        for (piece, ended) in by_piece {
            if let Some(left) = self.now.left.get_mut(&piece) {
                *left -= ended.len();
            }
            let kept: Vec<String> = ended.iter().map(|e| self.kept(e)).collect();
            let rows = record::played(&ended, &kept, &self.sampler.parts())?;
            made.push(Made { of: piece, rows: rows.into_iter().collect(), last: false });
        }
        if self.notes.notes == Whose::Another {
            self.exchanged()?;
        }
        // Those with nothing left, be it that there was nothing from the start.
        let over: Vec<u64> = self.now.left.iter().filter(|(_, left)| **left == 0).map(|(piece, _)| *piece).collect();
        if !over.is_empty() {
            // Before the rows leave: what comes after them may commit the iteration.
            self.measure();
        }
        for piece in over {
            self.now.left.remove(&piece);
            made.push(Made { of: piece, rows: vec![], last: true });
        }
        Ok(made)
    }
}

impl Attempts {
    /// Begins these episodes, each of the piece of that number.
    fn play(&mut self, starts: Vec<(u64, Start)>) -> Result<(), Failed> {
        let first = self.sampler.begun();
        for (number, (piece, _)) in (first..).zip(&starts) {
            self.now.pieces.insert(number, *piece);
            *self.now.left.entry(*piece).or_default() += 1;
        }
        Ok(self.sampler.begin(starts.into_iter().map(|(_, start)| start))?)
    }

    /// Begins the attempts whose notes have changed hands.
    fn exchanged(&mut self) -> Result<(), Failed> {
        let due = self.now.exchange.due();
        self.play(due)
    }

    /// Plays these tasks to their end, without a graph around it: what is played goes to `thinker`, if there is one, and what comes of
    /// that begins the next attempts. All rows that were made.
    pub fn whole(&mut self, tasks: RecordBatch, mut thinker: Option<&mut dyn Streaming>) -> Result<Vec<RecordBatch>, Failed> {
        let iteration = self.now.number;
        let mut all = Vec::new();
        let mut attempts: BTreeMap<u64, u64> = BTreeMap::new();
        let mut pieces = 0..;
        let mut piece = |port, attempt, rows| Piece { id: pieces.next().unwrap_or_default(), port, iteration, attempt, rows };
        let first = piece(TASKS, 0, tasks);
        attempts.insert(first.id, 0);
        self.take(first)?;
        while !self.idle() {
            let mut told: Vec<(u64, RecordBatch)> = Vec::new();
            for Made { of, rows, .. } in self.work()? {
                let attempt = attempts.get(&of).copied().unwrap_or_default();
                all.extend(rows.iter().cloned());
                told.extend(rows.into_iter().map(|rows| (attempt, rows)));
            }
            if let Some(thinker) = thinker.as_mut() {
                for (attempt, rows) in std::mem::take(&mut told) {
                    let piece = piece(TASKS, attempt, rows);
                    attempts.insert(piece.id, attempt);
                    thinker.take(piece)?;
                }
                while !thinker.idle() {
                    for Made { of, rows, .. } in thinker.work()? {
                        let attempt = attempts.get(&of).copied().unwrap_or_default();
                        all.extend(rows.iter().cloned());
                        told.extend(rows.into_iter().map(|rows| (attempt, rows)));
                    }
                }
            }
            let most = self.trial.attempts;
            for (attempt, rows) in told.into_iter().filter(|(attempt, _)| attempt + 1 < most) {
                let piece = piece(MEMORY, attempt + 1, rows);
                attempts.insert(piece.id, attempt + 1);
                self.take(piece)?;
            }
        }
        Ok(all)
    }

    /// The first attempts at the tasks that came.
    fn first(&self, piece: &Piece) -> Result<Vec<Start>, RowError> {
        let names = names(std::slice::from_ref(&piece.rows))?;
        let each = names.into_iter().flat_map(|task| (0..self.samples).map(move |sample| (task.clone(), sample)));
        Ok(each.map(|(task, sample)| self.start(task, sample, 0, String::new())).collect())
    }

    /// The next attempt of each sample of a task that came, unless its trial is over.
    fn further(&self, piece: &Piece) -> Result<Vec<Start>, RowError> {
        let rows = &piece.rows;
        let (tasks, samples) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?);
        let kept = row::texts(rows, "kept")?;
        let mut told: BTreeMap<(String, u32), &str> = BTreeMap::new();
        for i in 0..rows.num_rows() {
            let told = told.entry((tasks.value(i).into(), samples.value(i))).or_default();
            if !kept.value(i).is_empty() {
                *told = kept.value(i);
            }
        }
        let over = |trial: &(String, u32)| self.trial.until == Until::Won && self.now.trials.get(trial).is_some_and(Option::is_some);
        let attempt = piece.attempt as u32; // `attempts` is a u32
        let further = told.into_iter().filter(|(trial, _)| !over(trial));
        Ok(further.map(|((task, sample), kept)| self.start(task, sample, attempt, kept.to_owned())).collect())
    }

    fn start(&self, task: String, sample: u32, attempt: u32, memory: String) -> Start {
        Start { task, sample, attempt, memory, iteration: self.drawn.unwrap_or(self.now.number), version: self.version }
    }

    /// What the next attempt is told, where no reflection says it.
    fn kept(&self, ended: &Finished) -> String {
        let memory = &ended.start.memory;
        if self.notes.keep == Unwritten::None {
            return memory.clone();
        }
        let actions: Vec<&str> = ended.turns.iter().map(|turn| turn.action.as_str()).collect();
        let entry = notes::history(ended.start.attempt, &actions, &ended.outcome);
        notes::grown(memory, &entry, self.notes.budget, self.sampler.tokenizer())
    }

    /// The figures of the iteration so far. `success` is that of trials; `pass@k` the share of them won within k attempts.
    fn measure(&mut self) {
        let (iteration, node) = (self.now.number, self.node.clone());
        let trials = self.now.trials.len();
        let summary = self.sampler.summary();
        let episodes = summary.episodes;
        for (name, value) in figures::figures(summary) {
            self.shared.measure(iteration, &node, &name, value);
        }
        for attempt in (0..self.trial.attempts as u32).filter(|_| self.trial.attempts > 1) {
            let won = self.now.trials.values().filter(|won| won.is_some_and(|won| won <= attempt)).count();
            self.shared.measure(iteration, &node, &format!("pass@{}", attempt + 1), Figure::share(won as f64, trials));
        }
        let won = self.now.trials.values().flatten().count();
        self.shared.measure(iteration, &node, "success", Figure::share(won as f64, trials));
        if self.trial.attempts > 1 {
            self.shared.measure(iteration, &node, "attempts", Figure::share(episodes as f64, trials));
        }
        self.shared.measure(iteration, &node, "seconds", Figure::Most(self.now.start.elapsed().as_secs_f64()));
        self.shared.lose(iteration, figures::lost(&node, self.sampler.failed()));
    }
}
