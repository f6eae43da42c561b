//! Sequences of tokens as a trie: tokens that follow the same ones are one node, so that what they share is computed
//! once.

use std::ops::Range;

/// The tokens of some sequences as a trie: a shared beginning is stored once. Nodes are numbered so that a node comes
/// after the one before it in its sequences, and all that begins with a node follows it before anything else does.
#[derive(Default)]
pub struct Trie {
    nodes: Vec<TrieNode>,
    /// The nodes of the sequence that was added last.
    path: Vec<usize>,
}

struct TrieNode {
    token: u32,
    place: usize,
    /// `None` at the beginning of a sequence.
    before: Option<usize>,
}

impl Trie {
    /// Adds a sequence, in ascending order of them all, and gives its nodes.
    pub fn add(&mut self, sequence: &[u32]) -> &[usize] {
        let shared = self.path.iter().zip(sequence).take_while(|(&node, &token)| self.nodes[node].token == token).count();
        self.path.truncate(shared);
        for &token in &sequence[shared..] {
            self.nodes.push(TrieNode { token, place: self.path.len(), before: self.path.last().copied() });
            self.path.push(self.nodes.len() - 1);
        }
        &self.path
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The token of a node.
    pub fn token(&self, node: usize) -> u32 {
        self.nodes[node].token
    }

    /// How many tokens stand before a node.
    pub fn place(&self, node: usize) -> usize {
        self.nodes[node].place
    }

    /// A node and all that stand before it, the last first.
    pub fn back(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(node), |&node| self.nodes[node].before)
    }
}

/// How many tokens two sequences begin with in common.
pub fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// `count` sequences, ascending, in runs. `size` says how many fit into a run that begins with sequence i, one at
/// least. Where a run may end, it does where the fewest tokens are shared with the next sequences; `begins` says how
/// many sequence i has in common with the one before it.
pub fn runs(count: usize, size: impl Fn(usize) -> usize, begins: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < count {
        let size = size(start);
        let ends = (start + size.div_ceil(2)..=start + size).rev();
        let end = if count - start <= size { count } else { ends.min_by_key(|&end| begins(end)).unwrap_or(start + size) };
        runs.push(start..end);
        start = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_little_is_shared() {
        // In common with the one before: sequence 3 and sequence 7 begin anew.
        let begins = |i: usize| if [3, 7].contains(&i) { 0 } else { 5 };
        assert_eq!(runs(9, |_| 4, begins), [0..3, 3..7, 7..9]);
        assert_eq!(runs(9, |_| 2, |_| 1), [0..2, 2..4, 4..6, 6..8, 8..9]);
        assert!(runs(3, |_| 4, begins).len() == 1 && runs(0, |_| 4, begins).is_empty());
    }

    #[test]
    fn what_sequences_begin_with_is_there_once() {
        let mut trie = Trie::default();
        assert_eq!(trie.add(&[1, 2, 3]), [0, 1, 2]);
        assert_eq!(trie.add(&[1, 2, 4, 5]), [0, 1, 3, 4]);
        assert_eq!(trie.add(&[1, 2, 4, 5]), [0, 1, 3, 4]);
        assert_eq!(trie.add(&[2]), [5]);
        assert_eq!(trie.len(), 6);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|node| (trie.token(node), trie.place(node))), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (2, 0)]);
        assert_eq!(trie.back(4).collect::<Vec<_>>(), [4, 3, 1, 0]);
        assert_eq!(shared(&[1, 2], &[1, 2, 3]), 2);
    }
}
