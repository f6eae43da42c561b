//! Keys and values of read and written tokens: pages of [`PAGE`] tokens with all blocks of the model, which sequences
//! share.

use super::attention::{attend, put, AttentionScratch};
use super::block::{KvMemory, PlacedToken};
use super::kv::KvNumber;
pub use super::kv::PAGE;
use super::tiles::{self, TileScratch, TILE};
use super::{AdaptedEngine, Engine, MatrixFormat};
use crate::products::aligned::Fixed;
use crate::products::dense::StridedRows;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The keys and values of up to [`PAGE`] tokens, block by block: see `Heads::page`.
pub struct KvPage {
    /// There until it is dropped.
    memory: Option<Fixed<u16>>,
    pool: Arc<PagePool>,
}

/// The pages of one model's cache: how many there are, and the memory of freed pages, for the next ones.
#[derive(Default)]
pub struct PagePool {
    live: AtomicUsize,
    free: Mutex<Vec<Fixed<u16>>>,
}

impl PagePool {
    /// How many pages there are.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Fixed<u16>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KvPage {
    /// A page of `bytes` bytes in `pool`. Its old content isn't read before it is overwritten.
    pub fn new(bytes: usize, pool: &Arc<PagePool>) -> KvPage {
        pool.live.fetch_add(1, Ordering::Relaxed);
        let free = pool.free().pop();
        KvPage { memory: Some(free.unwrap_or_else(|| Fixed::zeros(bytes / size_of::<u16>()))), pool: pool.clone() }
    }

    fn copy(&self) -> KvPage {
        let mut copy = KvPage::new(size_of_val(self.numbers::<u16>()), &self.pool);
        copy.numbers_mut::<u16>().copy_from_slice(self.numbers());
        copy
    }

    fn numbers<E: KvNumber>(&self) -> &[E] {
        self.memory.as_ref().map_or(&[], Fixed::cast)
    }

    fn numbers_mut<E: KvNumber>(&mut self) -> &mut [E] {
        self.memory.as_mut().map_or(&mut [], Fixed::cast_mut)
    }
}

impl Drop for KvPage {
    fn drop(&mut self) {
        self.pool.live.fetch_sub(1, Ordering::Relaxed);
        self.pool.free().extend(self.memory.take());
    }
}

/// Bytes of a page.
pub fn bytes(engine: &Engine) -> usize {
    let each = match engine.format {
        MatrixFormat::Int8 => size_of::<u16>(),
        MatrixFormat::F32 => size_of::<f32>(),
    };
    each * engine.config().layers * engine.heads().page()
}

/// A sequence that is read or written: its tokens, and pages with the keys and values of computed tokens. Whole pages
/// are shared with sequences with the same beginning; the last ones are its own.
pub struct Sequence {
    /// Its tokens.
    pub tokens: Vec<u32>,
    shared: Vec<Arc<KvPage>>,
    own: Vec<KvPage>,
    /// How many of its tokens were computed.
    pub computed: usize,
    pool: Arc<PagePool>,
}

impl Sequence {
    /// The sequence `tokens`, whose first ones lie in `shared`; the `more` tokens after those are the first ones of the
    /// page `like`.
    pub fn new(tokens: Vec<u32>, shared: Vec<Arc<KvPage>>, like: Option<(&KvPage, usize)>, pool: &Arc<PagePool>) -> Sequence {
        let computed = shared.len() * PAGE + like.map_or(0, |(_, more)| more);
        let own = like.map(|(page, _)| page.copy()).into_iter().collect();
        Sequence { tokens, shared, own, computed, pool: pool.clone() }
    }

    /// The same sequence once more: whole pages become shared, and what is beyond them is copied.
    pub fn fork(&mut self) -> Sequence {
        self.share();
        let own = self.own.iter().map(KvPage::copy).collect();
        Sequence { tokens: self.tokens.clone(), shared: self.shared.clone(), own, computed: self.computed, pool: self.pool.clone() }
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
            self.own.push(KvPage::new(bytes(engine), &self.pool));
        }
    }
}

/// Sequences that are computed together, each for the next `counts` tokens.
struct PagedSequences<'a, 'b, E> {
    engine: &'a Engine,
    sequences: &'a mut [&'b mut Sequence],
    counts: &'a [usize],
    scores: AttentionScratch,
    tile: TileScratch,
    numbers: PhantomData<E>,
}

impl<E: KvNumber> KvMemory for PagedSequences<'_, '_, E> {
    fn attend(&mut self, block: usize, qkv: StridedRows, out: &mut [f32]) {
        let (isa, heads) = (self.engine.isa, self.engine.heads());
        let at = block * heads.page();
        let (queries, keys) = (heads.queries * heads.head, heads.keys * heads.head);
        let mut row = 0;
        for (sequence, &count) in self.sequences.iter_mut().zip(self.counts) {
            let shared = sequence.shared.len();
            for i in 0..count {
                let own = &qkv.numbers[(row + i) * qkv.stride..];
                let (keys, values) = (&own[queries..queries + keys], &own[queries + keys..queries + 2 * keys]);
                let place = sequence.computed + i;
                let page = &mut sequence.own[place / PAGE - shared].numbers_mut::<E>()[at..at + heads.page()];
                put(isa, heads, page, place % PAGE, keys, values);
            }
            let pages: Vec<&[E]> =
                sequence.shared.iter().map(|page| page.numbers()).chain(sequence.own.iter().map(|page| page.numbers())).collect();
            let mut done = 0;
            while done < count {
                let place = sequence.computed + done;
                let tile = (TILE - place % TILE).min(count - done);
                let q = StridedRows { numbers: &qkv.numbers[row * qkv.stride..], count: tile, ..qkv };
                let out = &mut out[row * queries..(row + q.count) * queries];
                let pages = &pages[..(place + q.count).div_ceil(PAGE)];
                if q.count == 1 {
                    attend(isa, &q.numbers[..queries], heads, pages, at, place + 1, out, &mut self.scores);
                } else {
                    tiles::attend(isa, q, heads, pages, at, place, out, &mut self.tile);
                }
                row += q.count;
                done += q.count;
            }
        }
    }
}

/// The final states of `tokens`, the next of `sequences`.
fn forward<E: KvNumber>(running: &AdaptedEngine, sequences: &mut [&mut Sequence], counts: &[usize], tokens: &[PlacedToken]) -> Vec<f32> {
    let engine = &running.engine;
    let (scores, tile) = (AttentionScratch::default(), TileScratch::default());
    let mut together = PagedSequences::<E> { engine, sequences, counts, scores, tile, numbers: PhantomData };
    engine.forward(&running.adapters, tokens, &mut together, None)
}

/// Computes the next `counts` tokens of each of `sequences`, and gives the final state of the last one of each,
/// `[sequences, width]`.
pub fn advance(running: &AdaptedEngine, sequences: &mut [&mut Sequence], counts: &[usize]) -> Vec<f32> {
    let engine = &running.engine;
    let mut tokens = Vec::new();
    let mut last = Vec::new();
    for (sequence, &count) in sequences.iter_mut().zip(counts) {
        sequence.grow(engine, count);
        tokens.extend((sequence.computed..sequence.computed + count).map(|place| PlacedToken { id: sequence.tokens[place], place }));
        last.push(tokens.len() - 1);
    }
    let x = match engine.format {
        MatrixFormat::Int8 => forward::<u16>(running, sequences, counts, &tokens),
        MatrixFormat::F32 => forward::<f32>(running, sequences, counts, &tokens),
    };
    sequences.iter_mut().zip(counts).for_each(|(sequence, &count)| sequence.computed += count);
    let width = engine.config().width;
    let last: Vec<f32> = last.into_iter().flat_map(|row| x[row * width..(row + 1) * width].to_vec()).collect();
    engine.last(&last)
}
