//! Attention of a tile of tokens, each the next of the one before it, and its gradient.
//!
//! ```text
//! s[j] = q . k[j] / sqrt(head),  p = softmax(s),  o = sum over j of p[j] v[j]
//! dp[j] = do . v[j],  ds[j] = p[j] (dp[j] - sum over i of p[i] dp[i]) / sqrt(head)
//! dq = sum over j of ds[j] k[j],  dk[j] = ds[j] q,  dv[j] = p[j] do
//! ```
//!
//! The sums are those of [`super::attention`], bit by bit. But a page of keys and values is fetched once for the whole
//! tile in place of once for each token: in a long row, whose pages the CPU's caches don't hold, that took longer than
//! the arithmetic.
//!
//! A row of a tile is one head of queries of one token. What a row sums goes through the places in their order,
//! whichever rows are looked at beside it; what a page sums goes through the tokens from the last to the first, and
//! through the heads of each. Rows are numbered like that, so rows that see anything of a page are always the first
//! ones.

mod panels;
mod rows;
#[cfg(test)]
mod tests;

use super::kv::{Heads, KvNumber, PAGE};
use crate::products::dense::StridedRows;
use crate::products::vectors::{sum, Lanes, Vector, LANES};
use panels::{collect_rows, each_panel, movement, pack_rows, score, weigh_pages, MANY};
use rows::{TileRows, FEW};

/// Tokens of a tile, at most.
pub const TILE: usize = PAGE;
/// Pages whose values stay in the CPU's nearest cache while the rows pass.
const CHUNK: usize = 4;

/// Room for what is between the formulas of a tile.
#[derive(Default)]
pub struct TileScratch {
    /// The queries of the rows, and the gradient of what they attend to, `[room, head]`.
    queries: Vec<f32>,
    dout: Vec<f32>,
    /// The same in panels: the rows of one beside each other, `[head, R]`.
    panels: Vec<f32>,
    /// For each page and row the scores, which become probabilities, and how they should move.
    scores: Vec<Lanes>,
    moved: Vec<Lanes>,
    /// What is known of each row: its largest score, which becomes 1 / total, and how its probabilities should move on
    /// the whole.
    factors: Vec<Lanes>,
    means: Vec<Lanes>,
    /// Sums of the rows, `[room, padded]`.
    sums: Vec<f32>,
}

/// e to the power of the scores, less the largest of their row, and 1 / their total: with it they are probabilities.
#[inline(always)]
fn exponentials<V: Vector, E: KvNumber>(rows: TileRows, pages: &[&[E]], at: usize, scratch: &mut TileScratch) {
    let TileScratch { queries, panels, scores, factors, means: totals, .. } = scratch;
    let (head, scale) = (rows.heads.head, rows.heads.scale());
    pack_rows::<V>(queries, head, panels);
    scores.resize(scores.len().max(rows.pages() * rows.room), [0.0; LANES]);
    factors.clear();
    factors.resize(rows.room, [f32::NEG_INFINITY; LANES]);
    for (page, scores) in scores.chunks_exact_mut(rows.room).enumerate().take(rows.pages()) {
        let keys = &pages[page][at..at + head * PAGE].as_chunks::<LANES>().0[..head];
        each_panel!(
            rows.room,
            row,
            score::<V, E, MANY>(keys, panels, row, scale, scores),
            score::<V, E, FEW>(keys, panels, row, scale, scores)
        );
        for row in 0..rows.seeing(page) {
            if page >= rows.shared_pages() {
                scores[row][rows.sees(row, page)..].fill(f32::NEG_INFINITY);
            }
            V::load(&scores[row]).max(V::load(&factors[row])).store(&mut factors[row]);
        }
    }
    for most in &mut *factors {
        *most = [most.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a }); LANES];
    }
    totals.clear();
    totals.resize(rows.room, [0.0; LANES]);
    for (page, scores) in scores.chunks_exact_mut(rows.room).enumerate().take(rows.pages()) {
        for row in 0..rows.seeing(page) {
            V::load(&scores[row]).sub(V::load(&factors[row])).exp().store(&mut scores[row]);
            if page >= rows.shared_pages() {
                scores[row][rows.sees(row, page)..].fill(0.0);
            }
            V::load(&totals[row]).add(V::load(&scores[row])).store(&mut totals[row]);
        }
    }
    factors.iter_mut().zip(totals).for_each(|(factor, total)| *factor = [1.0 / sum(*total); LANES]);
}

/// Makes probabilities of the exponentials of one page.
#[inline(always)]
fn normalise<V: Vector>(exponentials: &mut [Lanes], factors: &[Lanes]) {
    for (own, factor) in exponentials.iter_mut().zip(factors) {
        V::load(own).mul(V::load(factor)).store(own);
    }
}

/// Adds what the rows from `first` on, `count` of them, give to the keys and values of one page: `dpage`
/// `[2, head, PAGE]`.
#[inline(always)]
fn page_back<V: Vector>(rows: TileRows, page: usize, first: usize, count: usize, dpage: &mut [f32], scratch: &TileScratch) {
    let head = rows.heads.head;
    let (dkeys, dvalues) = dpage.split_at_mut(head * PAGE);
    let at = page * rows.room + first;
    collect_rows::<V>(dkeys, &scratch.moved[at..at + count], &scratch.queries[first * head..]);
    collect_rows::<V>(dvalues, &scratch.scores[at..at + count], &scratch.dout[first * head..]);
}

vectorised! {
    /// Rows of `out`, packed: the attention of the queries of a tile, rows of `q`, turned, whose first token is at
    /// `place`. `pages` have the keys and values of all that its last token sees; the part from `at` on belongs to this
    /// block.
    pub fn attend<E: KvNumber>(q: StridedRows, heads: Heads, pages: &[&[E]], at: usize, place: usize, out: &mut [f32], scratch: &mut TileScratch) {
        let rows = TileRows::new(heads, q.count, place);
        for kv in 0..heads.keys {
            let at = at + kv * heads.span();
            rows.take(q, kv, &mut scratch.queries);
            exponentials::<V, E>(rows, pages, at, scratch);
            let TileScratch { scores, factors, sums, .. } = &mut *scratch;
            sums.clear();
            sums.resize(rows.room * heads.padded(), 0.0);
            for first in (0..rows.pages()).step_by(CHUNK) {
                let end = rows.pages().min(first + CHUNK);
                let p = &mut scores[first * rows.room..end * rows.room];
                p.chunks_exact_mut(rows.room).for_each(|p| normalise::<V>(p, factors));
                weigh_pages::<V, E>(rows, &pages[first..end], first, at, p, sums);
            }
            rows.give(sums, kv, out, heads.queries * heads.head);
        }
    }

    /// The gradient of the queries, keys and values of a tile, given that of what it attends to, rows of `dout`, in
    /// place of what is in rows of `dqkv`, which lie as far from one another as those of `q`. All that begins with its
    /// tokens has been looked at: so what has been added to `dpages`, keys and values both as `[head, PAGE]`, is taken
    /// out where its own tokens are, and added to where others are. `turned` is like `pages`, with values in place of
    /// keys and keys in place of values.
    pub fn back<E: KvNumber>(q: StridedRows, heads: Heads, pages: &[&[E]], turned: &[&[E]], place: usize, dout: StridedRows, dqkv: &mut [f32], dpages: &mut [Vec<f32>], scratch: &mut TileScratch) {
        let rows = TileRows::new(heads, q.count, place);
        let (head, padded, scale) = (heads.head, heads.padded(), V::splat(heads.scale()));
        for kv in 0..heads.keys {
            let (at, dat) = (kv * heads.span(), 2 * kv * head * PAGE..2 * (kv + 1) * head * PAGE);
            rows.take(q, kv, &mut scratch.queries);
            rows.take(dout, kv, &mut scratch.dout);
            exponentials::<V, E>(rows, pages, at, scratch);
            let TileScratch { scores, moved, factors, means, dout, panels, .. } = &mut *scratch;
            pack_rows::<V>(dout, head, panels);
            moved.resize(scores.len(), [0.0; LANES]);
            means.clear();
            means.resize(rows.room, [0.0; LANES]);
            let both = scores.chunks_exact_mut(rows.room).zip(moved.chunks_exact_mut(rows.room));
            for (page, (p, moved)) in both.enumerate().take(rows.pages()) {
                normalise::<V>(p, factors);
                let values = &turned[page][at..at + head * PAGE].as_chunks::<LANES>().0[..head];
                each_panel!(
                    rows.room,
                    row,
                    movement::<V, E, MANY>(values, panels, row, moved),
                    movement::<V, E, FEW>(values, panels, row, moved)
                );
                for row in 0..rows.seeing(page) {
                    V::load(&p[row]).fma(V::load(&moved[row]), V::load(&means[row])).store(&mut means[row]);
                }
            }
            means.iter_mut().for_each(|mean| *mean = [sum(*mean); LANES]);
            let mut sums = std::mem::take(&mut scratch.sums);
            sums.clear();
            sums.resize(rows.room * padded, 0.0);
            for first in (0..rows.pages()).step_by(CHUNK) {
                let end = rows.pages().min(first + CHUNK);
                for (page, dpage) in dpages.iter_mut().enumerate().take(end).skip(first) {
                    let TileScratch { scores, moved, means, .. } = &mut *scratch;
                    for (row, mean) in means.iter().enumerate().take(rows.seeing(page)) {
                        let i = page * rows.room + row;
                        V::load(&scores[i]).mul(V::load(&moved[i]).sub(V::load(mean))).mul(scale).store(&mut moved[i]);
                    }
                    if page < rows.shared_pages() {
                        page_back::<V>(rows, page, 0, rows.count, &mut dpage[dat.clone()], scratch);
                    }
                }
                weigh_pages::<V, E>(rows, &turned[first..end], first, at, &scratch.moved[first * rows.room..end * rows.room], &mut sums);
            }
            rows.give(&sums, kv, dqkv, q.stride);
            scratch.sums = sums;
            // A page that some don't see as a whole, token by token: when all that attend to one are done, its own gradient
            // is there.
            for token in (0..rows.tokens).rev() {
                let first = (rows.tokens - 1 - token) * rows.group();
                let seen = dpages.iter_mut().enumerate().take((place + token + 1).div_ceil(PAGE));
                for (page, dpage) in seen.skip(rows.shared_pages()) {
                    page_back::<V>(rows, page, first, rows.group(), &mut dpage[dat.clone()], scratch);
                }
                let (page, slot) = ((place + token) / PAGE, (place + token) % PAGE);
                let dpage = &mut dpages[page][dat.clone()];
                let to = &mut dqkv[token * q.stride + heads.queries * head..];
                for i in 0..head {
                    to[kv * head + i] = std::mem::take(&mut dpage[i * PAGE + slot]);
                    to[(heads.keys + kv) * head + i] = std::mem::take(&mut dpage[(head + i) * PAGE + slot]);
                }
            }
        }
    }
}
