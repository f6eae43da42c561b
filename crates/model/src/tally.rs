//! How many tokens were computed, and how many there were to compute.
//!
//! What a token becomes depends on the tokens before it and the weights alone, so two that have the same beginning are
//! one. Counting both says how much was computed twice.

use flow_core::seed::mix;
use std::collections::HashSet;

/// The tokens of some sequences, and of calls that servers answered.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Places that forward passes went over, padding among them.
    pub computed: usize,
    /// Tokens of prompts that servers answered, and of their answers.
    pub sent: usize,
    pub written: usize,
    /// A hash of each token with all that stands before it. Only the size of the set is used, so its order doesn't
    /// matter.
    chains: HashSet<u64>,
}

impl Tally {
    /// A sequence had to be read with the weights `version`.
    pub fn read<'a>(&mut self, version: u64, tokens: impl IntoIterator<Item = &'a u32>) {
        let mut chain = mix(u64::MAX, version);
        for &token in tokens {
            chain = mix(chain, token.into());
            self.chains.insert(chain);
        }
    }

    /// A server answered: the tokens of the prompt, and those of the answer.
    pub fn served(&mut self, prompt: usize, answer: usize) {
        self.sent += prompt;
        self.written += answer;
    }

    /// Tokens computed and read elsewhere, too.
    pub fn add(&mut self, more: &Tally) {
        self.computed += more.computed;
        self.served(more.sent, more.written);
        self.chains.extend(&more.chains);
    }

    /// How many different tokens were read: tokens that follow the same ones under the same weights are one.
    pub fn distinct(&self) -> usize {
        self.chains.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_beginning_counts_once() {
        let mut tally = Tally { computed: 9, ..Tally::default() };
        tally.read(0, &[1, 2, 3]);
        tally.read(0, &[1, 2, 4]);
        tally.read(0, &[2, 2]);
        assert_eq!(tally.distinct(), 6, "1, 2, 3, 4 after 1 2, and 2 2");
        let mut other = Tally { computed: 2, ..Tally::default() };
        other.read(0, &[1, 5]);
        other.read(1, &[1]);
        other.served(7, 2);
        tally.served(5, 1);
        tally.add(&other);
        assert_eq!((tally.sent, tally.written), (12, 3));
        assert_eq!((tally.computed, tally.distinct()), (11, 8), "1 under other weights is another");
    }
}
