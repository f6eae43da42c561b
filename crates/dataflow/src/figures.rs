//! The metrics that nodes report, and how the values of several processes are aggregated.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metrics of one iteration, by node and name.
pub type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// The same before aggregation over processes.
pub type NodeFigures = BTreeMap<String, BTreeMap<String, Figure>>;

/// A metric that each process may have a part of. Sums are taken in the order of the processes; sums of counts, and of
/// returns whose binary digits fit an `f64`, are the same on any number of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Figure {
    /// The sum of the parts.
    Sum(#[serde(with = "bits")] f64),
    /// One sum divided by another (by 1 where that is less): a mean, a share.
    Share {
        #[serde(with = "bits")]
        part: f64,
        #[serde(with = "bits")]
        merge: f64,
    },
    /// The maximum, as for the time that processes took in parallel.
    Most(#[serde(with = "bits")] f64),
}

impl From<f64> for Figure {
    fn from(value: f64) -> Figure {
        Figure::Sum(value)
    }
}

impl Figure {
    pub fn share(part: f64, merge: usize) -> Figure {
        Figure::Share { part, merge: merge as f64 }
    }

    /// Aggregates both; of two different kinds, which no node reports, the first wins.
    pub(super) fn and(self, other: Figure) -> Figure {
        match (self, other) {
            (Figure::Sum(a), Figure::Sum(b)) => Figure::Sum(a + b),
            (Figure::Share { part, merge }, Figure::Share { part: p, merge: w }) => Figure::Share { part: part + p, merge: merge + w },
            (Figure::Most(a), Figure::Most(b)) => Figure::Most(a.max(b)),
            (first, _) => first,
        }
    }

    fn value(self) -> f64 {
        match self {
            Figure::Sum(value) | Figure::Most(value) => value,
            Figure::Share { part, merge } => part / merge.max(1.0),
        }
    }
}

/// The metrics of the run from those of its processes, in their order.
pub(super) fn merge(parts: impl IntoIterator<Item = NodeFigures>) -> Figures {
    let mut sums = NodeFigures::new();
    for (node, figures) in parts.into_iter().flatten() {
        let node_sums = sums.entry(node).or_default();
        for (name, figure) in figures {
            let sum = node_sums.get(&name).map_or(figure, |before| before.and(figure));
            node_sums.insert(name, sum);
        }
    }
    let values = |figures: BTreeMap<String, Figure>| figures.into_iter().map(|(name, figure)| (name, figure.value())).collect();
    sums.into_iter().map(|(node, figures)| (node, values(figures))).collect()
}

/// Serialises a float by its bits: decimal text may not round-trip, and can't represent NaN or infinities.
mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(to)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node_figures(figures: &[(&str, Figure)]) -> NodeFigures {
        BTreeMap::from([("rollout".to_string(), figures.iter().map(|(name, figure)| (name.to_string(), *figure)).collect())])
    }

    #[test]
    fn figures_of_processes_become_one() {
        // 3 of 4 won there, 1 of 12 here: 4 of 16, not the mean of two shares.
        let here = node_figures(&[("success", Figure::share(1.0, 12)), ("turns", 30.0.into()), ("seconds", Figure::Most(2.0))]);
        let there = node_figures(&[
            ("success", Figure::share(3.0, 4)),
            ("turns", 8.0.into()),
            ("seconds", Figure::Most(1.5)),
            ("rounds", 2.0.into()),
        ]);
        let merge = &merge([here, there])["rollout"];
        assert_eq!(merge, &[("rounds", 2.0), ("seconds", 2.0), ("success", 0.25), ("turns", 38.0)].map(|(n, v)| (n.into(), v)).into());
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(merge([node_figures(&[("invalid", Figure::share(0.0, 0))])])["rollout"]["invalid"], 0.0);
    }

    #[test]
    fn a_figure_comes_through_a_wire_with_all_its_bits() {
        for value in [0.1 + 0.2, f64::MIN_POSITIVE / 3.0, f64::INFINITY, -0.0] {
            let text = serde_json::to_string(&Figure::Sum(value)).unwrap();
            let Figure::Sum(back) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            assert_eq!(back.to_bits(), value.to_bits());
        }
    }
}
