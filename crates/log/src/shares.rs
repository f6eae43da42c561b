//! How many seconds each part of an iteration took, by node, and the sums of all other figures.

use crate::Metrics;
use std::collections::BTreeMap;

/// The parts, in the order of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimePart {
    /// Episodes of training, without the wait for weights.
    Rollouts,
    /// Until servers had the weights.
    Weights,
    /// Frozen panels.
    Evaluation,
    /// Texts that models write on episodes, scores, values, functions in Python: every other node.
    Others,
    /// Optimiser steps.
    Updates,
}

/// The seconds of each part, over the iterations that were seen.
#[derive(Debug, Default)]
pub struct TimeShares {
    seconds: BTreeMap<TimePart, BTreeMap<String, f64>>,
    sums: BTreeMap<(String, String), f64>,
}

impl TimeShares {
    /// Adds an iteration.
    pub fn add(&mut self, figures: &Metrics) {
        for (node, own) in figures {
            let figure = |name: &str| own.get(name).copied().unwrap_or(0.0);
            let mut sum = |part, seconds: f64| *self.seconds.entry(part).or_default().entry(node.clone()).or_default() += seconds;
            match () {
                () if own.contains_key("lr") => sum(TimePart::Updates, figure("seconds")),
                () if own.contains_key("panel") => sum(TimePart::Evaluation, figure("seconds")),
                () if own.contains_key("turns") => {
                    sum(TimePart::Rollouts, figure("seconds") - figure("adapter_seconds"));
                    if own.contains_key("adapter_seconds") {
                        sum(TimePart::Weights, figure("adapter_seconds"));
                    }
                }
                () => {
                    let known = ["seconds", "function_seconds", "busy_seconds"].iter().find_map(|name| own.get(*name));
                    known.into_iter().for_each(|seconds| sum(TimePart::Others, *seconds));
                }
            }
            for (name, value) in own.iter().filter(|(_, value)| value.is_finite()) {
                *self.sums.entry((node.clone(), name.clone())).or_default() += value;
            }
        }
    }

    /// The sum of a figure over the iterations; 0 where the node has none.
    pub fn sum(&self, node: &str, name: &str) -> f64 {
        self.sums.get(&(node.into(), name.into())).copied().unwrap_or(0.0)
    }

    /// The seconds of all parts.
    pub fn all(&self) -> f64 {
        self.seconds.values().flat_map(BTreeMap::values).sum()
    }

    pub fn of(&self, part: TimePart) -> f64 {
        self.seconds.get(&part).map_or(0.0, |nodes| nodes.values().sum())
    }

    /// The part that took longest, its seconds, and the node that took most of it.
    pub fn largest(&self) -> Option<(TimePart, f64, &str)> {
        let (part, nodes) = self.seconds.iter().max_by(|(a, _), (b, _)| self.of(**a).total_cmp(&self.of(**b)))?;
        let (node, _) = nodes.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((*part, self.of(*part), node))
    }

    /// The share of each part in words; parts below half a percent are left out.
    pub fn shares(&self) -> String {
        let share = |part: &TimePart| (part.name(), 100.0 * self.of(*part) / self.all());
        let shown = self.seconds.keys().map(share).filter(|(_, percent)| *percent >= 0.5);
        shown.map(|(name, percent)| format!("{name} {percent:.0}%")).collect::<Vec<_>>().join(", ")
    }
}

impl TimePart {
    fn name(self) -> &'static str {
        match self {
            TimePart::Rollouts => "rollouts",
            TimePart::Weights => "weights to servers",
            TimePart::Evaluation => "evaluation",
            TimePart::Others => "other nodes",
            TimePart::Updates => "updates",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_the_wait_for_weights_out_of_rollouts() {
        let own = |own: &[(&str, f64)]| own.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        let nodes: [(&str, &[(&str, f64)]); 5] = [
            ("rollout", &[("turns", 9.0), ("seconds", 2.5), ("adapter_seconds", 0.5)]),
            ("panel", &[("turns", 9.0), ("seconds", 1.0), ("panel", 30.0)]),
            ("group", &[("busy_seconds", 0.01)]),
            ("engine", &[("policy_busy_seconds", 5.0)]),
            ("update", &[("lr", 1e-4), ("seconds", 3.0), ("idle_seconds", 2.0)]),
        ];
        let mut shares = TimeShares::default();
        (0..20).for_each(|_| shares.add(&nodes.iter().map(|(node, values)| (node.to_string(), own(values))).collect()));
        assert_eq!(shares.shares(), "rollouts 31%, weights to servers 8%, evaluation 15%, updates 46%");
        assert_eq!((shares.largest().unwrap().2, shares.sum("update", "idle_seconds")), ("update", 40.0));
        assert_eq!(TimeShares::default().shares(), "");
    }
}
