//! Attention of one token over the keys before it and its own (Vaswani et al. 2017). With its gradient, and of several
//! tokens: [`super::tiles`].
//!
//! ```text
//! s[j] = q . k[j] / sqrt(head),  p = softmax(s),  o = sum over j of p[j] v[j]
//! ```
//!
//! Keys and values come in pages of [`PAGE`] places. Sums go through the places in their order, or through as many
//! lanes as a page has places, so they follow from the token's place and the tokens before it. Heads that share keys
//! are looked at together.

use super::kv::{Heads, KvNumber, PAGE};
use crate::products::vectors::{sum, Lanes, Vector, LANES};

/// The keys and values that a token attends to: the first `count` places of `pages`; the part from `at` on belongs to a
/// block.
#[derive(Clone, Copy)]
struct Past<'a, E> {
    heads: Heads,
    pages: &'a [&'a [E]],
    at: usize,
    count: usize,
}

/// The probabilities of the keys, for each of `G` heads: what is left in `scores`, a page a place.
#[inline(always)]
fn probabilities<V: Vector, E: KvNumber, const G: usize>(q: &[f32], past: Past<E>, scores: &mut Vec<[Lanes; G]>) {
    let Past { heads, pages, at, count } = past;
    let head = heads.head;
    let scale = V::splat(heads.scale());
    scores.clear();
    let mut most = [V::splat(f32::NEG_INFINITY); G];
    let left = count - (pages.len() - 1) * PAGE;
    for (number, page) in pages.iter().enumerate() {
        let keys = page[at..at + head * PAGE].as_chunks::<PAGE>().0;
        let mut sums = [[V::splat(0.0); 2]; G];
        for (pair, keys) in keys.as_chunks::<2>().0.iter().enumerate() {
            let keys: [V; 2] = [E::load(&keys[0]), E::load(&keys[1])];
            for g in 0..G {
                let q = &q[g * head + 2 * pair..][..2];
                sums[g][0] = V::splat(q[0]).fma(keys[0], sums[g][0]);
                sums[g][1] = V::splat(q[1]).fma(keys[1], sums[g][1]);
            }
        }
        let mut own = sums.map(|[a, b]| a.add(b).mul(scale));
        if number + 1 == pages.len() {
            own = own.map(|own| {
                let mut lanes = own.lanes();
                lanes[left..].fill(f32::NEG_INFINITY);
                V::load(&lanes)
            });
        }
        for g in 0..G {
            most[g] = own[g].max(most[g]);
        }
        scores.push(own.map(V::lanes));
    }
    let most = most.map(|most| V::splat(most.lanes().into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })));
    let mut total = [V::splat(0.0); G];
    let last = scores.len() - 1;
    for (number, scores) in scores.iter_mut().enumerate() {
        for g in 0..G {
            V::load(&scores[g]).sub(most[g]).exp().store(&mut scores[g]);
            if number == last {
                scores[g][left..].fill(0.0);
            }
            total[g] = total[g].add(V::load(&scores[g]));
        }
    }
    let inverse = total.map(|total| V::splat(1.0 / sum(total.lanes())));
    for scores in scores.iter_mut() {
        for g in 0..G {
            V::load(&scores[g]).mul(inverse[g]).store(&mut scores[g]);
        }
    }
}

/// `out` `[G, head]`: the values `C` lanes at a time, each weighed by its probability.
#[inline(always)]
fn mean<V: Vector, E: KvNumber, const G: usize, const C: usize>(past: Past<E>, from: usize, p: &[[Lanes; G]], out: &mut [f32]) {
    let Past { heads, pages, at, count } = past;
    let mut sums = [[V::splat(0.0); C]; G];
    for (number, (page, p)) in pages.iter().zip(p).enumerate() {
        let values = &page[at + heads.head * PAGE..at + heads.span()];
        for (slot, values) in values.chunks_exact(heads.padded()).enumerate().take(count - number * PAGE) {
            let values = values[from..from + C * LANES].as_chunks::<LANES>().0;
            let values: [V; C] = std::array::from_fn(|c| E::load(&values[c]));
            for g in 0..G {
                let p = V::splat(p[g][slot]);
                for c in 0..C {
                    sums[g][c] = p.fma(values[c], sums[g][c]);
                }
            }
        }
    }
    for g in 0..G {
        let out = &mut out[g * heads.head..(g + 1) * heads.head];
        for c in 0..C {
            for (out, sum) in out[from + c * LANES..].iter_mut().zip(sums[g][c].lanes()) {
                *out = sum;
            }
        }
    }
}

#[inline(always)]
fn attend_heads<V: Vector, E: KvNumber, const G: usize>(q: &[f32], past: Past<E>, out: &mut [f32], scores: &mut Vec<[Lanes; G]>) -> usize {
    probabilities::<V, E, G>(q, past, scores);
    weighed::<V, E, G>(past, scores, out);
    G
}

/// `out` `[G, head]`: the values, each weighed by its number in `p`.
#[inline(always)]
fn weighed<V: Vector, E: KvNumber, const G: usize>(past: Past<E>, p: &[[Lanes; G]], out: &mut [f32]) {
    let mut from = 0;
    while past.heads.padded() - from >= 4 * LANES {
        mean::<V, E, G, 4>(past, from, p, out);
        from += 4 * LANES;
    }
    while past.heads.padded() > from {
        mean::<V, E, G, 1>(past, from, p, out);
        from += LANES;
    }
}

vectorised! {
    /// `out` `[queries, head]`: the attention of the query `q` `[queries, head]`, turned, over the first `count` places
    /// of `pages`; the part from `at` on belongs to this block. Up to three heads of queries that share keys are computed
    /// at a time.
    pub fn attend<E: KvNumber>(q: &[f32], heads: Heads, pages: &[&[E]], at: usize, count: usize, out: &mut [f32], scratch: &mut AttentionScratch) {
        let group = heads.queries / heads.keys;
        for kv in 0..heads.keys {
            let past = Past { heads, pages, at: at + kv * heads.span(), count };
            let mut first = kv * group;
            let end = first + group;
            while first < end {
                let (q, out) = (&q[first * heads.head..], &mut out[first * heads.head..]);
                first += match end - first {
                    3 => attend_heads::<V, E, 3>(q, past, out, &mut scratch.triple),
                    2.. => attend_heads::<V, E, 2>(q, past, out, &mut scratch.pair),
                    _ => attend_heads::<V, E, 1>(q, past, out, &mut scratch.single),
                };
            }
        }
    }

    /// Puts the keys and values of one token, each `[keys, head]`, into place `slot` of a page for one block.
    pub fn put<E: KvNumber>(heads: Heads, page: &mut [E], slot: usize, keys: &[f32], values: &[f32]) {
        let head = heads.head;
        for (kv, page) in page.chunks_exact_mut(heads.span()).enumerate() {
            let (own_keys, own_values) = page.split_at_mut(head * PAGE);
            let own_values = &mut own_values[slot * heads.padded()..][..head];
            for from in (0..head).step_by(LANES) {
                let count = LANES.min(head - from);
                let part = kv * head + from..kv * head + from + count;
                let rounded = |numbers: &[f32]| {
                    let mut lanes = [0.0; LANES];
                    lanes[..count].copy_from_slice(&numbers[part.clone()]);
                    E::rounded(V::load(&lanes))
                };
                for (i, key) in rounded(keys)[..count].iter().enumerate() {
                    own_keys[(from + i) * PAGE + slot] = *key;
                }
                own_values[from..from + count].copy_from_slice(&rounded(values)[..count]);
            }
        }
    }
}

/// Scratch buffers for the scores, by how many heads of queries are computed at a time.
#[derive(Default)]
pub struct AttentionScratch {
    single: Vec<[Lanes; 1]>,
    pair: Vec<[Lanes; 2]>,
    triple: Vec<[Lanes; 3]>,
}
