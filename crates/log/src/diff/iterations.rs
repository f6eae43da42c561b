//! What two manifests say of their iterations: the metrics, and which weights were made.

use crate::{Iteration, Manifest, SavedWeights};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The metrics of a node that were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MetricsDiff {
    pub node: String,
    /// The number of values, including values that only one side has.
    pub compared: u64,
    /// In how many iterations a metric differs, or is on one side only; metrics that never do are left out.
    pub differ: BTreeMap<String, u64>,
}

/// The weights of a model in the iterations that were compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct VersionsDiff {
    pub model: String,
    /// The number of versions, including versions that only one side has.
    pub compared: u64,
    /// How many of them are others, or are on one side only.
    pub differ: u64,
}

/// Compares the metrics of the iterations before `end` that `comparable` picks by node and name. Values agree to the
/// twelfth digit: several processes may add the same parts in another order.
pub fn metrics(a: &Manifest, b: &Manifest, end: u64, comparable: &dyn Fn(&str, &str) -> bool) -> Vec<MetricsDiff> {
    let of = |manifest: &Manifest| {
        let mut values = BTreeMap::new();
        for committed in before(manifest, end) {
            for (node, metrics) in &committed.metrics {
                let picked = metrics.iter().filter(|(name, _)| comparable(node, name));
                values.extend(picked.map(|(name, value)| ((node.clone(), name.clone(), committed.iteration), *value)));
            }
        }
        values
    };
    let (a, b) = (of(a), of(b));
    let mut diffs: BTreeMap<&String, MetricsDiff> = BTreeMap::new();
    for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
        let (node, name, _) = key;
        let diff = diffs.entry(node).or_insert_with(|| MetricsDiff { node: node.clone(), ..MetricsDiff::default() });
        diff.compared += 1;
        if !a.get(key).zip(b.get(key)).is_some_and(|(a, b)| agree(*a, *b)) {
            *diff.differ.entry(name.clone()).or_default() += 1;
        }
    }
    diffs.into_values().collect()
}

fn agree(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

/// Compares the weights that the iterations before `end` name, by the checksums of their tensors: most of the files are
/// gone by then. Those of nodes that `saves` leaves out aren't compared.
pub fn versions(a: &Manifest, b: &Manifest, end: u64, saves: &dyn Fn(&str) -> bool) -> Vec<VersionsDiff> {
    let of = |manifest: &'_ Manifest| {
        let named = before(manifest, end).flat_map(|i| i.weights.iter().map(move |w| (i.iteration, w.clone())));
        let named = named.filter(|(_, w)| saves(&w.node));
        named.map(|(iteration, w)| ((w.model.clone(), iteration, w.version, w.node.clone()), w)).collect::<BTreeMap<_, _>>()
    };
    let (a, b) = (of(a), of(b));
    let mut diffs: BTreeMap<&String, VersionsDiff> = BTreeMap::new();
    for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
        let diff = diffs.entry(&key.0).or_insert_with(|| VersionsDiff { model: key.0.clone(), ..VersionsDiff::default() });
        diff.compared += 1;
        diff.differ += u64::from(!a.get(key).zip(b.get(key)).is_some_and(|(a, b)| same_tensors(a, b)));
    }
    diffs.into_values().collect()
}

fn before(manifest: &Manifest, end: u64) -> impl Iterator<Item = &Iteration> {
    manifest.committed.iter().filter(move |committed| committed.iteration < end)
}

/// Whether both name the same tensors, and some. A model that learns by adapters may be saved with its own weights, which
/// never change, or without.
fn same_tensors(a: &SavedWeights, b: &SavedWeights) -> bool {
    let tensors = |weights: &SavedWeights| {
        let adapted = weights.files.iter().any(|file| file.name == "adapter_model.safetensors");
        let counts =
            |name: &str| name.ends_with(".safetensors") && !name.contains("optimizer") && !(adapted && name == "model.safetensors");
        let files = weights.files.iter().filter(|file| counts(&file.name));
        files.map(|file| (file.name.clone(), (file.bytes, file.sum))).collect::<BTreeMap<_, _>>()
    };
    let (a, b) = (tensors(a), tensors(b));
    !a.is_empty() && a == b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileChecksum, Metrics, RunInfo, Status};

    fn manifest(losses: &[f64], sums: &[u64]) -> Manifest {
        let file = |sum: &u64| FileChecksum { name: "model.safetensors".into(), bytes: 4, sum: *sum };
        let weights = |version, sum| SavedWeights { model: "actor".into(), version, files: vec![file(sum)], ..SavedWeights::default() };
        let committed = losses.iter().zip(sums).enumerate().map(|(i, (loss, sum))| Iteration {
            iteration: i as u64,
            parts: vec![],
            metrics: Metrics::from([("update".into(), [("loss".into(), *loss), ("seconds".into(), *loss)].into())]),
            weights: vec![weights(i as u64 + 1, sum)],
            seconds: 0.0,
        });
        let committed = committed.collect();
        Manifest { info: RunInfo::default(), status: Status::Finished, start: vec![], committed }
    }

    #[test]
    fn values_that_differ_or_lack_are_counted() {
        let differing = |a: &Manifest, b: &Manifest, end| {
            let diffs = metrics(a, b, end, &|_, name| name != "seconds");
            diffs.first().map(|diff| (diff.compared, diff.differ.get("loss").copied().unwrap_or(0)))
        };
        let (run, nan) = (manifest(&[0.1, 0.2], &[1, 2]), manifest(&[0.1, f64::NAN], &[1, 2]));
        assert_eq!(differing(&run, &run, 9), Some((2, 0)));
        assert_eq!(differing(&nan, &nan, 9), Some((2, 0)));
        assert_eq!((differing(&run, &nan, 9), differing(&run, &nan, 1)), (Some((2, 1)), Some((1, 0))));
        let mut less = run.clone();
        less.committed[0].metrics.clear();
        assert_eq!((differing(&run, &less, 9), differing(&less, &run, 9)), (Some((2, 1)), Some((2, 1))));
        assert_eq!(differing(&run, &manifest(&[0.1 + 1e-15, 0.2], &[1, 2]), 9), Some((2, 0)), "parts added in another order");
        assert_eq!(differing(&run, &manifest(&[0.1 + 1e-10, 0.2], &[1, 2]), 9), Some((2, 1)));
    }

    #[test]
    fn weights_that_differ_or_lack_are_counted() {
        let differing = |a: &Manifest, b: &Manifest| versions(a, b, 9, &|_| true).first().map(|diff| (diff.compared, diff.differ));
        let run = manifest(&[0.1, 0.2], &[1, 2]);
        assert_eq!(differing(&run, &run), Some((2, 0)));
        assert_eq!(differing(&run, &manifest(&[0.1, 0.2], &[1, 3])), Some((2, 1)));
        let changed = |change: fn(&mut SavedWeights)| {
            let mut other = run.clone();
            change(&mut other.committed[1].weights[0]);
            other
        };
        assert_eq!(differing(&run, &changed(|weights| weights.version = 7)), Some((3, 2)));
        assert_eq!(differing(&run, &changed(|weights| weights.node = "other".into())), Some((3, 2)));
        // Weights without a tensor are none.
        let none = changed(|weights| weights.files.clear());
        assert_eq!((differing(&run, &none), differing(&none, &none)), (Some((2, 1)), Some((2, 1))));
        let other = changed(|weights| weights.node = "between".into());
        assert_eq!(versions(&other, &run, 9, &|node| node != "between").first().map(|diff| (diff.compared, diff.differ)), Some((2, 1)));
        let mut unnamed = run.clone();
        unnamed.committed.iter_mut().for_each(|committed| committed.weights.clear());
        assert_eq!((differing(&run, &unnamed), differing(&unnamed, &run)), (Some((2, 2)), Some((2, 2))));
    }
}
