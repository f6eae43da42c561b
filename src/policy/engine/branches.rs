//! Attention over a trie of tokens, forward and back: the keys and values before a token lie in pages that follow the branch it is on.
//!
//! Tokens are numbered so that all that begins with one follows it before anything else does. So forward, each token overwrites what the branch
//! before it left at its place; and back, from the last to the first, all that saw a token has been looked at when its own turn comes.

use super::attention::{attend, back, AttentionScratch, Heads, PAGE};
use super::block::{KvMemory, PlacedToken};
use crate::policy::products::dense::StridedRows;
use crate::policy::products::isa::Isa;

/// The pages of one block for the branch that is being computed.
pub struct TrieAttention<'a> {
    isa: Isa,
    heads: Heads,
    tokens: &'a [PlacedToken],
    pages: Vec<Vec<f32>>,
    scores: AttentionScratch,
}

impl<'a> TrieAttention<'a> {
    /// Of `tokens`, numbered as above.
    pub fn new(isa: Isa, heads: Heads, tokens: &'a [PlacedToken]) -> TrieAttention<'a> {
        let places = tokens.iter().map(|token| token.place + 1).max().unwrap_or(0);
        let pages = vec![vec![0.0; heads.page()]; places.div_ceil(PAGE)];
        TrieAttention { isa, heads, tokens, pages, scores: AttentionScratch::default() }
    }

    /// The queries, keys and values of a row.
    fn parts<'b>(&self, qkv: &StridedRows<'b>, row: usize) -> (&'b [f32], &'b [f32], &'b [f32]) {
        let (queries, keys) = (self.heads.queries * self.heads.head, self.heads.keys * self.heads.head);
        let own = &qkv.numbers[row * qkv.stride..];
        (&own[..queries], &own[queries..queries + keys], &own[queries + keys..queries + 2 * keys])
    }

    /// The gradient of the rows of `qkv` given `dout` `[tokens, queries * head]`, into `dqkv`, which has the same layout. `before` has the token before each.
    pub fn back(&mut self, qkv: StridedRows, before: &[Option<usize>], dout: StridedRows, dqkv: &mut [f32]) {
        let Heads { queries, keys, head } = self.heads;
        let mut turned = vec![vec![0.0; self.heads.page()]; self.pages.len()];
        let mut dpages = vec![vec![0.0; 2 * keys * head * PAGE]; self.pages.len()];
        // Which token is at each place of the pages.
        let mut token_at: Vec<Option<usize>> = vec![None; self.pages.len() * PAGE];
        for row in (0..self.tokens.len()).rev() {
            let mut above = Some(row);
            while let Some(token) = above.filter(|&token| token_at[self.tokens[token].place] != Some(token)) {
                let place = self.tokens[token].place;
                token_at[place] = Some(token);
                let (_, k, v) = self.parts(&qkv, token);
                self.heads.put(&mut self.pages[place / PAGE], place % PAGE, k, v);
                self.heads.put(&mut turned[place / PAGE], place % PAGE, v, k);
                above = before[token];
            }
            let count = self.tokens[row].place + 1;
            let pages: Vec<&[f32]> = self.pages[..count.div_ceil(PAGE)].iter().map(Vec::as_slice).collect();
            let turned: Vec<&[f32]> = turned[..count.div_ceil(PAGE)].iter().map(Vec::as_slice).collect();
            let dout = &dout.numbers[row * dout.stride..][..queries * head];
            let to = &mut dqkv[row * qkv.stride..(row + 1) * qkv.stride];
            to.fill(0.0);
            let (dq, rest) = to.split_at_mut(queries * head);
            let q = &qkv.numbers[row * qkv.stride..][..queries * head];
            back(self.isa, q, self.heads, &pages, &turned, count, dout, dq, &mut dpages[..count.div_ceil(PAGE)], &mut self.scores);
            // All tokens that attend to it are done.
            let (page, slot) = ((count - 1) / PAGE, (count - 1) % PAGE);
            let (dk, dv) = rest.split_at_mut(keys * head);
            for kv in 0..keys {
                for i in 0..head {
                    let at = kv * 2 * head * PAGE + i * PAGE + slot;
                    dk[kv * head + i] = std::mem::take(&mut dpages[page][at]);
                    dv[kv * head + i] = std::mem::take(&mut dpages[page][at + head * PAGE]);
                }
            }
        }
    }
}

impl KvMemory for TrieAttention<'_> {
    fn attend(&mut self, _: usize, qkv: StridedRows, out: &mut [f32]) {
        let queries = self.heads.queries * self.heads.head;
        for (row, out) in out.chunks_exact_mut(queries).enumerate().take(self.tokens.len()) {
            let (q, k, v) = self.parts(&qkv, row);
            let place = self.tokens[row].place;
            self.heads.put(&mut self.pages[place / PAGE], place % PAGE, k, v);
            let pages: Vec<&[f32]> = self.pages[..(place + 1).div_ceil(PAGE)].iter().map(Vec::as_slice).collect();
            attend(self.isa, q, self.heads, &pages, 0, place + 1, out, &mut self.scores);
        }
    }
}
