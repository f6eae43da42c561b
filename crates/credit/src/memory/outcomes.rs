//! Which episodes of an iteration are worth extracting from: the best of the good ones and the worst of the others
//! (SLEA-RL, section 3.4: outcome partitioning and selective extraction).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Which episodes something is extracted from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcomes {
    /// An episode came out well whose score is above this; above the median of the iteration's scores when left out
    /// (SLEA-RL).
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
    /// Among which episodes scores are ranked. Where what an episode can earn depends on its task, `task` keeps the
    /// tasks that pay most from supplying all entries.
    #[serde(default)]
    pub rank: RankIn,
}

/// Among which episodes scores are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RankIn {
    /// Those of the iteration (SLEA-RL).
    #[default]
    All,
    /// Those of the same task: the median is the task's, and the best of each task come before the second best of any.
    Task,
}

/// An episode to be ranked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked<'a> {
    pub task: &'a str,
    pub score: f32,
    /// Decides between equals: the smaller comes first. A hash of the run's seed and the episode's name, so that no
    /// task is preferred.
    pub draw: u64,
}

fn five() -> usize {
    5
}

impl Outcomes {
    /// The episodes that came out well, the best one first, and the others, the worst one first, by their places in
    /// `episodes`; of equals the one with the smaller draw. A score that is no number belongs to neither.
    ///
    /// ```
    /// use flow_credit::memory::{Outcomes, RankIn, Ranked};
    /// let outcomes = |rank| Outcomes { threshold: None, best: 2, worst: 1, rank };
    /// let episode = |task, score, draw| Ranked { task, score, draw };
    /// let episodes = [episode("a", 1.0, 0), episode("a", 3.0, 1), episode("b", 9.0, 2), episode("b", 8.0, 3), episode("b", 8.0, 4)];
    /// // The median of all is 8, and 8 isn't above it.
    /// assert_eq!(outcomes(RankIn::All).of(&episodes), (vec![2], vec![0]));
    /// // The median of a is 2, that of b 8.
    /// assert_eq!(outcomes(RankIn::Task).of(&episodes), (vec![1, 2], vec![0]));
    /// ```
    pub fn of(&self, episodes: &[Ranked]) -> (Vec<usize>, Vec<usize>) {
        let group = |episode: &Ranked| if self.rank == RankIn::Task { episode.task.to_owned() } else { String::new() };
        let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, episode) in episodes.iter().enumerate().filter(|(_, episode)| !episode.score.is_nan()) {
            groups.entry(group(episode)).or_default().push(i);
        }
        let (mut well, mut badly) = (Vec::new(), Vec::new());
        for places in groups.values() {
            let threshold = self.threshold.unwrap_or_else(|| median(places.iter().map(|i| episodes[*i].score).collect()));
            let (above, below): (Vec<usize>, Vec<usize>) = places.iter().partition(|i| episodes[**i].score > threshold);
            well.extend(self.ranked(above, |a, b| episodes[b].score.total_cmp(&episodes[a].score), episodes));
            badly.extend(self.ranked(below, |a, b| episodes[a].score.total_cmp(&episodes[b].score), episodes));
        }
        (self.first(well, self.best, episodes), self.first(badly, self.worst, episodes))
    }

    /// The episodes in this order, each with its rank in its group.
    fn ranked(&self, mut places: Vec<usize>, order: impl Fn(usize, usize) -> Ordering, episodes: &[Ranked]) -> Vec<(usize, usize)> {
        places.sort_by(|a, b| order(*a, *b).then(episodes[*a].draw.cmp(&episodes[*b].draw)));
        places.into_iter().enumerate().collect()
    }

    /// The first `most` of episodes by their ranks, and of equal ranks by their draws.
    fn first(&self, mut ranked: Vec<(usize, usize)>, most: usize, episodes: &[Ranked]) -> Vec<usize> {
        ranked.sort_by_key(|(rank, i)| (*rank, episodes[*i].draw));
        ranked.into_iter().map(|(_, i)| i).take(most).collect()
    }
}

/// The middle of these numbers, or the mean of the two in the middle.
fn median(mut sorted: Vec<f32>) -> f32 {
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

    /// Episodes of one task, of which the earlier has the smaller draw.
    fn of(outcomes: &Outcomes, scores: &[f32]) -> (Vec<usize>, Vec<usize>) {
        let episodes = scores.iter().enumerate().map(|(i, score)| Ranked { task: "t", score: *score, draw: i as u64 });
        outcomes.of(&episodes.collect::<Vec<_>>())
    }

    #[test]
    fn episodes_are_parted_by_the_median_and_the_best_and_worst_of_them_count() {
        let five = outcomes(serde_json::json!({}));
        assert_eq!(of(&five, &[0.0, 10.0, 0.0, 10.0]), (vec![1, 3], vec![0, 2]), "the median is 5");
        assert_eq!(of(&five, &[10.0; 3]), (vec![], vec![0, 1, 2]), "nothing is above the median of equals");
        assert_eq!(of(&five, &[]), (vec![], vec![]));
        assert_eq!(of(&five, &[f32::NAN, 1.0, 2.0]), (vec![2], vec![1]), "the median of 1 and 2");
        let scores: Vec<f32> = (0..20).map(|i| (i * 7 % 20) as f32).collect();
        let scored = |places: Vec<usize>| places.into_iter().map(|i| scores[i]).collect::<Vec<_>>();
        let (well, badly) = of(&five, &scores);
        assert_eq!((scored(well), scored(badly)), (vec![19.0, 18.0, 17.0, 16.0, 15.0], vec![0.0, 1.0, 2.0, 3.0, 4.0]));
    }

    #[test]
    fn a_threshold_of_ones_own_takes_the_medians_place() {
        let won = outcomes(serde_json::json!({ "threshold": 0.5, "worst": 0 }));
        assert_eq!(of(&won, &[1.0, 1.0, 1.0, 0.0]), (vec![0, 1, 2], vec![]));
    }

    /// Sixteen boards of eight games each, all won: the first board's games pay most. Ranked among all, the five best
    /// are the first board's; ranked by task, they are of five boards, which the draws choose.
    #[test]
    fn ranked_within_a_task_no_task_supplies_all_entries() {
        let names: Vec<String> = (0..16).map(|board| format!("board-{board:02}")).collect();
        let draw = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let episode = |i: u64| Ranked { task: &names[i as usize / 8], score: 16.0 - (i / 8) as f32, draw: draw(i) };
        let episodes: Vec<Ranked> = (0..128).map(episode).collect();
        let tasks = |with| {
            let (well, _) = outcomes(with).of(&episodes);
            well.into_iter().map(|i| episodes[i].task).collect::<Vec<_>>()
        };
        assert_eq!(tasks(serde_json::json!({ "threshold": 0.5 })), ["board-00"; 5]);
        let mut drawn = tasks(serde_json::json!({ "threshold": 0.5, "rank": "task" }));
        drawn.dedup();
        assert_eq!(drawn.len(), 5);
        assert!(drawn.iter().any(|task| *task > "board-04"), "{drawn:?}");
    }
}
