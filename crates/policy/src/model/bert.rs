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
use flow_core::defaults::number;
use flow_model::parameters::{Initializer, Layout};
use flow_model::NEVER;
use flow_model::{FileFault, ModelFault};
use serde::Deserialize;
use serde_json::Value;
use tch::{Kind, Tensor};

/// What `config.json` says of it. What isn't named here doesn't change what is computed.
#[derive(Clone, Debug, Deserialize)]
pub struct BertConfig {
    /// Tokens.
    pub vocab_size: usize,
    /// Numbers of a state.
    pub hidden_size: usize,
    /// Blocks.
    pub num_hidden_layers: usize,
    /// Heads of the attention.
    pub num_attention_heads: usize,
    /// Numbers inside the feed-forward part.
    pub intermediate_size: usize,
    /// The most tokens of a text.
    pub max_position_embeddings: usize,
    #[serde(default = "number::<usize, 2>")]
    type_vocab_size: usize,
    #[serde(default = "eps")]
    layer_norm_eps: f64,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn eps() -> f64 {
    1e-12
}
fn gelu() -> String {
    "gelu".into()
}
fn absolute() -> String {
    "absolute".into()
}

impl BertConfig {
    /// Reads it.
    ///
    /// # Errors
    /// Names a field that is missing, sizes that don't fit one another, or what can't be computed here.
    pub fn read(json: &Value) -> Result<BertConfig, FileFault> {
        let name = json["model_type"].as_str().unwrap_or_default();
        if name != "bert" {
            return Err(FileFault::Unsupported(format!("an encoder of the architecture `{name}`; `bert` is")));
        }
        let config =
            BertConfig::deserialize(json).map_err(|e| FileFault::Unusable(format!("not a configuration that can be read: {e}")))?;
        let BertConfig { vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, .. } = config;
        let sizes = [vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, config.max_position_embeddings];
        if sizes.contains(&0) || config.type_vocab_size == 0 {
            return Err(ModelFault::ZeroSize.into());
        }
        if num_hidden_layers > 1000 || sizes.iter().any(|size| *size > 1 << 24) {
            return Err(ModelFault::TooLarge.into());
        }
        if !hidden_size.is_multiple_of(num_attention_heads) {
            return Err(FileFault::Unusable(format!("{hidden_size} numbers of a state are no multiple of {num_attention_heads} heads")));
        }
        if config.hidden_act != "gelu" || config.position_embedding_type != "absolute" {
            let what =
                format!("the activation `{}` and {} places; `gelu` and `absolute` are", config.hidden_act, config.position_embedding_type);
            return Err(FileFault::Unsupported(what));
        }
        Ok(config)
    }

    /// The parameters, under their names on Hugging Face.
    pub fn layout(&self) -> Layout {
        let [v, d, f] = [self.vocab_size, self.hidden_size, self.intermediate_size].map(|size| size as i64);
        let mut layout = Layout::default();
        // Encoders are always loaded, so their initialisation doesn't matter.
        let any = Initializer::Zeros;
        for (name, rows) in [("word", v), ("position", self.max_position_embeddings as i64), ("token_type", self.type_vocab_size as i64)] {
            layout.add(format!("embeddings.{name}_embeddings.weight"), &[rows, d], any);
        }
        let pair = |layout: &mut Layout, name: &str, size: &[i64]| {
            layout.add(format!("{name}.weight"), size, any);
            layout.add(format!("{name}.bias"), &size[..1], any);
        };
        pair(&mut layout, "embeddings.LayerNorm", &[d]);
        for i in 0..self.num_hidden_layers {
            let name = |tail: &str| format!("encoder.layer.{i}.{tail}");
            let parts = |kind: &str| ["query", "key", "value"].map(|part| (name(&format!("attention.self.{part}.{kind}")), d));
            layout.stacked(name("attention.self.weight"), &parts("weight"), Some(d), any);
            layout.stacked(name("attention.self.bias"), &parts("bias"), None, any);
            pair(&mut layout, &name("attention.output.dense"), &[d, d]);
            pair(&mut layout, &name("attention.output.LayerNorm"), &[d]);
            pair(&mut layout, &name("intermediate.dense"), &[f, d]);
            pair(&mut layout, &name("output.dense"), &[d, f]);
            pair(&mut layout, &name("output.LayerNorm"), &[d]);
        }
        layout
    }
}

/// Whether a tensor isn't used for the states: position indices, and the pooler that only classifiers use.
pub fn unread(name: &str) -> bool {
    name == "embeddings.position_ids" || name.starts_with("pooler.")
}

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
