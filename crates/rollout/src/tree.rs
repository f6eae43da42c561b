//! Episodes that branch: at chosen turns an episode is copied, the policy answers the same prompt anew and plays on
//! from there (AT2PO, arXiv 2601.04767; ARPO, arXiv 2507.19849).
//!
//! A branch is one more sample of its task: it takes the next number behind the other samples. So the columns that name
//! a row stay what they are, and whatever is kept, replayed or shown by a row's name knows branches, too. Its rows
//! begin with the turn that it answers anew: the turns before are the rows of the episode that it was copied from,
//! generated and learnt once. The column `branch_of` says which that is.
//!
//! An environment comes to the turn by playing the answers again, so any environment will do that plays a task alike
//! each time. Where it shows another state, or the policy would read something else, the branch fails as an episode
//! does: a row of `errors` with the cause `replay`.

use super::branches::mean;
use super::episode::{EpisodeStart, Finished};
use super::error::RolloutError;
use super::past_turns::Past;
use super::sampler::Sampler;
use super::turn::Phase;
use arrow::array::RecordBatch;
use flow_core::defaults::{hundredths, number};
use flow_core::row::{self, RowError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// At which turns episodes are copied, and how often. The first turn is never one: `samples` says how often that is
/// answered. Give `every` or `uncertain`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Branching {
    /// Copies each episode at every so many turns: with 4 at its fifth, its ninth and so on.
    #[schemars(range(min = 1, max = 10_000))]
    pub every: Option<u32>,
    /// Copies the episodes of a task at this many turns: those whose answers the policy was least certain of, by the
    /// mean of `-logprobs` over an answer's tokens, in nats (AT2PO's estimate of the policy's entropy). Of equal ones
    /// the earlier.
    #[schemars(range(min = 1, max = 10_000))]
    pub uncertain: Option<u32>,
    /// Copies of each turn that is chosen.
    #[serde(default = "number::<u32, 1>")]
    #[schemars(range(min = 1, max = 1000))]
    pub into: u32,
    /// With `uncertain`: how often turns are chosen, each time among those of the branches too. 2 in AT2PO's script.
    #[serde(default = "number::<u32, 1>")]
    #[schemars(range(min = 1, max = 100))]
    pub rounds: u32,
    /// With `uncertain`: what each branch that a turn already has takes off its uncertainty, in nats. 0.05 in AT2PO's
    /// code.
    #[serde(default = "hundredths::<f64, 5>")]
    #[schemars(range(min = 0.0))]
    pub penalty: f64,
}

/// An episode of a tree, with the turns that were played again.
struct Path {
    episode: Finished,
    /// The turn with which its own rows begin.
    from: usize,
    /// The sample that it was copied from; its own where it wasn't.
    of: u32,
}

/// A prompt of the tree: the task, the sample whose turn it is, and the turn.
type Place = (String, u32, usize);

impl Path {
    /// The prompt that a turn answers. A branch's first turn answers one of the episode that it was copied from.
    fn place(&self, turn: usize) -> Place {
        let EpisodeStart { task, sample, .. } = &self.episode.start;
        (task.clone(), if turn == self.from { self.of } else { *sample }, turn)
    }
}

/// These episodes, `samples` of each task, and behind them their branches, each without the turns that it shares.
///
/// # Errors
/// As of [`Sampler::step`].
pub fn branched(sampler: &mut Sampler, with: &Branching, samples: u32, episodes: Vec<Finished>) -> Result<Vec<Finished>, RolloutError> {
    let whole = |episode: Finished| Path { from: 0, of: episode.start.sample, episode };
    let mut paths: Vec<Path> = episodes.into_iter().map(whole).collect();
    // The branches of each prompt, and the next sample of each task.
    let (mut branches, mut next): (BTreeMap<Place, u32>, BTreeMap<String, u32>) = Default::default();
    for _ in 0..with.rounds {
        let mut begun = BTreeMap::new();
        for (at, turn) in chosen(with, &paths, &branches) {
            let (path, place) = (&paths[at], paths[at].place(turn));
            let (start, next) = (&path.episode.start, next.entry(place.0.clone()).or_insert(samples));
            for sample in *next..*next + with.into {
                let number = sampler.begin_from(EpisodeStart { sample, ..start.clone() }, Past::of(&path.episode.turns[..=turn]))?;
                begun.insert(number, (turn, place.1));
            }
            *next += with.into;
            *branches.entry(place).or_default() += with.into;
        }
        for episode in sampler.finish()? {
            let (from, of) = begun[&episode.number];
            paths.push(Path { episode, from, of });
        }
    }
    let own = |Path { mut episode, from, of }: Path| {
        episode.turns.drain(..from.min(episode.turns.len()));
        episode.turns.first_mut().into_iter().for_each(|turn| turn.branch_of = Some(of));
        episode
    };
    Ok(paths.into_iter().map(own).collect())
}

/// A turn of an episode, with the place of the episode among others.
type TurnAt = (usize, usize);

/// The turns at which these episodes are copied next, in their order.
fn chosen(with: &Branching, paths: &[Path], branches: &BTreeMap<Place, u32>) -> Vec<TurnAt> {
    let turns = |(at, path): (usize, &Path)| (path.from.max(1)..path.episode.turns.len()).map(move |turn| (at, turn));
    let all = paths.iter().enumerate().flat_map(turns);
    let Some(most) = with.uncertain else {
        return all.filter(|(_, turn)| turn % with.every.unwrap_or(1) as usize == 0).collect();
    };
    let mut by_task: BTreeMap<&str, Vec<(f64, TurnAt)>> = BTreeMap::new();
    for (at, turn) in all {
        let Path { episode, .. } = &paths[at];
        let known = branches.get(&paths[at].place(turn)).map_or(0.0, |branches| f64::from(*branches));
        let uncertain = mean(&episode.turns[turn].response.logprobs).map(|mean| -mean - with.penalty * known);
        by_task.entry(&episode.start.task).or_default().extend(uncertain.map(|uncertain| (uncertain, (at, turn))));
    }
    let mut chosen = Vec::new();
    for turns in by_task.values_mut() {
        turns.sort_by(|a, b| b.0.total_cmp(&a.0));
        chosen.extend(turns.iter().take(most as usize).map(|(_, place)| *place));
    }
    chosen.sort_unstable();
    chosen
}

/// Where a turn stands: its task, its sample, its attempt and its number.
pub type TurnName<'a> = (&'a str, u32, u32, u32);

/// Turns of play among rows, and the way to each from the first turn on: of a branch through the episodes that it was
/// copied from.
pub struct Ways<'a> {
    rows: BTreeMap<TurnName<'a>, usize>,
    branch_of: Vec<u32>,
}

impl<'a> Ways<'a> {
    /// Of rows in their order, each with its `branch_of`.
    pub fn new(rows: impl Iterator<Item = (TurnName<'a>, u32)>) -> Ways<'a> {
        let (names, branch_of): (Vec<TurnName>, Vec<u32>) = rows.unzip();
        Ways { rows: names.into_iter().enumerate().map(|(row, name)| (name, row)).collect(), branch_of }
    }

    /// Of rows that say what they are branches of, in their order; none of others. An error says which other column is
    /// missing, or isn't of its type.
    pub fn among(rows: &'a RecordBatch) -> Result<Option<Ways<'a>>, RowError> {
        let Ok(of) = row::u32s(rows, row::BRANCH_OF) else { return Ok(None) };
        let (tasks, phases) = (row::texts(rows, "task")?, row::texts(rows, "phase")?);
        let [samples, attempts, turns] = ["sample", "attempt", "turn"].map(|name| row::u32s(rows, name));
        let (samples, attempts, turns) = (samples?, attempts?, turns?);
        // Reflections are no turns.
        let name = |i: usize| match phases.value(i) == Phase::Play.name() {
            true => (tasks.value(i), samples.value(i), attempts.value(i), turns.value(i)),
            false => ("", 0, 0, 0),
        };
        Ok(Some(Ways::new((0..rows.num_rows()).map(|i| (name(i), of.value(i))))))
    }

    /// The rows from the first turn to this one; none where one is missing.
    pub fn to(&self, (task, mut sample, attempt, turn): TurnName) -> Option<Vec<usize>> {
        let mut way = Vec::new();
        for at in (0..=turn).rev() {
            let row = *self.rows.get(&(task, sample, attempt, at))?;
            sample = self.branch_of[row];
            way.push(row);
        }
        way.reverse();
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::super::turn::Turn;
    use super::*;
    use serde_json::json;

    /// An episode whose turns have answers of one token of these log-probabilities.
    fn path(task: &str, sample: u32, from: usize, of: u32, logprobs: &[f32]) -> Path {
        let turn = |logprob: &f32| Turn { response: Response { logprobs: vec![*logprob], ..Response::default() }, ..Turn::default() };
        let start = EpisodeStart { task: task.into(), sample, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
        let turns = logprobs.iter().map(turn).collect();
        Path { episode: Finished { start, turns, ..Finished::default() }, from, of }
    }

    /// Sample 2 is a copy of sample 0 at turn 1, and sample 3 one of sample 2 at turn 2.
    #[test]
    fn the_way_to_a_turn_leads_through_the_episodes_that_it_was_copied_from() {
        let rows = [(0, 0, 0), (0, 1, 0), (0, 2, 0), (2, 1, 0), (2, 2, 2), (3, 2, 2), (4, 1, 1)];
        let ways = Ways::new(rows.into_iter().map(|(sample, turn, of)| (("a", sample, 0, turn), of)));
        for (sample, turn, way) in [(0, 2, vec![0, 1, 2]), (2, 2, vec![0, 3, 4]), (3, 2, vec![0, 3, 5]), (2, 1, vec![0, 3])] {
            assert_eq!(ways.to(("a", sample, 0, turn)), Some(way), "sample {sample}, turn {turn}");
        }
        assert_eq!((ways.to(("a", 4, 0, 1)), ways.to(("b", 0, 0, 0))), (None, None), "sample 1 isn't there, nor is the task");
    }

    #[test]
    fn turns_are_chosen_by_their_number_or_by_what_the_policy_was_least_certain_of() {
        let with = |with: serde_json::Value| serde_json::from_value::<Branching>(with).unwrap();
        let none = BTreeMap::new();
        // The second task's episode was given up, and the third's is one turn long, which is never copied.
        let a = || path("a", 0, 0, 0, &[-9.0, -0.5, -2.0, -0.1]);
        let paths = [a(), path("a", 1, 0, 1, &[-9.0, -2.0, -3.0]), path("b", 0, 0, 0, &[]), path("c", 0, 0, 0, &[-1.0])];
        assert_eq!(chosen(&with(json!({ "every": 2 })), &paths, &none), [(0, 2), (1, 2)]);
        assert_eq!(chosen(&with(json!({ "every": 1 })), &paths, &none), [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)]);
        // -3 first, and of the two of -2 the earlier.
        assert_eq!(chosen(&with(json!({ "uncertain": 2 })), &paths, &none), [(0, 2), (1, 2)]);
        assert_eq!(chosen(&with(json!({ "uncertain": 9 })), &paths, &none).len(), 5);
        // A branch of sample 0 at turn 2: its first turn answers the same prompt, on which both weigh once it has
        // branches.
        let paths = [a(), path("a", 1, 2, 0, &[-9.0, -0.5, -1.97, -0.2])];
        assert_eq!((paths[1].place(2), paths[1].place(3)), (("a".into(), 0, 2), ("a".into(), 1, 3)));
        let one = BTreeMap::from([(paths[1].place(2), 1)]);
        let chosen = |penalty: f64| chosen(&with(json!({ "uncertain": 2, "penalty": penalty })), &paths, &one);
        assert_eq!(chosen(0.05), [(0, 2), (1, 2)], "1.95 and 1.92 are still the most");
        assert_eq!(chosen(1.6), [(0, 1), (0, 2)], "0.4 and 0.37, behind the 0.5 of an earlier turn; those of the copy aren't its own");
    }
}
