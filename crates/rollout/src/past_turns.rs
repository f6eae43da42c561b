//! The turns of an episode that are played again as they were logged.

use super::turn::Turn;
use flow_env::{Cause, Fault};

/// What is played again to come to a turn.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The tokens of the responses before the turn, one list each.
    pub responses: Vec<Vec<u32>>,
    /// The environment's states before each of these turns, and before the turn itself.
    pub states: Vec<u64>,
    /// What the policy read in each of them.
    pub prompts: Vec<Vec<u32>>,
}

impl Past {
    /// The way to the last of these turns of an episode, which are all up to it.
    pub fn of(turns: &[Turn]) -> Past {
        let before = &turns[..turns.len().saturating_sub(1)];
        Past {
            responses: before.iter().map(|turn| turn.response.tokens.clone()).collect(),
            states: turns.iter().map(|turn| turn.state).collect(),
            prompts: turns.iter().map(|turn| turn.prompt_tokens.clone()).collect(),
        }
    }

    /// Why this isn't the turn that was played, if it isn't: the environment is in another state, or the policy would
    /// read something else.
    pub fn strays(&self, turn: usize, state: u64, prompt: &[u32]) -> Option<Fault> {
        let state = self.states.get(turn).filter(|known| **known != state).map(|_| "the environment's state");
        let prompt = || self.prompts.get(turn).filter(|known| *known != prompt).map(|_| "the prompt");
        state.or_else(prompt).map(|what| Fault::new(Cause::Replay, format!("{what} at turn {turn} isn't the one that was logged")))
    }
}
