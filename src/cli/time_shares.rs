//! Where a run's time went, and the setting that moves the largest part of it.

use crate::dataflow::figures::Figures;
use std::collections::BTreeMap;

/// Seconds of a run whose shares say nothing yet.
const SHORT: f64 = 60.0;

/// The parts, in the order of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Episodes of training, without the wait for weights.
    Rollouts,
    /// Until servers had the weights.
    Weights,
    /// Frozen panels.
    Evaluation,
    /// Optimiser steps.
    Updates,
}

/// The seconds of each part, over the iterations that were seen.
#[derive(Debug, Default)]
pub struct TimeShares {
    seconds: BTreeMap<Part, f64>,
    /// How long models computed, and trainers had nothing to compute in their steps.
    computed: f64,
    idle: f64,
}

impl TimeShares {
    /// Adds an iteration. `evaluations` are the nodes that measure on a frozen panel.
    pub fn add(&mut self, figures: &Figures, evaluations: &[String]) {
        for (node, own) in figures {
            let figure = |name: &str| own.get(name).copied().unwrap_or(0.0);
            self.computed += figure("policy_busy_seconds");
            let mut sum = |part, seconds: f64| *self.seconds.entry(part).or_default() += seconds;
            match () {
                () if own.contains_key("lr") => sum(Part::Updates, figure("seconds")),
                () if evaluations.contains(node) => sum(Part::Evaluation, figure("seconds")),
                () if own.contains_key("turns") => {
                    sum(Part::Rollouts, figure("seconds") - figure("adapter_seconds"));
                    if own.contains_key("adapter_seconds") {
                        sum(Part::Weights, figure("adapter_seconds"));
                    }
                }
                () => {}
            }
            self.idle += figure("idle_seconds");
        }
    }

    /// A line for people; none for a run of less than a minute, which needs no advice.
    pub fn line(&self) -> Option<String> {
        let all: f64 = self.seconds.values().sum();
        if self.seconds.len() < 2 || all < SHORT {
            return None;
        }
        let share = |(part, seconds): (&Part, &f64)| format!("{} {:.0}%", part.name(), 100.0 * seconds / all);
        let shares: Vec<String> = self.seconds.iter().map(share).collect();
        let tip = self.tip().map(|tip| format!(" ({tip})")).unwrap_or_default();
        Some(format!("time: {}{tip}", shares.join(", ")))
    }

    /// What moves the largest part.
    fn tip(&self) -> Option<&'static str> {
        let (largest, seconds) = self.seconds.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let served = self.seconds.contains_key(&Part::Weights);
        let updates = self.seconds.get(&Part::Updates).copied().unwrap_or(0.0);
        match largest {
            Part::Rollouts if served => Some("more requests in flight: `parallel` of `serve`; or more servers"),
            // An update keeps the thread of the models busy, too.
            Part::Rollouts if self.computed > 0.0 && self.computed - updates < 0.5 * seconds => {
                Some("rollouts wait for environments more than for the model: `--workers`")
            }
            Part::Rollouts => None,
            Part::Weights => Some("weights reach servers late: put run and servers on one disk"),
            Part::Evaluation => Some("measure less often: `every` of `evaluate`"),
            Part::Updates if self.idle > 0.4 * seconds => Some("the trainer waits between steps: a larger `minibatch`"),
            Part::Updates => None,
        }
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Rollouts => "rollouts",
            Part::Weights => "weights to servers",
            Part::Evaluation => "evaluation",
            Part::Updates => "updates",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(nodes: &[(&str, &[(&str, f64)])]) -> Figures {
        let own = |own: &[(&str, f64)]| own.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        nodes.iter().map(|(node, values)| (node.to_string(), own(values))).collect()
    }

    #[test]
    fn shares_leave_the_wait_for_weights_out_of_rollouts() {
        let mut shares = TimeShares::default();
        let update: &[(&str, f64)] = &[("lr", 1e-4), ("seconds", 3.0), ("idle_seconds", 2.0)];
        let iteration = [
            ("rollout", &[("turns", 9.0), ("seconds", 2.5), ("adapter_seconds", 0.5)][..]),
            ("panel", &[("turns", 9.0), ("seconds", 1.0)]),
            ("update", update),
        ];
        for _ in 0..20 {
            shares.add(&figures(&iteration), &["panel".into()]);
        }
        let told = "time: rollouts 31%, weights to servers 8%, evaluation 15%, updates 46% (the trainer waits between steps: a larger `minibatch`)";
        assert_eq!(shares.line().unwrap(), told);
    }

    #[test]
    fn rollouts_that_wait_for_environments_are_named() {
        let line = |busy: f64| {
            let mut shares = TimeShares::default();
            let parts = [
                ("rollout", &[("turns", 9.0), ("seconds", 8.0)][..]),
                ("update", &[("lr", 1e-4), ("seconds", 1.0)]),
                ("engine", &[("policy_busy_seconds", busy)]),
            ];
            shares.add(&figures(&parts), &[]);
            assert_eq!(shares.line(), None, "less than a minute");
            (1..7).for_each(|_| shares.add(&figures(&parts), &[]));
            shares.line().unwrap()
        };
        assert!(line(3.0).ends_with("`--workers`)") && line(8.0) == "time: rollouts 89%, updates 11%");
        assert_eq!(TimeShares::default().line(), None);
    }
}
