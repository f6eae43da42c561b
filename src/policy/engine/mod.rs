//! A decoder computed row by row on the processor, outside of libtorch: for models whose base stands still beside adapters, in 8 bits or as it is.
//!
//! A row is one token of one sequence. All that a row goes through sums in an order that follows from the row alone: products
//! ([`super::products`]), norms, attention over the keys before it, and what makes probabilities of logits. So a token has the same bits alone
//! and among others, whether it is read or written or learnt from, on any number of threads and with any of the processor's vectors, and
//! nothing is padded for that. It also has to be so: a last bit that differs before a rounding to 8 bits is a hundredth behind it, so that
//! sampler and learner would be two models.
//!
//! ```text
//! tape     learning: forward with what the way back needs, and back
//! pages    keys and values, 16 tokens a page; a sequence is a list of pages
//! block    forward through the blocks: the formulas of `model::decoder`
//! head     logits, and log-probabilities with their gradient
//! attention, rope, norm, linear: one formula each, with its gradient
//! ```

mod attention;
mod block;
mod branches;
pub mod head;
mod linear;
mod norm;
pub mod pages;
mod rope;
pub mod tape;
#[cfg(test)]
mod tests;

pub use block::Memory;

use super::model::config::{Config, Output, EMBEDDING, NORM, OUTPUT, VALUE_HEAD};
use super::model::lora::{whole, Adapter};
use super::model::parameters::Layout;
use super::products::isa::Isa;
use linear::{Adapted, Linear, Weight};
use rope::Rope;
use std::sync::{Arc, OnceLock};

/// How the numbers of the matrices are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Rounded to 8 bits.
    Int8,
    /// As they are.
    F32,
}

/// The frozen part of a decoder.
pub struct Engine {
    config: Config,
    isa: Isa,
    rope: Rope,
    embedding: Weight,
    /// The output matrix, where it is another one than the embedding.
    output: Option<Weight>,
    /// A critic's head.
    head: Option<Vec<f32>>,
    /// The output matrix of the way back, made when something is first learnt.
    turned_output: OnceLock<Weight>,
    blocks: Vec<Block>,
    norm: Vec<f32>,
}

/// The weights of one block, by their part in the formulas of [`super::model::decoder`].
struct Block {
    qkv: Linear,
    out: Linear,
    gate_up: Linear,
    down: Linear,
    head_norms: Option<(Vec<f32>, Vec<f32>)>,
    norm1: Vec<f32>,
    norm2: Vec<f32>,
}

/// The matrices of a block, for what is said of each.
const MATRICES: [&str; 4] = ["self_attn.qkv", "self_attn.o_proj", "mlp.gate_up", "mlp.down_proj"];

/// What an adapter's weights add, for each block and each of its matrices.
pub struct Adapters {
    blocks: Vec<[Adapted; 4]>,
    /// What makes a value of a final state, in place of logits: a critic's.
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
pub type Leaves<'a> = dyn Fn(&str) -> Option<(Vec<f32>, Vec<i64>)> + 'a;

impl Engine {
    /// `config` with the weights that `leaf` knows by name, numbers and sizes; one after the other, so that few are there at a time.
    pub fn new(config: &Config, leaf: &Leaves, kept: Kept, isa: Isa) -> Engine {
        let vector = |name: String| leaf(&name).map_or_else(Vec::new, |(numbers, _)| numbers);
        let matrix = |name: &str| {
            let (numbers, size) = leaf(name).unwrap_or_else(|| (vec![], vec![0, 0]));
            Weight::new(&numbers, size[0] as usize, size[1] as usize, kept)
        };
        let block = |i: usize| {
            let name = |tail: &str| format!("model.layers.{i}.{tail}");
            let linear = |tail: &str, bias: bool| {
                let bias = bias.then(|| vector(name(&format!("{tail}.bias"))));
                Linear::new(matrix(&name(&format!("{tail}.weight"))), bias)
            };
            let gain = |tail: &str| vector(name(&format!("{tail}.weight")));
            let [qkv, out, gate_up, down] = MATRICES;
            Block {
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
            isa,
            rope: Rope::new(&config.rope, config.head, config.context),
            embedding: matrix(EMBEDDING),
            output: (config.output == Output::Own).then(|| matrix(OUTPUT)),
            head: (config.output == Output::Value).then(|| vector(VALUE_HEAD.into())),
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
                let leaf = base.leaf_of(&format!("model.layers.{i}.{tail}.weight")).map(|leaf| &base.leaves()[leaf]);
                Adapted::new(leaf.map(|leaf| adapter.parts(base, leaf)).unwrap_or_default(), adapter.lora.scaling(), own, flat)
            })
        };
        let learnt = own.leaf_of(&whole(VALUE_HEAD)).map(|leaf| own.leaves()[leaf].at as usize);
        let learnt = learnt.map(|at| ValueHead { weights: flat[at..at + self.config.width].to_vec(), at: Some(at) });
        Adapters { blocks: (0..self.blocks.len()).map(block).collect(), head: learnt.or_else(|| self.own_head()), len: flat.len() }
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
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Which instructions it uses.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    fn output(&self) -> &Weight {
        self.output.as_ref().unwrap_or(&self.embedding)
    }
}

/// A frozen base and what is learnt beside it: what computes.
#[derive(Clone)]
pub struct Running {
    /// The base.
    pub engine: Arc<Engine>,
    /// The adapters of one version.
    pub adapters: Arc<Adapters>,
}

impl Running {
    /// Whether it is a critic.
    pub fn values(&self) -> bool {
        self.adapters.head.is_some()
    }
}
