//! The manifest: which iterations are committed, with which files, metrics and weights. In memory it is one value; on
//! disk it is `manifest.json` ([`super::head`]), segments and a journal.

use super::run_info::{NodeInfo, RunInfo};
use super::{Iteration, LogError, Part, SavedWeights, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All that a reader may trust.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub info: RunInfo,
    pub status: Status,
    /// What the models began with, version 0.
    pub start: Vec<SavedWeights>,
    pub committed: Vec<Iteration>,
}

impl Manifest {
    /// What no run could have written: files outside its folder, a file named twice, iterations out of order.
    pub(super) fn validate(&self) -> Result<(), String> {
        let mut last = None;
        let mut files = BTreeSet::new();
        for committed in &self.committed {
            let iteration = committed.iteration;
            if last.is_some_and(|last| last >= iteration) {
                return Err(format!("iteration {iteration} comes after iteration {}", last.unwrap_or_default()));
            }
            last = Some(iteration);
            for part in &committed.parts {
                if part.iteration != iteration {
                    return Err(format!("{} is of iteration {} and stands in iteration {iteration}", part.path, part.iteration));
                }
                // A file of many iterations stands in each of them.
                if !files.insert(&part.path) && part.start.is_none() {
                    return Err(format!("{} is named twice", part.path));
                }
            }
        }
        let weights = self.start.iter().chain(self.committed.iter().flat_map(|i| &i.weights)).map(|w| &w.path);
        all_inside(files.into_iter().chain(weights))
    }

    /// The newest committed weights of `model`.
    pub fn newest_of(&self, model: &str) -> Option<&SavedWeights> {
        let newest_first = self.committed.iter().rev().flat_map(|i| i.weights.iter().rev());
        newest_first.chain(&self.start).find(|w| w.model == model)
    }

    /// The newest committed weights of each model that learnt.
    pub fn newest(&self) -> BTreeMap<&str, &SavedWeights> {
        self.committed.iter().flat_map(|iteration| &iteration.weights).map(|weights| (weights.model.as_str(), weights)).collect()
    }

    /// The iteration that a resumed run starts with.
    pub fn next(&self) -> u64 {
        self.committed.last().map_or(0, |i| i.iteration + 1)
    }

    /// How many iterations have been trained; a finished run may have committed a last evaluation after them.
    pub fn trained(&self) -> u64 {
        self.next().min(self.info.iterations)
    }

    /// The committed files of `node`, oldest iteration first.
    pub fn parts<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Part> {
        self.committed.iter().flat_map(|i| &i.parts).filter(move |p| p.node == node)
    }

    /// The logged node called `id`.
    pub fn node(&self, id: &str) -> Result<&NodeInfo, LogError> {
        self.info.nodes.iter().find(|n| n.id == id).ok_or_else(|| self.unknown(id))
    }

    fn unknown(&self, node: &str) -> LogError {
        let known: Vec<&str> = self.info.nodes.iter().map(|n| n.id.as_str()).collect();
        LogError::Node { node: node.into(), known: if known.is_empty() { "none".into() } else { known.join(", ") } }
    }
}

/// Refuses paths that lead out of the run's folder.
pub(super) fn all_inside<'a>(mut paths: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let out = |path: &&String| !Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    paths.find(out).map_or(Ok(()), |path| Err(format!("{path} lies outside the run's folder")))
}

#[cfg(test)]
mod tests {
    use super::super::head::FILE;
    use super::super::Metrics;
    use super::*;

    fn manifest() -> Manifest {
        let part = |node: &str, iteration| Part {
            node: node.into(),
            iteration,
            worker: 0,
            path: format!("log/{node}/{iteration}/part-0.parquet"),
            rows: 1,
            bytes: 1,
            sum: 0,
            start: None,
        };
        let iteration =
            |i| Iteration { iteration: i, parts: vec![part("a", i), part("b", i)], metrics: Metrics::new(), weights: vec![], seconds: 0.0 };
        let committed = vec![iteration(0), iteration(2)];
        Manifest { info: RunInfo::default(), status: Status::Running, start: vec![], committed }
    }

    #[test]
    fn what_no_run_wrote_is_refused() {
        let forged = |forge: fn(&mut Manifest)| {
            let mut manifest = manifest();
            forge(&mut manifest);
            manifest.validate().unwrap_err()
        };
        assert_eq!(manifest().validate(), Ok(()));
        assert!(forged(|m| m.committed[0].parts[1] = m.committed[0].parts[0].clone()).contains("log/a/0/part-0.parquet is named twice"));
        assert!(forged(|m| m.committed[1].iteration = 0).contains("iteration 0 comes after iteration 0"));
        assert!(forged(|m| m.committed.reverse()).contains("iteration 0 comes after iteration 2"));
        assert!(
            forged(|m| m.committed[1].parts[0] = m.committed[0].parts[1].clone()).contains("is of iteration 0 and stands in iteration 2")
        );
        for path in ["/etc/passwd", "../other/log/a", "log/../../x"] {
            let weights = SavedWeights { path: path.into(), ..SavedWeights::default() };
            let mut manifest = manifest();
            manifest.committed[0].weights.push(weights);
            assert!(manifest.validate().unwrap_err().contains("outside the run's folder"), "{path}");
            manifest.committed[0].weights.clear();
            manifest.committed[0].parts[0].path = path.into();
            assert!(manifest.validate().unwrap_err().contains("outside the run's folder"), "{path}");
        }
    }

    #[test]
    fn a_newer_format_is_called_newer_whatever_else_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), r#"{"format":7,"committed":"elsewhere"}"#).unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("format 7") && error.contains("newer version of flow") && !error.contains("damaged"), "{error}");
    }
}
