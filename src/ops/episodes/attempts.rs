//! `rollout` inside a loop: an attempt starts as soon as its notes are there, beside episodes of other tasks that are
//! being played.

use super::figures;
use super::inputs::{names, newest};
use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use flow_dataflow::context::{RunState, TrialLimits};
use flow_dataflow::streaming::{InputPiece, OutputPiece, Streaming};
use flow_dataflow::{Failed, Figure};
use flow_pipeline::Until;
use flow_rollout::context::NotesSettings;
use flow_rollout::episode::{EpisodeStart, Finished};
use flow_rollout::exchange::{Exchange, NotesOwner};
use flow_rollout::notes::{self, Unwritten};
use flow_rollout::record;
use flow_rollout::sampler::Sampler;
use flow_rollout::summary::Summary;
use std::collections::BTreeMap;
use std::time::Instant;

/// The indices of the inputs.
pub const TASKS: usize = 0;
pub const MEMORY: usize = 1;

/// Plays the attempts of an iteration.
pub struct Attempts {
    pub sampler: Sampler,
    pub samples: u32,
    /// How prompts of further attempts show earlier ones.
    pub notes: NotesSettings,
    pub trial: TrialLimits,
    pub node: String,
    pub shared: RunState,
    /// Whether an update trains the model that plays.
    pub learns: bool,
    pub version: u64,
    /// The iteration whose random numbers are drawn, if not its own.
    pub drawn: Option<u64>,
    pub now: IterationProgress,
}

/// The progress of the current iteration.
#[derive(Default)]
pub struct IterationProgress {
    number: u64,
    /// None before the first iteration.
    start: Option<Instant>,
    /// The input piece of each episode.
    pieces: BTreeMap<usize, u64>,
    /// The number of unfinished episodes of each piece.
    left: BTreeMap<u64, usize>,
    /// By task and sample, the first attempt that won the trial.
    trials: BTreeMap<(String, u32), Option<u32>>,
    /// Attempts that wait for another task's notes.
    exchange: Exchange,
}

impl Streaming for Attempts {
    fn begin(&mut self, iteration: u64, gates: Vec<Vec<RecordBatch>>) -> Result<(), Failed> {
        self.version = newest(self.version, gates.first().filter(|_| self.learns))?;
        self.sampler.clear(&Summary::default());
        self.now = IterationProgress { number: iteration, start: Some(Instant::now()), ..IterationProgress::default() };
        Ok(())
    }

    fn take(&mut self, piece: InputPiece) -> Result<(), Failed> {
        let starts = if piece.port == TASKS { self.first(&piece)? } else { self.further(&piece)? };
        if piece.port == TASKS {
            self.now.exchange.begun(0, starts.len());
        } else if self.notes.notes == NotesOwner::Another && !starts.is_empty() {
            self.now.exchange.hold(piece.id, starts);
            return self.exchanged();
        }
        self.now.left.insert(piece.id, 0);
        self.play(starts.into_iter().map(|start| (piece.id, start)).collect())
    }

    fn idle(&self) -> bool {
        self.now.left.is_empty()
    }

    fn work(&mut self) -> Result<Vec<OutputPiece>, Failed> {
        let noted = |error| figures::noted(error, &self.shared, self.now.number, &self.node);
        let over = if self.sampler.idle() { vec![] } else { self.sampler.step().map_err(noted)? };
        let mut by_piece: BTreeMap<u64, Vec<Finished>> = BTreeMap::new();
        for ended in over {
            let trial = self.now.trials.entry((ended.start.task.clone(), ended.start.sample)).or_default();
            *trial = trial.or(ended.won().then_some(ended.start.attempt));
            let over = self.trial.until == Until::Won && trial.is_some() || ended.turns.is_empty();
            self.now.exchange.ended(ended.start.attempt, !over);
            let piece = self.now.pieces.remove(&ended.number).unwrap_or_default();
            by_piece.entry(piece).or_default().push(ended);
        }
        let mut output = Vec::new();
        for (piece, ended) in by_piece {
            if let Some(left) = self.now.left.get_mut(&piece) {
                *left -= ended.len();
            }
            let notes: Vec<String> = ended.iter().map(|e| self.next_note(e)).collect();
            let rows = record::played(&ended, &notes, &self.sampler.parts())?;
            output.push(OutputPiece { input: piece, rows: rows.into_iter().collect(), last: false });
        }
        if self.notes.notes == NotesOwner::Another {
            self.exchanged()?;
        }
        // Those with nothing left, be it that there was nothing from the start.
        let over: Vec<u64> = self.now.left.iter().filter(|(_, left)| **left == 0).map(|(piece, _)| *piece).collect();
        if !over.is_empty() {
            // Before the rows leave: a later message may commit the iteration.
            self.measure();
        }
        for piece in over {
            self.now.left.remove(&piece);
            output.push(OutputPiece { input: piece, rows: vec![], last: true });
        }
        Ok(output)
    }
}

/// The attempts of the pieces so far, by their ids.
#[derive(Default)]
struct Pieces(Vec<u64>);

impl Pieces {
    fn piece(&mut self, port: usize, attempt: u64, rows: RecordBatch) -> InputPiece {
        self.0.push(attempt);
        InputPiece { id: self.0.len() as u64 - 1, port, attempt, rows }
    }

    /// The rows of an output, each with its attempt; they join `all`.
    fn rows(&self, output: Vec<OutputPiece>, all: &mut Vec<RecordBatch>) -> Vec<(u64, RecordBatch)> {
        let rows = output.into_iter().flat_map(|OutputPiece { input, rows, .. }| rows.into_iter().map(move |rows| (input, rows)));
        let rows: Vec<(u64, RecordBatch)> = rows.map(|(input, rows)| (self.0[input as usize], rows)).collect();
        all.extend(rows.iter().map(|(_, rows)| rows.clone()));
        rows
    }
}

impl Attempts {
    /// Begins these episodes, each with the id of its piece.
    fn play(&mut self, starts: Vec<(u64, EpisodeStart)>) -> Result<(), Failed> {
        let first = self.sampler.begun();
        for (number, (piece, _)) in (first..).zip(&starts) {
            self.now.pieces.insert(number, *piece);
            *self.now.left.entry(*piece).or_default() += 1;
        }
        Ok(self.sampler.begin(starts.into_iter().map(|(_, start)| start))?)
    }

    /// Begins the attempts whose notes have been exchanged.
    fn exchanged(&mut self) -> Result<(), Failed> {
        let due = self.now.exchange.due();
        self.play(due)
    }

    /// Plays these tasks to their end, outside a graph: the rows go to `reflector`, if there is one, and its output
    /// begins the next attempts. Returns all rows.
    pub fn play_all(&mut self, tasks: RecordBatch, mut reflector: Option<&mut dyn Streaming>) -> Result<Vec<RecordBatch>, Failed> {
        let (mut all, mut pieces, most) = (Vec::new(), Pieces::default(), self.trial.attempts);
        self.take(pieces.piece(TASKS, 0, tasks))?;
        while !self.idle() {
            let mut made = pieces.rows(self.work()?, &mut all);
            if let Some(reflector) = reflector.as_mut() {
                for (attempt, rows) in std::mem::take(&mut made) {
                    reflector.take(pieces.piece(TASKS, attempt, rows))?;
                }
                while !reflector.idle() {
                    made.extend(pieces.rows(reflector.work()?, &mut all));
                }
            }
            for (attempt, rows) in made.into_iter().filter(|(attempt, _)| attempt + 1 < most) {
                self.take(pieces.piece(MEMORY, attempt + 1, rows))?;
            }
        }
        Ok(all)
    }

    /// The first attempts at the tasks of this piece.
    fn first(&self, piece: &InputPiece) -> Result<Vec<EpisodeStart>, RowError> {
        let names = names(std::slice::from_ref(&piece.rows))?;
        let each = names.into_iter().flat_map(|task| (0..self.samples).map(move |sample| (task.clone(), sample)));
        Ok(each.map(|(task, sample)| self.start(task, sample, 0, String::new())).collect())
    }

    /// The next attempt of each sample in this piece, unless its trial is over.
    fn further(&self, piece: &InputPiece) -> Result<Vec<EpisodeStart>, RowError> {
        let rows = &piece.rows;
        let (tasks, samples) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?);
        let notes = row::texts(rows, "kept")?;
        let mut memories: BTreeMap<(String, u32), &str> = BTreeMap::new();
        for i in 0..rows.num_rows() {
            let memory = memories.entry((tasks.value(i).into(), samples.value(i))).or_default();
            if !notes.value(i).is_empty() {
                *memory = notes.value(i);
            }
        }
        let over = |trial: &(String, u32)| self.trial.until == Until::Won && self.now.trials.get(trial).is_some_and(Option::is_some);
        let attempt = piece.attempt as u32; // `attempts` is a u32
        let further = memories.into_iter().filter(|(trial, _)| !over(trial));
        Ok(further.map(|((task, sample), memory)| self.start(task, sample, attempt, memory.to_owned())).collect())
    }

    fn start(&self, task: String, sample: u32, attempt: u32, memory: String) -> EpisodeStart {
        EpisodeStart { task, sample, attempt, memory, iteration: self.drawn.unwrap_or(self.now.number), version: self.version }
    }

    /// The notes for the next attempt where there are no reflections.
    fn next_note(&self, ended: &Finished) -> String {
        let memory = &ended.start.memory;
        if self.notes.keep == Unwritten::None {
            return memory.clone();
        }
        let actions: Vec<&str> = ended.turns.iter().map(|turn| turn.action.as_str()).collect();
        let entry = notes::history(ended.start.attempt, &actions, &ended.outcome);
        notes::grown(memory, &entry, self.notes.budget, self.sampler.player.tokenizer())
    }

    /// Records the metrics of the iteration so far. `success` is that of trials; `pass@k` the share of them won within
    /// k attempts.
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
        self.shared.measure(iteration, &node, "seconds", Figure::Most(self.now.start.map_or(0.0, |start| start.elapsed().as_secs_f64())));
        self.shared.lose(iteration, figures::lost(&node, self.sampler.failed()));
    }
}
