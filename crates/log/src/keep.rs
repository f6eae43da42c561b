//! Which old weights stay on disk: the versions that the pipeline's `keep` asks for, the versions that a resumed run
//! needs, and the initial ones.

use super::{disk, Iteration, LogError, Run, RunInfo};
use flow_core::keep::WeightRetention;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Decides from the committed iterations which weights stay, and removes the others.
pub(super) struct WeightPruner {
    keep: WeightRetention,
    delay: u64,
    /// The newest iterations. All their weights stay for now: a resumed run may need them.
    recent: VecDeque<IterationWeights>,
    /// By model, the newest version from before `recent`.
    older: BTreeMap<String, u64>,
    /// The version that an iteration began with, and the best that was measured on a frozen panel.
    before: u64,
    best: Option<(f64, u64)>,
    /// The versions on disk that may have to be removed.
    saved: BTreeSet<u64>,
}

struct IterationWeights {
    iteration: u64,
    /// (model, version), oldest first.
    versions: Vec<(String, u64)>,
}

impl WeightPruner {
    pub fn new(info: &RunInfo) -> WeightPruner {
        let (recent, older, saved) = (VecDeque::new(), BTreeMap::new(), BTreeSet::new());
        WeightPruner { keep: info.keep.clone(), delay: info.delay, recent, older, before: 0, best: None, saved }
    }

    pub fn record(&mut self, iteration: &Iteration) {
        let versions = iteration.weights.iter().map(|w| (w.model.clone(), w.version)).collect();
        // A node that trains measures `return` and `loss`; one that only evaluates says so by the number of its tasks.
        let success = iteration.metrics.values().find_map(|f| f.get("panel").and(f.get("success"))).copied();
        self.add(IterationWeights { iteration: iteration.iteration, versions }, success);
    }

    /// `success` was measured on a frozen panel, of the weights that the iteration began with.
    fn add(&mut self, weights: IterationWeights, success: Option<f64>) {
        if let Some(success) = success.filter(|s| self.best.is_none_or(|(most, _)| *s > most)) {
            self.best = Some((success, self.before));
        }
        self.before = weights.versions.last().map_or(self.before, |(_, version)| *version);
        self.saved.extend(weights.versions.iter().map(|(_, version)| version));
        self.recent.push_back(weights);
        // The last iteration may only have measured, and a run that trains on makes it once more.
        let Some(newest) = self.recent.iter().rev().find(|m| !m.versions.is_empty()).map(|m| m.iteration) else { return };
        while self.recent.front().is_some_and(|weights| weights.iteration + self.back() < newest) {
            let gone = self.recent.pop_front();
            self.older.extend(gone.into_iter().flat_map(|weights| {
                if self.keep.every.is_some_and(|every| (weights.iteration + 1) % every == 0) {
                    self.saved.retain(|saved| weights.versions.iter().all(|(_, version)| version != saved));
                }
                weights.versions
            }));
        }
    }

    /// How many iterations before the newest keep all their weights.
    fn back(&self) -> u64 {
        self.delay.max(self.keep.last.max(1) - 1)
    }

    /// The versions that stay, without the versions that `keep.every` keeps for good.
    fn versions_to_keep(&self) -> BTreeSet<u64> {
        let mut versions = BTreeSet::from([0]);
        let Some(newest) = self.recent.iter().rev().find(|m| !m.versions.is_empty()).map(|m| m.iteration) else { return versions };
        versions.extend(self.recent.iter().flat_map(|weights| &weights.versions).map(|(_, version)| version));
        // An iteration that made none of a model leaves the ones before it in use.
        let mut older = self.older.clone();
        let due = self.recent.iter().filter(|weights| weights.iteration + self.back() <= newest);
        older.extend(due.flat_map(|weights| weights.versions.iter().cloned()));
        versions.extend(older.into_values());
        versions.extend(self.best.filter(|_| self.keep.best).map(|(_, version)| version));
        versions
    }

    /// Removes the weights that need not be kept. Those newer than the last commit stay: their iteration is about to be
    /// committed.
    pub fn tidy(&mut self, run: &Run) -> Result<(), LogError> {
        let keep = self.versions_to_keep();
        let gone: BTreeSet<u64> = self.saved.difference(&keep).copied().collect();
        if !gone.is_empty() {
            if disk::is_folder(&run.weights()) {
                gone.iter().try_for_each(|version| drop_folder(&run.weights().join(version.to_string())))?;
            }
            self.saved.retain(|version| !gone.contains(version));
        }
        Ok(())
    }
}

/// Removes the weights that a stopped run saved and did not commit.
pub(super) fn drop_uncommitted(run: &Run, newest: u64) -> Result<(), LogError> {
    remove(run, |version| version > newest)
}

fn remove(run: &Run, gone: impl Fn(u64) -> bool) -> Result<(), LogError> {
    let folder = run.weights();
    if !disk::is_folder(&folder) {
        return Ok(()); // nothing, or a link to a folder with other things
    }
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
    for path in entries.flatten().map(|e| e.path()) {
        let version = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
        if version.is_some_and(&gone) {
            drop_folder(&path)?;
        }
    }
    Ok(())
}

fn drop_folder(path: &Path) -> Result<(), LogError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(LogError::io(path)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept, with what is kept for good.
    fn all(pruner: &WeightPruner) -> Vec<u64> {
        let every = pruner.keep.every;
        let mut kept_versions = pruner.versions_to_keep();
        kept_versions.extend(
            (0..).take(40).filter(|version| every.is_some() && *version > 0 && *version < pruner.before && !pruner.saved.contains(version)),
        );
        kept_versions.into_iter().collect()
    }

    /// Two versions an iteration; a panel measured before iterations 0, 2 and 4.
    fn kept_after_five(keep: WeightRetention, delay: u64) -> Vec<u64> {
        let mut pruner = WeightPruner::new(&RunInfo { keep, delay, ..Default::default() });
        for (i, success) in [Some(0.1), None, Some(0.9), None, Some(0.5)].into_iter().enumerate() {
            let i = i as u64;
            pruner.add(IterationWeights { iteration: i, versions: vec![("a".into(), 2 * i + 1), ("a".into(), 2 * i + 2)] }, success);
        }
        all(&pruner)
    }

    #[test]
    fn a_model_that_was_left_alone_keeps_its_newest() {
        let mut pruner = WeightPruner::new(&RunInfo::default());
        for (i, versions) in [vec![("actor", 1), ("critic", 1)], vec![("critic", 2)], vec![("critic", 3)]].into_iter().enumerate() {
            let versions = versions.into_iter().map(|(model, version)| (model.into(), version)).collect();
            pruner.add(IterationWeights { iteration: i as u64, versions }, None);
        }
        assert_eq!(all(&pruner), [0, 1, 3]);
    }

    #[test]
    fn an_iteration_that_only_measures_takes_nothing_away() {
        let mut pruner = WeightPruner::new(&RunInfo { delay: 1, ..Default::default() });
        for (iteration, versions) in [(0, vec![1]), (1, vec![2]), (2, vec![3]), (3, vec![])] {
            let versions = versions.into_iter().map(|version| ("a".into(), version)).collect();
            pruner.add(IterationWeights { iteration, versions }, None);
        }
        assert_eq!(all(&pruner), [0, 2, 3], "whoever goes on with iteration 3 asks for 2");
    }

    #[test]
    fn the_last_the_due_and_the_best_stay() {
        assert_eq!(kept_after_five(WeightRetention::default(), 0), [0, 9, 10]);
        assert_eq!(kept_after_five(WeightRetention { last: 2, ..Default::default() }, 0), [0, 7, 8, 9, 10]);
        assert_eq!(kept_after_five(WeightRetention { every: Some(2), ..Default::default() }, 0), [0, 3, 4, 7, 8, 9, 10]);
        assert_eq!(
            kept_after_five(WeightRetention { best: true, ..Default::default() }, 0),
            [0, 4, 9, 10],
            "0.9 was measured of what iteration 1 left"
        );
        assert_eq!(kept_after_five(WeightRetention::default(), 1), [0, 7, 8, 9, 10], "a delayed edge may still ask");
    }

    /// What is held in memory doesn't grow with the run.
    #[test]
    fn a_long_run_is_remembered_in_little() {
        let mut pruner =
            WeightPruner::new(&RunInfo { delay: 2, keep: WeightRetention { every: Some(3), ..Default::default() }, ..Default::default() });
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(&folder.path().join("run"), "", &RunInfo::default()).unwrap();
        for iteration in 0..1000 {
            pruner.add(IterationWeights { iteration, versions: vec![("a".into(), iteration + 1)] }, None);
            pruner.tidy(&run).unwrap();
        }
        assert!(pruner.recent.len() == 3 && pruner.saved.len() < 5, "{} {}", pruner.recent.len(), pruner.saved.len());
    }
}
