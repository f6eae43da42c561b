//! Keys and values of tokens that one version of the weights read: over turns, attempts, samples and nodes, until the
//! weights change.
//!
//! A token lies in a slot, and is found by the slot of the token before it: its values depend on the tokens before it
//! alone, so sequences with the same beginning reuse it, with the same bits as if they had computed it. Memory is
//! bounded: tokens read longest ago are forgotten first, the last token of a sequence before the first.

use crate::generate::page_cache::PageCache;
use crate::memory;
use crate::model::Net;
use crate::tensors::indices;
use flow_int8::engine::{pages, AdaptedEngine};
use flow_int8::trie::shared;
use std::collections::HashMap;
use tch::Tensor;

/// The most bytes that the keys and values of a model take where the system doesn't say how much memory is free. One
/// part of a call may need more by itself.
const MOST: u64 = 1 << 30;
/// The share of the memory that is free when they are first needed which they take at most, as one over this.
const SHARE: u64 = 4;

/// One token that was read.
struct TokenSlot {
    /// The slot of the token before it.
    before: Option<usize>,
    token: u32,
    /// How many tokens stand before it.
    place: usize,
    /// When it was read last. Reading a token reads all before it, so none of those is older.
    read: u64,
    /// Its keys and values are there.
    ready: bool,
}

/// The tokens read.
pub struct Store {
    /// The most slots that are kept.
    pub limit: usize,
    slots: Vec<TokenSlot>,
    /// Slots that hold nothing.
    free: Vec<usize>,
    /// Where a token lies that stands after the one in that slot.
    after: HashMap<(Option<usize>, u32), usize>,
    /// A row a slot, a tensor a block: as [`crate::model::Network::read`] gives them.
    blocks: Vec<Tensor>,
    now: u64,
    /// Bytes that all of it may take.
    bytes: u64,
    /// Pages, where the model computes row by row.
    page_cache: Option<PageCache>,
}

impl Store {
    /// An empty cache for the weights in `net`, of at most `bytes` or a share of the free memory.
    pub fn new(net: &Net, bytes: Option<u64>) -> Store {
        let bytes = bytes.unwrap_or_else(|| memory::available().map_or(MOST, |free| free / SHARE));
        Store { bytes, ..Store::with_capacity((bytes / (net.bytes_of_number() * net.sizes.cached) as u64) as usize) }
    }

    /// The pages of a model that computes row by row.
    pub fn page_cache(&mut self, running: &AdaptedEngine) -> &mut PageCache {
        let limit = self.bytes as usize / pages::bytes(&running.engine);
        self.page_cache.get_or_insert_with(|| PageCache::with_capacity(limit))
    }

    /// Room for `limit` tokens.
    pub fn with_capacity(limit: usize) -> Store {
        Store { limit, slots: vec![], free: vec![], after: HashMap::new(), blocks: vec![], now: 0, bytes: MOST, page_cache: None }
    }

    /// The tensors, for another thread.
    pub fn blocks(&self) -> Vec<Tensor> {
        self.blocks.iter().map(Tensor::shallow_clone).collect()
    }

    /// What keys and values lie in.
    pub fn tensors(&self) -> &[Tensor] {
        &self.blocks
    }

    /// For each slot whether its keys and values are there.
    pub fn ready(&self) -> Vec<bool> {
        self.slots.iter().map(|slot| slot.ready).collect()
    }

    /// Slots for all tokens of each of `prompts`, which are ascending. Others may have to be forgotten to make room for
    /// new ones.
    pub fn admit<'a>(&mut self, prompts: impl Iterator<Item = &'a [u32]> + Clone) -> Vec<Vec<usize>> {
        self.now += 1;
        let mut missing = 0;
        let mut last: &[u32] = &[];
        for prompt in prompts.clone() {
            let (mut matched, mut before) = (0, None);
            while let Some(&slot) = prompt.get(matched).and_then(|&token| self.after.get(&(before, token))) {
                self.slots[slot].read = self.now;
                (matched, before) = (matched + 1, Some(slot));
            }
            missing += prompt.len() - matched.max(shared(last, prompt));
            last = prompt;
        }
        let room = self.free.len() + self.limit.saturating_sub(self.slots.len());
        self.forget(missing.saturating_sub(room));
        prompts.map(|prompt| self.path(prompt)).collect()
    }

    /// Frees `count` slots, or as many as this call doesn't need.
    fn forget(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        let mut old: Vec<usize> = self.after.values().copied().filter(|&slot| self.slots[slot].read < self.now).collect();
        old.sort_unstable_by_key(|&slot| (self.slots[slot].read, std::cmp::Reverse(self.slots[slot].place), slot));
        // A little more, so that not every call has to look for the oldest.
        for slot in old.into_iter().take(count + self.limit / 8) {
            self.after.remove(&(self.slots[slot].before, self.slots[slot].token));
            self.free.push(slot);
        }
    }

    fn path(&mut self, prompt: &[u32]) -> Vec<usize> {
        let mut before = None;
        let mut path = Vec::with_capacity(prompt.len());
        for (place, &token) in prompt.iter().enumerate() {
            let slot = match self.after.get(&(before, token)) {
                Some(&slot) => slot,
                None => {
                    let fresh = TokenSlot { before, token, place, read: self.now, ready: false };
                    let slot = self.free.pop().unwrap_or(self.slots.len());
                    match self.slots.get_mut(slot) {
                        Some(old) => *old = fresh,
                        None => self.slots.push(fresh),
                    }
                    self.after.insert((before, token), slot);
                    slot
                }
            };
            path.push(slot);
            before = Some(slot);
        }
        path
    }

    /// Takes in keys and values: of each block a row for each of `slots`, with more rows behind them perhaps.
    pub fn keep(&mut self, slots: &[usize], rows: &[Tensor]) {
        let count = slots.len() as i64;
        for (i, rows) in rows.iter().enumerate() {
            let capacity = self.blocks.get(i).map_or(0, |block| block.size()[0]);
            if capacity < self.slots.len() as i64 {
                let size = self.slots.len().next_power_of_two().max(1024).min(self.limit.max(self.slots.len())) as i64;
                let larger = Tensor::zeros([size, rows.size()[1]], (rows.kind(), rows.device()));
                match self.blocks.get_mut(i) {
                    Some(block) => {
                        larger.narrow(0, 0, capacity).copy_(block);
                        *block = larger;
                    }
                    None => self.blocks.push(larger),
                }
            }
            let at = indices(&slots.iter().map(|&slot| slot as i64).collect::<Vec<_>>(), rows.device());
            let _ = self.blocks[i].index_copy_(0, &at, &rows.narrow(0, 0, count));
        }
        slots.iter().for_each(|&slot| self.slots[slot].ready = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn admit(store: &mut Store, prompts: &[&[u32]]) -> Vec<Vec<usize>> {
        store.admit(prompts.iter().copied())
    }

    /// Reads prompts, each token's keys and values being its number.
    fn read(store: &mut Store, prompts: &[&[u32]]) -> usize {
        let paths = admit(store, prompts);
        let mut slots: Vec<usize> = paths.concat().into_iter().filter(|&slot| !store.slots[slot].ready).collect();
        slots.sort_unstable();
        slots.dedup();
        let rows: Vec<f32> = slots.iter().map(|&slot| store.slots[slot].token as f32).collect();
        store.keep(&slots, &[Tensor::from_slice(&rows).view([-1, 1])]);
        for (prompt, path) in prompts.iter().zip(&paths) {
            let stored = |slot: &usize| store.blocks[0].double_value(&[*slot as i64, 0]) as u32;
            assert_eq!(path.iter().map(stored).collect::<Vec<_>>(), *prompt);
        }
        slots.len()
    }

    #[test]
    fn what_was_read_is_not_read_again() {
        let mut store = Store::with_capacity(100);
        assert_eq!(read(&mut store, &[&[1, 2, 3], &[1, 2, 4]]), 4);
        assert_eq!(read(&mut store, &[&[1, 2, 3], &[1, 2, 3, 5], &[2]]), 2);
        assert_eq!(store.slots.len(), 6);
    }

    #[test]
    fn the_oldest_is_forgotten_from_its_end() {
        let mut store = Store::with_capacity(6);
        assert_eq!(read(&mut store, &[&[1, 2, 3]]), 3);
        assert_eq!(read(&mut store, &[&[1, 7]]), 1);
        // Two are free, and 3 and then 2 are the oldest.
        assert_eq!(read(&mut store, &[&[8, 9, 10]]), 3);
        assert_eq!(store.slots.len(), 6);
        assert_eq!(read(&mut store, &[&[1, 7]]), 0);
        assert_eq!(read(&mut store, &[&[1, 2]]), 0, "3 alone is gone");
        assert_eq!(read(&mut store, &[&[1, 2, 3]]), 1, "and comes again in place of what is older now");
        // What one call needs by itself is there, whatever the limit.
        assert_eq!(read(&mut store, &[&[11, 12, 13, 14, 15, 16, 17, 18]]), 8);
    }

    #[test]
    fn what_was_not_computed_is_not_taken_for_read() {
        let mut store = Store::with_capacity(10);
        let path = admit(&mut store, &[&[1, 2]]).remove(0);
        assert!(!store.slots[path[0]].ready && admit(&mut store, &[&[1, 2]]) == [path.clone()]);
        store.keep(&path, &[Tensor::zeros([16, 3], (Kind::Float, Device::Cpu))]);
        assert!(store.ready()[path[1]] && store.blocks[0].size() == [10, 3]);
    }
}
