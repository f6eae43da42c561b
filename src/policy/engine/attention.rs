//! Attention of one token over the keys before it and its own (Vaswani et al. 2017), and its gradient.
//!
//! ```text
//! s[j] = q . k[j] / sqrt(head),  p = softmax(s),  o = sum over j of p[j] v[j]
//! dp[j] = do . v[j],  ds[j] = p[j] (dp[j] - sum over i of p[i] dp[i]) / sqrt(head)
//! dq = sum over j of ds[j] k[j],  dk[j] = ds[j] q,  dv[j] = p[j] do
//! ```
//!
//! Keys and values come in pages of [`PAGE`] places. Sums go through the places in their order, or through as many lanes as a page has places, so
//! they follow from the token's place and what stands before it. Heads that share keys are looked at together.

use crate::policy::products::vectors::{sum, vectorised, Lanes, Vector, LANES};

/// Places of a page: the lanes of a sum.
pub const PAGE: usize = LANES;

/// Sizes of attention.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Heads of queries.
    pub queries: usize,
    /// Heads of keys and values.
    pub keys: usize,
    /// Numbers of a head.
    pub head: usize,
}

impl Heads {
    /// Numbers of a value in a page.
    pub fn padded(self) -> usize {
        self.head.next_multiple_of(LANES)
    }

    /// Numbers of a page for one head: keys `[head, PAGE]`, then values `[PAGE, padded]`.
    pub fn span(self) -> usize {
        (self.head + self.padded()) * PAGE
    }

    /// Numbers of a page for one block.
    pub fn page(self) -> usize {
        self.keys * self.span()
    }

    /// Puts the keys and values of one token, each `[keys, head]`, into place `slot` of a page for one block.
    pub fn put(self, page: &mut [f32], slot: usize, keys: &[f32], values: &[f32]) {
        for (kv, page) in page.chunks_exact_mut(self.span()).enumerate() {
            let (own_keys, own_values) = page.split_at_mut(self.head * PAGE);
            for (i, key) in keys[kv * self.head..(kv + 1) * self.head].iter().enumerate() {
                own_keys[i * PAGE + slot] = *key;
            }
            own_values[slot * self.padded()..][..self.head].copy_from_slice(&values[kv * self.head..(kv + 1) * self.head]);
        }
    }

    fn scale(self) -> f32 {
        1.0 / (self.head as f32).sqrt()
    }
}

/// The probabilities of the keys, for each of `G` heads: what is left in `scores`, a page a place.
#[inline(always)]
fn probabilities<V: Vector, const G: usize>(
    q: &[f32],
    heads: Heads,
    pages: &[&[f32]],
    at: usize,
    count: usize,
    scores: &mut Vec<[Lanes; G]>,
) {
    let head = heads.head;
    let scale = V::splat(heads.scale());
    scores.clear();
    let mut most = [V::splat(f32::NEG_INFINITY); G];
    let left = count - (pages.len() - 1) * PAGE;
    for (number, page) in pages.iter().enumerate() {
        let keys = &page[at..at + head * PAGE];
        let mut sums = [[V::splat(0.0); 2]; G];
        for (pair, keys) in keys.chunks_exact(2 * PAGE).enumerate() {
            let keys = [V::load(keys), V::load(&keys[PAGE..])];
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
fn mean<V: Vector, const G: usize, const C: usize>(
    heads: Heads,
    pages: &[&[f32]],
    at: usize,
    from: usize,
    count: usize,
    p: &[[Lanes; G]],
    out: &mut [f32],
) {
    let mut sums = [[V::splat(0.0); C]; G];
    for (number, (page, p)) in pages.iter().zip(p).enumerate() {
        let values = &page[at + heads.head * PAGE..at + heads.span()];
        for (slot, values) in values.chunks_exact(heads.padded()).enumerate().take(count - number * PAGE) {
            let values = &values[from..from + C * LANES];
            let values: [V; C] = std::array::from_fn(|c| V::load(&values[c * LANES..]));
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
fn attend_heads<V: Vector, const G: usize>(
    q: &[f32],
    heads: Heads,
    pages: &[&[f32]],
    at: usize,
    count: usize,
    out: &mut [f32],
    scores: &mut Vec<[Lanes; G]>,
) {
    probabilities::<V, G>(q, heads, pages, at, count, scores);
    weighed::<V, G>(heads, pages, at, count, scores, out);
}

/// `out` `[G, head]`: the values, each weighed by its number in `p`.
#[inline(always)]
fn weighed<V: Vector, const G: usize>(heads: Heads, pages: &[&[f32]], at: usize, count: usize, p: &[[Lanes; G]], out: &mut [f32]) {
    let mut from = 0;
    while heads.padded() - from >= 4 * LANES {
        mean::<V, G, 4>(heads, pages, at, from, count, p, out);
        from += 4 * LANES;
    }
    while heads.padded() > from {
        mean::<V, G, 1>(heads, pages, at, from, count, p, out);
        from += LANES;
    }
}

vectorised! {
    /// `out` `[queries, head]`: the attention of the query `q` `[queries, head]`, turned, over the first `count` places of `pages`, of which the part
    /// from `at` on belongs to this block.
    pub fn attend(q: &[f32], heads: Heads, pages: &[&[f32]], at: usize, count: usize, out: &mut [f32], scores: &mut AttentionScratch) {
        let group = heads.queries / heads.keys;
        for kv in 0..heads.keys {
            let at = at + kv * heads.span();
            let mut first = kv * group;
            let end = first + group;
            while first < end {
                let (q, out) = (&q[first * heads.head..], &mut out[first * heads.head..]);
                first += match end - first {
                    3 => { attend_heads::<V, 3>(q, heads, pages, at, count, out, &mut scores.triple.0); 3 }
                    2.. => { attend_heads::<V, 2>(q, heads, pages, at, count, out, &mut scores.pair.0); 2 }
                    _ => { attend_heads::<V, 1>(q, heads, pages, at, count, out, &mut scores.single.0); 1 }
                };
            }
        }
    }

    /// The gradient, given `dout` `[queries, head]`, of the query, `dq`, and of the pages, added to `dpages`: keys and values both as
    /// `[head, PAGE]`. `turned` is like `pages`, with values in place of keys and keys in place of values. What was in `dq` is replaced.
    pub fn back(q: &[f32], heads: Heads, pages: &[&[f32]], turned: &[&[f32]], count: usize, dout: &[f32], dq: &mut [f32], dpages: &mut [Vec<f32>], scores: &mut AttentionScratch) {
        let group = heads.queries / heads.keys;
        for kv in 0..heads.keys {
            let mut first = kv * group;
            let end = first + group;
            while first < end {
                let from = first * heads.head;
                let (q, dout, dq) = (&q[from..], &dout[from..], &mut dq[from..]);
                let AttentionScratch { single, pair, triple } = &mut *scores;
                first += match end - first {
                    3 => { heads_back::<V, 3>(q, heads, pages, turned, kv, count, dout, dq, dpages, triple); 3 }
                    2.. => { heads_back::<V, 2>(q, heads, pages, turned, kv, count, dout, dq, dpages, pair); 2 }
                    _ => { heads_back::<V, 1>(q, heads, pages, turned, kv, count, dout, dq, dpages, single); 1 }
                };
            }
        }
    }
}

/// The same for `G` heads of queries that share the head `kv` of keys.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn heads_back<V: Vector, const G: usize>(
    q: &[f32],
    heads: Heads,
    pages: &[&[f32]],
    turned: &[&[f32]],
    kv: usize,
    count: usize,
    dout: &[f32],
    dq: &mut [f32],
    dpages: &mut [Vec<f32>],
    (scores, moved): &mut ScoreBuffers<G>,
) {
    let (head, scale) = (heads.head, V::splat(heads.scale()));
    probabilities::<V, G>(q, heads, pages, kv * heads.span(), count, scores);
    // How each probability should move, and the mean of that.
    let at = kv * heads.span();
    moved.clear();
    let mut total = [V::splat(0.0); G];
    for (p, turned) in scores.iter().zip(turned) {
        let mut own = [V::splat(0.0); G];
        for (i, values) in turned[at..at + head * PAGE].chunks_exact(PAGE).enumerate() {
            let values = V::load(values);
            for g in 0..G {
                own[g] = V::splat(dout[g * head + i]).fma(values, own[g]);
            }
        }
        for g in 0..G {
            total[g] = V::load(&p[g]).fma(own[g], total[g]);
        }
        moved.push(own.map(V::lanes));
    }
    let mean_moved = total.map(|total| V::splat(sum(total.lanes())));
    for ((p, moved), dpage) in scores.iter().zip(moved.iter_mut()).zip(dpages.iter_mut()) {
        let p: [V; G] = std::array::from_fn(|g| V::load(&p[g]));
        let ds: [V; G] = std::array::from_fn(|g| p[g].mul(V::load(&moved[g]).sub(mean_moved[g])).mul(scale));
        *moved = ds.map(V::lanes);
        let (dkeys, dvalues) = dpage[kv * 2 * head * PAGE..(kv + 1) * 2 * head * PAGE].split_at_mut(head * PAGE);
        for (i, (dkeys, dvalues)) in dkeys.chunks_exact_mut(PAGE).zip(dvalues.chunks_exact_mut(PAGE)).enumerate() {
            let (mut dkey, mut dvalue) = (V::load(dkeys), V::load(dvalues));
            for g in 0..G {
                dkey = ds[g].fma(V::splat(q[g * head + i]), dkey);
                dvalue = p[g].fma(V::splat(dout[g * head + i]), dvalue);
            }
            dkey.store(dkeys);
            dvalue.store(dvalues);
        }
    }
    weighed::<V, G>(heads, turned, at, count, moved, dq);
}

/// Two numbers for each place and each of `G` heads.
type ScoreBuffers<const G: usize> = (Vec<[Lanes; G]>, Vec<[Lanes; G]>);

/// Scratch buffers for the scores, by how many heads of queries are computed at a time.
#[derive(Default)]
pub struct AttentionScratch {
    single: ScoreBuffers<1>,
    pair: ScoreBuffers<2>,
    triple: ScoreBuffers<3>,
}
