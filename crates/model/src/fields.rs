//! The fields of a `config.json` that decoders of the Llama family share.

use super::config::{Biases, DecoderConfig, OutputHead};
use super::harmless::{any, check, empty, off, one, Rule};
use super::rope::{RopeConfig, Scaling};
use crate::FileFault;
use serde::Deserialize;
use serde_json::Value;

/// What is read of a decoder's `config.json`. Every other field has a rule in [`RULES`].
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

/// The fields above.
const READ: &str = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim \
    max_position_embeddings rms_norm_eps hidden_act rope_theta rope_scaling rope_parameters partial_rotary_factor \
    tie_word_embeddings attention_bias mlp_bias use_sliding_window sliding_window max_window_layers layer_types \
    value_head model_type";

/// The values of other fields that don't change what a decoder computes.
const RULES: &[Rule] = &[
    // What the file is, and how it came about.
    (
        "architectures transformers_version torch_dtype dtype initializer_range \
      original_max_position_embeddings max_sequence_length seq_length model_max_length tokenizer_class \
      id2label label2id num_labels problem_type finetuning_task task_specific_params is_llama_config \
      unsloth_version unsloth_fixed transformers.js_config trust_remote_code",
        any,
    ),
    // How `transformers` computes: in parts, with a cache, by a kernel, what it returns.
    (
        "use_cache pretraining_tp chunk_size_feed_forward gradient_checkpointing torchscript \
      attn_implementation use_flash_attention use_flash_attn use_bfloat16 tf_legacy_loss return_dict \
      output_attentions output_hidden_states output_past output_scores return_dict_in_generate",
        any,
    ),
    // Dropout of pretraining: neither generation nor an update has any.
    ("attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop classifier_dropout", any),
    // Tokens and defaults of generation: the tokenizer's files and the agent say them.
    (
        "bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id mask_token_id \
      decoder_start_token_id forced_bos_token_id forced_eos_token_id prefix max_length min_length \
      max_new_tokens do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature \
      top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size \
      encoder_no_repeat_ngram_size bad_words_ids num_return_sequences remove_invalid_values \
      exponential_decay_length_penalty suppress_tokens begin_suppress_tokens",
        any,
    ),
    // What only another model has. Both kinds of decoder read from left to right.
    ("is_decoder", any),
    ("is_causal", |causal| causal.is_null() || *causal == true),
    (
        "is_encoder_decoder tie_encoder_decoder add_cross_attention cross_attention_hidden_size use_mrope \
      rope_interleaved num_experts num_local_experts num_nextn_predict_layers",
        off,
    ),
    ("rotary_pct", one),
    ("use_qk_norm scale_embeddings", off),
];

/// The values of fields of the rotary positions that change nothing; the others are in [`RopeFields`].
const ROPE_RULES: &[Rule] = &[("attention_factor", one), ("finetuned", any)];
const ROPE_READ: &str = "rope_theta rope_type type factor low_freq_factor high_freq_factor original_max_position_embeddings \
    partial_rotary_factor factors";

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

impl RopeFields {
    /// How the frequencies are scaled.
    fn kind(&self) -> &str {
        self.rope_type.as_deref().or(self.old_type.as_deref()).unwrap_or("default")
    }
}

impl Fields {
    /// Reads them. `defaults` has the values that `transformers` takes for fields that the file doesn't name.
    ///
    /// # Errors
    /// Names a field that is missing or of another type, or that may change what is computed.
    pub fn read(config: &Value, defaults: Value) -> Result<Fields, FileFault> {
        // A field that begins with `_` is a note of `transformers` to itself.
        let fields = config.as_object().into_iter().flatten().filter(|(name, _)| !name.starts_with('_'));
        check(fields.map(|(name, value)| (name.as_str(), value)), READ, RULES, empty)?;
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
        let fields = parameters.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value));
        // Another kind is refused below.
        if ["default", "linear", "llama3", "factors"].contains(&rope.kind()) {
            check(fields, ROPE_READ, ROPE_RULES, empty)?;
        }
        whole(rope.partial_rotary_factor)?;
        let base = rope.rope_theta.or(self.rope_theta).unwrap_or(10_000.0);
        let number = |name: &str, number: Option<f64>| {
            let number = number.filter(|n| n.is_finite() && *n > 0.0);
            number.ok_or_else(|| FileFault::Unusable(format!("{key} needs `{name}`, a number above 0")))
        };
        let scaling = match rope.kind() {
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
            "factors" => Scaling::Factors(rope.factors.clone().unwrap_or_default()),
            other => return Err(FileFault::Unsupported(format!("{key} of type `{other}`; `linear` and `llama3` are"))),
        };
        Ok(RopeConfig { base, scaling })
    }
}
