//! The configuration of a decoder (RMSNorm, rotary positions, grouped-query attention, SwiGLU): its sizes and constants, and the parameters that follow
//! from them.

use super::parameters::{Initializer, Layout};
use super::rope::RopeConfig;
use super::Sizes;
use crate::ModelFault;

/// The name of a value head's weights, `[1, width]`; it has no bias.
pub const VALUE_HEAD: &str = "value_head.weight";
/// The name of the token embedding, `[vocab, width]`.
pub const EMBEDDING: &str = "model.embed_tokens.weight";
/// The name of an output matrix of its own, `[vocab, width]`.
pub const OUTPUT: &str = "lm_head.weight";
/// The name of the gains of the last norm, `[width]`.
pub const NORM: &str = "model.norm.weight";

/// The matrix for logits, or a value, of a final state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputHead {
    /// A matrix of its own, `[vocab, width]`.
    Own,
    /// The token embedding.
    Tied,
    /// One row, `[1, width]`: the state's value.
    Value,
}

/// Which matrices have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Matrices that make queries, keys and values.
    pub qkv: bool,
    /// The one after attention.
    pub out: bool,
    /// Those of the feed-forward part.
    pub feed_forward: bool,
}

/// Sizes and constants of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Rows of the token embedding.
    pub vocab: usize,
    /// The tokens that the tokenizer knows: the first rows. Published embeddings are padded, and a row beyond the
    /// tokens has no text, so it is never read and gets no probability.
    pub tokens: usize,
    /// Blocks.
    pub layers: usize,
    /// Numbers of a state in the residual stream.
    pub width: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys and values; `heads` is a multiple of it.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub head: usize,
    /// Numbers inside the feed-forward part.
    pub hidden: usize,
    /// The most places of a sequence.
    pub context: usize,
    /// Added to the mean square in a norm.
    pub norm_eps: f64,
    /// The rotary positions.
    pub rope: RopeConfig,
    /// Which matrices have a bias.
    pub biases: Biases,
    /// Whether each head's queries and keys are normed before they are turned.
    pub head_norms: bool,
    /// The output matrix.
    pub output: OutputHead,
}

/// More blocks than any model has.
const LAYERS: usize = 1000;
/// The most numbers that the tables of rotary positions may have: a million places of heads of 256.
const PLACES: usize = 1 << 28;

impl DecoderConfig {
    /// Itself, if its sizes fit one another.
    pub fn checked(self) -> Result<DecoderConfig, ModelFault> {
        let DecoderConfig { vocab, layers, width, heads, kv_heads, head, hidden, context, .. } = self;
        if [vocab, layers, width, heads, kv_heads, head, hidden, context].contains(&0) {
            return Err(ModelFault::ZeroSize);
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(ModelFault::Heads { heads, kv_heads });
        }
        if !head.is_multiple_of(2) {
            return Err(ModelFault::OddHead { head });
        }
        let largest = [vocab, width, hidden, heads.saturating_mul(head)].into_iter().max().unwrap_or(0);
        if layers > LAYERS || largest.saturating_mul(width).saturating_mul(layers) > 1 << 50 {
            return Err(ModelFault::TooLarge);
        }
        if context.saturating_mul(head) > PLACES {
            return Err(ModelFault::Context { context, head });
        }
        Ok(self)
    }

    /// What generation and updates need to know.
    pub fn sizes(&self) -> Sizes {
        let cached = 2 * self.layers * self.kv_heads * self.head;
        Sizes {
            vocab: self.tokens,
            rows: self.vocab,
            context: self.context,
            width: self.width,
            value: self.output == OutputHead::Value,
            cached,
        }
    }

    /// The parameters, under the names of the Llama family on Hugging Face.
    ///
    /// Matrices start with deviation 1 / sqrt(inputs), matrices that write to the residual stream smaller by sqrt(2
    /// layers) (Radford et al. 2019); the output layer at 0.02, so that a new policy is close to uniform; a value head
    /// at 0: it expects nothing yet.
    pub fn layout(&self) -> Layout {
        let [d, f, v] = [self.width, self.hidden, self.vocab].map(|size| size as i64);
        let [h, k] = [self.heads, self.kv_heads].map(|heads| (heads * self.head) as i64);
        let inputs = |inputs: i64| Initializer::Normal(1.0 / (inputs as f64).sqrt());
        let residual = |inputs: i64| Initializer::Normal(1.0 / (inputs as f64 * 2.0 * self.layers as f64).sqrt());
        let mut layout = Layout::default();
        layout.add(EMBEDDING, &[v, d], Initializer::Normal(if self.output == OutputHead::Tied { 0.02 } else { 0.5 }));
        match self.output {
            OutputHead::Own => layout.add(OUTPUT, &[v, d], Initializer::Normal(0.02)),
            OutputHead::Value => layout.add(VALUE_HEAD, &[1, d], Initializer::Normal(0.0)),
            OutputHead::Tied => {}
        }
        for i in 0..self.layers {
            let name = |tail: &str| format!("model.layers.{i}.{tail}.weight");
            let qkv = [("q_proj", h), ("k_proj", k), ("v_proj", k)].map(|(tail, rows)| (name(&format!("self_attn.{tail}")), rows));
            layout.stacked(name("self_attn.qkv"), &qkv, Some(d), inputs(d));
            layout.add(name("self_attn.o_proj"), &[d, h], residual(h));
            let gate_up = ["gate_proj", "up_proj"].map(|tail| (name(&format!("mlp.{tail}")), f));
            layout.stacked(name("mlp.gate_up"), &gate_up, Some(d), inputs(d));
            layout.add(name("mlp.down_proj"), &[d, f], residual(f));
        }
        for i in 0..self.layers {
            let name = |tail: &str| format!("model.layers.{i}.{tail}");
            let bias = |part: &str, tail: &str, rows: i64| (name(&format!("{part}.{tail}.bias")), rows);
            if self.biases.qkv {
                let qkv = [("q_proj", h), ("k_proj", k), ("v_proj", k)].map(|(tail, rows)| bias("self_attn", tail, rows));
                layout.stacked(name("self_attn.qkv.bias"), &qkv, None, Initializer::Zeros);
            }
            if self.biases.out {
                layout.add(name("self_attn.o_proj.bias"), &[d], Initializer::Zeros);
            }
            if self.biases.feed_forward {
                let gate_up = ["gate_proj", "up_proj"].map(|tail| bias("mlp", tail, f));
                layout.stacked(name("mlp.gate_up.bias"), &gate_up, None, Initializer::Zeros);
                layout.add(name("mlp.down_proj.bias"), &[d], Initializer::Zeros);
            }
            if self.head_norms {
                for tail in ["q_norm", "k_norm"] {
                    layout.add(name(&format!("self_attn.{tail}.weight")), &[self.head as i64], Initializer::Ones);
                }
            }
            for tail in ["input_layernorm", "post_attention_layernorm"] {
                layout.add(name(&format!("{tail}.weight")), &[d], Initializer::Ones);
            }
        }
        layout.add(NORM, &[d], Initializer::Ones);
        layout
    }
}
