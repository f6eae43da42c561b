//! Attention over a trie of tokens, forward and back: the keys and values before a token lie in pages that follow the
//! branch it is on.
//!
//! Tokens are numbered so that all that begins with one follows it before anything else does. So forward, each token
//! overwrites what the branch before it left at its place; and back, from the last to the first, all that saw a token
//! has been looked at when its own turn comes.

use super::attention::put;
use super::block::{KvMemory, PlacedToken};
use super::kv::{Heads, KvNumber, PAGE};
use super::tiles::{self, TileScratch, TILE};
use crate::products::dense::StridedRows;
use crate::products::isa::Isa;
use std::ops::Range;

/// The pages of one block for the branch that is being computed.
pub struct TrieAttention<'a, E> {
    isa: Isa,
    heads: Heads,
    tokens: &'a [PlacedToken],
    pages: Vec<Vec<E>>,
    scratch: TileScratch,
}

impl<'a, E: KvNumber> TrieAttention<'a, E> {
    /// Of `tokens`, numbered as above.
    pub fn new(isa: Isa, heads: Heads, tokens: &'a [PlacedToken]) -> TrieAttention<'a, E> {
        let places = tokens.iter().map(|token| token.place + 1).max().unwrap_or(0);
        let pages = vec![vec![E::default(); heads.page()]; places.div_ceil(PAGE)];
        TrieAttention { isa, heads, tokens, pages, scratch: TileScratch::default() }
    }

    /// The tokens in tiles: each token of one is the next of the one before it. As they are numbered, that is so where
    /// its place is the next one.
    fn tiles(&self) -> Vec<Range<usize>> {
        let mut tiles: Vec<Range<usize>> = Vec::new();
        for (row, token) in self.tokens.iter().enumerate() {
            match tiles.last_mut() {
                // Tiles end where pages do, so that few pages are seen in part.
                Some(tile) if token.place % TILE != 0 && token.place == self.tokens[row - 1].place + 1 => tile.end += 1,
                _ => tiles.push(row..row + 1),
            }
        }
        tiles
    }

    /// The queries, keys and values of a row.
    fn parts<'b>(&self, qkv: &StridedRows<'b>, row: usize) -> (&'b [f32], &'b [f32], &'b [f32]) {
        let (queries, keys) = (self.heads.queries * self.heads.head, self.heads.keys * self.heads.head);
        let own = &qkv.numbers[row * qkv.stride..];
        (&own[..queries], &own[queries..queries + keys], &own[queries + keys..queries + 2 * keys])
    }

    /// The gradient of the rows of `qkv` given `dout` `[tokens, queries * head]`, into `dqkv`, which has the same
    /// layout. `before` has the token before each.
    pub fn back(&mut self, qkv: StridedRows, before: &[Option<usize>], dout: StridedRows, dqkv: &mut [f32]) {
        let Heads { keys, head, .. } = self.heads;
        let mut turned = vec![vec![E::default(); self.heads.page()]; self.pages.len()];
        let mut dpages = vec![vec![0.0; 2 * keys * head * PAGE]; self.pages.len()];
        // Which token is at each place of the pages.
        let mut token_at: Vec<Option<usize>> = vec![None; self.pages.len() * PAGE];
        for tile in self.tiles().into_iter().rev() {
            let mut above = Some(tile.end - 1);
            while let Some(token) = above.filter(|&token| token_at[self.tokens[token].place] != Some(token)) {
                let place = self.tokens[token].place;
                token_at[place] = Some(token);
                let (_, k, v) = self.parts(&qkv, token);
                put(self.isa, self.heads, &mut self.pages[place / PAGE], place % PAGE, k, v);
                put(self.isa, self.heads, &mut turned[place / PAGE], place % PAGE, v, k);
                above = before[token];
            }
            let place = self.tokens[tile.start].place;
            let seen = (place + tile.len()).div_ceil(PAGE);
            let pages: Vec<&[E]> = self.pages[..seen].iter().map(Vec::as_slice).collect();
            let turned: Vec<&[E]> = turned[..seen].iter().map(Vec::as_slice).collect();
            let to = &mut dqkv[tile.start * qkv.stride..];
            let (q, dout) = (rows(qkv, &tile), rows(dout, &tile));
            tiles::back(self.isa, q, self.heads, &pages, &turned, place, dout, to, &mut dpages, &mut self.scratch);
        }
    }
}

/// Some of the rows.
fn rows<'a>(all: StridedRows<'a>, tile: &Range<usize>) -> StridedRows<'a> {
    StridedRows { numbers: &all.numbers[tile.start * all.stride..], count: tile.len(), ..all }
}

impl<E: KvNumber> KvMemory for TrieAttention<'_, E> {
    fn attend(&mut self, _: usize, qkv: StridedRows, out: &mut [f32]) {
        let queries = self.heads.queries * self.heads.head;
        for tile in self.tiles() {
            for row in tile.clone() {
                let (_, k, v) = self.parts(&qkv, row);
                let place = self.tokens[row].place;
                put(self.isa, self.heads, &mut self.pages[place / PAGE], place % PAGE, k, v);
            }
            let place = self.tokens[tile.start].place;
            let pages: Vec<&[E]> = self.pages[..(place + tile.len()).div_ceil(PAGE)].iter().map(Vec::as_slice).collect();
            let out = &mut out[tile.start * queries..tile.end * queries];
            tiles::attend(self.isa, rows(qkv, &tile), self.heads, &pages, 0, place, out, &mut self.scratch);
        }
    }
}
