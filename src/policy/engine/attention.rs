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

use crate::policy::products::vectors::{exp, sum, vectorised, Lanes, LANES};

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
fn probabilities<const G: usize>(q: &[f32], heads: Heads, pages: &[&[f32]], at: usize, count: usize, scores: &mut Vec<[Lanes; G]>) {
    let head = heads.head;
    let scale = heads.scale();
    scores.clear();
    for page in pages {
        let keys = &page[at..at + head * PAGE];
        let mut sums = [[[0f32; PAGE]; 2]; G];
        for (pair, keys) in keys.chunks_exact(2 * PAGE).enumerate() {
            for half in 0..2 {
                let keys = &keys[half * PAGE..(half + 1) * PAGE];
                for g in 0..G {
                    let q = q[g * head + 2 * pair + half];
                    for lane in 0..PAGE {
                        sums[g][half][lane] = q.mul_add(keys[lane], sums[g][half][lane]);
                    }
                }
            }
        }
        scores.push(std::array::from_fn(|g| std::array::from_fn(|lane| (sums[g][0][lane] + sums[g][1][lane]) * scale)));
    }
    let left = count - (pages.len() - 1) * PAGE;
    for g in 0..G {
        if let Some(last) = scores.last_mut() {
            last[g][left..].fill(f32::NEG_INFINITY);
        }
        let mut most = [f32::NEG_INFINITY; PAGE];
        for scores in scores.iter() {
            for lane in 0..PAGE {
                most[lane] = if scores[g][lane] > most[lane] { scores[g][lane] } else { most[lane] };
            }
        }
        let most = most.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
        let mut total = [0f32; PAGE];
        for scores in scores.iter_mut() {
            for lane in 0..PAGE {
                scores[g][lane] = exp(scores[g][lane] - most);
            }
        }
        if let Some(last) = scores.last_mut() {
            last[g][left..].fill(0.0);
        }
        for scores in scores.iter() {
            for lane in 0..PAGE {
                total[lane] += scores[g][lane];
            }
        }
        let inverse = 1.0 / sum(total);
        for scores in scores.iter_mut() {
            for lane in 0..PAGE {
                scores[g][lane] *= inverse;
            }
        }
    }
}

/// `out` `[G, head]`: the values `C` lanes at a time, each weighed by its probability.
#[inline(always)]
fn mean<const G: usize, const C: usize>(heads: Heads, pages: &[&[f32]], at: usize, from: usize, count: usize, p: &[[Lanes; G]], out: &mut [f32]) {
    let mut sums = [[[0f32; LANES]; C]; G];
    for (number, (page, p)) in pages.iter().zip(p).enumerate() {
        let values = &page[at + heads.head * PAGE..at + heads.span()];
        for (slot, values) in values.chunks_exact(heads.padded()).enumerate().take(count - number * PAGE) {
            let values = &values[from..from + C * LANES];
            for g in 0..G {
                let p = p[g][slot];
                for c in 0..C {
                    for lane in 0..LANES {
                        sums[g][c][lane] = p.mul_add(values[c * LANES + lane], sums[g][c][lane]);
                    }
                }
            }
        }
    }
    for g in 0..G {
        let out = &mut out[g * heads.head..(g + 1) * heads.head];
        for (out, sum) in out[from..].iter_mut().zip(sums[g].as_flattened()) {
            *out = *sum;
        }
    }
}

#[inline(always)]
fn some<const G: usize>(q: &[f32], heads: Heads, pages: &[&[f32]], at: usize, count: usize, out: &mut [f32], scores: &mut Vec<[Lanes; G]>) {
    probabilities::<G>(q, heads, pages, at, count, scores);
    let mut from = 0;
    while heads.padded() - from >= 4 * LANES {
        mean::<G, 4>(heads, pages, at, from, count, scores, out);
        from += 4 * LANES;
    }
    while heads.padded() > from {
        mean::<G, 1>(heads, pages, at, from, count, scores, out);
        from += LANES;
    }
}

vectorised! {
    /// `out` `[queries, head]`: the attention of the query `q` `[queries, head]`, turned, over the first `count` places of `pages`, of which the part
    /// from `at` on belongs to this block.
    pub fn attend(q: &[f32], heads: Heads, pages: &[&[f32]], at: usize, count: usize, out: &mut [f32], scores: &mut Scores) {
        let group = heads.queries / heads.keys;
        for kv in 0..heads.keys {
            let at = at + kv * heads.span();
            let mut first = kv * group;
            let end = first + group;
            while first < end {
                let (q, out) = (&q[first * heads.head..], &mut out[first * heads.head..]);
                first += match end - first {
                    3 => { some::<3>(q, heads, pages, at, count, out, &mut scores.three); 3 }
                    2.. => { some::<2>(q, heads, pages, at, count, out, &mut scores.two); 2 }
                    _ => { some::<1>(q, heads, pages, at, count, out, &mut scores.one); 1 }
                };
            }
        }
    }

    /// What goes back from `dout` `[queries, head]` to the query, added to `dq`, and to the pages, added to `dpages`: keys and values both as
    /// `[head, PAGE]`. `turned` has the values so.
    pub fn back(q: &[f32], heads: Heads, pages: &[&[f32]], turned: &[Vec<f32>], count: usize, dout: &[f32], dq: &mut [f32], dpages: &mut [Vec<f32>], scores: &mut Scores) {
        let group = heads.queries / heads.keys;
        let head = heads.head;
        let scale = heads.scale();
        let mut columns: Vec<Lanes> = vec![[0.0; PAGE]; head];
        for query in 0..heads.queries {
            let kv = query / group;
            let own = query * head..(query + 1) * head;
            let (q, dout) = (&q[own.clone()], &dout[own.clone()]);
            probabilities::<1>(q, heads, pages, kv * heads.span(), count, &mut scores.one);
            let p = &scores.one;
            // How each probability should move, and their mean.
            scores.moved.clear();
            let mut total = [0f32; PAGE];
            for (p, turned) in p.iter().zip(turned) {
                let values = &turned[kv * head * PAGE..(kv + 1) * head * PAGE];
                let mut moved = [[0f32; PAGE]; 2];
                for (pair, values) in values.chunks_exact(2 * PAGE).enumerate() {
                    for half in 0..2 {
                        for lane in 0..PAGE {
                            moved[half][lane] = dout[2 * pair + half].mul_add(values[half * PAGE + lane], moved[half][lane]);
                        }
                    }
                }
                let moved: Lanes = std::array::from_fn(|lane| moved[0][lane] + moved[1][lane]);
                for lane in 0..PAGE {
                    total[lane] = p[0][lane].mul_add(moved[lane], total[lane]);
                }
                scores.moved.push(moved);
            }
            let mean = sum(total);
            columns.iter_mut().for_each(|column| *column = [0.0; PAGE]);
            for (((page, p), moved), dpage) in pages.iter().zip(p).zip(&scores.moved).zip(dpages.iter_mut()) {
                let ds: Lanes = std::array::from_fn(|lane| p[0][lane] * (moved[lane] - mean) * scale);
                let keys = &page[kv * heads.span()..][..head * PAGE];
                let (dkeys, dvalues) = dpage[kv * 2 * head * PAGE..(kv + 1) * 2 * head * PAGE].split_at_mut(head * PAGE);
                for (i, (((keys, dkeys), dvalues), column)) in
                    keys.chunks_exact(PAGE).zip(dkeys.chunks_exact_mut(PAGE)).zip(dvalues.chunks_exact_mut(PAGE)).zip(&mut columns).enumerate()
                {
                    for lane in 0..PAGE {
                        dkeys[lane] = ds[lane].mul_add(q[i], dkeys[lane]);
                        dvalues[lane] = p[0][lane].mul_add(dout[i], dvalues[lane]);
                        column[lane] = ds[lane].mul_add(keys[lane], column[lane]);
                    }
                }
            }
            for (dq, column) in dq[own].iter_mut().zip(&columns) {
                *dq += sum(*column);
            }
        }
    }
}

/// Room for what is between queries and what they see.
#[derive(Default)]
pub struct Scores {
    one: Vec<[Lanes; 1]>,
    two: Vec<[Lanes; 2]>,
    three: Vec<[Lanes; 3]>,
    moved: Vec<Lanes>,
}
