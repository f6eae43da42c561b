//! Whether a training falls away, which its curves show and nobody may be looking: success that goes down again, actions that are no longer
//! valid, and a policy that tries nothing else any more and has won nothing by it.
//!
//! Stretches of iterations are compared, so that the dice of one don't count: their means must differ by more than a few standard errors.

use crate::dataflow::figures::Figures;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes whose figures say how a training goes.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Those in which a policy plays what is learnt from.
    pub players: Vec<String>,
    /// Those that learn from what actions earned.
    pub learners: Vec<String>,
}

/// Standard errors by which two stretches must differ.
const ERRORS: f64 = 4.0;
/// By how much a share must have fallen to be worth a word.
const FALL: f64 = 0.1;
/// What is left of the entropy where a policy tries hardly anything else any more.
const LEFT: f64 = 0.1;
/// By how much success must have risen for a low entropy to be what one wants.
const RISE: f64 = 0.05;

/// Looks at the figures of a training as they come.
pub struct Decline {
    watched: Watched,
    /// Iterations of a stretch.
    length: usize,
    /// Node and figure -> the stretches so far.
    stretches: BTreeMap<(String, &'static str), Vec<Stretch>>,
    raised: BTreeSet<(String, &'static str)>,
}

/// A figure over some iterations.
#[derive(Clone, Debug, Default)]
struct Stretch {
    first: u64,
    last: u64,
    values: Vec<f64>,
}

impl Stretch {
    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    /// The variance of the mean.
    fn variance(&self) -> f64 {
        let (mean, n) = (self.mean(), self.values.len() as f64);
        self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n
    }

    /// By how much the mean of `later` is lower, where that is more than the dice explain.
    fn fall_to(&self, later: &Stretch) -> Option<f64> {
        let fall = self.mean() - later.mean();
        (fall > ERRORS * (self.variance() + later.variance()).sqrt()).then_some(fall)
    }
}

impl Decline {
    /// For a training of so many iterations.
    pub fn new(watched: Watched, iterations: u64) -> Decline {
        let length = (iterations / 10).clamp(5, 50) as usize;
        Decline { watched, length, stretches: BTreeMap::new(), raised: BTreeSet::new() }
    }

    /// Takes in an iteration's figures; answers with what there is to warn of for the first time.
    pub fn saw(&mut self, iteration: u64, figures: &Figures) -> Vec<String> {
        let value = |node: &String, name: &str| figures.get(node)?.get(name).copied().filter(|value| value.is_finite());
        let players = self.watched.players.iter().flat_map(|node| {
            let success = value(node, "success").map(|success| ((node.clone(), "success"), success));
            let valid = value(node, "invalid").map(|invalid| ((node.clone(), "valid"), 1.0 - invalid));
            success.into_iter().chain(valid)
        });
        let learners = self.watched.learners.iter().filter_map(|node| Some(((node.clone(), "entropy"), value(node, "entropy")?)));
        let values: Vec<_> = players.chain(learners).collect();
        let mut complete = false;
        for (key, value) in values {
            let stretches = self.stretches.entry(key).or_default();
            if stretches.last().is_none_or(|stretch| stretch.values.len() == self.length) {
                stretches.push(Stretch { first: iteration, ..Stretch::default() });
            }
            if let Some(stretch) = stretches.last_mut() {
                stretch.values.push(value);
                stretch.last = iteration;
                complete |= stretch.values.len() == self.length;
            }
        }
        if complete {
            self.warnings()
        } else {
            Vec::new()
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        let keys: Vec<(String, &'static str)> = self.stretches.keys().cloned().collect();
        let mut warnings = Vec::new();
        for key in keys.into_iter().filter(|key| !self.raised.contains(key)).collect::<Vec<_>>() {
            if let Some(warning) = self.warning(&key.0, key.1) {
                self.raised.insert(key);
                warnings.push(warning);
            }
        }
        warnings
    }

    /// The whole stretches of a figure.
    fn whole(&self, node: &str, figure: &'static str) -> Option<(&[Stretch], &Stretch)> {
        let all = self.stretches.get(&(node.to_owned(), figure))?;
        let whole = all.iter().filter(|stretch| stretch.values.len() == self.length).count();
        let (last, earlier) = all[..whole].split_last()?;
        (!earlier.is_empty()).then_some((earlier, last))
    }

    fn warning(&self, node: &str, figure: &'static str) -> Option<String> {
        let (earlier, last) = self.whole(node, figure)?;
        let percent = |stretch: &Stretch| format!("{:.1}%", 100.0 * stretch.mean());
        let between = |stretch: &Stretch| format!("iterations {} to {}", stretch.first, stretch.last);
        if figure == "entropy" {
            let first = earlier.first()?;
            first.fall_to(last).filter(|_| last.mean() < LEFT * first.mean())?;
            // A policy that wins knows what to do.
            let (before, now) = self.watched.players.iter().find_map(|player| {
                let (earlier, last) = self.whole(player, "success")?;
                Some((earlier.first()?, last))
            })?;
            let risen = now.mean() > before.mean() + RISE;
            return (!risen).then(|| {
                format!(
                    "`{node}`: the entropy of the policy fell from {:.3} to {:.3} nats ({}), and success did not rise with it ({} to {}): it tries \
                     hardly anything else any more; a smaller `lr`, fewer `epochs` or a larger `kl` keep it from that",
                    first.mean(),
                    last.mean(),
                    between(last),
                    percent(before),
                    percent(now)
                )
            });
        }
        let best = earlier.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))?;
        best.fall_to(last).filter(|fall| *fall > FALL)?;
        let what = if figure == "valid" { "the share of valid actions" } else { "success" };
        Some(format!(
            "`{node}`: {what} fell from {} ({}) to {} ({}): what is learnt makes it worse; a smaller `lr`, more tasks an iteration (`batch`) or a larger \
             `kl` may help",
            percent(best),
            between(best),
            percent(last),
            between(last)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(success: f64, invalid: f64, entropy: f64) -> Figures {
        let of = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        Figures::from([
            ("rollout".into(), of(&[("success", success), ("invalid", invalid)])),
            ("update".into(), of(&[("entropy", entropy)])),
        ])
    }

    /// The warnings of fifty iterations whose figures these are, each with a wobble of a hundredth.
    fn warnings(of: impl Fn(f64) -> (f64, f64, f64)) -> Vec<String> {
        let watched = Watched { players: vec!["rollout".into()], learners: vec!["update".into()] };
        let mut decline = Decline::new(watched, 50);
        let wobble = |i: u64| if i.is_multiple_of(2) { 0.01 } else { -0.01 };
        let saw = |i: u64| {
            let (success, invalid, entropy) = of(i as f64 / 49.0);
            decline.saw(i, &figures(success + wobble(i), invalid, entropy))
        };
        (0..50).flat_map(saw).collect()
    }

    #[test]
    fn what_falls_away_is_told_once_and_what_goes_well_is_not() {
        assert_eq!(warnings(|t| (0.5 + 0.4 * t, 0.1 - 0.1 * t, 1.0 - 0.99 * t)), Vec::<String>::new(), "it learns, and grows sure");
        assert_eq!(warnings(|t| (0.5 - 0.05 * t, 0.0, 1.0)), Vec::<String>::new(), "a little is nothing to speak of");
        let worn = warnings(|t| (0.516 - 0.196 * t, 0.0, 1.0));
        assert_eq!(worn.len(), 1, "{worn:?}");
        assert!(worn[0].starts_with("`rollout`: success fell from 51.0% (iterations 0 to 4) to "), "{worn:?}");
        let invalid = warnings(|t| (0.5, 0.3 * t, 1.0));
        assert!(invalid.len() == 1 && invalid[0].contains("the share of valid actions fell from 98."), "{invalid:?}");
        let collapsed = warnings(|t| (0.5, 0.0, (1.0 - 2.0 * t).max(0.01)));
        assert!(
            collapsed.len() == 1 && collapsed[0].starts_with("`update`: the entropy of the policy fell from 0.918 to 0.0"),
            "{collapsed:?}"
        );
    }

    #[test]
    fn dice_are_no_decline() {
        let mut random = crate::seed::Random::new(3);
        let mut decline = Decline::new(Watched { players: vec!["rollout".into()], learners: vec![] }, 400);
        // Sixteen episodes an iteration, half of them won.
        let share = |random: &mut crate::seed::Random| (0..16).filter(|_| random.below(2) == 0).count() as f64 / 16.0;
        let warnings: Vec<String> = (0..400).flat_map(|i| decline.saw(i, &figures(share(&mut random), 0.0, 1.0))).collect();
        assert_eq!(warnings, Vec::<String>::new());
    }
}
