//! Commits: an iteration becomes a line of the journal; in the background whole blocks of iterations are compacted into
//! segments ([`super::compaction`]); and files that no commit names are removed.

use super::compaction::{compact, give_way, Compacted, JournalBlock};
use super::head::ManifestBody;
use super::index::LogIndex;
use super::journal::{JournalWriter, BLOCK};
use super::keep::WeightPruner;
use super::{pending, reader, sweep, write_part, Iteration, LogError, Manifest, Metrics, Part, Run, SavedWeights, Status};
use arrow::array::RecordBatch;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Commits iterations. Owned by one thread of one process: two would overwrite each other's manifest.
pub struct Committer {
    run: Run,
    head: ManifestBody,
    status: Status,
    last: Option<u64>,
    journal: JournalWriter,
    /// The iterations that are in no segment yet, oldest first; the last block still grows.
    blocks: Vec<Arc<JournalBlock>>,
    /// The compaction in progress.
    folding: Option<JoinHandle<Result<Compacted, LogError>>>,
    /// A compaction failed: from there on files stay as they are.
    gave_up: bool,
    /// Files that the manifest no longer names, but that somebody may still read.
    obsolete: Vec<String>,
    /// Blocks that are in segments now, to be freed beside the next compaction.
    compacted: Vec<Arc<JournalBlock>>,
    pruner: WeightPruner,
    since: Instant,
}

impl Committer {
    /// Continues from the run's manifest. Removes the parts that no commit names, so call it before any part is
    /// written.
    pub fn new(run: Run) -> Result<Committer, LogError> {
        let index = LogIndex::read(run.root())?;
        sweep::sweep(&run, &index)?;
        Committer::start(run, index, u64::MAX)
    }

    /// Keeps the iterations before `first` and continues after them, with a new journal that counts once the manifest
    /// names it.
    fn start(run: Run, mut index: LogIndex, first: u64) -> Result<Committer, LogError> {
        let root = run.root().to_owned();
        let mut pruner = WeightPruner::new(&index.head.info);
        index
            .committed(&root, 0..=u64::MAX)?
            .iter()
            .filter(|committed| committed.iteration < first)
            .for_each(|committed| pruner.record(committed));
        let generation = index.head.generation + 1;
        let (kept_segments, cut): (Vec<_>, Vec<_>) =
            std::mem::take(&mut index.head.segments).into_iter().partition(|segment| segment.last < first);
        let mut tail = Vec::new();
        for segment in cut {
            tail.extend(segment.iterations(&root)?.into_iter().filter(|committed| committed.iteration < first));
        }
        let mut tail = unpacked(&run, tail)?;
        tail.extend(index.tail.into_iter().filter(|committed| committed.iteration < first));
        let head = ManifestBody { generation, chain: 0, end: None, segments: kept_segments, lost: None, ..index.head };
        let last = head.segments.last().map(|segment| segment.last);
        let journal = JournalWriter::begin(&run, generation)?;
        let (status, since) = (Status::Running, Instant::now());
        let (blocks, folding, gave_up, obsolete, compacted) = Default::default();
        let mut committer = Committer { run, head, status, last, journal, blocks, folding, gave_up, obsolete, compacted, pruner, since };
        for iteration in tail {
            committer.append(iteration)?;
        }
        committer.save()?;
        let parts = committer.blocks.iter().flat_map(|block| &block.iterations).flat_map(|committed| &committed.parts);
        pending::publish(&committer.run, parts.map(|part| &part.path))?;
        Ok(committer)
    }

    /// Commits `iteration`: from now on readers see its parts. Iterations must increase; gaps are allowed.
    pub fn commit(&mut self, iteration: u64, mut parts: Vec<Part>, metrics: Metrics, weights: Vec<SavedWeights>) -> Result<(), LogError> {
        if let Some(last) = self.last.filter(|last| *last >= iteration) {
            return Err(LogError::Order { iteration, last });
        }
        self.run.in_place()?;
        self.head.end = None;
        parts.sort_by(|a, b| (&a.node, a.worker).cmp(&(&b.node, b.worker)));
        let seconds = self.since.elapsed().as_secs_f64();
        let committed = Iteration { iteration, parts, metrics, weights, seconds };
        self.append(committed)?;
        if let Some(committed) = self.blocks.last().and_then(|block| block.iterations.last()) {
            pending::publish(&self.run, committed.parts.iter().map(|part| &part.path))?;
            self.pruner.record(committed);
        }
        self.since = Instant::now();
        self.fold();
        self.pruner.tidy(&self.run)
    }

    /// Notes what the models begin with.
    pub fn note_start(&mut self, start: Vec<SavedWeights>) -> Result<(), LogError> {
        self.wait();
        self.head.start = start;
        self.save()
    }

    /// Changes the planned number of iterations.
    pub fn plan(&mut self, iterations: u64) {
        self.head.info.iterations = iterations;
    }

    /// Keeps the failed episodes of an iteration that a failure ended, until the run is resumed.
    pub fn keep_lost(&mut self, lost: Part) {
        self.head.lost = Some(lost);
    }

    /// Sets the run's final status, and removes uncommitted files and files that compaction has replaced.
    pub fn finish(&mut self, status: Status) -> Result<(), LogError> {
        self.run.in_place()?;
        // Compaction only saves space: the log is complete without it.
        self.wait();
        self.fold();
        self.wait();
        self.status = status;
        self.head.end = Some(self.journal.chain);
        self.save()?;
        sweep::sweep(&self.run, &LogIndex::read(self.run.root())?)
    }

    fn append(&mut self, committed: Iteration) -> Result<(), LogError> {
        self.journal.append(&committed)?;
        self.last = Some(committed.iteration);
        let (number, chain) = (committed.iteration / BLOCK, self.journal.chain);
        match self.blocks.last_mut().filter(|block| block.number == number) {
            Some(block) => {
                // The growing block isn't shared, so nothing is copied.
                let block = Arc::make_mut(block);
                block.iterations.push(committed);
                block.chain = chain;
            }
            None => self.blocks.push(Arc::new(JournalBlock { number, iterations: vec![committed], chain })),
        }
        Ok(())
    }

    /// Takes over a finished compaction, and starts the next one if there are whole blocks. A commit does no more for
    /// it than this.
    fn fold(&mut self) {
        if self.folding.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait();
        }
        let whole = self.blocks.len().saturating_sub(1);
        if self.folding.is_none() && whole > 0 && !self.gave_up {
            let (run, head, status) = (self.run.clone(), self.head.clone(), self.status.clone());
            let (blocks, obsolete) = (self.blocks[..whole].to_vec(), std::mem::take(&mut self.obsolete));
            let compacted = std::mem::take(&mut self.compacted);
            let work = move || {
                drop(compacted);
                give_way();
                compact(&run, head, &status, &blocks, obsolete)
            };
            self.folding = thread::Builder::new().name("the log's segments".into()).spawn(work).ok();
        }
    }

    /// Waits for the compaction in progress.
    fn wait(&mut self) {
        let Some(folding) = self.folding.take() else { return };
        let Ok(Ok(done)) = folding.join() else {
            // The files that it would have replaced are all there; readers report what is wrong with them.
            self.gave_up = true;
            return;
        };
        (self.head.segments, self.head.chain) = (done.segments, done.chain);
        self.compacted.extend(self.blocks.drain(..done.blocks));
        self.obsolete.extend(done.obsolete);
    }

    fn save(&self) -> Result<(), LogError> {
        self.head.write(self.run.root(), &self.status)
    }
}

impl Drop for Committer {
    /// Waits for the compaction: no other process may write the run meanwhile.
    fn drop(&mut self) {
        let _ = self.folding.take().map(JoinHandle::join);
    }
}

/// Iterations of a segment, with the rows of each written to files of its own again.
fn unpacked(run: &Run, iterations: Vec<Iteration>) -> Result<Vec<Iteration>, LogError> {
    let mut all = Vec::new();
    for mut committed in iterations {
        for part in committed.parts.iter_mut().filter(|part| part.start.is_some()) {
            let rows: Vec<RecordBatch> = reader::part(run, part)?;
            if let Some(rows) = flow_core::row::sorted(&rows)? {
                *part = write_part(run, &part.node, part.iteration, part.worker, &rows)?;
            }
        }
        all.push(committed);
    }
    Ok(all)
}

impl Run {
    /// Undoes the commits from iteration `first` on, for a run that continues from there, and returns the manifest that
    /// is left.
    pub fn rewind(&self, first: u64) -> Result<Manifest, LogError> {
        let manifest = self.manifest()?;
        if manifest.next() <= first {
            return Ok(manifest);
        }
        drop(Committer::start(self.clone(), LogIndex::read(self.root())?, first)?);
        self.manifest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::fold;
    use crate::{journal, query, read, readers, AnswerFormat, NodeInfo, RunInfo};
    use arrow::array::{ArrayRef, Float32Array, StringArray, UInt32Array, UInt64Array};
    use flow_core::row;
    use std::fs;
    use std::path::PathBuf;

    /// Three rows of an iteration, of the second and third of three workers.
    fn rows(iteration: u64, worker: usize) -> RecordBatch {
        let u32s = |values: Vec<u32>| Arc::new(UInt32Array::from(values)) as ArrayRef;
        let tasks = if worker == 1 { vec!["a", "c"] } else { vec!["b"] };
        let n = tasks.len();
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![iteration; n])) as ArrayRef),
            ("task", Arc::new(StringArray::from(tasks))),
            ("sample", u32s(vec![0; n])),
            ("attempt", u32s(vec![0; n])),
            ("turn", u32s(vec![0; n])),
            ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
            ("reward", Arc::new(Float32Array::from(vec![iteration as f32 + worker as f32; n]))),
        ])
        .unwrap()
    }

    fn begun() -> (tempfile::TempDir, Run) {
        let folder = tempfile::tempdir().unwrap();
        let nodes = vec![NodeInfo { id: "rollout".into(), op: "rollout".into(), ..Default::default() }];
        let run = Run::create(&folder.path().join("run"), "", &RunInfo { nodes, ..Default::default() }).unwrap();
        (folder, run)
    }

    fn commit(committer: &mut Committer, run: &Run, iteration: u64) {
        let parts = [1, 2].map(|worker| write_part(run, "rollout", iteration, worker, &rows(iteration, worker)).unwrap());
        let metrics = Metrics::from([("rollout".into(), [("return".to_string(), iteration as f64)].into())]);
        committer.commit(iteration, parts.to_vec(), metrics, vec![]).unwrap();
    }

    /// Whether the run has these iterations, whole, by every way of asking.
    fn whole(run: &Run, iterations: std::ops::Range<u64>) {
        let expected: Vec<RecordBatch> = iterations.clone().map(|i| row::sorted(&[rows(i, 1), rows(i, 2)]).unwrap().unwrap()).collect();
        assert!(read(run, "rollout").unwrap() == expected);
        let manifest = run.manifest().unwrap();
        assert_eq!(
            manifest.committed.iter().map(|committed| committed.iteration).collect::<Vec<_>>(),
            iterations.clone().collect::<Vec<_>>()
        );
        assert!(manifest.committed.iter().all(|committed| committed.metrics["rollout"]["return"] == committed.iteration as f64));
        let ask = |sql: &str| {
            let mut out = Vec::new();
            super::super::print(&query(run, sql).unwrap(), AnswerFormat::Csv, &mut out).unwrap();
            String::from_utf8(out).unwrap().lines().nth(1).unwrap().to_owned()
        };
        assert_eq!(ask("select count(*) from rollout"), (3 * expected.len()).to_string());
        assert_eq!(ask("select sum(value) from metrics"), format!("{:?}", iterations.clone().sum::<u64>() as f64));
        for iteration in [iterations.start, iterations.end - 1, iterations.end / 2] {
            assert_eq!(ask(&format!("select count(*) from rollout where iteration = {iteration}")), "3");
            assert_eq!(
                ask(&format!("select min(reward) from trajectories where iteration >= {iteration} and iteration <= {iteration}")),
                format!("{}.0", iteration + 1)
            );
        }
    }

    fn files(run: &Run) -> Vec<PathBuf> {
        let entries = |folder: &PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>();
        let mut all: Vec<PathBuf> = entries(&run.log().join("rollout")).iter().flat_map(entries).collect();
        all.sort();
        all
    }

    /// Figures come back to the last bit, also by way of a run that goes on.
    #[test]
    fn figures_are_read_as_they_were_measured() {
        let (_folder, run) = begun();
        let mut random = flow_core::seed::Random::new(9);
        // Numbers of every size, whose shortest decimal digits a careless reader rounds otherwise.
        let figures: Vec<f64> = (0..2000).map(|i| (random.unit() - 0.5) * 10f64.powi(i % 60 - 30)).collect();
        let metrics =
            Metrics::from([("update".into(), figures.iter().enumerate().map(|(i, value)| (format!("{i:04}"), *value)).collect())]);
        Committer::new(run.clone()).unwrap().commit(0, vec![], metrics, vec![]).unwrap();
        drop(Committer::new(run.clone()).unwrap());
        let manifest = run.manifest().unwrap();
        let read: Vec<u64> = manifest.committed[0].metrics["update"].values().map(|value| value.to_bits()).collect();
        assert!(read == figures.iter().map(|value| value.to_bits()).collect::<Vec<u64>>());
    }

    #[test]
    fn a_long_run_has_few_files_and_the_same_rows() {
        let (_folder, run) = begun();
        let mut committer = Committer::new(run.clone()).unwrap();
        for iteration in 0..10 * BLOCK + 5 {
            commit(&mut committer, &run, iteration);
            if iteration % 100 == 99 {
                whole(&run, 0..iteration + 1);
            }
        }
        committer.finish(Status::Finished).unwrap();
        whole(&run, 0..10 * BLOCK + 5);
        // Eight blocks in one, two by themselves, five iterations of two files.
        assert_eq!(files(&run).len(), 3 + 2 * 5, "{:?}", files(&run));
        let text = fs::read_to_string(run.root().join("manifest.json")).unwrap();
        assert!(text.len() < 3000, "{text}");
    }

    #[test]
    fn a_run_goes_on_from_the_middle_of_a_segment() {
        let (_folder, run) = begun();
        let mut committer = Committer::new(run.clone()).unwrap();
        (0..3 * BLOCK).for_each(|iteration| commit(&mut committer, &run, iteration));
        committer.finish(Status::Stopped).unwrap();
        drop(committer);
        let left = run.rewind(BLOCK + 9).unwrap();
        assert_eq!(left.next(), BLOCK + 9);
        whole(&run, 0..BLOCK + 9);
        let mut committer = Committer::new(run.clone()).unwrap();
        (BLOCK + 9..3 * BLOCK + 1).for_each(|iteration| commit(&mut committer, &run, iteration));
        committer.finish(Status::Finished).unwrap();
        whole(&run, 0..3 * BLOCK + 1);
        assert_eq!(files(&run).len(), 3 + 2);
    }

    /// Files that were written and not named yet; then named, with those before them still there.
    #[test]
    fn a_kill_while_files_are_put_together_loses_nothing() {
        let (_folder, run) = begun();
        let mut committer = Committer::new(run.clone()).unwrap();
        committer.gave_up = true;
        (0..2 * BLOCK).for_each(|iteration| commit(&mut committer, &run, iteration));
        committer.gave_up = false;
        let reader = readers::ReadLock::begin(&run);
        let block = committer.blocks[0].iterations.clone();
        fold(&run, committer.head.generation, vec![], &[block.as_slice()]).unwrap();
        whole(&run, 0..2 * BLOCK);
        // A commit, and files that nobody may remove while one reads.
        committer.fold();
        committer.wait();
        assert_eq!(committer.head.segments.len(), 1);
        whole(&run, 0..2 * BLOCK);
        assert_eq!(files(&run).len(), 1 + 4 * BLOCK as usize);
        drop(reader);
        std::mem::forget(committer);
        let mut committer = Committer::new(run.clone()).unwrap();
        assert_eq!(files(&run).len(), 1 + 2 * BLOCK as usize, "swept");
        commit(&mut committer, &run, 2 * BLOCK);
        committer.finish(Status::Finished).unwrap();
        whole(&run, 0..2 * BLOCK + 1);
    }

    #[test]
    fn a_line_that_was_lost_or_changed_is_no_run() {
        let (_folder, run) = begun();
        let mut committer = Committer::new(run.clone()).unwrap();
        (0..5).for_each(|iteration| commit(&mut committer, &run, iteration));
        let path = run.root().join(journal::path(committer.head.generation, 0));
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for forged in [[&lines[..2], &lines[3..]].concat().concat(), text.replacen("\"rows\":2", "\"rows\":1", 1)] {
            fs::write(&path, forged).unwrap();
            let error = run.manifest().unwrap_err().to_string();
            assert!(error.contains("has changed since its commit") && error.contains("restore it"), "{error}");
        }
        // What a kill left of a line is as if it had not been begun.
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(run.manifest().unwrap().next(), 4);
        // But not of a run that had ended.
        fs::write(&path, &text).unwrap();
        committer.finish(Status::Finished).unwrap();
        assert_eq!(run.manifest().unwrap().next(), 5);
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert!(run.manifest().unwrap_err().to_string().contains("gone from the journal"));
    }
}
