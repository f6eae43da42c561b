//! Sequences of tokens: whether a model can read them, and how they become a batch.

use super::choices::written;
use super::Sizes;
use super::{RowFault, PAD};

/// Whether a prompt with an answer of `more` tokens can be read at all.
pub fn check(prompt: &[u32], choices: &[Vec<u32>], more: usize, sizes: &Sizes) -> Result<(), RowFault> {
    let &Sizes { context, vocab, .. } = sizes;
    if prompt.is_empty() {
        return Err(RowFault::EmptyPrompt);
    }
    if prompt.len() + more > context {
        return Err(RowFault::TooLong { prompt: prompt.len(), answer: more, context });
    }
    known(prompt.iter().chain(choices.iter().flat_map(|choice| written(choice))), vocab)
}

/// Whether all of `tokens` are in a vocabulary of `vocab`.
pub fn known<'a>(mut tokens: impl Iterator<Item = &'a u32>, vocab: usize) -> Result<(), RowFault> {
    match tokens.find(|&&token| token as usize >= vocab) {
        Some(&token) => Err(RowFault::UnknownToken { token, vocab }),
        None => Ok(()),
    }
}

/// The tokens of `sequences`, each padded on the right to `places`, with rows of padding up to `rows`:
/// `[rows * places]`.
pub fn padded<'a>(sequences: impl Iterator<Item = &'a [u32]>, rows: usize, places: usize) -> Vec<i64> {
    let mut ids = vec![PAD as i64; rows * places];
    for (row, sequence) in sequences.enumerate() {
        for (place, &token) in sequence.iter().enumerate() {
            ids[row * places + place] = token as i64;
        }
    }
    ids
}
