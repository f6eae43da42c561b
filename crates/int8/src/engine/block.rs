//! Forward through the blocks: the formulas of [`flow_model::decoder`], a row a token.

use super::kv::Heads;
use super::linear::MatrixAdapters;
use super::norm::{heads_normed, normed};
use super::rope::turn;
use super::{Adapters, BlockWeights, Engine};
use crate::products::dense::StridedRows;
use crate::products::rounded::Rounded;
use crate::products::vectors::exp;

/// Rows that go through the feed-forward part together: what is inside it is several times as wide as the stream, and
/// stays in the CPU's caches for as many.
pub const FED: usize = 128;

/// A token to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedToken {
    /// Its number in the vocabulary.
    pub id: u32,
    /// How many tokens stand before it.
    pub place: usize,
}

/// Where keys and values are stored, and so what each token attends to.
pub trait KvMemory {
    /// Takes in the keys and values of all tokens of a pass at block `block`, and gives what each of them attends to,
    /// `out` `[tokens, queries * head]`. A row of `qkv` has queries, keys and values, the first two turned.
    fn attend(&mut self, block: usize, qkv: StridedRows, out: &mut [f32]);
}

/// The intermediate activations of a block, reused by the backward pass.
#[derive(Default)]
pub struct BlockActivations {
    pub normed: Vec<f32>,
    pub qkv: Vec<f32>,
    pub attended: Vec<f32>,
    pub gate_up: Vec<f32>,
    pub acted: Vec<f32>,
    pub added: Vec<f32>,
    pub rounded: Rounded,
}

/// What the backward pass needs: the residual stream before each block and before its feed-forward part,
/// `[tokens, width]` each. And what its attention gave, `[tokens, queries * head]`, where an adapter of the matrix
/// behind it learns from that: in a long row, computing it again takes long.
#[derive(Default)]
pub struct ResidualStreams {
    pub before: Vec<Vec<f32>>,
    pub middle: Vec<Vec<f32>>,
    pub attended: Vec<Vec<f32>>,
}

vectorised! {
    /// silu(gate) * up of rows of `gate_up` `[.., hidden | hidden]`, `stride` from one another: packed rows of `acted`.
    pub fn gated(gate_up: &[f32], stride: usize, hidden: usize, acted: &mut [f32]) {
        for (acted, both) in acted.chunks_exact_mut(hidden).zip(gate_up.chunks(stride)) {
            let (gate, up) = both.split_at(hidden);
            for ((acted, gate), up) in acted.iter_mut().zip(gate).zip(up) {
                *acted = gate / (1.0 + exp(-gate)) * up;
            }
        }
    }

    /// Adds rows of `y`, `stride` from one another, to the packed rows of `x`.
    pub fn add(x: &mut [f32], width: usize, y: &[f32], stride: usize) {
        for (x, y) in x.chunks_exact_mut(width).zip(y.chunks(stride)) {
            x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
        }
    }
}

impl Engine {
    /// The sizes of its attention.
    pub fn heads(&self) -> Heads {
        Heads { queries: self.config.heads, keys: self.config.kv_heads, head: self.config.head }
    }

    /// What is added to a mean square.
    pub(super) fn eps(&self) -> f32 {
        self.config.norm_eps as f32
    }

    /// The final states `[tokens, width]`, before the last norm, of `tokens`, which see what `memory` has for them.
    pub fn forward(
        &self,
        adapters: &Adapters,
        tokens: &[PlacedToken],
        memory: &mut dyn KvMemory,
        mut streams: Option<&mut ResidualStreams>,
    ) -> Vec<f32> {
        let width = self.config.width;
        let mut x = vec![0.0; tokens.len() * width];
        x.chunks_exact_mut(width).zip(tokens).for_each(|(x, token)| self.embedding.row(token.id as usize, x));
        let mut between = BlockActivations::default();
        for (number, (block, adapted)) in self.blocks.iter().zip(&adapters.blocks).enumerate() {
            if let Some(streams) = &mut streams {
                streams.before.push(x.clone());
            }
            self.project_plain(block, &adapted[0], tokens.len(), &x, &mut between);
            self.placed(block, tokens, &mut between.qkv);
            let BlockActivations { qkv, attended, added, rounded, .. } = &mut between;
            let queries = self.config.heads * self.config.head;
            attended.resize(tokens.len() * queries, 0.0);
            memory.attend(number, StridedRows { numbers: qkv, stride: block.qkv.stride(), count: tokens.len() }, attended);
            if let Some(streams) = &mut streams {
                streams.attended.push(if adapted[1].is_empty() { Vec::new() } else { attended.clone() });
            }
            block.out.forward(
                self.isa,
                &adapted[1],
                StridedRows { numbers: attended, stride: queries, count: tokens.len() },
                rounded,
                added,
            );
            add(self.isa, &mut x, width, added, block.out.stride());
            if let Some(streams) = &mut streams {
                streams.middle.push(x.clone());
            }
            for x in x.chunks_mut(FED * width) {
                self.feed(block, adapted, x, &mut between);
                let BlockActivations { acted, added, rounded, .. } = &mut between;
                let hidden = self.config.hidden;
                let acted = StridedRows { numbers: acted, stride: hidden, count: x.len() / width };
                block.down.forward(self.isa, &adapted[3], acted, rounded, added);
                add(self.isa, x, width, added, block.down.stride());
            }
        }
        x
    }

    /// Norms the heads of rows of queries and keys, where the model does, and turns them to their places.
    pub(super) fn placed(&self, block: &BlockWeights, tokens: &[PlacedToken], qkv: &mut [f32]) {
        let (queries, keys) = (self.config.heads * self.config.head, self.config.kv_heads * self.config.head);
        for (qkv, token) in qkv.chunks_mut(block.qkv.stride()).zip(tokens) {
            let turned = &mut qkv[..queries + keys];
            if let Some((q, k)) = &block.head_norms {
                heads_normed(self.isa, &mut turned[..queries], q, self.eps());
                heads_normed(self.isa, &mut turned[queries..], k, self.eps());
            }
            turn(self.isa, turned, self.rope.at(token.place), false);
        }
    }

    /// The queries, keys and values of the stream `x`, not yet turned.
    pub(super) fn project_plain(
        &self,
        block: &BlockWeights,
        adapted: &MatrixAdapters,
        count: usize,
        x: &[f32],
        between: &mut BlockActivations,
    ) {
        let width = self.config.width;
        let BlockActivations { normed: own, qkv, rounded, .. } = between;
        own.resize(count * width, 0.0);
        normed(self.isa, x, width, &block.norm1, self.eps(), own);
        block.qkv.forward(self.isa, adapted, StridedRows { numbers: own, stride: width, count }, rounded, qkv);
    }

    /// What is inside the feed-forward part of the stream `x`.
    pub(super) fn feed(&self, block: &BlockWeights, adapted: &[MatrixAdapters; 4], x: &[f32], between: &mut BlockActivations) {
        let (width, hidden) = (self.config.width, self.config.hidden);
        let count = x.len() / width;
        let BlockActivations { normed: own, gate_up, acted, rounded, .. } = between;
        own.resize(count * width, 0.0);
        normed(self.isa, x, width, &block.norm2, self.eps(), own);
        block.gate_up.forward(self.isa, &adapted[2], StridedRows { numbers: own, stride: width, count }, rounded, gate_up);
        acted.resize(count * hidden, 0.0);
        gated(self.isa, gate_up, block.gate_up.stride(), hidden, acted);
    }

    /// Rows of the stream through the last norm.
    pub(super) fn last(&self, x: &[f32]) -> Vec<f32> {
        let mut states = vec![0.0; x.len()];
        normed(self.isa, x, self.config.width, &self.norm, self.eps(), &mut states);
        states
    }
}
