//! The decoder of Llama and Qwen: RMSNorm (Zhang and Sennrich 2019), rotary positions (Su et al. 2021), grouped-query
//! attention (Ainslie et al. 2023) and SwiGLU (Shazeer 2020), each block adding to a residual stream:
//!
//! ```text
//! x = embedding(tokens)
//! for each block:
//!     q, k, v = Wq n, Wk n, Wv n          n = rmsnorm(x)
//!     x = x + Wo attention(turn(q), turn(k), v)
//!     x = x + Wdown (silu(Wgate n) * Wup n)    n = rmsnorm(x)
//! logits = Whead rmsnorm(x)
//! ```
//!
//! The input is a trie of tokens, and attention is cut into blocks: see [`crate::model::reading`]. Only some positions are
//! outputs (the last of a prompt, or those where a response token was chosen), so the last block computes keys and
//! values everywhere and the rest at those positions.

use crate::model::cache::Cache;
use crate::model::linear::linear;
use crate::model::lora::LowRank;
use crate::model::reading::{AttentionBlocks, TrieTensors};
use crate::model::rope::{Angles, Rope};
use crate::model::weights::Weights;
use crate::model::Network;
use flow_model::config::{Biases, DecoderConfig, OutputHead, EMBEDDING, NORM, OUTPUT, VALUE_HEAD};
use tch::{Kind, Tensor};

/// A matrix, its bias if it has one, and the low-rank updates of its adapters.
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    low_rank: Vec<LowRank>,
}

impl Linear {
    /// Of `x` `[.., inputs]`: `[.., outputs]`.
    fn forward(&self, x: &Tensor) -> Tensor {
        self.adapted(x, linear(x, &self.weight, self.bias.as_ref()), 0)
    }

    /// Of its outputs `outputs` from `at` on; a parameter's outputs are all among them, or none.
    fn part(&self, x: &Tensor, at: i64, outputs: i64) -> Tensor {
        let bias = self.bias.as_ref().map(|bias| bias.narrow(0, at, outputs));
        self.adapted(x, linear(x, &self.weight.narrow(0, at, outputs), bias.as_ref()), at)
    }

    /// `y`, the outputs from `at` on, plus the adapters' updates.
    fn adapted(&self, x: &Tensor, y: Tensor, at: i64) -> Tensor {
        let outputs = y.size()[y.dim() - 1];
        for low_rank in self.low_rank.iter().filter(|low_rank| (at..at + outputs).contains(&low_rank.at)) {
            if low_rank.outputs() == outputs {
                return y + low_rank.forward(x);
            }
            let _ = y.narrow(-1, low_rank.at - at, low_rank.outputs()).g_add_(&low_rank.forward(x));
        }
        y
    }
}

/// The weights of one block, by their part in the formulas above.
struct DecoderBlock {
    qkv: Linear,
    out: Linear,
    gate_up: Linear,
    down: Linear,
    /// The gains of the queries' and the keys' norm, `[head]`.
    head_norms: Option<(Tensor, Tensor)>,
    norm1: Tensor,
    norm2: Tensor,
}

/// A decoder with its weights.
pub struct Decoder {
    config: DecoderConfig,
    embedding: Tensor,
    output: Tensor,
    blocks: Vec<DecoderBlock>,
    norm: Tensor,
    rope: Rope,
    /// Whether adapters are trained beside frozen matrices. Then matrices that are stacked into one are multiplied one
    /// by one: the gradient of a slice of a product first fills the whole of it with zeros, which costs more than one
    /// larger product saves. Where the matrices are trained themselves, the one larger product is the faster way.
    learns: bool,
}

impl Decoder {
    /// `config` with those weights, which have its layout.
    pub fn new(config: &DecoderConfig, weights: &Weights) -> Decoder {
        let rope = Rope::new(&config.rope, config.head, config.context, weights.device(), weights.kind());
        Decoder::with_rope(config, rope, weights)
    }

    fn with_rope(config: &DecoderConfig, rope: Rope, weights: &Weights) -> Decoder {
        let block = |i: usize| {
            let get = |tail: &str| weights.get(&format!("model.layers.{i}.{tail}.weight"));
            let matrix = |tail: &str, bias: bool| Linear {
                weight: get(tail),
                bias: bias.then(|| weights.get(&format!("model.layers.{i}.{tail}.bias"))),
                low_rank: weights.low_rank(&format!("model.layers.{i}.{tail}.weight")),
            };
            let Biases { qkv, out, feed_forward } = config.biases;
            DecoderBlock {
                qkv: matrix("self_attn.qkv", qkv),
                out: matrix("self_attn.o_proj", out),
                gate_up: matrix("mlp.gate_up", feed_forward),
                down: matrix("mlp.down_proj", feed_forward),
                head_norms: config.head_norms.then(|| (get("self_attn.q_norm"), get("self_attn.k_norm"))),
                norm1: get("input_layernorm"),
                norm2: get("post_attention_layernorm"),
            }
        };
        let (output, rows) = match config.output {
            OutputHead::Own => (OUTPUT, config.tokens),
            OutputHead::Tied => (EMBEDDING, config.tokens),
            OutputHead::Value => (VALUE_HEAD, 1),
        };
        let output = weights.get(output);
        // A slice of all rows would cost a copy on the way back.
        let output = if output.size()[0] == rows as i64 { output } else { output.narrow(0, 0, rows as i64) };
        Decoder {
            config: config.clone(),
            embedding: weights.get(EMBEDDING),
            output,
            blocks: (0..config.layers).map(block).collect(),
            norm: weights.get(NORM),
            rope,
            learns: weights.adapter_learns(),
        }
    }

    /// Heads of queries, heads of keys, numbers of a head.
    fn heads(&self) -> (i64, i64, i64) {
        (self.config.heads as i64, self.config.kv_heads as i64, self.config.head as i64)
    }

    fn normed(&self, x: &Tensor, gain: &Tensor) -> Tensor {
        x.rms_norm([self.config.width as i64], Some(gain), self.config.norm_eps)
    }

    /// Queries and keys `[rows, n, heads + kv_heads, head]`, turned, and values `[rows, n, kv_heads, head]` of the
    /// normed states `[rows, n, width]`.
    fn project(&self, block: &DecoderBlock, normed: &Tensor, angles: &Angles) -> (Tensor, Tensor) {
        let (heads, kv, head) = self.heads();
        let (rows, n) = (normed.size()[0], normed.size()[1]);
        let qkv = block.qkv.forward(normed).view([rows, n, heads + 2 * kv, head]);
        let queries_keys = match &block.head_norms {
            None => qkv.narrow(2, 0, heads + kv),
            Some((q, k)) => {
                Tensor::cat(&[self.head_normed(&qkv.narrow(2, 0, heads), q), self.head_normed(&qkv.narrow(2, heads, kv), k)], 2)
            }
        };
        (angles.turn(&queries_keys), qkv.narrow(2, heads + kv, kv))
    }

    /// The keys, turned, and values `[rows, n, kv_heads, head]` alone.
    fn keys_values(&self, block: &DecoderBlock, normed: &Tensor, angles: &Angles) -> (Tensor, Tensor) {
        let (heads, kv, head) = self.heads();
        let (rows, n) = (normed.size()[0], normed.size()[1]);
        let (k, v) = if self.learns {
            let part = |first: i64| block.qkv.part(normed, first * head, kv * head).view([rows, n, kv, head]);
            (part(heads), part(heads + kv))
        } else {
            let pair = block.qkv.part(normed, heads * head, 2 * kv * head).view([rows, n, 2 * kv, head]);
            (pair.narrow(2, 0, kv), pair.narrow(2, kv, kv))
        };
        let k = block.head_norms.as_ref().map_or_else(|| k.shallow_clone(), |(_, gain)| self.head_normed(&k, gain));
        (angles.turn(&k), v)
    }

    /// The queries `[rows, n, heads, head]` alone, turned.
    fn queries(&self, block: &DecoderBlock, normed: &Tensor, angles: &Angles) -> Tensor {
        let (heads, _, head) = self.heads();
        let (rows, n) = (normed.size()[0], normed.size()[1]);
        let q = block.qkv.part(normed, 0, heads * head).view([rows, n, heads, head]);
        let q = block.head_norms.as_ref().map_or_else(|| q.shallow_clone(), |(gain, _)| self.head_normed(&q, gain));
        angles.turn(&q)
    }

    /// Heads `[.., head]`, each normed by itself.
    fn head_normed(&self, x: &Tensor, gain: &Tensor) -> Tensor {
        x.rms_norm([self.config.head as i64], Some(gain), self.config.norm_eps)
    }

    /// The stream `x` `[.., width]` after attention, `[.., heads * head]`, and the feed-forward part.
    fn finish(&self, block: &DecoderBlock, x: &Tensor, attended: &Tensor) -> Tensor {
        let x = x + block.out.forward(attended);
        let normed = self.normed(&x, &block.norm2);
        let (gate, up) = if self.learns {
            let hidden = self.config.hidden as i64;
            (block.gate_up.part(&normed, 0, hidden), block.gate_up.part(&normed, hidden, hidden))
        } else {
            let both = block.gate_up.forward(&normed).chunk(2, -1);
            (both[0].shallow_clone(), both[1].shallow_clone())
        };
        x + block.down.forward(&(gate.silu() * up))
    }

    /// Attention of `q` `[rows, queries, heads * head]`, turned to their places, over keys and values
    /// `[rows, kv_heads, places, head]`. The heads that share a key are queries of it, so no key is copied. `mask` is
    /// added: see [`Decoder::mask`].
    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Tensor {
        let (rows, queries) = (q.size()[0], q.size()[1]);
        let (heads, kv, head) = self.heads();
        let group = heads / kv;
        let q = q.view([rows, queries, kv, group, head]).permute([0, 2, 3, 1, 4]).reshape([rows, kv, group * queries, head]);
        let y = Tensor::scaled_dot_product_attention(&q, k, v, Some(mask), 0.0, false, None, false);
        y.view([rows, kv, group, queries, head]).permute([0, 3, 1, 2, 4]).reshape([rows, queries, kv * group * head])
    }

    /// The mask `[rows, 1, queries, places]` as every block's attention adds it: in the network's number format, and of
    /// several queries once for each head that shares a key.
    fn mask(&self, mask: &Tensor) -> Tensor {
        let (heads, kv, _) = self.heads();
        let mask = mask.to_kind(self.embedding.kind());
        if mask.size()[2] == 1 {
            mask
        } else {
            mask.repeat([1, 1, heads / kv, 1])
        }
    }

    /// The masks of some blocks.
    fn masks(&self, blocks: &[AttentionBlocks]) -> Vec<Tensor> {
        blocks.iter().map(|block| self.mask(&block.mask)).collect()
    }

    /// Attention of the queries `q` `[1, n, heads, head]` of a trie, turned, over keys and values
    /// `[rows, 2 * kv_heads * head]`, block by block: `[1, n, heads * head]`. `masks` are theirs, and `order` says
    /// where a query's lies among what the blocks give.
    fn attend_blocks(&self, q: &Tensor, pairs: &Tensor, blocks: &[AttentionBlocks], masks: &[Tensor], order: &Tensor) -> Tensor {
        let (heads, kv, head) = self.heads();
        let q = q.reshape([-1, heads * head]);
        let attended: Vec<Tensor> = blocks
            .iter()
            .zip(masks)
            .map(|(AttentionBlocks { queries, keys, mask }, spread)| {
                let (count, columns) = (mask.size()[0], mask.size()[3]);
                let pairs = pairs.index_select(0, keys).view([count, columns, 2 * kv, head]).transpose(1, 2);
                let q = q.index_select(0, queries).view([count, -1, heads * head]);
                self.attend(&q, &pairs.narrow(1, 0, kv), &pairs.narrow(1, kv, kv), spread).view([-1, heads * head])
            })
            .collect();
        Tensor::cat(&attended, 0).index_select(0, order).unsqueeze(0)
    }
}

impl Network for Decoder {
    fn with(&self, weights: &Weights) -> Box<dyn Network> {
        Box::new(Decoder::with_rope(&self.config, self.rope.share(), weights))
    }

    fn read(&self, reading: &TrieTensors, past: &[Tensor]) -> (Tensor, Vec<Tensor>) {
        let TrieTensors { ids, at, output_nodes, output_places, all, last, all_order, last_order } = reading;
        let (heads, kv, head) = self.heads();
        let angles = self.rope.at(at);
        let mut keys_and_values = Vec::new();
        let (all_masks, last_masks) = (self.masks(all), self.masks(last));
        let mut x = Tensor::embedding(&self.embedding, ids, -1, false, false);
        for (i, block) in self.blocks.iter().enumerate() {
            let normed = self.normed(&x, &block.norm1);
            let within = i + 1 < self.blocks.len();
            let (blocks, masks, order) = if within { (all, &all_masks, all_order) } else { (last, &last_masks, last_order) };
            let (q, k, v) = if within && self.learns {
                let (k, v) = self.keys_values(block, &normed, &angles);
                (self.queries(block, &normed, &angles), k, v)
            } else if within {
                let (turned, v) = self.project(block, &normed, &angles);
                (turned.narrow(2, 0, heads), turned.narrow(2, heads, kv), v)
            } else {
                let (k, v) = self.keys_values(block, &normed, &angles);
                x = x.index_select(1, output_nodes);
                (self.queries(block, &normed.index_select(1, output_nodes), &self.rope.at(output_places)), k, v)
            };
            // Together, since they are gathered together, and going back added up row by row.
            let pairs = Tensor::cat(&[k, v], 2).view([-1, 2 * kv * head]);
            let whole = past.get(i).map_or_else(|| pairs.shallow_clone(), |past| Tensor::cat(&[past, &pairs], 0));
            x = self.finish(block, &x, &self.attend_blocks(&q, &whole, blocks, masks, order));
            keys_and_values.push(pairs);
        }
        (self.normed(&x, &self.norm).squeeze_dim(0), keys_and_values)
    }

    fn cache(&self, blocks: &[Tensor], rows: &Tensor, room: i64) -> Cache {
        let (_, kv, head) = self.heads();
        let (count, places) = (rows.size()[0], rows.size()[1]);
        let layer = |block: &Tensor| {
            let pairs = block.index_select(0, &rows.view([-1])).view([count, places, 2 * kv, head]).transpose(1, 2);
            let pairs = pairs.constant_pad_nd([0, 0, 0, room]);
            (pairs.narrow(1, 0, kv), pairs.narrow(1, kv, kv))
        };
        Cache { layers: blocks.iter().map(layer).collect() }
    }

    fn extend(&self, ids: &Tensor, at: &Tensor, cache: &mut Cache, slot: i64, mask: &Tensor) -> Tensor {
        let (heads, kv, head) = self.heads();
        let (rows, new) = (ids.size()[0], ids.size()[1]);
        let angles = self.rope.at(at);
        let filled = slot + new;
        let mask = self.mask(&mask.narrow(3, 0, filled));
        let mut x = Tensor::embedding(&self.embedding, ids, -1, false, false);
        for (block, (keys, values)) in self.blocks.iter().zip(&mut cache.layers) {
            let (turned, v) = self.project(block, &self.normed(&x, &block.norm1), &angles);
            keys.narrow(2, slot, new).copy_(&turned.narrow(2, heads, kv).transpose(1, 2));
            values.narrow(2, slot, new).copy_(&v.transpose(1, 2));
            let q = turned.narrow(2, 0, heads).reshape([rows, new, heads * head]);
            let y = self.attend(&q, &keys.narrow(2, 0, filled), &values.narrow(2, 0, filled), &mask);
            x = self.finish(block, &x, &y);
        }
        self.normed(&x, &self.norm)
    }

    fn outputs(&self, states: &Tensor) -> Tensor {
        linear(states, &self.output, None).to_kind(Kind::Float)
    }
}
