//! Commits: iterations go into the manifest, and what no commit names goes from the disk.

use super::keep::Keeper;
use super::manifest::line;
use super::{sweep, Iteration, LogError, Manifest, Metrics, Part, Run, Status, WeightsAt};
use std::time::Instant;

/// Commits iterations. Owned by one thread of one process: two would overwrite each other's manifest.
pub struct Committer {
    run: Run,
    /// Everything but the iterations, which are kept below as JSON, ready to write: a commit costs what its iteration costs.
    head: Manifest,
    last: Option<u64>,
    body: Vec<u8>,
    keeper: Keeper,
    since: Instant,
}

impl Committer {
    /// Goes on from the run's manifest. Removes the parts that no commit names, so it comes before any part is written.
    pub fn new(run: Run) -> Result<Committer, LogError> {
        let manifest = run.manifest()?;
        sweep::sweep(&run, &manifest)?;
        Committer::start(run, manifest)
    }

    fn start(run: Run, mut head: Manifest) -> Result<Committer, LogError> {
        let committed = std::mem::take(&mut head.committed);
        let last = committed.last().map(|i| i.iteration);
        let keeper = Keeper::new(&head.info);
        let mut committer = Committer { run, head, last, body: Vec::new(), keeper, since: Instant::now() };
        for iteration in &committed {
            committer.push(iteration)?;
            committer.keeper.saw(iteration);
        }
        committer.head.status = Status::Running;
        committer.save()?;
        Ok(committer)
    }

    /// Commits `iteration`: from now on readers see its parts. Iterations must grow; not each needs to be there.
    pub fn commit(&mut self, iteration: u64, mut parts: Vec<Part>, metrics: Metrics, weights: Vec<WeightsAt>) -> Result<(), LogError> {
        if let Some(last) = self.last.filter(|last| *last >= iteration) {
            return Err(LogError::Order { iteration, last });
        }
        parts.sort_by(|a, b| (&a.node, a.worker).cmp(&(&b.node, b.worker)));
        let seconds = self.since.elapsed().as_secs_f64();
        let before = self.body.len();
        let made = Iteration { iteration, parts, metrics, weights, seconds };
        self.push(&made)?;
        // An iteration that could not be saved must not slip in with the next one.
        self.save().inspect_err(|_| self.body.truncate(before))?;
        self.last = Some(iteration);
        self.since = Instant::now();
        self.keeper.saw(&made);
        self.keeper.tidy(&self.run)
    }

    /// Notes what the models begin with.
    pub fn begins(&mut self, start: Vec<WeightsAt>) -> Result<(), LogError> {
        self.head.start = start;
        self.save()
    }

    /// Plans another number of iterations than before.
    pub fn plan(&mut self, iterations: u64) {
        self.head.info.iterations = iterations;
    }

    /// Says how the run ended, and removes the parts that were not committed.
    pub fn finish(&mut self, status: Status) -> Result<(), LogError> {
        self.head.status = status;
        self.save()?;
        sweep::sweep(&self.run, &self.run.manifest()?)
    }

    fn push(&mut self, iteration: &Iteration) -> Result<(), LogError> {
        let line = line(iteration, self.body.len());
        self.body.extend(line.map_err(|e| LogError::Manifest { path: self.run.manifest_path(), why: e.to_string() })?);
        Ok(())
    }

    fn save(&self) -> Result<(), LogError> {
        self.head.write(self.run.root(), &self.body)
    }
}

impl Run {
    /// Takes back the commits from iteration `first` on, for a run that is to go on from there, and answers with what is left.
    pub fn rewind(&self, first: u64) -> Result<Manifest, LogError> {
        let mut manifest = self.manifest()?;
        let before = manifest.committed.len();
        manifest.committed.retain(|i| i.iteration < first);
        if manifest.committed.len() < before {
            Committer::start(self.clone(), manifest.clone())?;
        }
        Ok(manifest)
    }
}
