//! Keys and values of read tokens, so that reading on costs the new tokens alone.

use tch::Tensor;

/// Keys and values of a batch, a pair a block: `[rows, kv_heads, slots, head]`. The prompts fill the first slots,
/// padding with them.
pub struct Cache {
    /// A pair a block, the first block first.
    pub layers: Vec<(Tensor, Tensor)>,
}

impl Cache {
    /// The rows at `index` `[n]`.
    pub fn select(&self, index: &Tensor) -> Cache {
        Cache { layers: self.layers.iter().map(|(k, v)| (k.index_select(0, index), v.index_select(0, index))).collect() }
    }
}
