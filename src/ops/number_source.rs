//! The row that a number is taken from: itself, or, as a control for the number's value, another row.

use flow_core::seed::{mix, text, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose number a row gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NumberSource {
    /// Its own.
    #[default]
    Own,
    /// Another row's of the iteration, drawn without replacement: the same numbers, shuffled, so that they say nothing
    /// of their rows.
    Another,
}

impl NumberSource {
    /// The places of the rows whose numbers `rows` rows get, in their order; `run` is the run's seed, `node` the node's
    /// name.
    pub fn order(self, run: u64, iteration: u64, node: &str, rows: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rows).collect();
        if self == NumberSource::Another {
            Random::new(mix(mix(run, iteration), text(node))).shuffle(&mut order);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anothers_are_the_same_numbers_in_another_order() {
        assert_eq!(NumberSource::Own.order(1, 2, "score", 5), [0, 1, 2, 3, 4]);
        let mut shuffled = NumberSource::Another.order(1, 2, "score", 50);
        assert_ne!(shuffled, NumberSource::Own.order(1, 2, "score", 50));
        shuffled.sort_unstable();
        assert_eq!(shuffled, NumberSource::Own.order(1, 2, "score", 50));
    }
}
