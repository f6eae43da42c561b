//! How the rows of a tile are numbered and laid out, and what each sees.

use super::super::kv::{Heads, PAGE};
use crate::products::dense::StridedRows;

/// Rows that are looked at together where the CPU has few registers. There is room for a multiple of it.
pub const FEW: usize = 4;

/// The rows of a tile for one head of keys.
#[derive(Clone, Copy)]
pub struct TileRows {
    pub heads: Heads,
    pub tokens: usize,
    /// Places that the last token sees.
    seen: usize,
    /// How many there are, and how many there is room for.
    pub count: usize,
    pub room: usize,
}

impl TileRows {
    /// Of `tokens` tokens, the first of them at `place`.
    pub fn new(heads: Heads, tokens: usize, place: usize) -> TileRows {
        let count = tokens * (heads.queries / heads.keys);
        TileRows { heads, tokens, seen: place + tokens, count, room: count.next_multiple_of(FEW) }
    }

    /// Heads of queries that share a head of keys.
    pub fn group(self) -> usize {
        self.heads.queries / self.heads.keys
    }

    /// How many places of a page a row sees. What only fills up the room sees none.
    pub fn sees(self, row: usize, page: usize) -> usize {
        let seen = if row < self.count { self.seen - row / self.group() } else { 0 };
        seen.saturating_sub(page * PAGE).min(PAGE)
    }

    /// How many rows, from the first on, see anything of a page.
    pub fn seeing(self, page: usize) -> usize {
        self.tokens.min(self.seen - page * PAGE) * self.group()
    }

    /// Pages that any row sees.
    pub fn pages(self) -> usize {
        self.seen.div_ceil(PAGE)
    }

    /// Pages that every row sees as a whole: the first ones.
    pub fn shared_pages(self) -> usize {
        (self.seen + 1 - self.tokens) / PAGE
    }

    /// Copies what belongs to the head `kv` of keys out of rows of tokens.
    pub fn take(self, from: StridedRows, kv: usize, to: &mut Vec<f32>) {
        let size = self.group() * self.heads.head;
        to.clear();
        for token in (0..self.tokens).rev() {
            to.extend_from_slice(&from.numbers[token * from.stride + kv * size..][..size]);
        }
        to.resize(self.room * self.heads.head, 0.0);
    }

    /// Copies `sums` `[room, padded]` into rows of tokens, `stride` from one another.
    pub fn give(self, sums: &[f32], kv: usize, to: &mut [f32], stride: usize) {
        let Heads { head, .. } = self.heads;
        for (row, sums) in sums.chunks_exact(self.heads.padded()).take(self.count).enumerate() {
            let (token, own) = (self.tokens - 1 - row / self.group(), kv * self.group() + row % self.group());
            to[token * stride + own * head..][..head].copy_from_slice(&sums[..head]);
        }
    }
}
