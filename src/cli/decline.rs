//! Whether a training falls away or can't get anywhere, which its curves show, though they may not be watched: success
//! that goes down again, actions that are not valid, episodes that are never won or all earn the same, and a policy
//! that tries nothing else any more and has won nothing by it. docs/running.md has the rule.
//!
//! Stretches of iterations are compared, so that the dice of one don't count: their means must differ by more than a
//! few standard errors.

use super::series::{Series, Span, Stretch};
use flow_dataflow::figures::Figures;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes whose figures say how a training goes.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Nodes where a policy plays the rows to learn from.
    pub players: Vec<String>,
    /// Nodes that learn from rewards.
    pub learners: Vec<String>,
    /// Nodes that measure on a frozen panel.
    pub panels: Vec<String>,
}

/// By how much a share must have fallen to be worth a word, if it hasn't fallen to under half.
const FALL: f64 = 0.1;
/// What is left of the entropy where a policy tries hardly anything else any more.
const LEFT: f64 = 0.1;
/// By how much success must have risen for a low entropy to be what one wants.
const RISE: f64 = 0.05;
/// An entropy in nats under which samples don't differ.
const NO_ENTROPY: f64 = 0.001;
/// How many actions in a row may be invalid before that is worth a word.
const INVALID: f64 = 128.0;

/// Looks at the figures of a training as they come.
#[derive(Default)]
pub struct Decline {
    watched: Watched,
    /// Iterations of a stretch.
    length: usize,
    /// Node and figure -> its values so far.
    series: BTreeMap<(String, &'static str), Series>,
    /// Node -> measurements on its panel: iteration and success.
    panels: BTreeMap<String, Vec<(u64, f64)>>,
    /// Node -> the iteration from which on no action was valid, and how many there were.
    invalid: BTreeMap<String, (u64, f64)>,
    /// The iteration from which on no advantage but 0 was made.
    equal: Option<u64>,
    first: Option<u64>,
    last: u64,
    raised: BTreeSet<(String, &'static str)>,
}

impl Decline {
    /// For a training of so many iterations.
    pub fn new(watched: Watched, iterations: u64) -> Decline {
        let length = (iterations / 10).clamp(5, 50) as usize;
        Decline { watched, length, ..Decline::default() }
    }

    /// Takes in an iteration's figures; returns new warnings.
    pub fn observe(&mut self, iteration: u64, figures: &Figures) -> Vec<String> {
        self.first.get_or_insert(iteration);
        self.last = iteration;
        let value = |node: &String, name: &str| figures.get(node)?.get(name).copied().filter(|value| value.is_finite());
        for node in &self.watched.panels {
            let measured = value(node, "success").map(|success| (iteration, success));
            self.panels.entry(node.clone()).or_default().extend(measured);
        }
        for node in &self.watched.players {
            match (value(node, "invalid"), value(node, "turns")) {
                (Some(1.0), Some(turns)) => self.invalid.entry(node.clone()).or_insert((iteration, 0.0)).1 += turns,
                (Some(_), Some(turns)) if turns > 0.0 => drop(self.invalid.remove(node)),
                _ => {}
            }
        }
        let equal: Vec<f64> = figures.values().filter_map(|figures| figures.get("equal").copied()).collect();
        if !equal.is_empty() {
            self.equal = equal.iter().all(|share| *share == 1.0).then(|| self.equal.unwrap_or(iteration));
        }
        let players = self.watched.players.iter().flat_map(|node| {
            let own = |name: &'static str| value(node, name).map(|value| ((node.clone(), name), value));
            let valid = value(node, "invalid").map(|invalid| ((node.clone(), "valid"), 1.0 - invalid));
            [own("success"), own("return"), valid].into_iter().flatten()
        });
        let learners = self.watched.learners.iter().filter_map(|node| Some(((node.clone(), "entropy"), value(node, "entropy")?)));
        for (key, value) in players.chain(learners).collect::<Vec<_>>() {
            self.series.entry(key).or_insert_with(|| Series::new(self.length)).push(iteration, value);
        }
        self.warnings(false)
    }

    /// Warnings at the end of the run, beside earlier ones: conditions that held in all of its iterations, however few.
    pub fn ended(&mut self) -> Vec<String> {
        self.warnings(true)
    }

    /// The warnings that weren't raised before.
    fn warnings(&mut self, ended: bool) -> Vec<String> {
        let all = self.series.keys().filter_map(|key| Some((key.clone(), self.fallen(&key.0, key.1)?)));
        let panels = self.panels.iter().filter_map(|(node, measured)| Some(((node.clone(), "panel"), panel(node, measured)?)));
        let invalid =
            self.invalid.iter().filter_map(|(node, since)| Some(((node.clone(), "invalid"), self.invalid(node, since.0, since.1, ended)?)));
        let equal = self.equal.and_then(|since| Some(((String::new(), if ended { "ended" } else { "equal" }), self.equal(since, ended)?)));
        let mut found: Vec<_> = all.chain(panels).chain(invalid).chain(equal).collect();
        let nothing = self.watched.players.iter().filter_map(|node| Some(((node.clone(), "won"), self.never_won(node)?)));
        found.extend(nothing);
        found.into_iter().filter_map(|(key, warning)| self.raised.insert(key).then_some(warning)).collect()
    }

    /// The whole stretches of a figure: the earlier ones, and the last.
    fn stretches(&self, node: &str, figure: &'static str) -> Option<(&Series, &[Stretch], &Stretch)> {
        let series = self.series.get(&(node.to_owned(), figure))?;
        let (last, earlier) = series.complete().split_last()?;
        (!earlier.is_empty()).then_some((series, earlier, last))
    }

    fn fallen(&self, node: &str, figure: &'static str) -> Option<String> {
        let (series, earlier, last) = self.stretches(node, figure)?;
        if figure == "return" {
            return None;
        }
        if figure == "entropy" {
            let first = earlier.first()?;
            series.fall(first, last).filter(|_| last.mean() < LEFT * first.mean())?;
            // A policy that wins knows what to do.
            let (before, now) = self.watched.players.iter().find_map(|player| {
                let (_, earlier, last) = self.stretches(player, "success")?;
                Some((earlier.first()?, last))
            })?;
            let risen = now.mean() > before.mean() + RISE;
            return (!risen).then(|| {
                format!(
                    "`{node}`: the entropy of the policy fell from {:.3} to {:.3} nats ({last}), and success did not rise with it ({} to {}): it tries \
                     hardly anything else any more; a smaller `lr`, fewer `epochs`, a larger `kl` or an `entropy` bonus keep it from that",
                    first.mean(),
                    last.mean(),
                    percent(before.mean()),
                    percent(now.mean())
                )
            });
        }
        let best = earlier.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))?;
        series.fall(best, last).filter(|fall| *fall > FALL || last.mean() < best.mean() / 2.0)?;
        let what = if figure == "valid" { "the share of valid actions" } else { "success" };
        Some(format!(
            "`{node}`: {what} fell from {} ({best}) to {} ({last}): training makes it worse; a smaller `lr`, more tasks an iteration (`batch`) or \
             a larger `kl` may help",
            percent(best.mean()),
            percent(last.mean())
        ))
    }

    /// No episode was ever won, and the newest ones don't earn more than the first.
    fn never_won(&self, node: &str) -> Option<String> {
        let (success, earlier, last) = self.stretches(node, "success")?;
        let (returns, first, now) =
            self.stretches(node, "return").and_then(|(series, earlier, now)| Some((series, earlier.first()?, now)))?;
        let never = success.complete().iter().all(|stretch| stretch.mean() == 0.0);
        (never && returns.fall(now, first).is_none()).then(|| {
            format!(
                "`{node}`: no episode was won ({}), and the return did not rise ({:.2} to {:.2}): a policy that never wins has little to compare; \
                 imitate an expert first (`objective: sft`), or begin with easier tasks",
                earlier.first().unwrap_or(last).to(last),
                first.mean(),
                now.mean()
            )
        })
    }

    fn invalid(&self, node: &str, since: u64, turns: f64, ended: bool) -> Option<String> {
        let always = ended && Some(since) == self.first;
        (always || turns >= INVALID).then(|| {
            format!(
                "`{node}`: none of the last {turns:.0} actions was valid ({}): does the prompt say how to answer, and is `max_tokens` enough? `flow show` \
                 prints the answers",
                Span(since, self.last)
            )
        })
    }

    fn equal(&self, since: u64, ended: bool) -> Option<String> {
        if self.watched.learners.is_empty() {
            return None;
        }
        let iterations = match ended {
            true if Some(since) == self.first => "in every iteration".to_owned(),
            false if self.last - since + 1 >= self.length as u64 => format!("in {}", Span(since, self.last)),
            _ => return None,
        };
        let entropy = |node: &String| self.series.get(&(node.clone(), "entropy"))?.last().map(|entropy| (node.clone(), entropy));
        if let Some((node, entropy)) = self.watched.learners.iter().find_map(entropy).filter(|(_, entropy)| *entropy < NO_ENTROPY) {
            return Some(format!(
                "every advantage was 0 {iterations}, and the entropy of `{node}` is {entropy:.4} nats: the policy samples one and the same answer each time, so \
                 its episodes don't differ; begin again with a smaller `lr`, a `kl` or an `entropy` bonus"
            ));
        }
        Some(format!(
            "every advantage was 0 {iterations}, so nothing was learnt from rewards: no group had returns that differ (`equal` in `metrics`); more `samples`, easier \
             tasks or another `by` give something to compare"
        ))
    }
}

/// A panel's last measurement, if it has fallen from its best by much.
fn panel(node: &str, measured: &[(u64, f64)]) -> Option<String> {
    let ((now, last), earlier) = measured.split_last()?;
    let (then, best) = earlier.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (best - last > FALL && *last < best / 2.0).then(|| {
        format!(
            "`{node}`: success on the panel fell from {} (iteration {then}) to {} (iteration {now}): training makes it worse",
            percent(*best),
            percent(*last)
        )
    })
}

pub fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        Watched { players: vec!["rollout".into()], learners: vec!["update".into()], panels: vec!["evaluate".into()] }
    }

    fn of(node: &str, pairs: &[(&str, f64)]) -> (String, BTreeMap<String, f64>) {
        (node.into(), pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect())
    }

    fn figures(success: f64, invalid: f64, entropy: f64) -> Figures {
        let rollout = [("success", success), ("invalid", invalid), ("turns", 30.0), ("return", success)];
        Figures::from([of("rollout", &rollout), of("update", &[("entropy", entropy)])])
    }

    /// The warnings of fifty iterations whose figures these are, each with a wobble of a hundredth.
    fn warnings(of: impl Fn(f64) -> (f64, f64, f64)) -> Vec<String> {
        let mut decline = Decline::new(watched(), 50);
        let wobble = |i: u64| if i.is_multiple_of(2) { 0.01 } else { -0.01 };
        let observe = |i: u64| {
            let (success, invalid, entropy) = of(i as f64 / 49.0);
            decline.observe(i, &figures(success + wobble(i), invalid, entropy))
        };
        (0..50).flat_map(observe).collect()
    }

    /// The warnings of a whole run, as it went and at its end.
    fn run(iterations: &[Figures]) -> Vec<String> {
        let mut decline = Decline::new(watched(), iterations.len() as u64);
        let mut warnings: Vec<String> = iterations.iter().zip(0..).flat_map(|(figures, i)| decline.observe(i, figures)).collect();
        warnings.extend(decline.ended());
        warnings
    }

    /// Advantages of 0 have two causes: tasks that are too hard or too easy, and a policy that samples one answer.
    #[test]
    fn a_policy_without_entropy_is_not_sent_for_more_samples() {
        let ended = |entropy: f64| {
            let iteration = |_| {
                let mut figures = figures(0.0, 0.0, entropy);
                figures.extend([of("advantage", &[("equal", 1.0)])]);
                figures
            };
            run(&(0..12).map(iteration).collect::<Vec<_>>())
                .into_iter()
                .filter(|warning| warning.contains("every advantage"))
                .collect::<Vec<_>>()
        };
        let (nothing, some) = (ended(0.0), ended(0.5));
        let without = |warning: &String| warning.contains("the entropy of `update` is 0.0000 nats") && !warning.contains("more `samples`");
        assert!(!nothing.is_empty() && nothing.iter().all(without), "{nothing:?}");
        assert!(!some.is_empty() && some.iter().all(|warning| warning.contains("more `samples`")), "{some:?}");
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
        let mut random = flow_core::seed::Random::new(3);
        let mut warned = 0;
        for (iterations, wins) in [(400, 2), (40, 2), (40, 10), (20, 10)] {
            for _ in 0..20 {
                // Sixteen episodes an iteration, of which a half or a tenth are won.
                let share = |random: &mut flow_core::seed::Random| (0..16).filter(|_| random.below(wins) == 0).count() as f64 / 16.0;
                let figures: Vec<Figures> = (0..iterations).map(|_| figures(share(&mut random), 0.0, 1.0)).collect();
                warned += run(&figures).len();
            }
        }
        assert!(warned <= 2, "{warned} of 80 runs without a decline were warned of");
    }

    /// A shop whose steps cost, learnt by GiGPO from random weights: success and return as they were logged.
    #[test]
    fn a_recorded_decline_is_told() {
        let success = [
            0.0703, 0.1094, 0.0781, 0.0547, 0.0547, 0.0313, 0.0469, 0.0156, 0.0469, 0.0313, 0.0078, 0.0234, 0.0078, 0.0, 0.0234, 0.0078,
            0.0078, 0.0078, 0.0078, 0.0,
        ];
        let warnings = run(&success.map(|success| figures(success, 0.0, 1.0)));
        assert!(
            warnings.len() == 1
                && warnings[0].starts_with("`rollout`: success fell from 7.3% (iterations 0 to 4) to 1.2% (iterations 10 to 14)"),
            "{warnings:?}"
        );
    }

    #[test]
    fn episodes_that_are_never_won_are_told() {
        let lost = |from: f64, to: f64| -> Vec<Figures> {
            let figures =
                |i: usize| [("success", 0.0), ("return", from + (to - from) * i as f64 / 19.0 + 0.01 * (i % 2) as f64), ("turns", 9.0)];
            (0..20).map(|i| Figures::from([of("rollout", &figures(i))])).collect()
        };
        let warnings = run(&lost(-0.5, -0.5));
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("`rollout`: no episode was won (iterations 0 to 9), and the return"),
            "{warnings:?}"
        );
        assert_eq!(run(&lost(-0.5, 0.5)), Vec::<String>::new(), "it learns, if not to win");
    }

    #[test]
    fn actions_that_are_never_valid_are_told() {
        let never = |turns: f64| Figures::from([of("rollout", &[("success", 0.0), ("return", 0.0), ("invalid", 1.0), ("turns", turns)])]);
        let short = run(&[never(4.0)]);
        assert!(
            short.len() == 1 && short[0].starts_with("`rollout`: none of the last 4 actions was valid (iteration 0): does"),
            "{short:?}"
        );
        let long = run(&vec![never(50.0); 4]);
        assert!(long.len() == 1 && long[0].contains("none of the last 150 actions was valid (iterations 0 to 2)"), "{long:?}");
        assert_eq!(run(&[figures(0.5, 0.5, 1.0), never(50.0)]), Vec::<String>::new(), "a few may be");
    }

    #[test]
    fn groups_without_spread_are_told() {
        let equal = |shares: &[(&str, f64)]| -> Figures { shares.iter().map(|(node, share)| of(node, &[("equal", *share)])).collect() };
        let always = run(&vec![equal(&[("advantage", 1.0)]); 3]);
        assert!(always.len() == 1 && always[0].starts_with("every advantage was 0 in every iteration, so nothing"), "{always:?}");
        let late = run(&[vec![equal(&[("advantage", 0.5)]); 2], vec![equal(&[("advantage", 1.0)]); 6]].concat());
        assert!(late.len() == 1 && late[0].starts_with("every advantage was 0 in iterations 2 to 6, so"), "{late:?}");
        assert_eq!(run(&vec![equal(&[("episode", 1.0), ("step", 0.9)]); 8]), Vec::<String>::new(), "one of two advantages differs");
    }

    #[test]
    fn a_panel_that_falls_is_told() {
        let panel = |success: f64| Figures::from([of("evaluate", &[("success", success)])]);
        let fallen = run(&[panel(0.156), panel(0.328), panel(0.016)]);
        assert!(
            fallen.len() == 1
                && fallen[0].starts_with("`evaluate`: success on the panel fell from 32.8% (iteration 1) to 1.6% (iteration 2)"),
            "{fallen:?}"
        );
        assert_eq!(run(&[panel(0.3), panel(0.2)]), Vec::<String>::new());
    }
}
