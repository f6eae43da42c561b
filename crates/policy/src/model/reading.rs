//! A trie of tokens as the tensors of one forward pass.
//!
//! Every node that isn't cached yet is one position of the pass, whichever sequences share it; all but attention works
//! position by position. Attention is cut into blocks: some queries, and as keys all the positions that precede any of
//! them, with a mask that shows each query its own predecessors. There are two ways to cut:
//!
//! - [`AttentionLayout::Packed`], for learning: as many queries to a block as stand one after the other in the trie, branches and
//!   all. The fewest blocks, but a node's last bits then depend on its neighbours in the trie.
//! - [`AttentionLayout::PerSequence`], for answering: a block holds places [`PAD_TO`] i to [`PAD_TO`] (i + 1) of one sequence, each at
//!   its own slot, and the keys of places 0 to [`PAD_TO`] (i + 1) in order. So the result of a node depends only on the
//!   tokens before it, not on the rest of the batch.

use crate::attention::AttentionLayout;
use crate::tensors::indices;
use flow_int8::trie::Trie;
use flow_model::NEVER;
use flow_model::{PAD, PAD_TO};
use std::collections::BTreeMap;
use tch::{Device, Tensor};

/// Queries of a dense block; on a GPU, where a call costs more than its masked part.
const QUERIES: usize = 64;
const MANY_QUERIES: usize = 512;
/// The most keys of a dense block besides those of its first query, as a multiple of its queries.
const MORE_KEYS: usize = 8;

/// The tensors of a pass over a trie. Places are padded to a multiple of [`PAD_TO`].
pub struct TrieTensors {
    /// The tokens, `[1, places]`.
    pub ids: Tensor,
    /// How many tokens precede each, `[1, places]`.
    pub at: Tensor,
    /// The nodes whose final states are outputs of the pass, `[outputs]`, padded to a multiple of [`PAD_TO`] with any
    /// node.
    pub output_nodes: Tensor,
    /// How many tokens precede each of these, `[1, outputs]`.
    pub output_places: Tensor,
    /// Attention of all places.
    pub all: Vec<AttentionBlocks>,
    /// Attention of the output nodes.
    pub last: Vec<AttentionBlocks>,
    /// Where a place's attention lies among what the blocks give, `[places]`.
    pub all_order: Tensor,
    /// The same for an output node, `[outputs]`.
    pub last_order: Tensor,
}

/// Blocks of one shape.
pub struct AttentionBlocks {
    /// The queries, `[blocks * queries]`: which of the places, or of the output nodes.
    pub queries: Tensor,
    /// The keys they may see, `[blocks * keys]`: numbers of known nodes, and behind those of places.
    pub keys: Tensor,
    /// 0 where a query sees a key, else [`NEVER`]: `[blocks, 1, queries, keys]`. A slot without a query sees
    /// everything, since a softmax over nothing has no gradient in bf16 on a GPU.
    pub mask: Tensor,
}

/// A block before it is a part of a tensor.
struct AttentionBlock {
    /// The slot of each query.
    queries: Vec<(usize, usize)>,
    keys: Vec<usize>,
    /// Slots, and keys with padding.
    size: (usize, usize),
}

impl TrieTensors {
    /// The pass over those nodes of `trie` that aren't known, which gives the final states of the nodes `output_nodes`,
    /// ascending, none of them known.
    pub fn new(trie: &Trie, known: &[bool], output_nodes: &[usize], cut: AttentionLayout, device: Device) -> TrieTensors {
        let tensor = |values: &[i64]| indices(values, device);
        let padded = |values: &mut dyn Iterator<Item = i64>, pad: i64| {
            let mut values: Vec<i64> = values.collect();
            values.resize(values.len().next_multiple_of(PAD_TO), pad);
            tensor(&values)
        };
        let blocks = |nodes: &[usize]| match cut {
            AttentionLayout::Packed => dense(trie, nodes, if device.is_cuda() { MANY_QUERIES } else { QUERIES }),
            AttentionLayout::PerSequence => alone(trie, nodes),
        };
        let fresh: Vec<usize> = (0..trie.len()).filter(|&node| !known[node]).collect();
        let old = trie.len() - fresh.len();
        // Where a node's keys and values lie: known ones first.
        let mut row = vec![0; trie.len()];
        (0..trie.len()).filter(|&node| known[node]).enumerate().for_each(|(i, node)| row[node] = i);
        fresh.iter().enumerate().for_each(|(i, &node)| row[node] = old + i);
        let (all, all_order) = stacked(trie, &row, &fresh, blocks(&fresh), device);
        let (last, last_order) = stacked(trie, &row, output_nodes, blocks(output_nodes), device);
        TrieTensors {
            ids: padded(&mut fresh.iter().map(|&node| trie.token(node).into()), PAD.into()).unsqueeze(0),
            at: padded(&mut fresh.iter().map(|&node| trie.place(node) as i64), 0).unsqueeze(0),
            output_nodes: padded(&mut output_nodes.iter().map(|&node| (row[node] - old) as i64), 0),
            output_places: padded(&mut output_nodes.iter().map(|&node| trie.place(node) as i64), 0).unsqueeze(0),
            all,
            last,
            all_order,
            last_order,
        }
    }
}

/// Blocks of as many queries as follow one another, `most` at most, and don't need too many keys together.
fn dense(trie: &Trie, nodes: &[usize], most: usize) -> Vec<AttentionBlock> {
    let mut blocks: Vec<AttentionBlock> = Vec::new();
    // The block that has a node's key already.
    let mut within = vec![usize::MAX; trie.len()];
    let mut room = 0;
    for (query, &node) in nodes.iter().enumerate() {
        let full = |block: &AttentionBlock| block.queries.len() == most || block.keys.len() >= room;
        let fresh = blocks.last().is_none_or(full);
        if fresh {
            blocks.push(AttentionBlock { queries: vec![], keys: vec![], size: (0, 0) });
        }
        let number = blocks.len() - 1;
        let Some(block) = blocks.last_mut() else { continue };
        // A block that has a node's key has those of all its predecessors.
        let first = block.keys.len();
        block.keys.extend(trie.back(node).take_while(|&node| within[node] != number));
        block.keys[first..].reverse();
        block.keys[first..].iter().for_each(|&node| within[node] = number);
        if fresh {
            room = block.keys.len() + MORE_KEYS * most;
        }
        block.queries.push((query, block.queries.len()));
    }
    for block in &mut blocks {
        // Keys are padded by an eighth of themselves at most, so that few shapes are left.
        let step = (block.keys.len().next_power_of_two() / 8).max(PAD_TO);
        block.size = (block.queries.len().next_power_of_two().min(most), block.keys.len().next_multiple_of(step));
    }
    blocks
}

/// Blocks of one sequence each, with every query and key in its place.
fn alone(trie: &Trie, nodes: &[usize]) -> Vec<AttentionBlock> {
    let mut blocks: Vec<(usize, AttentionBlock)> = Vec::new();
    for (query, &node) in nodes.iter().enumerate() {
        let (part, slot) = (trie.place(node) / PAD_TO, trie.place(node) % PAD_TO);
        let joins = |(last, block): &(usize, AttentionBlock)| {
            *last == part && block.keys.last().is_some_and(|&last| trie.back(node).any(|n| n == last))
        };
        if !blocks.last().is_some_and(joins) {
            let keys = PAD_TO * (part + 1);
            blocks.push((part, AttentionBlock { queries: vec![], keys: vec![], size: (PAD_TO, keys) }));
        }
        if let Some((_, block)) = blocks.last_mut() {
            let count = block.keys.len();
            block.keys.extend(trie.back(node).take(trie.place(node) + 1 - count));
            block.keys[count..].reverse();
            block.queries.push((query, slot));
        }
    }
    blocks.into_iter().map(|(_, block)| block).collect()
}

/// Blocks of equal sizes as tensors, and where each of the queries `nodes` lies among what they give; padding lies
/// anywhere. `row` says where a node's keys and values lie.
fn stacked(trie: &Trie, row: &[usize], nodes: &[usize], blocks: Vec<AttentionBlock>, device: Device) -> (Vec<AttentionBlocks>, Tensor) {
    let mut sizes: BTreeMap<(usize, usize), Vec<AttentionBlock>> = BTreeMap::new();
    blocks.into_iter().for_each(|block| sizes.entry(block.size).or_default().push(block));
    let mut order = vec![0i64; nodes.len().next_multiple_of(PAD_TO)];
    let mut columns_of = vec![0; trie.len()];
    let mut before = 0;
    let mut stack = Vec::new();
    for ((slots, columns), blocks) in sizes {
        let mut queries = vec![0i64; blocks.len() * slots];
        let mut keys = vec![0i64; blocks.len() * columns];
        let mut mask = vec![0f32; blocks.len() * slots * columns];
        for (number, block) in blocks.iter().enumerate() {
            for (column, &node) in block.keys.iter().enumerate() {
                keys[number * columns + column] = row[node] as i64;
                columns_of[node] = column;
            }
            for &(query, slot) in &block.queries {
                let slot = number * slots + slot;
                queries[slot] = query as i64;
                order[query] = (before + slot) as i64;
                mask[slot * columns..(slot + 1) * columns].fill(NEVER as f32);
                trie.back(nodes[query]).for_each(|node| mask[slot * columns + columns_of[node]] = 0.0);
            }
        }
        before += blocks.len() * slots;
        stack.push(AttentionBlocks {
            queries: indices(&queries, device),
            keys: indices(&keys, device),
            mask: Tensor::from_slice(&mask).view([-1, 1, slots as i64, columns as i64]).to_device(device),
        });
    }
    (stack, indices(&order, device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::values;

    fn trie(sequences: &[&[u32]]) -> Trie {
        let mut trie = Trie::default();
        sequences.iter().for_each(|sequence| drop(trie.add(sequence).to_vec()));
        trie
    }

    #[test]
    fn a_dense_block_holds_branches() {
        // 0: 1, 1: 1 2, 2: 1 2 3, 3: 1 4, 4: 5.
        let trie = trie(&[&[1, 2, 3], &[1, 4], &[5]]);
        let blocks = dense(&trie, &[0, 1, 2, 3, 4], QUERIES);
        assert_eq!((blocks.len(), blocks[0].size, &blocks[0].keys[..]), (1, (8, 16), &[0, 1, 2, 3, 4][..]));
        let every = [0, 1, 2, 3, 4];
        let (stack, order) = stacked(&trie, &every, &every, blocks, Device::Cpu);
        let mask = values(&stack[0].mask);
        let visible = |query: usize| (0..16).filter(|key| mask[query * 16 + key] == 0.0).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3, 4].map(visible), [vec![0], vec![0, 1], vec![0, 1, 2], vec![0, 3], vec![4]]);
        assert_eq!((order.size(), order.int64_value(&[4])), (vec![16], 4));
        assert!([5, 6, 7].iter().all(|&slot| visible(slot).len() == 16), "no slot sees nothing");
        assert_eq!(dense(&trie, &[0, 1, 2, 3, 4], 2).len(), 3);
        // The keys of output nodes are their predecessors.
        let output_blocks = dense(&trie, &[2, 4], QUERIES);
        assert_eq!((output_blocks[0].size, &output_blocks[0].keys[..]), ((2, 16), &[0, 1, 2, 4][..]));
    }

    #[test]
    fn a_block_of_its_own_has_everything_at_its_place() {
        let long: Vec<u32> = (0..20).collect();
        let branch: Vec<u32> = (0..18).chain([99]).collect();
        let trie = trie(&[&long, &branch]);
        let blocks = alone(&trie, &(0..trie.len()).collect::<Vec<_>>());
        let sizes: Vec<_> = blocks.iter().map(|block| (block.size, block.queries.len(), block.keys.len())).collect();
        assert_eq!(sizes, [((16, 16), 16, 16), ((16, 32), 4, 20), ((16, 32), 1, 19)]);
        assert_eq!(blocks[2].queries, [(20, 2)], "the branch's token stands in the slot of its place");
        assert_eq!(blocks[2].keys[17..], [17, 20]);
    }
}
