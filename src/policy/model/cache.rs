//! Keys and values of what was read, so that reading on costs the new tokens alone.

use tch::Tensor;

/// Keys and values of a batch, a pair a block: `[rows, kv_heads, slots, head]`. The first `prefix` slots are those of the prompts.
pub struct Cache {
    /// A pair a block, the first block first.
    pub layers: Vec<(Tensor, Tensor)>,
    /// Slots that the prompts filled, padding with them.
    pub prefix: i64,
}

impl Cache {
    /// The rows at `index` `[n]`, with `room` empty slots more than there are.
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
