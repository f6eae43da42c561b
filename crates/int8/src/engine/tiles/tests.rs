//! Tiles beside the same sums written down one by one.

use super::super::attention::{attend, put, AttentionScratch};
use super::super::block::{KvMemory, PlacedToken};
use super::super::branches::TrieAttention;
use super::super::kv::{Heads, KvNumber, PAGE};
use crate::products::dense::StridedRows;
use crate::products::isa::Isa;
use crate::products::vectors::{exp, sum, Lanes, LANES};
use flow_core::seed::Random;

/// Tokens of a trie, each with the one before it. Of each branch it is said how many tokens it shares with the one
/// before it, and how many it has.
fn trie(branches: &[(usize, usize)]) -> (Vec<PlacedToken>, Vec<Option<usize>>) {
    let (mut tokens, mut before, mut path) = (vec![], vec![], Vec::new());
    for &(shared, length) in branches {
        path.truncate(shared);
        for place in shared..length {
            before.push(path.last().copied());
            path.push(tokens.len());
            tokens.push(PlacedToken { id: 0, place });
        }
    }
    (tokens, before)
}

/// What tokens attend to, and its gradient, one number after the other.
struct OneByOne<'a> {
    heads: Heads,
    qkv: &'a [f32],
    out: Vec<f32>,
    dqkv: Vec<f32>,
}

impl OneByOne<'_> {
    fn stride(&self) -> usize {
        (self.heads.queries + 2 * self.heads.keys) * self.heads.head
    }

    /// Where a head of a token's queries, keys and values begins.
    fn at(&self, token: usize, head: usize) -> [usize; 3] {
        let Heads { queries, keys, head: size } = self.heads;
        let kv = head / (queries / keys);
        [head, queries + kv, queries + keys + kv].map(|head| token * self.stride() + head * size)
    }

    fn numbers(&self, at: usize) -> &[f32] {
        &self.qkv[at..at + self.heads.head]
    }

    /// The probability of each token of `path`, which ends with the token itself.
    fn probabilities(&self, path: &[usize], head: usize) -> Vec<f32> {
        let q = self.numbers(self.at(path[path.len() - 1], head)[0]);
        let score = |&token: &usize| {
            let k = self.numbers(self.at(token, head)[1]);
            let part = |from: usize| (from..q.len()).step_by(2).fold(0.0, |sum, i| q[i].mul_add(k[i], sum));
            (part(0) + part(1)) * self.heads.scale()
        };
        let mut p: Vec<f32> = path.iter().map(score).collect();
        let most = p.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total: Lanes = [0.0; LANES];
        for (place, p) in p.iter_mut().enumerate() {
            *p = exp(*p - most);
            total[place % LANES] += *p;
        }
        let inverse = 1.0 / sum(total);
        p.iter().map(|p| p * inverse).collect()
    }

    fn forward(&mut self, path: &[usize], head: usize) {
        let (p, size) = (self.probabilities(path, head), self.heads.head);
        let token = path[path.len() - 1];
        for i in 0..size {
            let sum = path.iter().zip(&p).fold(0.0, |sum, (&token, p)| p.mul_add(self.qkv[self.at(token, head)[2] + i], sum));
            self.out[(token * self.heads.queries + head) * size + i] = sum;
        }
    }

    fn back(&mut self, path: &[usize], head: usize, dout: &[f32]) {
        let (p, size) = (self.probabilities(path, head), self.heads.head);
        let own = path[path.len() - 1];
        let dout = &dout[(own * self.heads.queries + head) * size..][..size];
        let moved = |&token: &usize| dout.iter().zip(self.numbers(self.at(token, head)[2])).fold(0.0, |sum, (d, v)| d.mul_add(*v, sum));
        let moved: Vec<f32> = path.iter().map(moved).collect();
        let mut total: Lanes = [0.0; LANES];
        (0..p.len()).for_each(|place| total[place % LANES] = p[place].mul_add(moved[place], total[place % LANES]));
        let mean = sum(total);
        let [q, ..] = self.at(own, head);
        for (place, &token) in path.iter().enumerate() {
            let [_, k, v] = self.at(token, head);
            let ds = p[place] * (moved[place] - mean) * self.heads.scale();
            for (i, dout) in dout.iter().enumerate() {
                self.dqkv[q + i] = ds.mul_add(self.qkv[k + i], self.dqkv[q + i]);
                self.dqkv[k + i] = ds.mul_add(self.qkv[q + i], self.dqkv[k + i]);
                self.dqkv[v + i] = p[place].mul_add(*dout, self.dqkv[v + i]);
            }
        }
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// Whatever tiles a trie falls into, and whichever instructions there are: the bits of the sums one by one, from the
/// last token to the first.
#[test]
fn tiles_have_the_bits_of_the_sums_one_by_one() {
    tiles_of::<f32>(|x| x);
    // What f16 holds already isn't rounded, so the sums are those of f32.
    tiles_of::<u16>(|x| half::f16::from_f32(x).to_f32());
}

fn tiles_of<E: KvNumber>(held: fn(f32) -> f32) {
    let long: &[_] = &[(0, 70)];
    // Branches that part and end inside of tiles, at their ends, and just before and behind them.
    let many: &[_] = &[(0, 37), (5, 20), (5, 6), (4, 17), (0, 3), (0, 34), (33, 34), (33, 50), (32, 33), (16, 33), (15, 18)];
    let mut random = Random::new(11);
    for (queries, keys, head) in [(1, 1, 8), (4, 2, 40), (3, 1, 8), (9, 3, 4), (5, 1, 6), (4, 1, 24)] {
        let heads = Heads { queries, keys, head };
        for branches in [long, many] {
            let (tokens, before) = trie(branches);
            let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| held(4.0 * (random.unit() as f32 - 0.5))).collect() };
            let (qkv, dout) = (draw(tokens.len() * (queries + 2 * keys) * head), draw(tokens.len() * queries * head));
            let mut expected = OneByOne { heads, qkv: &qkv, out: vec![0.0; dout.len()], dqkv: vec![0.0; qkv.len()] };
            for token in (0..tokens.len()).rev() {
                let mut path: Vec<usize> = std::iter::successors(Some(token), |&token| before[token]).collect();
                path.reverse();
                for head in 0..queries {
                    expected.forward(&path, head);
                    expected.back(&path, head, &dout);
                }
            }
            let rows = StridedRows { numbers: &qkv, stride: expected.stride(), count: tokens.len() };
            for isa in Isa::available() {
                let mut tiled = TrieAttention::<E>::new(isa, heads, &tokens);
                let (mut out, mut dqkv) = (vec![f32::NAN; dout.len()], vec![0.0; qkv.len()]);
                tiled.attend(0, rows, &mut out);
                tiled.back(rows, &before, StridedRows { numbers: &dout, stride: queries * head, count: tokens.len() }, &mut dqkv);
                let name = format!("{isa}, {heads:?}, {} branches", branches.len());
                assert!(bits(&out) == bits(&expected.out), "{name}");
                assert!(bits(&dqkv) == bits(&expected.dqkv), "the gradient: {name}");
            }
            if branches.len() == 1 {
                alone::<E>(heads, &qkv, &expected.out);
            }
        }
    }
}

/// A token by itself, as it is written, has the same bits.
fn alone<E: KvNumber>(heads: Heads, qkv: &[f32], expected: &[f32]) {
    let (queries, keys) = (heads.queries * heads.head, heads.keys * heads.head);
    let tokens = expected.len() / queries;
    let mut pages = vec![vec![E::default(); heads.page()]; tokens.div_ceil(PAGE)];
    for (place, own) in qkv.chunks_exact(queries + 2 * keys).enumerate() {
        put(Isa::PLAIN, heads, &mut pages[place / PAGE], place % PAGE, &own[queries..queries + keys], &own[queries + keys..]);
        let seen: Vec<&[E]> = pages[..(place + 1).div_ceil(PAGE)].iter().map(Vec::as_slice).collect();
        let mut out = vec![f32::NAN; queries];
        attend(Isa::PLAIN, &own[..queries], heads, &seen, 0, place + 1, &mut out, &mut AttentionScratch::default());
        assert!(bits(&out) == bits(&expected[place * queries..(place + 1) * queries]), "{heads:?}, place {place}");
    }
}
