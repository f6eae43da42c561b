//! One episode: which it is, what has come of it so far, and what decides its draws.

use super::prompt::Past;
use super::said::Said;
use crate::env::{Seen, View};
use crate::policy::Request;
use crate::seed;

/// Which episode is to be played, with which weights, and what the prompt tells of earlier attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub task: String,
    pub sample: u32,
    pub attempt: u32,
    pub memory: String,
    /// Decides, with the names, what is drawn.
    pub iteration: u64,
    pub version: u64,
}

/// One turn of an episode.
pub struct Turn {
    pub turn: u32,
    pub observation: String,
    pub state: u64,
    pub prompt: Vec<u32>,
    pub response_tokens: Vec<u32>,
    pub choices: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub response: String,
    pub action: String,
    pub seed: u64,
    pub after: Seen,
    pub score: f32,
}

/// An episode that is over.
pub struct Ended {
    /// Its number: the how-manieth that was begun since its player was cleared.
    pub number: usize,
    pub start: Start,
    /// None if it was given up.
    pub turns: Vec<Turn>,
    /// What was seen after the last turn.
    pub outcome: String,
}

/// An episode that is being played, or waits to be.
pub struct Episode {
    pub start: Start,
    /// What is seen while it is being played.
    pub view: Option<View>,
    pub past: Vec<Past>,
    pub turns: Vec<Turn>,
    pub score: f32,
}

impl Episode {
    pub fn new(start: Start) -> Episode {
        Episode { start, view: None, past: vec![], turns: vec![], score: 0.0 }
    }

    pub fn begin(&mut self, view: Option<View>) {
        (self.view, self.past, self.turns, self.score) = (view, vec![], vec![], 0.0);
    }

    /// Takes in a turn and what came of it; what is seen in the end, if this was the last.
    pub fn took(
        &mut self,
        request: Request,
        action: String,
        (response, response_tokens, logprobs): Said,
        view: View,
        last: bool,
    ) -> Option<String> {
        let before = self.view.take()?;
        let mut after = view.seen.clone();
        after.done |= last;
        self.score += after.reward;
        self.past.push((before.seen.observation.clone(), action.clone()));
        let outcome = after.done.then(|| after.observation.clone());
        if !after.done {
            self.view = Some(view);
        }
        self.turns.push(Turn {
            turn: self.turns.len() as u32,
            observation: before.seen.observation,
            state: before.seen.state,
            prompt: request.prompt,
            response_tokens,
            choices: request.choices.concat(),
            logprobs,
            response,
            action,
            seed: request.seed,
            after,
            score: self.score,
        });
        outcome
    }
}

/// The seed of a turn: from the run's seed and the turn's name. A first attempt's is that of a rollout without attempts.
pub fn drawn(run: u64, start: &Start, turn: u64) -> u64 {
    let name = seed::mix(seed::text(&start.task), u64::from(start.sample) << 32 | turn);
    let name = if start.attempt == 0 { name } else { seed::mix(name, u64::from(start.attempt)) };
    seed::mix(seed::mix(run, start.iteration), name)
}
