//! `--budget`: a run ends in good order once its committed iterations have used so many tokens.

use super::error::{Error, Result};
use crate::ops::episodes::tokens::{COMPUTED, COUNTED, TRAINED};
use flow_dataflow::figures::Figures;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a run may use, and has used so far.
pub struct Budget {
    most: Option<u64>,
    used: AtomicU64,
}

impl Budget {
    /// At most `most` tokens. The iterations `earlier` have used theirs.
    ///
    /// # Errors
    /// If nothing is left.
    pub fn new(most: Option<u64>, earlier: &[(u64, Figures)]) -> Result<Budget> {
        let used: u64 = earlier.iter().map(|(_, figures)| tokens(figures)).sum();
        match most.filter(|most| used >= *most) {
            Some(most) => {
                Err(Error::Request(format!("the committed iterations have used {used} tokens already: --budget {most} leaves none")))
            }
            None => Ok(Budget { most, used: used.into() }),
        }
    }

    /// Counts a committed iteration, and says whether the budget is used up.
    pub fn spend(&self, figures: &Figures) -> bool {
        let tokens = tokens(figures);
        let used = self.used.fetch_add(tokens, Relaxed) + tokens;
        self.most.is_some_and(|most| used >= most)
    }

    /// What it comes to where it is used up.
    pub fn over(&self) -> Option<String> {
        let (most, used) = (self.most?, self.used.load(Relaxed));
        (used >= most).then(|| format!("{used} tokens of --budget {most} are used"))
    }
}

/// The tokens of an iteration: computed here, or read, written and trained by servers. A trainer on a server computes
/// what it was sent.
fn tokens(figures: &Figures) -> u64 {
    let of_node = |node: &std::collections::BTreeMap<String, f64>| -> f64 {
        let hosted = node.contains_key(TRAINED);
        COUNTED.iter().filter(|name| !(hosted && **name == COMPUTED)).filter_map(|name| node.get(*name)).sum()
    };
    figures.values().map(of_node).sum::<f64>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(nodes: &[(&str, &[(&str, f64)])]) -> Figures {
        let own = |figures: &[(&str, f64)]| figures.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        nodes.iter().map(|(node, figures)| (node.to_string(), own(figures))).collect()
    }

    #[test]
    fn a_token_is_counted_where_it_was_computed() {
        let served = figures(&[
            ("rollout", &[("tokens_read", 100.0), ("tokens_written", 20.0), ("turns", 7.0)]),
            ("update", &[("tokens_computed", 120.0), ("tokens_read", 240.0), ("tokens_trained", 120.0), ("tokens", 20.0)]),
        ]);
        assert_eq!(tokens(&served), 100 + 20 + 240 + 120);
        let own = figures(&[("rollout", &[("tokens_computed", 64.0), ("tokens_distinct", 30.0)]), ("update", &[("tokens_computed", 9.0)])]);
        assert_eq!(tokens(&own), 73);
    }

    #[test]
    fn a_budget_ends_with_the_iteration_that_uses_it_up() {
        let one = figures(&[("rollout", &[("tokens_computed", 40.0)])]);
        let budget = Budget::new(Some(100), &[(0, one.clone())]).unwrap();
        assert!(!budget.spend(&one) && budget.over().is_none());
        assert!(budget.spend(&one));
        assert_eq!(budget.over().unwrap(), "120 tokens of --budget 100 are used");
        assert!(Budget::new(Some(40), &[(0, one.clone())]).is_err());
        let none = Budget::new(None, &[(0, one.clone())]).unwrap();
        assert!(!none.spend(&one) && none.over().is_none());
    }
}
