//! What a long response costs.

use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// DAPO's soft overlong punishment (Yu et al. 2025, Eq. 13), of the response of a turn: 0 up to max - buffer tokens,
/// from there in a straight line to -weight at max tokens, and -weight beyond.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overlong {
    /// The length in tokens, the end token with them, from which on a response costs the whole weight.
    #[schemars(range(min = 1))]
    pub max: u32,
    /// Over how many tokens before max the cost grows; at most max.
    #[schemars(range(min = 1))]
    pub buffer: u32,
    /// The cost of an overlong response; the paper and its code say 1.
    #[serde(default = "number::<f32, 1>")]
    #[schemars(range(min = 0.0))]
    pub weight: f32,
}

impl Overlong {
    /// What `tokens` tokens earn: 0 or less.
    pub fn penalty(&self, tokens: u32) -> f32 {
        let into_buffer = tokens.saturating_sub(self.max.saturating_sub(self.buffer));
        -self.weight * (into_buffer as f32 / self.buffer as f32).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DAPO, Eq. 13, with a longest response of 16 tokens and a buffer of 4.
    #[test]
    fn a_length_as_worked_by_hand() {
        let overlong = Overlong { max: 16, buffer: 4, weight: 1.0 };
        let penalties: Vec<f32> = [0, 11, 12, 13, 14, 15, 16, 17, 1000].map(|tokens| overlong.penalty(tokens)).to_vec();
        assert_eq!(penalties, [0.0, 0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.0, -1.0]);
        assert_eq!(Overlong { max: 4, buffer: 4, weight: 2.0 }.penalty(1), -0.5, "a buffer that is the whole response");
    }
}
