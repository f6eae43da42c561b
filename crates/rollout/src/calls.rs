//! The calls of an agent program's episode at its end: its rows, their order, and the reward of each.

use super::turn::Turn;
use flow_env::{Cause, Extras, Fault};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Why a call stands at the beginning of a conversation although it goes on from another: the template writes earlier
/// messages in another way once more follow, so the tokens of before would be others.
pub const RETOKENISED: &str = "retokenised";

/// Bytes from which on a text isn't in another by chance.
const LONG: usize = 24;

/// What a program said of its calls, each by its name.
#[derive(Default)]
pub struct Calls {
    /// Their rewards, in order of arrival.
    credit: Vec<(u64, f32)>,
    /// Those whose answers it didn't read.
    unread: Vec<u64>,
}

impl Calls {
    /// Takes what an episode shows. A later reward of a call replaces an earlier one.
    pub fn tell(&mut self, extras: &Extras) {
        for (call, reward) in &extras.credit {
            match self.credit.iter_mut().find(|(known, _)| known == call) {
                Some((_, earlier)) => *earlier = *reward,
                None => self.credit.push((*call, *reward)),
            }
        }
        self.unread.extend(&extras.unread);
    }

    /// Drops the turns whose answers weren't read, brings those of a program whose calls may overlap into the order of
    /// their graph, and adds the rewards, which it returns.
    ///
    /// # Errors
    /// If a call is rewarded that is no turn.
    pub fn settle(self, turns: &mut Vec<Turn>, parallel: bool) -> Result<Vec<f32>, Fault> {
        turns.retain(|turn| !self.unread.contains(&turn.call));
        if parallel {
            arrange(turns);
        }
        turns.iter_mut().zip(0..).for_each(|(turn, place)| turn.turn = place);
        let mut rewards = Vec::new();
        for (call, reward) in self.credit {
            let turn = turns.iter_mut().find(|turn| turn.call == call);
            let turn = turn.ok_or_else(|| Fault::new(Cause::Malformed, format!("it rewards the call {call:016x}, which has no answer")))?;
            turn.reward += reward;
            rewards.push(reward);
        }
        Ok(rewards)
    }
}

/// Puts the turns of an episode whose calls overlap into the order of their graph: by the number of calls that each
/// goes on from, those of the main agent first, and by name among equals. The order of arrival says nothing, nor does a
/// program's name for a call: a second beginning is a sub-agent's, a second call that goes on from another edits.
fn arrange(turns: &mut [Turn]) {
    let mut depths: BTreeMap<u64, u32> = BTreeMap::new();
    // The first call of the conversation that each belongs to.
    let mut begins: BTreeMap<u64, u64> = BTreeMap::new();
    for turn in turns.iter() {
        depths.insert(turn.call, depths.get(&turn.parent).map_or(0, |depth| depth + 1));
        begins.insert(turn.call, begins.get(&turn.parent).copied().unwrap_or(turn.call));
    }
    let main = main_agent(turns, &begins);
    turns.sort_by_key(|turn| (depths.get(&turn.call).copied(), begins.get(&turn.call).copied() != main, turn.call));
    let mut begun = BTreeSet::new();
    for turn in turns {
        let first = begun.insert(turn.parent);
        if !["again", RETOKENISED].contains(&turn.fork.as_str()) {
            turn.fork = if first {
                ""
            } else if turn.parent == 0 {
                "sub_agent"
            } else {
                "edited"
            }
            .into();
        }
    }
}

/// The first call of the main agent: of the conversation that reads the answers of most others and begins with none of
/// theirs. Where that doesn't say it, the longest, and of equal ones that with the least name.
fn main_agent(turns: &[Turn], begins: &BTreeMap<u64, u64>) -> Option<u64> {
    let of = |turn: &Turn| begins.get(&turn.call).copied().unwrap_or_default();
    let roots: BTreeSet<u64> = turns.iter().map(of).collect();
    if roots.len() < 2 {
        return roots.first().copied();
    }
    let mut read: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut prompted: BTreeSet<u64> = BTreeSet::new();
    let answers: Vec<(u64, Vec<String>)> = turns.iter().map(|turn| (of(turn), texts(&turn.action))).collect();
    for turn in turns {
        let others = answers.iter().filter(|(root, _)| *root != of(turn));
        for (root, _) in others.filter(|(_, texts)| texts.iter().any(|text| says(&turn.observation, text))) {
            if turn.call == of(turn) {
                prompted.insert(of(turn));
            } else {
                read.entry(of(turn)).or_default().insert(*root);
            }
        }
    }
    let length = |root: u64| turns.iter().filter(|turn| of(turn) == root).count();
    let reads = |root: u64| read.get(&root).map_or(0, BTreeSet::len);
    roots.into_iter().min_by_key(|&root| (prompted.contains(&root), Reverse(reads(root)), Reverse(length(root)), root))
}

/// The texts of an answer that another conversation may have: itself, and those in the arguments of its calls.
fn texts(answer: &str) -> Vec<String> {
    let quoted = answer.match_indices('"').filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&answer[at..]).into_iter::<String>();
        values.next()?.ok()
    });
    std::iter::once(answer.trim().to_owned()).chain(quoted).filter(|text| !text.is_empty()).collect()
}

/// Whether messages have a text: a short one as a whole message, a long one anywhere.
fn says(messages: &str, text: &str) -> bool {
    let whole = |message: &str| message == text || message.split_once(": ").is_some_and(|(_, said)| said == text);
    text.len() >= LONG && messages.contains(text) || whole(messages) || messages.lines().any(whole)
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::super::episode::{Episode, EpisodeStart, Move};
    use super::super::turn::PromptMemory;
    use super::*;
    use flow_env::{Call, EpisodeView, TimeStep};
    use flow_model::Request;

    /// Two calls that overlap and one that goes on from the second of them, in whatever order they come: the turns and
    /// what each earned are the same.
    #[test]
    fn turns_of_overlapping_calls_stand_in_the_order_of_their_graph() {
        let view = |id: u64, on: Option<u64>| {
            let step = TimeStep { observation: format!("asks {id}"), state: id, reward: 0.0, done: false, won: false, valid: true };
            EpisodeView {
                step,
                actions: vec![],
                extras: Extras { call: Some(Box::new(Call { id, on, ..Call::default() })), ..Extras::default() },
            }
        };
        let end = || {
            let step = TimeStep { observation: "over".into(), state: 0, reward: 1.0, done: true, won: true, valid: true };
            EpisodeView { step, actions: vec![], extras: Extras { credit: vec![(7, 0.25)], ..Extras::default() } }
        };
        let played = |order: [(u64, Option<u64>); 3]| {
            let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
            let seeds = order.map(|(id, _)| start.seed_of_call(1, id));
            let mut episode = Episode::new(start);
            episode.begin(Some(view(order[0].0, order[0].1)));
            for (place, seed) in seeds.into_iter().enumerate() {
                let request = Request { prompt: vec![], seed, choices: vec![], ..Request::default() };
                let step = Move {
                    request,
                    prompt_memory: PromptMemory::default(),
                    action: String::new(),
                    unread: None,
                    fork: String::new(),
                    answered_by: None,
                    parts: vec![],
                    response: Response::default(),
                };
                let next = order.get(place + 1).map_or_else(end, |(id, on)| view(*id, *on));
                assert_eq!(episode.record(step, next, false, true).unwrap().is_some(), place == 2);
            }
            (episode.turns, episode.score)
        };
        let first = played([(9, None), (4, None), (7, Some(9))]);
        assert_eq!(first, played([(4, None), (9, None), (7, Some(9))]));
        assert_eq!(first, played([(9, None), (7, Some(9)), (4, None)]));
        let (turns, score) = first;
        assert_eq!(
            turns.iter().map(|turn| (turn.turn, turn.call, turn.reward, turn.done)).collect::<Vec<_>>(),
            [(0, 9, 0.0, false), (1, 4, 0.0, false), (2, 7, 1.25, true)]
        );
        assert_eq!(score, 1.25);
    }

    /// Whichever has the least name, and whichever comes first.
    #[test]
    fn the_main_agent_is_the_one_that_reads_the_others() {
        let turn = |call, parent, observation: &str, action: &str| Turn {
            call,
            parent,
            observation: observation.into(),
            action: action.into(),
            ..Turn::default()
        };
        let forks = |turns: &[Turn], order: &[usize]| {
            let mut turns: Vec<Turn> = order.iter().map(|&i| turns[i].clone()).collect();
            arrange(&mut turns);
            turns.iter().map(|turn| (turn.call, turn.fork.clone())).collect::<Vec<_>>()
        };
        let named = |calls: [(u64, &str); 4]| calls.map(|(call, fork)| (call, fork.to_owned())).to_vec();
        // Names of calls are hashes: the sub-agents' may be less than the main agent's or greater.
        for (main, on, one, two) in [(5, 6, 1, 2), (1, 2, 5, 6), (3, 9, 1, 5)] {
            let expected = named([(main, ""), (one, "sub_agent"), (two, "sub_agent"), (on, "")]);
            // It reads both answers; one sub-agent is longer than it.
            let results = [
                turn(main, 0, "What is 1 + 2?", "I ask two."),
                turn(one, 0, "Add.", "3"),
                turn(two, 0, "Check.", "yes"),
                turn(on, main, "tool: 3\ntool: yes", "3"),
            ];
            // It writes the question of a sub-agent, whose answer it reads in other words.
            let long = "Find the \"largest\" number that divides both.";
            let call = format!("<tool_call>{}</tool_call>", serde_json::json!({ "name": "task", "arguments": { "prompt": long } }));
            let question = format!("system: You help.\nuser: {long}");
            let asks = [
                turn(main, 0, "Go.", &call),
                turn(one, 0, &question, "4"),
                turn(two, 0, &question, "5"),
                turn(on, main, "tool: it is four", "done"),
            ];
            for turns in [results, asks] {
                for order in [[0, 1, 2, 3], [1, 0, 3, 2], [2, 1, 0, 3]] {
                    assert_eq!(forks(&turns, &order), expected, "{main} {order:?}");
                }
            }
        }
        let longest = [turn(8, 0, "a", "x"), turn(9, 8, "b", "y"), turn(1, 0, "c", "z"), turn(2, 0, "d", "w")];
        assert_eq!(forks(&longest, &[2, 0, 3, 1]), named([(8, ""), (1, "sub_agent"), (2, "sub_agent"), (9, "")]));
        let equal = [turn(8, 0, "a", "x"), turn(1, 0, "c", "z")];
        assert_eq!(forks(&equal, &[0, 1]), forks(&equal, &[1, 0]));
    }

    /// Rows count on without a call whose answer nobody read; a later reward of a call replaces an earlier one.
    #[test]
    fn what_was_not_read_is_no_turn() {
        let turn = |(turn, call)| Turn { turn, call, ..Turn::default() };
        let shown =
            |credit: &[(u64, f32)], unread: &[u64]| Extras { credit: credit.to_vec(), unread: unread.to_vec(), ..Extras::default() };
        for parallel in [false, true] {
            let mut calls = Calls::default();
            calls.tell(&shown(&[(7, 1.0), (9, 0.5)], &[]));
            calls.tell(&shown(&[(7, 0.25)], &[8, 99]));
            let mut turns: Vec<Turn> = [(0, 7), (1, 8), (2, 9)].map(turn).into();
            assert_eq!(calls.settle(&mut turns, parallel), Ok(vec![0.25, 0.5]));
            let found: Vec<_> = turns.iter().map(|turn| (turn.turn, turn.call, turn.reward)).collect();
            assert_eq!(found, [(0, 7, 0.25), (1, 9, 0.5)]);
        }
    }
}
