//! Tokens that could have been chosen in place of one that was: their log-probabilities, and the way back from a loss
//! that compares them. Each choice by itself, in the order of its tokens.

use super::head::{add_probabilities, logprob, mass};
use crate::products::isa::Isa;
use flow_model::NEVER;

/// One token that was chosen after a state.
pub struct StateChoice {
    /// Which of the output nodes' states.
    pub state: usize,
    /// The token.
    pub token: u32,
    /// What the logits are divided by.
    pub temperature: f32,
    /// What it was chosen from; none: the whole vocabulary.
    pub allowed: Option<Vec<u32>>,
}

/// Tokens of each choice whose log-probabilities are asked for.
#[derive(Clone, Copy)]
pub enum Listing<'a> {
    /// The likeliest, so many or all.
    Likeliest(Option<usize>),
    /// These, `[choices, listed]`; none: all, in their order.
    Tokens(Option<&'a [i64]>),
}

/// The figures of listed tokens.
pub struct ListedFigures {
    /// The tokens, `[choices, listed]`; none: all, in their order.
    pub tokens: Option<Vec<i64>>,
    /// Their log-probabilities, `[choices, listed]`: [`flow_model::NEVER`] of a token that isn't allowed.
    pub logprobs: Vec<f32>,
    /// The sum of the other tokens' squared probabilities, `[choices]`.
    pub others: Vec<f32>,
}

/// Listed tokens of choices, as they are found one by one.
pub struct TokenLists<'a> {
    listing: Listing<'a>,
    size: usize,
    found: ListedFigures,
}

impl<'a> TokenLists<'a> {
    /// Of `choices` choices among a vocabulary of `vocab`.
    pub fn new(listing: Listing<'a>, choices: usize, vocab: usize) -> TokenLists<'a> {
        let (size, whole) = match listing {
            Listing::Likeliest(count) => (count.unwrap_or(vocab).min(vocab), count.is_none_or(|count| count >= vocab)),
            Listing::Tokens(tokens) => (tokens.map_or(vocab, |tokens| tokens.len() / choices.max(1)), tokens.is_none()),
        };
        let tokens = (!whole).then(|| vec![0; choices * size]);
        TokenLists { listing, size, found: ListedFigures { tokens, logprobs: vec![0.0; choices * size], others: vec![0.0; choices] } }
    }

    /// Fills in choice `i`, whose distribution has that `mass` and that sum of squared probabilities.
    pub fn fill(&mut self, i: usize, logits: &[f32], choice: &StateChoice, mass: (f32, f32), squares: f32) {
        let own = i * self.size..(i + 1) * self.size;
        let allows = |token: usize| choice.allowed.as_ref().is_none_or(|allowed| allowed.contains(&(token as u32)));
        if let Some(tokens) = &mut self.found.tokens {
            match self.listing {
                Listing::Tokens(asked) => tokens[own.clone()].copy_from_slice(&asked.unwrap_or_default()[own.clone()]),
                Listing::Likeliest(_) => {
                    // Allowed ones first, by their logits, of equal ones the first.
                    let mut all: Vec<usize> = (0..logits.len()).collect();
                    let by = |a: &usize, b: &usize| allows(*b).cmp(&allows(*a)).then(logits[*b].total_cmp(&logits[*a])).then(a.cmp(b));
                    all.select_nth_unstable_by(self.size - 1, by);
                    all.truncate(self.size);
                    all.sort_unstable_by(by);
                    tokens[own.clone()].iter_mut().zip(all).for_each(|(to, token)| *to = token as i64);
                }
            }
        }
        let mut listed = 0.0;
        for (place, to) in self.found.logprobs[own.clone()].iter_mut().enumerate() {
            let token = self.found.tokens.as_ref().map_or(place, |tokens| tokens[own.start + place] as usize);
            *to = if allows(token) { logprob(logits[token], choice.temperature, mass) } else { NEVER as f32 };
            listed += (2.0 * *to).exp();
        }
        // Of the whole vocabulary nothing is left.
        self.found.others[i] = if self.found.tokens.is_some() { (squares - listed).max(0.0) } else { 0.0 };
    }

    /// The figures of all choices.
    pub fn figures(self) -> ListedFigures {
        self.found
    }
}

/// The gradient of a loss by the logits of a choice whose listed tokens it compares: (by_j - p_j whole) / temperature.
pub struct Pulls {
    /// Each listed token with the gradient by its log-probability.
    pub each: Vec<(usize, f32)>,
    /// Their sum.
    pub whole: f32,
    temperature: f32,
}

impl Pulls {
    /// Of gradients `by` the log-probabilities of `tokens`, or of the whole vocabulary.
    pub fn new(tokens: Option<&[i64]>, by: &[f32], temperature: f32) -> Pulls {
        let each = by.iter().enumerate().map(|(place, &by)| (tokens.map_or(place, |tokens| tokens[place] as usize), by)).collect();
        let whole = by.iter().map(|&by| f64::from(by)).sum::<f64>() as f32;
        Pulls { each, whole, temperature }
    }

    /// Gives `row` each token that was `allowed` with its gradient.
    pub fn restricted(&self, isa: Isa, logits: &[f32], allowed: &[u32], row: &mut dyn FnMut(u32, f32)) {
        let over: Vec<f32> = allowed.iter().map(|&token| logits[token as usize]).collect();
        let mass = mass(isa, &over, self.temperature);
        for (&token, logit) in allowed.iter().zip(over) {
            let by: f32 = self.each.iter().filter(|(own, _)| *own == token as usize).map(|(_, by)| by).sum();
            row(token, (by - self.whole * logprob(logit, self.temperature, mass).exp()) / self.temperature);
        }
    }

    /// Adds the gradients of all tokens to `spread`; those of a list that is `short` go to `row` instead.
    pub fn free(&self, isa: Isa, logits: &[f32], short: bool, spread: &mut [f32], row: &mut dyn FnMut(u32, f32)) {
        let mass = mass(isa, logits, self.temperature);
        add_probabilities(isa, logits, self.temperature, mass, -self.whole / self.temperature, spread);
        for &(token, by) in &self.each {
            if short {
                let share = self.whole * logprob(logits[token], self.temperature, mass).exp() / self.temperature;
                spread[token] += share;
                row(token as u32, by / self.temperature - share);
            } else {
                spread[token] += by / self.temperature;
            }
        }
    }
}
