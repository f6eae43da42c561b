//! The fields of a `config.json` that decoders of the Llama family share.

use super::config::{Biases, DecoderConfig, OutputHead};
use super::rope::{RopeConfig, Scaling};
use crate::policy::FileFault;
use serde::Deserialize;
use serde_json::Value;

/// What `transformers` writes about a decoder. What isn't named here doesn't change what is computed.
#[derive(Deserialize)]
pub struct Fields {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: Option<usize>,
    pub head_dim: Option<usize>,
    pub max_position_embeddings: usize,
    #[serde(default = "eps")]
    pub rms_norm_eps: f64,
    #[serde(default = "silu")]
    pub hidden_act: String,
    pub rope_theta: Option<f64>,
    pub rope_scaling: Option<Value>,
    /// Where newer versions write the two fields above.
    pub rope_parameters: Option<Value>,
    #[serde(default)]
    pub tie_word_embeddings: bool,
    #[serde(default)]
    pub attention_bias: bool,
    #[serde(default)]
    pub mlp_bias: bool,
    #[serde(default)]
    pub use_sliding_window: bool,
    /// The kind of attention of each block, in newer files.
    #[serde(default)]
    pub layer_types: Vec<String>,
    /// Ours: a value head in place of the output layer.
    #[serde(default)]
    pub value_head: bool,
}

fn eps() -> f64 {
    1e-6
}

fn silu() -> String {
    "silu".into()
}

/// The parameters of the rotary positions, under either name.
#[derive(Deserialize)]
struct RopeFields {
    rope_theta: Option<f64>,
    /// `type` in old files.
    #[serde(alias = "type")]
    rope_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    /// Ours, of a GGUF file: what each frequency is divided by.
    factors: Option<Vec<f64>>,
}

impl Fields {
    /// Reads them.
    ///
    /// # Errors
    /// Names a field that is missing or of another type.
    pub fn read(config: &Value) -> Result<Fields, FileFault> {
        Fields::deserialize(config).map_err(|e| FileFault::Unusable(format!("not a configuration that can be read: {e}")))
    }

    /// The decoder that they describe, with those biases and, where `head_norms`, a norm of each head's queries and keys.
    ///
    /// # Errors
    /// Names what can't be computed here: an activation, a kind of rope scaling, a sliding window, sizes that don't fit.
    pub fn decoder(&self, biases: Biases, head_norms: bool) -> Result<DecoderConfig, FileFault> {
        let unsupported = |what: String| Err(FileFault::Unsupported(what));
        if self.hidden_act != "silu" {
            return unsupported(format!("the activation `{}`; `silu` is", self.hidden_act));
        }
        if self.use_sliding_window || self.layer_types.iter().any(|kind| kind != "full_attention") {
            return unsupported("attention with a sliding window".into());
        }
        let kv_heads = self.num_key_value_heads.unwrap_or(self.num_attention_heads);
        let config = DecoderConfig {
            vocab: self.vocab_size,
            layers: self.num_hidden_layers,
            width: self.hidden_size,
            heads: self.num_attention_heads,
            kv_heads,
            head: self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads.max(1)),
            hidden: self.intermediate_size,
            context: self.max_position_embeddings,
            norm_eps: self.rms_norm_eps,
            rope: self.rope()?,
            biases,
            head_norms,
            output: match (self.value_head, self.tie_word_embeddings) {
                (true, _) => OutputHead::Value,
                (false, true) => OutputHead::Tied,
                (false, false) => OutputHead::Own,
            },
        };
        Ok(config.checked()?)
    }

    fn rope(&self) -> Result<RopeConfig, FileFault> {
        let parameters = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref()).filter(|parameters| !parameters.is_null());
        let Some(parameters) = parameters else {
            return Ok(RopeConfig { base: self.rope_theta.unwrap_or(10_000.0), scaling: Scaling::None });
        };
        let rope = RopeFields::deserialize(parameters).map_err(|e| FileFault::Unusable(format!("rope_scaling can't be read: {e}")))?;
        let base = rope.rope_theta.or(self.rope_theta).unwrap_or(10_000.0);
        let number = |name: &str, number: Option<f64>| {
            let number = number.filter(|n| n.is_finite() && *n > 0.0);
            number.ok_or_else(|| FileFault::Unusable(format!("rope_scaling needs `{name}`, a number above 0")))
        };
        let scaling = match rope.rope_type.as_deref().unwrap_or("default") {
            "default" => Scaling::None,
            "linear" => Scaling::Linear { factor: number("factor", rope.factor)? },
            "llama3" => Scaling::Llama3 {
                factor: number("factor", rope.factor)?,
                low: number("low_freq_factor", rope.low_freq_factor)?,
                high: number("high_freq_factor", rope.high_freq_factor)?,
                original: number("original_max_position_embeddings", rope.original_max_position_embeddings)?,
            },
            "factors" => Scaling::Factors(rope.factors.unwrap_or_default()),
            other => return Err(FileFault::Unsupported(format!("rope scaling of type `{other}`; `linear` and `llama3` are"))),
        };
        Ok(RopeConfig { base, scaling })
    }
}
