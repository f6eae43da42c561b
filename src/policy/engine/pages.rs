//! Keys and values of what was read and written: pages of [`PAGE`] tokens with all blocks of the model, which sequences share.

pub use super::attention::PAGE;
use super::attention::{attend, AttentionScratch};
use super::block::{KvMemory, PlacedToken};
use super::tiles::{self, TileScratch, TILE};
use super::{AdaptedEngine, Engine};
use crate::policy::products::dense::StridedRows;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The keys and values of up to [`PAGE`] tokens, block by block: see [`super::attention::Heads::page`].
pub struct KvPage {
    numbers: Box<[f32]>,
    /// How many pages there are like it.
    live: Arc<AtomicUsize>,
}

impl KvPage {
    /// A page of which nothing is written yet, counted in `live`.
    pub fn new(engine: &Engine, live: &Arc<AtomicUsize>) -> KvPage {
        live.fetch_add(1, Ordering::Relaxed);
        KvPage { numbers: vec![0.0; numbers(engine)].into(), live: live.clone() }
    }

    fn copy(&self) -> KvPage {
        self.live.fetch_add(1, Ordering::Relaxed);
        KvPage { numbers: self.numbers.clone(), live: self.live.clone() }
    }
}

impl Drop for KvPage {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Numbers of a page.
fn numbers(engine: &Engine) -> usize {
    engine.config().layers * engine.heads().page()
}

/// Bytes of a page.
pub fn bytes(engine: &Engine) -> usize {
    4 * numbers(engine)
}

/// A sequence that is read or written: its tokens, and pages with the keys and values of those that were computed. Whole pages are shared with
/// sequences with the same beginning; the last ones are its own.
pub struct Sequence {
    /// Its tokens.
    pub tokens: Vec<u32>,
    shared: Vec<Arc<KvPage>>,
    own: Vec<KvPage>,
    /// How many of its tokens were computed.
    pub computed: usize,
    live: Arc<AtomicUsize>,
}

impl Sequence {
    /// The sequence `tokens`, whose first ones lie in `shared`; the `more` tokens after those are the first ones of the page `like`.
    pub fn new(tokens: Vec<u32>, shared: Vec<Arc<KvPage>>, like: Option<(&KvPage, usize)>, live: &Arc<AtomicUsize>) -> Sequence {
        let computed = shared.len() * PAGE + like.map_or(0, |(_, more)| more);
        let own = like.map(|(page, _)| page.copy()).into_iter().collect();
        Sequence { tokens, shared, own, computed, live: live.clone() }
    }

    /// The same sequence once more: whole pages become shared, and what is beyond them is copied.
    pub fn fork(&mut self) -> Sequence {
        self.share();
        let own = self.own.iter().map(KvPage::copy).collect();
        Sequence { tokens: self.tokens.clone(), shared: self.shared.clone(), own, computed: self.computed, live: self.live.clone() }
    }

    /// Makes its whole pages shared: nothing is written into them any more.
    pub fn share(&mut self) {
        let whole = (self.computed / PAGE).saturating_sub(self.shared.len());
        self.shared.extend(self.own.drain(..whole).map(Arc::new));
    }

    /// All its pages, each with its computed tokens, for a cache.
    pub fn into_pages(mut self) -> Vec<(Vec<u32>, Arc<KvPage>)> {
        self.share();
        let pages = self.shared.into_iter().chain(self.own.into_iter().map(Arc::new));
        let tokens = self.tokens[..self.computed].chunks(PAGE);
        tokens.zip(pages).map(|(tokens, page)| (tokens.to_vec(), page)).collect()
    }

    /// Room for keys and values of `count` tokens more.
    fn grow(&mut self, engine: &Engine, count: usize) {
        while (self.shared.len() + self.own.len()) * PAGE < self.computed + count {
            self.own.push(KvPage::new(engine, &self.live));
        }
    }
}

/// Sequences that are computed together, each for the next `counts` tokens.
struct PagedSequences<'a, 'b> {
    engine: &'a Engine,
    sequences: &'a mut [&'b mut Sequence],
    counts: &'a [usize],
    scores: AttentionScratch,
    tile: TileScratch,
}

impl KvMemory for PagedSequences<'_, '_> {
    fn attend(&mut self, block: usize, qkv: StridedRows, out: &mut [f32]) {
        let heads = self.engine.heads();
        let at = block * heads.page();
        let (queries, keys) = (heads.queries * heads.head, heads.keys * heads.head);
        let mut row = 0;
        for (sequence, &count) in self.sequences.iter_mut().zip(self.counts) {
            let shared = sequence.shared.len();
            for i in 0..count {
                let own = &qkv.numbers[(row + i) * qkv.stride..];
                let (keys, values) = (&own[queries..queries + keys], &own[queries + keys..queries + 2 * keys]);
                let place = sequence.computed + i;
                let page = &mut sequence.own[place / PAGE - shared].numbers[at..at + heads.page()];
                heads.put(page, place % PAGE, keys, values);
            }
            let pages: Vec<&[f32]> =
                sequence.shared.iter().map(|page| &page.numbers[..]).chain(sequence.own.iter().map(|page| &page.numbers[..])).collect();
            let mut done = 0;
            while done < count {
                let place = sequence.computed + done;
                let tile = (TILE - place % TILE).min(count - done);
                let q = StridedRows { numbers: &qkv.numbers[row * qkv.stride..], count: tile, ..qkv };
                let out = &mut out[row * queries..(row + q.count) * queries];
                let pages = &pages[..(place + q.count).div_ceil(PAGE)];
                if q.count == 1 {
                    attend(self.engine.isa(), &q.numbers[..queries], heads, pages, at, place + 1, out, &mut self.scores);
                } else {
                    tiles::attend(self.engine.isa(), q, heads, pages, at, place, out, &mut self.tile);
                }
                row += q.count;
                done += q.count;
            }
        }
    }
}

/// Computes the next `counts` tokens of each of `sequences`, and gives the final state of the last one of each, `[sequences, width]`.
pub fn advance(running: &AdaptedEngine, sequences: &mut [&mut Sequence], counts: &[usize]) -> Vec<f32> {
    let engine = &running.engine;
    let mut tokens = Vec::new();
    let mut last = Vec::new();
    for (sequence, &count) in sequences.iter_mut().zip(counts) {
        sequence.grow(engine, count);
        tokens.extend((sequence.computed..sequence.computed + count).map(|place| PlacedToken { id: sequence.tokens[place], place }));
        last.push(tokens.len() - 1);
    }
    let x = {
        let mut together = PagedSequences { engine, sequences, counts, scores: AttentionScratch::default(), tile: TileScratch::default() };
        engine.forward(&running.adapters, &tokens, &mut together, None)
    };
    sequences.iter_mut().zip(counts).for_each(|(sequence, &count)| sequence.computed += count);
    let width = engine.config().width;
    let last: Vec<f32> = last.into_iter().flat_map(|row| x[row * width..(row + 1) * width].to_vec()).collect();
    engine.last(&last)
}
