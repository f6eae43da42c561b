//! A decoder computed row by row on the CPU, outside of libtorch: for models whose base stands still beside adapters,
//! in 8 bits or as it is.
//!
//! A row is one token of one sequence. All that a row goes through sums in an order that follows from the row alone:
//! products ([`super::products`]), norms, attention over the keys before it, and the softmax. So a token has the same
//! bits alone and among others, in prefill, decoding or training, on any number of threads and with any of the CPU's
//! vectors, and nothing is padded for that. It also has to be so: a last bit that differs before a rounding to 8 bits
//! is a hundredth behind it, so that sampler and learner would be two models.
//!
//! ```text
//! tape     training: the forward pass with its values for the backward pass, and the backward pass
//! pages    keys and values, 16 tokens a page; a sequence is a list of pages
//! kv       what keys and values are kept as
//! block    forward through the blocks: the formulas of `model::decoder`
//! head     logits, and log-probabilities with their gradient
//! branches attention over a trie of tokens, forward and back
//! tiles    attention of tokens that follow one another, with its gradient; `attention`: of one token
//! rope, norm, linear: one formula each, with its gradient
//! ```

mod attention;
mod block;
mod branches;
pub mod head;
mod kv;
mod linear;
pub mod listed;
mod norm;
pub mod pages;
mod rope;
pub mod tape;
mod tiles;

use super::products::isa::Isa;
use flow_model::config::{DecoderConfig, OutputHead, EMBEDDING, NORM, OUTPUT, VALUE_HEAD};
use flow_model::lora::{replacement, Adapter};
use flow_model::parameters::Layout;
use linear::{FrozenLinear, FrozenMatrix, MatrixAdapters};
use rope::RopeTables;
use std::sync::{Arc, OnceLock};

/// The number format of the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixFormat {
    /// Rounded to 8 bits.
    Int8,
    /// As they are.
    F32,
}

/// The frozen part of a decoder.
pub struct Engine {
    config: DecoderConfig,
    format: MatrixFormat,
    /// Which instructions it uses.
    pub isa: Isa,
    rope: RopeTables,
    embedding: FrozenMatrix,
    /// The output matrix, where it is another one than the embedding.
    output: Option<FrozenMatrix>,
    /// A critic's head.
    head: Option<Vec<f32>>,
    /// The output matrix of the way back, made when something is first learnt.
    turned_output: OnceLock<FrozenMatrix>,
    blocks: Vec<BlockWeights>,
    norm: Vec<f32>,
}

/// The weights of one block, by their part in the formulas of the decoder of the policy.
struct BlockWeights {
    qkv: FrozenLinear,
    out: FrozenLinear,
    gate_up: FrozenLinear,
    down: FrozenLinear,
    head_norms: Option<(Vec<f32>, Vec<f32>)>,
    norm1: Vec<f32>,
    norm2: Vec<f32>,
}

/// The names of a block's matrices.
const MATRICES: [&str; 4] = ["self_attn.qkv", "self_attn.o_proj", "mlp.gate_up", "mlp.down_proj"];

/// The adapters' low-rank updates of each block's matrices.
pub struct Adapters {
    blocks: Vec<[MatrixAdapters; 4]>,
    /// The weights that make a value of a final state, in place of logits: a critic's.
    head: Option<ValueHead>,
    /// How many weights there are.
    pub len: usize,
}

/// The head of a critic, `[width]`.
struct ValueHead {
    weights: Vec<f32>,
    /// Where they lie among the adapter's weights, if they learn.
    at: Option<usize>,
}

/// A model's weights by name: numbers and sizes.
pub type WeightsByName<'a> = dyn Fn(&str) -> Option<(Vec<f32>, Vec<i64>)> + 'a;

impl Engine {
    /// `config` with the weights that `leaf` knows by name, numbers and sizes; one after the other, so that few are
    /// there at a time.
    pub fn new(config: &DecoderConfig, leaf: &WeightsByName, format: MatrixFormat, isa: Isa) -> Engine {
        let vector = |name: String| leaf(&name).map_or_else(Vec::new, |(numbers, _)| numbers);
        let matrix = |name: &str| {
            let (numbers, size) = leaf(name).unwrap_or_else(|| (vec![], vec![0, 0]));
            FrozenMatrix::new(&numbers, size[0] as usize, size[1] as usize, format)
        };
        let block = |i: usize| {
            let name = |tail: &str| format!("model.layers.{i}.{tail}");
            let linear = |tail: &str, bias: bool| {
                let bias = bias.then(|| vector(name(&format!("{tail}.bias"))));
                FrozenLinear::new(matrix(&name(&format!("{tail}.weight"))), bias)
            };
            let gain = |tail: &str| vector(name(&format!("{tail}.weight")));
            let [qkv, out, gate_up, down] = MATRICES;
            BlockWeights {
                qkv: linear(qkv, config.biases.qkv),
                out: linear(out, config.biases.out),
                gate_up: linear(gate_up, config.biases.feed_forward),
                down: linear(down, config.biases.feed_forward),
                head_norms: config.head_norms.then(|| (gain("self_attn.q_norm"), gain("self_attn.k_norm"))),
                norm1: gain("input_layernorm"),
                norm2: gain("post_attention_layernorm"),
            }
        };
        Engine {
            format,
            isa,
            rope: RopeTables::new(&config.rope, config.head, config.context),
            embedding: matrix(EMBEDDING),
            output: (config.output == OutputHead::Own).then(|| matrix(OUTPUT)),
            head: (config.output == OutputHead::Value).then(|| vector(VALUE_HEAD.into())),
            turned_output: OnceLock::new(),
            blocks: (0..config.layers).map(block).collect(),
            norm: vector(NORM.into()),
            config: config.clone(),
        }
    }

    /// The adapters with the weights `flat`.
    pub fn adapters(&self, base: &Layout, adapter: &Adapter, flat: &[f32]) -> Adapters {
        let own = adapter.layout();
        let block = |i: usize| {
            MATRICES.map(|tail| {
                let leaf = base.leaf_of(&format!("model.layers.{i}.{tail}.weight")).map(|leaf| &base.leaves[leaf]);
                MatrixAdapters::new(leaf.map(|leaf| adapter.parts(base, leaf)).unwrap_or_default(), adapter.lora.scaling(), own, flat)
            })
        };
        let trained = own.leaf_of(&replacement(VALUE_HEAD)).map(|leaf| own.leaves[leaf].at as usize);
        let trained = trained.map(|at| ValueHead { weights: flat[at..at + self.config.width].to_vec(), at: Some(at) });
        Adapters { blocks: (0..self.blocks.len()).map(block).collect(), head: trained.or_else(|| self.own_head()), len: flat.len() }
    }

    /// No adapters.
    pub fn bare(&self) -> Adapters {
        Adapters { blocks: (0..self.blocks.len()).map(|_| Default::default()).collect(), head: self.own_head(), len: 0 }
    }

    fn own_head(&self) -> Option<ValueHead> {
        self.head.clone().map(|weights| ValueHead { weights, at: None })
    }

    /// The head of the base, where that is a critic.
    pub fn head(&self) -> Option<&[f32]> {
        self.head.as_deref()
    }

    /// Its sizes and constants.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    fn output(&self) -> &FrozenMatrix {
        self.output.as_ref().unwrap_or(&self.embedding)
    }
}

/// A frozen base with the trained adapters of one version: the engine that computes.
#[derive(Clone)]
pub struct AdaptedEngine {
    /// The base.
    pub engine: Arc<Engine>,
    /// The adapters of one version.
    pub adapters: Arc<Adapters>,
}

impl AdaptedEngine {
    /// Whether it is a critic.
    pub fn values(&self) -> bool {
        self.adapters.head.is_some()
    }
}
