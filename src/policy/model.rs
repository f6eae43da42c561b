//! The transformer: RMSNorm (Zhang and Sennrich 2019), rotary positions (Su et al. 2021), grouped-query attention (Ainslie et al. 2023),
//! SwiGLU (Shazeer 2020), in the arrangement of Llama and Qwen.
//!
//! Whole sequences come padded on the right, so causal attention needs no mask. Only some positions are asked for (the last of a
//! prompt, or those where a response token was chosen), so the last block works out keys and values everywhere and the rest there.

use super::rope::{turn, Rope};
use super::shape::Shape;
use crate::seed::Random;
use tch::{Device, Kind, Tensor};

const NORM_EPS: f64 = 1e-6;
/// Stands for minus infinity: its exponential is 0, and 0 times it is still a number.
pub const NEVER: f64 = -1e30;

struct Block {
    qkv: Tensor,
    out: Tensor,
    gate_up: Tensor,
    down: Tensor,
    norm1: Tensor,
    norm2: Tensor,
}

/// Views of a flat vector of parameters, with the tables of the rotary positions: all that a forward pass reads.
pub struct Net {
    pub shape: Shape,
    flat: Tensor,
    embed: Tensor,
    head: Tensor,
    blocks: Vec<Block>,
    norm: Tensor,
    rope: Rope,
}

/// Keys and values of one batch, a pair a block: `[rows, kv_heads, places, head]`. The first `prefix` places are the prompt's.
pub struct Cache {
    pub layers: Vec<(Tensor, Tensor)>,
    pub prefix: i64,
}

impl Cache {
    /// The rows at `index`, with room for `room` places after the prefix (0: the room it has).
    pub fn select(&self, index: &Tensor, room: i64) -> Cache {
        let grow = |x: &Tensor| {
            let x = x.index_select(0, index);
            if room == 0 {
                x
            } else {
                x.constant_pad_nd([0, 0, 0, room])
            }
        };
        Cache { layers: self.layers.iter().map(|(k, v)| (grow(k), grow(v))).collect(), prefix: self.prefix }
    }
}

/// Random parameters from a seed, the same whatever libtorch's own generator would give: Box and Muller (1958).
pub fn random(shape: &Shape, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let mut values = Vec::with_capacity(shape.parameters());
    for part in shape.parts() {
        for _ in 0..part.len() {
            values.push(part.deviation.map_or(1.0, |deviation| {
                let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
                (deviation * radius * (std::f64::consts::TAU * random.unit()).cos()) as f32
            }));
        }
    }
    values
}

impl Net {
    /// Views of `flat`. With `train` each is a leaf of its own that gradients can be taken of.
    pub fn new(shape: &Shape, flat: &Tensor, rope: &Rope, train: bool) -> Net {
        let mut at = 0;
        let mut take = |rows: i64, columns: i64| {
            let length = rows * columns.max(1);
            let view = flat.narrow(0, at, length);
            at += length;
            let view = if columns > 0 { view.view([rows, columns]) } else { view };
            let view = view.detach();
            if train {
                view.set_requires_grad(true)
            } else {
                view
            }
        };
        let (d, f, v) = (shape.width as i64, shape.hidden as i64, shape.vocab as i64);
        let heads = ((shape.heads + 2 * shape.kv_heads) * shape.head()) as i64;
        let embed = take(v, d);
        let head = match shape {
            Shape { value: true, .. } => take(1, d),
            Shape { tied: true, .. } => embed.shallow_clone(),
            _ => take(v, d),
        };
        let matrices: Vec<_> = (0..shape.layers).map(|_| (take(heads, d), take(d, d), take(2 * f, d), take(d, f))).collect();
        let blocks = matrices
            .into_iter()
            .map(|(qkv, out, gate_up, down)| Block { qkv, out, gate_up, down, norm1: take(d, 0), norm2: take(d, 0) })
            .collect();
        let norm = take(d, 0);
        Net { shape: shape.clone(), flat: flat.shallow_clone(), embed, head, blocks, norm, rope: rope.share() }
    }

    /// The same weights for another thread; its leaves are its own.
    pub fn share(&self, train: bool) -> Net {
        Net::new(&self.shape, &self.flat, &self.rope, train)
    }

    pub fn rope(&self) -> &Rope {
        &self.rope
    }

    pub fn device(&self) -> Device {
        self.flat.device()
    }

    /// The leaves in the order of the flat vector.
    pub fn leaves(&self) -> Vec<&Tensor> {
        let mut leaves = vec![&self.embed];
        if self.shape.value || !self.shape.tied {
            leaves.push(&self.head);
        }
        leaves.extend(self.blocks.iter().flat_map(|b| [&b.qkv, &b.out, &b.gate_up, &b.down]));
        leaves.extend(self.blocks.iter().flat_map(|b| [&b.norm1, &b.norm2]));
        leaves.push(&self.norm);
        leaves
    }

    fn normed(&self, x: &Tensor, gain: &Tensor) -> Tensor {
        x.rms_norm([self.shape.width as i64], Some(gain), NORM_EPS)
    }

    /// What attention and the feed-forward part add to the residual stream `x`, of whatever leading sizes.
    fn finish(&self, block: &Block, x: &Tensor, attended: &Tensor) -> Tensor {
        let x = x + attended.linear::<Tensor>(&block.out, None);
        let both = self.normed(&x, &block.norm2).linear::<Tensor>(&block.gate_up, None).chunk(2, -1);
        x + (both[0].silu() * &both[1]).linear::<Tensor>(&block.down, None)
    }

    /// Attention of `q` `[rows, queries, heads * head]`, turned to their places, over keys and values `[rows, kv_heads, places, head]`.
    /// The heads that share a key are queries of it, so no key is copied. `mask` is added: `[rows, 1, queries, places]`.
    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor) -> Tensor {
        let (rows, queries) = (q.size()[0], q.size()[1]);
        let (kv, group, head) = (self.shape.kv_heads as i64, (self.shape.heads / self.shape.kv_heads) as i64, self.shape.head() as i64);
        let q = q.view([rows, queries, kv, group, head]).permute([0, 2, 3, 1, 4]).reshape([rows, kv, group * queries, head]);
        let mask = if queries == 1 { mask.shallow_clone() } else { mask.repeat([1, 1, group, 1]) };
        let y = Tensor::scaled_dot_product_attention(&q, k, v, Some(&mask), 0.0, false, None, false);
        y.view([rows, kv, group, queries, head]).permute([0, 3, 1, 2, 4]).reshape([rows, queries, kv * group * head])
    }

    /// The final states at `at` `[rows, queries]` of the sequences `ids` `[rows, places]`: `[rows, queries, width]`;
    /// with the keys and values when `keep`.
    pub fn forward(&self, ids: &Tensor, at: &Tensor, keep: bool) -> (Tensor, Option<Cache>) {
        let (rows, places, queries) = (ids.size()[0], ids.size()[1], at.size()[1]);
        let (heads, kv, head) = (self.shape.heads as i64, self.shape.kv_heads as i64, self.shape.head() as i64);
        let d = self.shape.width as i64;
        let table = |x: &Tensor| x.narrow(0, 0, places).view([places, 1, head]);
        let (cos, sin) = (table(&self.rope.cos), table(&self.rope.sin));
        let mut layers = Vec::new();
        let mut x = Tensor::embedding(&self.embed, ids, -1, false, false);
        let last = self.blocks.len() - 1;
        for block in &self.blocks[..last] {
            let qkv = self.normed(&x, &block.norm1).linear::<Tensor>(&block.qkv, None).view([rows, places, heads + 2 * kv, head]);
            let turned = turn(&qkv.narrow(2, 0, heads + kv), &cos, &sin).transpose(1, 2);
            let (q, k) = (turned.narrow(1, 0, heads), turned.narrow(1, heads, kv));
            let v = qkv.narrow(2, heads + kv, kv).transpose(1, 2);
            let spread = |x: &Tensor| if heads == kv { x.shallow_clone() } else { x.repeat_interleave_self_int(heads / kv, 1, None) };
            let y = Tensor::scaled_dot_product_attention::<Tensor>(&q, &spread(&k), &spread(&v), None, 0.0, true, None, false);
            x = self.finish(block, &x, &y.transpose(1, 2).reshape([rows, places, d]));
            if keep {
                layers.push((k, v));
            }
        }
        let block = &self.blocks[last];
        let h = self.normed(&x, &block.norm1);
        let split = heads * head;
        let pair = h.linear::<Tensor>(&block.qkv.narrow(0, split, 2 * kv * head), None).view([rows, places, 2 * kv, head]);
        let k = turn(&pair.narrow(2, 0, kv), &cos, &sin).transpose(1, 2);
        let v = pair.narrow(2, kv, kv).transpose(1, 2);
        let flat = (at + Tensor::arange(rows, (Kind::Int64, ids.device())).view([rows, 1]) * places).view([rows * queries]);
        let pick = |x: &Tensor| x.reshape([rows * places, d]).index_select(0, &flat).view([rows, queries, d]);
        let q = self.queries(&pick(&h), block, at);
        let hidden = Tensor::arange(places, (Kind::Int64, ids.device())).gt_tensor(&at.unsqueeze(-1)).unsqueeze(1);
        let y = self.attend(&q, &k, &v, &(hidden.to_kind(Kind::Float) * NEVER));
        let x = self.finish(block, &pick(&x), &y);
        if keep {
            layers.push((k, v));
        }
        (self.normed(&x, &self.norm), keep.then_some(Cache { layers, prefix: places }))
    }

    /// The queries of the normed states `h` `[rows, queries, width]`, turned to the places `at`.
    fn queries(&self, h: &Tensor, block: &Block, at: &Tensor) -> Tensor {
        let (rows, queries) = (h.size()[0], h.size()[1]);
        let (heads, head) = (self.shape.heads as i64, self.shape.head() as i64);
        let table = |x: &Tensor| x.index_select(0, &at.reshape([rows * queries])).view([rows, queries, 1, head]);
        let q = h.linear::<Tensor>(&block.qkv.narrow(0, 0, heads * head), None).view([rows, queries, heads, head]);
        turn(&q, &table(&self.rope.cos), &table(&self.rope.sin)).view([rows, queries, heads * head])
    }

    /// One more token a row: `ids` `[rows, 1]` at the places `at` `[rows, 1]`, kept as the cache's place `prefix + step`.
    /// `mask` `[rows, 1, 1, places]` hides the padding of the prompts. The final states, `[rows, 1, width]`.
    pub fn step(&self, ids: &Tensor, at: &Tensor, cache: &mut Cache, step: i64, mask: &Tensor) -> Tensor {
        let rows = ids.size()[0];
        let (heads, kv, head) = (self.shape.heads as i64, self.shape.kv_heads as i64, self.shape.head() as i64);
        let table = |x: &Tensor| x.index_select(0, &at.view([rows])).view([rows, 1, 1, head]);
        let (cos, sin) = (table(&self.rope.cos), table(&self.rope.sin));
        let (place, seen) = (cache.prefix + step, cache.prefix + step + 1);
        let mask = mask.narrow(3, 0, seen);
        let mut x = Tensor::embedding(&self.embed, ids, -1, false, false);
        for (block, (keys, values)) in self.blocks.iter().zip(&mut cache.layers) {
            let qkv = self.normed(&x, &block.norm1).linear::<Tensor>(&block.qkv, None).view([rows, 1, heads + 2 * kv, head]);
            let turned = turn(&qkv.narrow(2, 0, heads + kv), &cos, &sin);
            keys.narrow(2, place, 1).copy_(&turned.narrow(2, heads, kv).transpose(1, 2));
            values.narrow(2, place, 1).copy_(&qkv.narrow(2, heads + kv, kv).transpose(1, 2));
            let q = turned.narrow(2, 0, heads).reshape([rows, 1, heads * head]);
            let y = self.attend(&q, &keys.narrow(2, 0, seen), &values.narrow(2, 0, seen), &mask);
            x = self.finish(block, &x, &y);
        }
        self.normed(&x, &self.norm)
    }

    /// The logits of final states `[n, width]`, or with a value head their values `[n, 1]`.
    pub fn logits(&self, states: &Tensor) -> Tensor {
        states.linear::<Tensor>(&self.head, None)
    }
}
