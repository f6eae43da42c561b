//! Which of the runs are one experiment under several seeds, and what each experiment is called.

use super::runs::ServedRun;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Runs of one pipeline that differ in their seeds.
#[derive(Debug, PartialEq)]
pub struct Experiment {
    pub label: String,
    /// The numbers of its runs.
    pub runs: Vec<usize>,
}

/// What is known of a run.
struct Known {
    number: usize,
    name: String,
    seed: u64,
    folder: String,
    pipeline: Arc<Value>,
}

/// The keys that may differ between runs of one experiment.
const APART: [&str; 4] = ["seed", "iterations", "about", "keep"];

/// The most settings that a label names.
const NAMED: usize = 3;

/// The experiments, in the order of their first runs; runs that can't be read belong to none.
pub fn experiments(runs: &[Arc<ServedRun>]) -> Vec<Experiment> {
    let known = runs.iter().enumerate().filter_map(|(number, run)| {
        let manifest = run.manifest().ok()?;
        let (name, seed) = (manifest.info.name.clone(), manifest.info.seed);
        Some(Known { number, name, seed, folder: run.folder.clone(), pipeline: run.pipeline()? })
    });
    sorted_out(&known.collect::<Vec<_>>())
}

fn sorted_out(known: &[Known]) -> Vec<Experiment> {
    let mut alike: BTreeMap<String, Vec<Vec<&Known>>> = BTreeMap::new();
    for run in known {
        let mut pipeline = (*run.pipeline).clone();
        if let Some(keys) = pipeline.as_object_mut() {
            APART.iter().for_each(|key| drop(keys.remove(*key)));
        }
        let experiments = alike.entry(pipeline.to_string()).or_default();
        // A second run with the same seed is no further witness: it stands for itself.
        match experiments.iter_mut().find(|experiment| experiment.iter().all(|other| other.seed != run.seed)) {
            Some(experiment) => experiment.push(run),
            None => experiments.push(vec![run]),
        }
    }
    let mut experiments: Vec<Vec<&Known>> = alike.into_values().flatten().collect();
    experiments.sort_by_key(|experiment| experiment[0].number);
    let labels = labels(&experiments.iter().map(|experiment| experiment[0]).collect::<Vec<_>>());
    let runs = |experiment: Vec<&Known>| experiment.iter().map(|run| run.number).collect();
    experiments.into_iter().zip(labels).map(|(experiment, label)| Experiment { label, runs: runs(experiment) }).collect()
}

/// A label for the first run of each experiment. Experiments of one name are labelled with the settings that differ, or
/// with their folders if these settings are many.
fn labels(firsts: &[&Known]) -> Vec<String> {
    let label = |first: &&Known| {
        let namesakes: Vec<&&Known> = firsts.iter().filter(|other| other.name == first.name).collect();
        if namesakes.len() < 2 {
            return first.name.clone();
        }
        let flat: Vec<BTreeMap<String, &Value>> = namesakes.iter().map(|run| settings(&run.pipeline)).collect();
        let paths: BTreeSet<&String> = flat.iter().flat_map(|settings| settings.keys()).collect();
        let differ: Vec<&String> = paths.into_iter().filter(|path| flat.iter().any(|one| one.get(*path) != flat[0].get(*path))).collect();
        let own = settings(&first.pipeline);
        let named = |path: &&String| {
            let value = own.get(*path).map_or("none".into(), |value| value.as_str().map_or_else(|| value.to_string(), Into::into));
            format!("{} {value}", path.rsplit('.').next().unwrap_or(path))
        };
        let values =
            |run: &&&Known| differ.iter().map(|path| settings(&run.pipeline).get(*path).map(|value| (*value).clone())).collect::<Vec<_>>();
        let unique = namesakes.iter().filter(|run| values(run) == values(&first)).count() == 1;
        if unique && (1..=NAMED).contains(&differ.len()) {
            return format!("{} ({})", first.name, differ.iter().map(named).collect::<Vec<_>>().join(", "));
        }
        let last = |run: &Known| Path::new(&run.folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = namesakes.iter().filter(|run| last(run) == last(first)).count() == 1;
        format!("{} ({})", first.name, if known { last(first) } else { first.folder.clone() })
    };
    firsts.iter().map(label).collect()
}

/// The settings of a pipeline by their paths, without the settings that may differ between runs of one experiment.
fn settings(pipeline: &Value) -> BTreeMap<String, &Value> {
    let mut flat = BTreeMap::new();
    let mut left: Vec<(String, &Value)> = vec![(String::new(), pipeline)];
    while let Some((path, value)) = left.pop() {
        match value.as_object().filter(|keys| !keys.is_empty()) {
            Some(keys) => left.extend(
                keys.iter()
                    .filter(|(key, _)| !path.is_empty() || !APART.contains(&key.as_str()))
                    .map(|(key, value)| (if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value)),
            ),
            None => drop(flat.insert(path, value)),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(number: usize, seed: u64, gamma: f64) -> Known {
        let pipeline = json!({ "flow": "grpo", "seed": seed, "nodes": { "advantage": { "op": "advantage", "with": { "gamma": gamma } } } });
        Known { number, name: "grpo".into(), seed, folder: format!("runs/{number}"), pipeline: Arc::new(pipeline) }
    }

    #[test]
    fn seeds_are_one_experiment_and_settings_tell_experiments_apart() {
        let known = [run(0, 1, 1.0), run(1, 1, 0.5), run(2, 2, 1.0), run(4, 3, 1.0)];
        let expected = [("grpo (gamma 1.0)", vec![0, 2, 4]), ("grpo (gamma 0.5)", vec![1])];
        assert_eq!(sorted_out(&known), expected.map(|(label, runs)| Experiment { label: label.into(), runs }));
        assert_eq!(sorted_out(&known[..1])[0].label, "grpo");
    }

    #[test]
    fn a_second_run_with_the_same_seed_stands_for_itself() {
        let experiments = sorted_out(&[run(0, 1, 1.0), run(1, 1, 1.0)]);
        assert_eq!(experiments.iter().map(|e| e.label.as_str()).collect::<Vec<_>>(), ["grpo (0)", "grpo (1)"]);
    }
}
