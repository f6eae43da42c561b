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
    pub partial_rotary_factor: Option<f64>,
    #[serde(default)]
    pub tie_word_embeddings: bool,
    #[serde(default)]
    pub attention_bias: bool,
    #[serde(default)]
    pub mlp_bias: bool,
    #[serde(default)]
    pub use_sliding_window: bool,
    pub sliding_window: Option<u64>,
    /// The first block with a sliding window, where `layer_types` doesn't say.
    #[serde(default)]
    pub max_window_layers: usize,
    /// The kind of attention of each block, in newer files.
    pub layer_types: Option<Vec<String>>,
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
    rope_type: Option<String>,
    /// What old files call `rope_type`. Many have both.
    #[serde(rename = "type")]
    old_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
    /// Ours, of a GGUF file: what each frequency is divided by.
    factors: Option<Vec<f64>>,
}

impl Fields {
    /// Reads them. `defaults` has the values that `transformers` takes for fields that the file doesn't name.
    ///
    /// # Errors
    /// Names a field that is missing or of another type.
    pub fn read(config: &Value, defaults: Value) -> Result<Fields, FileFault> {
        let mut fields = defaults;
        if let (Some(fields), Some(given)) = (fields.as_object_mut(), config.as_object()) {
            fields.extend(given.clone());
        }
        Fields::deserialize(&fields).map_err(|e| FileFault::Unusable(format!("not a configuration that can be read: {e}")))
    }

    /// The decoder that they describe, with those biases and, where `head_norms`, a norm of each head's queries and
    /// keys.
    ///
    /// # Errors
    /// Names what can't be computed here: an activation, a kind of rope scaling, a sliding window, sizes that don't
    /// fit.
    pub fn decoder(&self, biases: Biases, head_norms: bool) -> Result<DecoderConfig, FileFault> {
        let unsupported = |what: String| Err(FileFault::Unsupported(what));
        // Two names of one function.
        if !["silu", "swish"].contains(&self.hidden_act.as_str()) {
            return unsupported(format!("the activation `{}`; `silu` is", self.hidden_act));
        }
        if self.slides() {
            return unsupported("attention with a sliding window".into());
        }
        let kv_heads = self.num_key_value_heads.unwrap_or(self.num_attention_heads);
        let config = DecoderConfig {
            vocab: self.vocab_size,
            tokens: self.vocab_size,
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

    /// Whether a block attends to a sliding window.
    fn slides(&self) -> bool {
        match &self.layer_types {
            Some(kinds) => kinds.iter().any(|kind| kind != "full_attention"),
            None => self.use_sliding_window && self.sliding_window.is_some() && self.max_window_layers < self.num_hidden_layers,
        }
    }

    /// The rotary positions. `transformers` takes `rope_scaling` where it is given, and nothing of `rope_parameters`
    /// then: people write the former into files that have the latter.
    fn rope(&self) -> Result<RopeConfig, FileFault> {
        let given = |parameters: &&Value| !parameters.is_null() && parameters.as_object().is_none_or(|fields| !fields.is_empty());
        let scaling = self.rope_scaling.as_ref().filter(given).map(|parameters| ("rope_scaling", parameters));
        let named = scaling.or(self.rope_parameters.as_ref().filter(given).map(|parameters| ("rope_parameters", parameters)));
        let whole = |share: Option<f64>| match share {
            Some(share) if share != 1.0 => Err(FileFault::Unsupported(format!("a partial_rotary_factor of {share}; 1 is"))),
            _ => Ok(()),
        };
        whole(self.partial_rotary_factor)?;
        let Some((key, parameters)) = named else {
            return Ok(RopeConfig { base: self.rope_theta.unwrap_or(10_000.0), scaling: Scaling::None });
        };
        if parameters.as_object().is_some_and(|fields| fields.values().any(Value::is_object)) {
            return Err(FileFault::Unsupported(format!("{key} with parameters for each kind of attention")));
        }
        let rope = RopeFields::deserialize(parameters).map_err(|e| FileFault::Unusable(format!("{key} can't be read: {e}")))?;
        whole(rope.partial_rotary_factor)?;
        let base = rope.rope_theta.or(self.rope_theta).unwrap_or(10_000.0);
        let number = |name: &str, number: Option<f64>| {
            let number = number.filter(|n| n.is_finite() && *n > 0.0);
            number.ok_or_else(|| FileFault::Unusable(format!("{key} needs `{name}`, a number above 0")))
        };
        let scaling = match rope.rope_type.or(rope.old_type).as_deref().unwrap_or("default") {
            "default" => Scaling::None,
            "linear" => Scaling::Linear { factor: number("factor", rope.factor)? },
            "llama3" => Scaling::Llama3 {
                factor: number("factor", rope.factor)?,
                low: number("low_freq_factor", rope.low_freq_factor)?,
                high: number("high_freq_factor", rope.high_freq_factor)?,
                original: number(
                    "original_max_position_embeddings",
                    rope.original_max_position_embeddings.or(Some(self.max_position_embeddings as f64)),
                )?,
            },
            "factors" => Scaling::Factors(rope.factors.unwrap_or_default()),
            other => return Err(FileFault::Unsupported(format!("{key} of type `{other}`; `linear` and `llama3` are"))),
        };
        Ok(RopeConfig { base, scaling })
    }
}
