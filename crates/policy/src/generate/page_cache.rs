//! Keys and values of read and written tokens, for models that compute row by row: pages of 16 tokens, found by the
//! tokens before them.
//!
//! A page is named by the pages before it and its own tokens, and since a token's keys and values follow from the
//! tokens up to it, sequences with the same beginning reuse them, with the bits that they would have computed. Written
//! tokens are kept like read ones. Memory is bounded: the least recently used pages are evicted first, the last of a
//! sequence before the first.

use flow_int8::engine::pages::{KvPage, PagePool, Sequence, PAGE};
use std::sync::Arc;

/// Some computed tokens, and their continuations.
struct CacheNode {
    before: Option<usize>,
    /// Up to [`PAGE`] of them; only after a whole page another one may follow.
    tokens: Vec<u32>,
    page: Arc<KvPage>,
    after: Vec<usize>,
    /// When it was last used. Using a page uses all pages before it, so none of those is older.
    read: u64,
}

/// The cache of pages computed with one version of the weights: least recently used first out.
pub struct PageCache {
    nodes: Vec<Option<CacheNode>>,
    free: Vec<usize>,
    begins: Vec<usize>,
    pool: Arc<PagePool>,
    /// The most pages that there may be.
    limit: usize,
    now: u64,
}

impl PageCache {
    /// Nothing yet, and room for `limit` pages.
    pub fn with_capacity(limit: usize) -> PageCache {
        PageCache { nodes: vec![], free: vec![], begins: vec![], pool: Arc::default(), limit: limit.max(1), now: 0 }
    }

    /// How many pages there are, kept and in use.
    pub fn live(&self) -> usize {
        self.pool.live()
    }

    fn after(&self, before: Option<usize>) -> &[usize] {
        match before {
            None => &self.begins,
            Some(before) => self.nodes[before].as_ref().map_or(&[], |node| &node.after),
        }
    }

    /// How many of the first of `tokens` were computed.
    pub fn known(&self, tokens: &[u32]) -> usize {
        let (mut before, mut known) = (None, 0);
        while let Some((next, alike)) = self.longest(before, &tokens[known..]) {
            known += alike;
            if alike < PAGE {
                break;
            }
            before = Some(next);
        }
        known
    }

    /// Which of the pages after `before` begins like `tokens` for longest, and for how many tokens.
    fn longest(&self, before: Option<usize>, tokens: &[u32]) -> Option<(usize, usize)> {
        let alike = |&next: &usize| {
            let own = self.nodes[next].as_ref().map_or(&[][..], |node| &node.tokens);
            (next, own.iter().zip(tokens).take_while(|(a, b)| a == b).count())
        };
        self.after(before).iter().map(alike).max_by_key(|&(next, alike)| (alike, std::cmp::Reverse(next))).filter(|(_, alike)| *alike > 0)
    }

    /// The sequence `tokens` with all that is kept of it, except its last token, which is left to be computed.
    pub fn begin(&mut self, tokens: Vec<u32>) -> Sequence {
        self.now += 1;
        let (mut before, mut shared, mut like) = (None, Vec::new(), None);
        let most = tokens.len().saturating_sub(1);
        while let Some((next, alike)) = self.longest(before, &tokens[shared.len() * PAGE..most]) {
            let Some(node) = &mut self.nodes[next] else { break };
            node.read = self.now;
            if alike < PAGE {
                like = Some((node.page.clone(), alike));
                break;
            }
            shared.push(node.page.clone());
            before = Some(next);
        }
        Sequence::new(tokens, shared, like.as_ref().map(|(page, more)| (&**page, *more)), &self.pool)
    }

    /// Keeps the computed pages of `sequence`.
    pub fn keep(&mut self, sequence: Sequence) {
        self.now += 1;
        let mut before = None;
        for (tokens, page) in sequence.into_pages() {
            let longest = self.longest(before, &tokens);
            if let Some((next, alike)) = longest {
                if let Some(node) = &mut self.nodes[next] {
                    if alike == tokens.len() {
                        node.read = self.now;
                        before = Some(next);
                        continue;
                    }
                    if alike == node.tokens.len() {
                        (node.tokens, node.page, node.read) = (tokens, page, self.now);
                        before = Some(next);
                        continue;
                    }
                }
            }
            before = Some(self.add(CacheNode { before, tokens, page, after: vec![], read: self.now }));
        }
    }

    fn add(&mut self, node: CacheNode) -> usize {
        let before = node.before;
        let at = self.free.pop().unwrap_or(self.nodes.len());
        if at == self.nodes.len() {
            self.nodes.push(Some(node));
        } else {
            self.nodes[at] = Some(node);
        }
        match before.and_then(|before| self.nodes[before].as_mut()) {
            Some(before) => before.after.push(at),
            None => self.begins.push(at),
        }
        at
    }

    /// Whether there is room for `pages` more, after evicting unused ones.
    pub fn room(&mut self, pages: usize) -> bool {
        let over = (self.live() + pages).saturating_sub(self.limit);
        if over > 0 {
            self.forget(over);
        }
        self.live() + pages <= self.limit
    }

    /// Evicts `count` unused pages, if there are as many.
    fn forget(&mut self, count: usize) {
        let mut gone = 0;
        while gone < count {
            let last = |(at, node): (usize, &Option<CacheNode>)| {
                node.as_ref().filter(|node| node.after.is_empty() && Arc::strong_count(&node.page) == 1).map(|node| (node.read, at))
            };
            let mut old: Vec<(u64, usize)> = self.nodes.iter().enumerate().filter_map(last).collect();
            old.sort_unstable();
            if old.is_empty() {
                return;
            }
            // Not all that are last now, since a page before them may be older than some.
            for (_, at) in old.into_iter().take((count - gone).div_ceil(2)) {
                gone += 1;
                let before = self.nodes[at].take().and_then(|node| node.before);
                match before.and_then(|before| self.nodes[before].as_mut()) {
                    Some(before) => before.after.retain(|&after| after != at),
                    None => self.begins.retain(|&after| after != at),
                }
                self.free.push(at);
            }
        }
    }
}
