//! Which old weights stay on disk: those the pipeline's `keep` names, those that a resumed run needs, and the start.

use super::{Iteration, LogError, Run, RunInfo};
use crate::pipeline::Keep;
use std::collections::BTreeSet;
use std::fs;

/// Remembers what each committed iteration made, and removes what nobody keeps.
pub(super) struct Keeper {
    keep: Keep,
    delay: u64,
    made: Vec<Made>,
}

struct Made {
    iteration: u64,
    /// Of each model, oldest first.
    versions: Vec<(String, u64)>,
    /// On a frozen panel, of the weights that the iteration began with.
    success: Option<f64>,
}

impl Keeper {
    pub fn new(info: &RunInfo) -> Keeper {
        Keeper { keep: info.keep.clone(), delay: info.delay, made: Vec::new() }
    }

    pub fn saw(&mut self, iteration: &Iteration) {
        let versions = iteration.weights.iter().map(|w| (w.model.clone(), w.version)).collect();
        // A node that trains measures `return` and `loss`; one that only evaluates says so by the number of its tasks.
        let success = iteration.metrics.values().find_map(|f| f.get("panel").and(f.get("success"))).copied();
        self.made.push(Made { iteration: iteration.iteration, versions, success });
    }

    /// The versions that stay.
    fn kept(&self) -> BTreeSet<u64> {
        let mut kept = BTreeSet::from([0]);
        // The last iteration may only have measured, and a run that trains on makes it once more.
        let Some(newest) = self.made.iter().rev().find(|m| !m.versions.is_empty()).map(|m| m.iteration) else { return kept };
        let back = self.delay.max(self.keep.last.max(1) - 1);
        for made in &self.made {
            let due = self.keep.every.is_some_and(|every| (made.iteration + 1) % every == 0);
            if due || made.iteration + back >= newest {
                kept.extend(made.versions.iter().map(|(_, version)| version));
            }
        }
        // An iteration that made none of a model leaves the ones before it in use.
        for model in self.made.iter().flat_map(|m| &m.versions).map(|(model, _)| model).collect::<BTreeSet<_>>() {
            let old = self.made.iter().rev().filter(|m| m.iteration + back <= newest);
            kept.extend(old.flat_map(|m| m.versions.iter().rev()).find(|(made, _)| made == model).map(|(_, version)| version));
        }
        if self.keep.best {
            kept.extend(self.best());
        }
        kept
    }

    /// The version that did best on a frozen panel; of equals the oldest.
    fn best(&self) -> Option<u64> {
        let (mut before, mut best) = (0, None);
        for made in &self.made {
            if let Some(success) = made.success.filter(|s| best.is_none_or(|(most, _)| *s > most)) {
                best = Some((success, before));
            }
            before = made.versions.last().map_or(before, |(_, version)| *version);
        }
        best.map(|(_, version)| version)
    }

    /// Removes from the run's folder the weights that nobody keeps. Newer ones than the last committed stay: their iteration is on its way.
    pub fn tidy(&self, run: &Run) -> Result<(), LogError> {
        let kept = self.kept();
        let newest = self.made.iter().flat_map(|m| &m.versions).map(|(_, version)| *version).max().unwrap_or(0);
        remove(run, |version| version <= newest && !kept.contains(&version))
    }
}

/// Removes what a stopped run had made and not committed.
pub(super) fn drop_uncommitted(run: &Run, newest: u64) -> Result<(), LogError> {
    remove(run, |version| version > newest)
}

fn remove(run: &Run, gone: impl Fn(u64) -> bool) -> Result<(), LogError> {
    let folder = run.weights();
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
    for path in entries.flatten().map(|e| e.path()) {
        let version = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok());
        if version.is_some_and(&gone) {
            fs::remove_dir_all(&path).map_err(LogError::io(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two versions an iteration; a panel measured before iterations 0, 2 and 4.
    fn kept(keep: Keep, delay: u64) -> Vec<u64> {
        let mut keeper = Keeper::new(&RunInfo { keep, delay, ..Default::default() });
        for (i, success) in [Some(0.1), None, Some(0.9), None, Some(0.5)].into_iter().enumerate() {
            let i = i as u64;
            keeper.made.push(Made { iteration: i, versions: vec![("a".into(), 2 * i + 1), ("a".into(), 2 * i + 2)], success });
        }
        keeper.kept().into_iter().collect()
    }

    #[test]
    fn a_model_that_was_left_alone_keeps_its_newest() {
        let mut keeper = Keeper::new(&RunInfo::default());
        for (i, versions) in [vec![("actor", 1), ("critic", 1)], vec![("critic", 2)], vec![("critic", 3)]].into_iter().enumerate() {
            let versions = versions.into_iter().map(|(model, version)| (model.into(), version)).collect();
            keeper.made.push(Made { iteration: i as u64, versions, success: None });
        }
        assert_eq!(keeper.kept().into_iter().collect::<Vec<_>>(), [0, 1, 3]);
    }

    #[test]
    fn an_iteration_that_only_measures_takes_nothing_away() {
        let mut keeper = Keeper::new(&RunInfo { delay: 1, ..Default::default() });
        for (iteration, versions) in [(0, vec![1]), (1, vec![2]), (2, vec![3]), (3, vec![])] {
            let versions = versions.into_iter().map(|version| ("a".into(), version)).collect();
            keeper.made.push(Made { iteration, versions, success: None });
        }
        assert_eq!(keeper.kept().into_iter().collect::<Vec<_>>(), [0, 2, 3], "whoever goes on with iteration 3 asks for 2");
    }

    #[test]
    fn the_last_the_due_and_the_best_stay() {
        assert_eq!(kept(Keep::default(), 0), [0, 9, 10]);
        assert_eq!(kept(Keep { last: 2, ..Default::default() }, 0), [0, 7, 8, 9, 10]);
        assert_eq!(kept(Keep { every: Some(2), ..Default::default() }, 0), [0, 3, 4, 7, 8, 9, 10]);
        assert_eq!(kept(Keep { best: true, ..Default::default() }, 0), [0, 4, 9, 10], "0.9 was measured of what iteration 1 left");
        assert_eq!(kept(Keep::default(), 1), [0, 7, 8, 9, 10], "a delayed edge may still ask");
    }
}
