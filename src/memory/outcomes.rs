//! Which episodes of an iteration are worth extracting from: the best of those that came out well and the worst of the others (SLEA-RL,
//! section 3.4: outcome partitioning and selective extraction).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which episodes something is extracted from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcomes {
    /// An episode came out well whose score is above this; above the median of the iteration's scores when left out (SLEA-RL).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f32>,
    /// How many of the episodes that came out well count: those with the highest scores.
    #[serde(default = "five")]
    #[schemars(range(max = 10_000))]
    pub best: usize,
    /// How many of the others count: those with the lowest scores.
    #[serde(default = "five")]
    #[schemars(range(max = 10_000))]
    pub worst: usize,
}

fn five() -> usize {
    5
}

impl Outcomes {
    /// The episodes that came out well, the best one first, and the others, the worst one first, by their places in `scores`; of equals the
    /// earlier one. A score that is no number belongs to neither.
    ///
    /// ```
    /// use flow::memory::Outcomes;
    /// let outcomes = Outcomes { threshold: None, best: 2, worst: 1 };
    /// // The median of 0, 1, 1, 3, 4 is 1, and 1 isn't above it.
    /// assert_eq!(outcomes.of(&[1.0, 3.0, 0.0, 4.0, 1.0]), (vec![3, 1], vec![2]));
    /// ```
    pub fn of(&self, scores: &[f32]) -> (Vec<usize>, Vec<usize>) {
        let threshold = self.threshold.unwrap_or_else(|| median(scores));
        let numbers = (0..scores.len()).filter(|i| !scores[*i].is_nan());
        let (mut well, mut badly): (Vec<usize>, Vec<usize>) = numbers.partition(|i| scores[*i] > threshold);
        well.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        badly.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        well.truncate(self.best);
        badly.truncate(self.worst);
        (well, badly)
    }
}

/// The middle of the numbers among these, or the mean of the two in the middle.
fn median(scores: &[f32]) -> f32 {
    let mut sorted: Vec<f32> = scores.iter().copied().filter(|score| !score.is_nan()).collect();
    sorted.sort_by(f32::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(with: serde_json::Value) -> Outcomes {
        serde_json::from_value(with).unwrap()
    }

    #[test]
    fn episodes_are_parted_by_the_median_and_the_best_and_worst_of_them_count() {
        let five = outcomes(serde_json::json!({}));
        assert_eq!(five.of(&[0.0, 10.0, 0.0, 10.0]), (vec![1, 3], vec![0, 2]), "the median is 5");
        assert_eq!(five.of(&[10.0; 3]), (vec![], vec![0, 1, 2]), "nothing is above the median of equals");
        assert_eq!(five.of(&[]), (vec![], vec![]));
        assert_eq!(five.of(&[f32::NAN, 1.0, 2.0]), (vec![2], vec![1]), "the median of 1 and 2");
        let scores: Vec<f32> = (0..20).map(|i| (i * 7 % 20) as f32).collect();
        let of = |places: Vec<usize>| places.into_iter().map(|i| scores[i]).collect::<Vec<_>>();
        let (well, badly) = five.of(&scores);
        assert_eq!((of(well), of(badly)), (vec![19.0, 18.0, 17.0, 16.0, 15.0], vec![0.0, 1.0, 2.0, 3.0, 4.0]));
    }

    #[test]
    fn a_threshold_of_ones_own_takes_the_medians_place() {
        let won = outcomes(serde_json::json!({ "threshold": 0.5, "worst": 0 }));
        assert_eq!(won.of(&[1.0, 1.0, 1.0, 0.0]), (vec![0, 1, 2], vec![]));
    }
}
