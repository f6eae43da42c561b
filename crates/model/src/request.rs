//! What a policy is asked and what it answers: prompts and replies, rows to learn from.

use crate::{Result, RowFault, Sampling, Tally, OPEN};

/// One prompt to answer.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What the policy reads; never empty.
    pub prompt: Vec<u32>,
    /// Decides every draw of this row.
    pub seed: u64,
    /// The answers allowed, each closed by the tokenizer's end token; empty leaves decoding free. After one that [`OPEN`] closes
    /// the answer goes on freely.
    pub choices: Vec<Vec<u32>>,
    /// Tokens that its answer may have at most, where it is less than [`Sampling::max_tokens`].
    pub most: Option<usize>,
    /// What it belongs to: where several servers generate, this decides which one is asked.
    pub session: Session,
}

/// Whose prompts a request shares. A server that computed a prompt has it still, so the members of a group begin at one
/// server as long as it isn't busier than others, and a member stays where it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Session {
    /// The attempts at one task.
    pub group: u64,
    /// One of them; 0: of none, such as a reflection.
    pub member: u64,
}

impl Request {
    /// Tokens that its answer may have: those of the longest choice, or as many as are sampled. After an open choice
    /// there is one more at least.
    pub fn longest(&self, sampling: &Sampling) -> usize {
        let sampled = self.most.map_or(sampling.max_tokens, |most| sampling.max_tokens.min(most.max(1)));
        let longest = self.choices.iter().map(Vec::len).max();
        let open = longest.is_none() || self.choices.iter().any(|choice| choice.last() == Some(&OPEN));
        longest.unwrap_or_default().max(if open { sampled } else { 0 })
    }
}

/// What the policy wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The tokens, the one that closes the answer with them unless the limit cut it off.
    pub tokens: Vec<u32>,
    /// The log-probability of each.
    pub logprobs: Vec<f32>,
}

/// The replies to some requests, and how many tokens were computed for them.
#[derive(Clone, Debug, Default)]
pub struct GenerationOutput {
    /// One a request, in their order; a fault where a server gave none.
    pub replies: Vec<Result<Reply, RowFault>>,
    /// The tokens that were read: prompts, and written tokens as far as something had to be chosen after it.
    pub tokens: Tally,
}

/// A number for each of the choices of each request, in their order, and what it took to find them.
pub struct ChoiceScores {
    /// By request, and then by its choices.
    pub choices: Vec<Vec<f64>>,
    /// The tokens that were read.
    pub tokens: Tally,
}

/// One training row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// What the policy read; never empty.
    pub prompt: Vec<u32>,
    /// What a teacher reads in its place; empty: the same.
    pub teacher_prompt: Vec<u32>,
    /// What it wrote, or should have written.
    pub response: Vec<u32>,
    /// Log-probability of each response token under the policy that acted; `sft` doesn't read it.
    pub logprobs: Vec<f32>,
    /// The temperature that `logprobs` are at; `None` is 1. `sft` doesn't read it.
    pub temperature: Option<f32>,
    /// As in [`Request`].
    pub choices: Vec<Vec<u32>>,
    /// Which trajectory the row is a turn of, for a mean over trajectories.
    pub trajectory: u64,
    /// How much better the response did than others.
    pub advantage: f32,
    /// The same of each response token; empty: `advantage` counts for all of them.
    pub advantages: Vec<f32>,
    /// The returns that the critic expected: after the prompt, and after each response token but the last; for a row
    /// without a response the first alone. Only the objective `value` reads them.
    pub values: Vec<f32>,
    /// The returns that it should have expected.
    pub targets: Vec<f32>,
}

impl Example {
    /// The advantage of each response token.
    pub fn each_advantage(&self) -> Vec<f32> {
        if self.advantages.is_empty() {
            vec![self.advantage; self.response.len()]
        } else {
            self.advantages.clone()
        }
    }
}
