//! An unfinished answer: its tokens, the allowed next ones, and its end.

use crate::generate::penalties::TokenCounts;
use crate::generate::sample::{draw_row, recorded_row};
use crate::generate::stops::Stops;
use crate::model::Net;
use flow_core::seed::{mix, Random};
use flow_int8::products::isa::Isa;
use flow_model::choices::{ChoiceConstraint, OPEN};
use flow_model::draw::{draw, recorded};
use flow_model::sequence::check;
use flow_model::{PolicyError, Reply, Request, Result, Sampling};

/// An answer in the making.
#[derive(Clone)]
pub struct PartialAnswer<'a> {
    /// Which request it answers.
    pub index: usize,
    /// The written part.
    pub reply: Reply,
    /// Tokens of the prompt, with forced tokens before the first choice: they are read with it.
    pub prompt: usize,
    /// Tokens of the prompt and the reply that were read.
    pub read: usize,
    /// Nothing is left to write.
    pub done: bool,
    /// How many of the reply's tokens were certain before the first choice.
    forced: usize,
    seed: u64,
    /// `None`: decoding is free.
    constraint: Option<ChoiceConstraint<'a>>,
    limit: usize,
    /// The tokens that close it.
    ends: &'a [u32],
    /// The texts that end it.
    stops: Stops<'a>,
    /// What may make tokens less likely; nothing where decoding isn't free.
    pub counts: Option<TokenCounts>,
}

impl<'a> PartialAnswer<'a> {
    /// The answer to a request, checked, with its forced first tokens.
    ///
    /// # Errors
    /// [`PolicyError::Row`] with `index`, if the model can't read the prompt with its longest answer.
    pub fn new(request: &'a Request, index: usize, sampling: &Sampling, stops: Stops<'a>, net: &'a Net) -> Result<PartialAnswer<'a>> {
        let fault = |fault| PolicyError::Row { row: index, fault };
        let limit = request.longest(sampling);
        check(&request.prompt, &request.choices, limit, &net.sizes).map_err(fault)?;
        let constraint =
            if request.choices.is_empty() { None } else { Some(ChoiceConstraint::new(&request.choices, &net.ends).map_err(fault)?) };
        let free = request.choices.iter().all(|choice| choice.last() == Some(&OPEN));
        let counts = (free && sampling.penalises()).then(|| TokenCounts::new(&request.prompt, sampling));
        let ((prompt, read, forced, reply), seed, ends, done) = (Default::default(), request.seed, &net.ends, limit == 0);
        let mut answer = PartialAnswer { index, seed, constraint, prompt, read, forced, reply, limit, ends, counts, stops, done };
        while let Some(token) = answer.constraint.as_ref().and_then(ChoiceConstraint::forced) {
            answer.write(token, 0.0);
            if let Some(constraint) = &mut answer.constraint {
                constraint.push(token);
            }
            answer.done |= answer.ends.contains(&token);
            if answer.done {
                break;
            }
        }
        answer.free();
        answer.forced = answer.reply.tokens.len();
        answer.prompt = request.prompt.len() + answer.forced;
        answer.read = answer.prompt;
        Ok(answer)
    }

    /// Drops a constraint that allows anything from now on.
    fn free(&mut self) {
        if self.constraint.as_ref().is_some_and(ChoiceConstraint::free) {
            self.constraint = None;
        }
    }

    fn write(&mut self, token: u32, logprob: f32) {
        self.reply.tokens.push(token);
        self.reply.logprobs.push(logprob);
        self.counts.iter_mut().for_each(|counts| counts.say(token));
    }

    /// The tokens drawn.
    pub fn drawn(&self) -> &[u32] {
        &self.reply.tokens[self.forced..]
    }

    /// What may make the next token less likely: nothing while only some tokens may come.
    fn penalised(&self) -> Option<&TokenCounts> {
        self.counts.as_ref().filter(|_| self.constraint.is_none())
    }

    /// Writes the next token, drawn from `logits` (one a token of the vocabulary), and whatever is certain after it.
    pub fn next(&mut self, logits: &[f32], sampling: &Sampling) {
        let changed = self.penalised().and_then(|counts| counts.changed(logits, sampling));
        self.step(|allowed, unit| match &changed {
            None => draw(logits, allowed, sampling, unit),
            Some(changed) => {
                let (token, _) = draw(changed, allowed, sampling, unit);
                (token, recorded(logits, sampling, token))
            }
        });
    }

    /// The same of logits that were computed row by row.
    pub fn next_of(&mut self, isa: Isa, logits: &[f32], sampling: &Sampling) {
        let changed = self.penalised().and_then(|counts| counts.changed(logits, sampling));
        self.step(|allowed, unit| match &changed {
            None => draw_row(isa, logits, allowed, sampling, unit),
            Some(changed) => {
                let (token, _) = draw_row(isa, changed, allowed, sampling, unit);
                (token, recorded_row(isa, logits, sampling, token))
            }
        });
    }

    /// Writes the next token, which `draw` draws among those allowed with a uniform number, and whatever is certain
    /// after it.
    fn step(&mut self, draw: impl FnOnce(Option<&[u32]>, f64) -> (u32, f32)) {
        let (token, logprob) = match self.allowed() {
            Some(allowed) if allowed.len() == 1 => (allowed[0], 0.0),
            allowed => draw(allowed.as_deref(), self.unit()),
        };
        self.take(token, logprob);
    }

    /// The uniform number that draws the next token.
    pub fn unit(&self) -> f64 {
        Random::new(mix(self.seed, self.reply.tokens.len() as u64)).unit()
    }

    /// What the next token is drawn from; `None`: the whole vocabulary.
    pub fn allowed(&self) -> Option<Vec<u32>> {
        self.constraint.as_ref().map(ChoiceConstraint::allowed)
    }

    /// Writes the next token, as it was drawn, and whatever is certain after it.
    pub fn take(&mut self, token: u32, logprob: f32) {
        self.write(token, logprob);
        match &mut self.constraint {
            None => {
                let tokens = &self.reply.tokens;
                self.done = self.ends.contains(&token) || tokens.len() >= self.limit || self.stops.completed(tokens);
            }
            Some(constraint) => {
                constraint.push(token);
                if let Some(rest) = constraint.settled() {
                    rest.iter().for_each(|&token| {
                        constraint.push(token);
                    });
                    for &token in rest {
                        self.write(token, 0.0);
                    }
                    self.done = self.reply.tokens.last().is_some_and(|last| self.ends.contains(last));
                }
                self.free();
            }
        }
    }

    /// The most tokens that are still to come.
    pub fn more(&self) -> usize {
        if self.done {
            0
        } else {
            self.limit - self.reply.tokens.len()
        }
    }
}
