//! The encoder of BERT (Devlin et al. 2019), each block normed after it adds to the stream:
//!
//! ```text
//! x = norm(word(tokens) + place(0, 1, ..) + kind(0))
//! for each block:
//!     x = norm(x + Wo attention(Wq x, Wk x, Wv x))
//!     x = norm(x + Wdown gelu(Wup x))
//! ```
//!
//! All matrices have biases; every token sees every other one but the padding.

use crate::model::weights::Weights;
use flow_checkpoint::encoder::BertConfig;
use flow_model::NEVER;
use tch::{Kind, Tensor};

/// An encoder with its weights.
pub struct Bert<'a> {
    /// What it is.
    pub config: &'a BertConfig,
    /// Its weights, which have its layout.
    pub weights: &'a Weights,
}

impl Bert<'_> {
    fn linear(&self, x: &Tensor, name: &str) -> Tensor {
        x.linear(&self.weights.get(&format!("{name}.weight")), Some(&self.weights.get(&format!("{name}.bias"))))
    }

    fn normed(&self, x: &Tensor, name: &str) -> Tensor {
        let gain = self.weights.get(&format!("{name}.weight"));
        let bias = self.weights.get(&format!("{name}.bias"));
        x.layer_norm([self.config.hidden_size as i64], Some(&gain), Some(&bias), self.config.layer_norm_eps, false)
    }

    /// The final states `[rows, places, width]` of the tokens `ids` `[rows, places]`; `mask` is 1 at tokens and 0 at
    /// padding.
    pub fn states(&self, ids: &Tensor, mask: &Tensor) -> Tensor {
        let (rows, places) = (ids.size()[0], ids.size()[1]);
        let table = |name: &str| self.weights.get(&format!("embeddings.{name}_embeddings.weight"));
        let x = Tensor::embedding(&table("word"), ids, -1, false, false);
        let x = x + table("position").narrow(0, 0, places) + table("token_type").select(0, 0);
        let mut x = self.normed(&x, "embeddings.LayerNorm");
        let hidden = ((mask.to_kind(Kind::Float) - 1.0) * -NEVER).view([rows, 1, 1, places]);
        let heads = self.config.num_attention_heads as i64;
        let d = self.config.hidden_size as i64;
        for i in 0..self.config.num_hidden_layers {
            let name = |tail: &str| format!("encoder.layer.{i}.{tail}");
            let qkv = self.linear(&x, &name("attention.self")).view([rows, places, 3, heads, d / heads]).permute([2, 0, 3, 1, 4]);
            let [q, k, v] = [0, 1, 2].map(|part| qkv.select(0, part));
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, Some(&hidden), 0.0, false, None, false);
            let y = self.linear(&y.transpose(1, 2).reshape([rows, places, d]), &name("attention.output.dense"));
            x = self.normed(&(x + y), &name("attention.output.LayerNorm"));
            let y = self.linear(&self.linear(&x, &name("intermediate.dense")).gelu("none"), &name("output.dense"));
            x = self.normed(&(x + y), &name("output.LayerNorm"));
        }
        x
    }
}
