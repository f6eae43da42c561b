//! What ggml calls the tensors and sizes of each architecture, in the words of `transformers`.

use super::reader::Metadata;
use crate::policy::FileFault;
use serde_json::{json, Value};

/// What llama.cpp divides the rotary frequencies by; part of the configuration elsewhere.
pub const ROPE_FACTORS: &str = "rope_freqs.weight";

/// ggml's names of the tensors of a block, and ours.
const BLOCK: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// An architecture in llama.cpp.
pub struct GgufFamily {
    /// Its name there, which is also its `model_type`.
    name: &'static str,
    /// The heads of a matrix whose rows llama.cpp has permuted, by our name and the configuration.
    pub permuted: fn(&str, &Value) -> Option<i64>,
}

const FAMILIES: &[GgufFamily] = &[
    GgufFamily { name: "llama", permuted: queries_and_keys },
    GgufFamily { name: "qwen2", permuted: |_, _| None },
    GgufFamily { name: "qwen3", permuted: |_, _| None },
];

fn queries_and_keys(name: &str, config: &Value) -> Option<i64> {
    let part = name.strip_prefix("model.layers.")?.split_once('.')?.1;
    match part.rsplit_once('.')?.0 {
        "self_attn.q_proj" => config["num_attention_heads"].as_i64(),
        "self_attn.k_proj" => config["num_key_value_heads"].as_i64(),
        _ => None,
    }
}

impl GgufFamily {
    /// The architecture that a file says it holds.
    ///
    /// # Errors
    /// Names one that can't be computed here.
    pub fn from_metadata(metadata: &Metadata) -> Result<&'static GgufFamily, FileFault> {
        let name = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        let unknown = || FileFault::Unsupported(format!("the architecture `{name}`; {} are", known.join(", ")));
        FAMILIES.iter().find(|family| family.name == name).ok_or_else(unknown)
    }

    /// Our name of the tensor that ggml calls `name`.
    pub fn name(&self, name: &str) -> Option<String> {
        match name {
            "token_embd.weight" => return Some("model.embed_tokens.weight".into()),
            "output.weight" => return Some("lm_head.weight".into()),
            "output_norm.weight" => return Some("model.norm.weight".into()),
            _ => {}
        }
        let (block, rest) = name.strip_prefix("blk.")?.split_once('.')?;
        let (part, kind) = rest.rsplit_once('.')?;
        let own = BLOCK.iter().find(|(theirs, _)| *theirs == part)?.1;
        Some(format!("model.layers.{block}.{own}.{kind}"))
    }

    /// What `config.json` would say.
    ///
    /// # Errors
    /// Names a value that is missing.
    pub fn config(&self, metadata: &Metadata, vocab: Option<i64>, tied: bool, factors: Option<&[f32]>) -> Result<Value, FileFault> {
        let get = |name: &str| metadata.get(&format!("{}.{name}", self.name)).filter(|value| !value.is_null());
        let must = |name: &str| get(name).cloned().ok_or_else(|| FileFault::Unusable(format!("there is no `{}.{name}`", self.name)));
        let heads = must("attention.head_count")?;
        let mut config = json!({
            "model_type": self.name,
            "vocab_size": vocab,
            "hidden_size": must("embedding_length")?,
            "intermediate_size": must("feed_forward_length")?,
            "num_hidden_layers": must("block_count")?,
            "num_attention_heads": heads,
            "num_key_value_heads": get("attention.head_count_kv").cloned().unwrap_or(heads.clone()),
            "max_position_embeddings": must("context_length")?,
            "rms_norm_eps": must("attention.layer_norm_rms_epsilon")?,
            "hidden_act": "silu",
            "tie_word_embeddings": tied,
            "rope_theta": get("rope.freq_base").cloned().unwrap_or(json!(10_000.0)),
        });
        if let Some(head) = get("attention.key_length").or(get("rope.dimension_count")) {
            config["head_dim"] = head.clone();
        }
        for (name, key) in [("eos_token_id", "tokenizer.ggml.eos_token_id"), ("bos_token_id", "tokenizer.ggml.bos_token_id")] {
            if let Some(token) = metadata.get(key) {
                config[name] = token.clone();
            }
        }
        let kind = get("rope.scaling.type").and_then(Value::as_str).filter(|kind| *kind != "none");
        match (factors, kind) {
            (Some(_), Some(kind)) => return Err(FileFault::Unsupported(format!("rope scaling of type `{kind}` beside `{ROPE_FACTORS}`"))),
            (Some(factors), None) => config["rope_scaling"] = json!({ "rope_type": "factors", "factors": factors }),
            (None, Some(kind)) => config["rope_scaling"] = json!({ "rope_type": kind, "factor": get("rope.scaling.factor") }),
            (None, None) => {}
        }
        Ok(config)
    }
}
