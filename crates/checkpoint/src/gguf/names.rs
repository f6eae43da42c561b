//! What ggml calls the tensors and sizes of each architecture, in the words of `transformers`.

use crate::gguf::reader::Metadata;
use flow_model::harmless::{any, check, empty, off, one, Rule};
use flow_model::FileFault;
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

/// The keys of an architecture that [`GgufFamily::config`] reads.
const READ: &str = "embedding_length feed_forward_length block_count attention.head_count attention.head_count_kv \
    attention.key_length attention.value_length attention.layer_norm_rms_epsilon context_length rope.freq_base \
    rope.dimension_count rope.scaling.type rope.scaling.factor rope.scale_linear";

/// The values of its other keys that don't change what is computed.
const RULES: &[Rule] = &[
    ("vocab_size tensor_data_layout", any),
    // How the states of an embedded text are pooled.
    ("pooling_type", any),
    // Those of YaRN alone read it.
    ("rope.scaling.original_context_length rope.scaling.finetuned", any),
    ("rope.scaling.attn_factor", one),
    ("attention.causal", |causal| *causal == true),
    (
        "attention.sliding_window attention.scale attention.clamp_kqv expert_count expert_used_count \
      use_parallel_residual",
        off,
    ),
    ("logit_scale", |scale| off(scale) || one(scale)),
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
    /// Names a value that is missing, or that may change what is computed.
    pub fn config(&self, metadata: &Metadata, vocab: Option<i64>, tied: bool, factors: Option<&[f32]>) -> Result<Value, FileFault> {
        let own = metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix(self.name)?.strip_prefix('.')?, value)));
        check(own, READ, RULES, empty)?;
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
        let lengths = ["attention.key_length", "attention.value_length", "rope.dimension_count"];
        let mut heads = lengths.iter().filter_map(|name| Some((name, get(name)?)));
        if let Some((first, head)) = heads.next() {
            if let Some((other, length)) = heads.find(|(_, length)| *length != head) {
                let what = format!("`{}.{other}` of {length} beside `{first}` of {head}: heads of one width, turned whole, are", self.name);
                return Err(FileFault::Unsupported(what));
            }
            config["head_dim"] = head.clone();
        }
        for (name, key) in [("eos_token_id", "tokenizer.ggml.eos_token_id"), ("bos_token_id", "tokenizer.ggml.bos_token_id")] {
            if let Some(token) = metadata.get(key) {
                config[name] = token.clone();
            }
        }
        // The second is the first one's old name. A factor without a type is linear, and 0 and 1 scale nothing.
        let factor = get("rope.scaling.factor").or(get("rope.scale_linear")).filter(|factor| !off(factor) && !one(factor));
        let kind = get("rope.scaling.type").map_or("linear", |kind| kind.as_str().unwrap_or_default());
        let kind = Some(kind).filter(|kind| *kind != "none" && (*kind != "linear" || factor.is_some()));
        match (factors, kind) {
            (Some(_), Some(kind)) => return Err(FileFault::Unsupported(format!("rope scaling of type `{kind}` beside `{ROPE_FACTORS}`"))),
            (Some(factors), None) => config["rope_scaling"] = json!({ "rope_type": "factors", "factors": factors }),
            (None, Some(kind)) => config["rope_scaling"] = json!({ "rope_type": kind, "factor": factor }),
            (None, None) => {}
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(changes: &[(&str, Value)]) -> Result<Value, String> {
        let mut metadata = Metadata::from_iter([("general.architecture".to_string(), json!("llama"))]);
        let sizes = [("embedding_length", 32), ("feed_forward_length", 48), ("block_count", 2), ("attention.head_count", 4)];
        let all = sizes.map(|(key, size)| (key, json!(size)));
        let others = [("context_length", json!(256)), ("attention.layer_norm_rms_epsilon", json!(1e-5)), ("vocab_size", json!(318))];
        metadata.extend(all.iter().chain(&others).chain(changes).map(|(key, value)| (format!("llama.{key}"), value.clone())));
        let family = GgufFamily::from_metadata(&metadata).unwrap();
        family.config(&metadata, Some(318), true, None).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_factor_scales_under_either_name_with_and_without_a_type() {
        let linear = json!({ "rope_type": "linear", "factor": 4.0 });
        for keys in [
            vec![("rope.scale_linear", json!(4.0))],
            vec![("rope.scaling.factor", json!(4.0))],
            vec![("rope.scaling.factor", json!(4.0)), ("rope.scaling.type", json!("linear"))],
            // llama.cpp reads the new name first.
            vec![("rope.scaling.factor", json!(4.0)), ("rope.scale_linear", json!(2.0))],
        ] {
            assert_eq!(config(&keys).unwrap()["rope_scaling"], linear, "{keys:?}");
        }
        for keys in [
            vec![],
            vec![("rope.scale_linear", json!(1.0))],
            vec![("rope.scaling.factor", json!(0.0))],
            vec![("rope.scaling.type", json!("none")), ("rope.scaling.factor", json!(4.0))],
            vec![("rope.scaling.type", json!("linear")), ("rope.scaling.factor", json!(1.0))],
        ] {
            assert_eq!(config(&keys).unwrap()["rope_scaling"], Value::Null, "{keys:?}");
        }
        assert_eq!(config(&[("rope.scaling.type", json!("yarn"))]).unwrap()["rope_scaling"]["rope_type"], "yarn");
    }

    #[test]
    fn keys_that_may_change_what_is_computed_are_refused() {
        for (key, value) in [
            ("attention.sliding_window", json!(128)),
            ("attention.causal", json!(false)),
            ("attention.scale", json!(0.5)),
            ("logit_scale", json!(8.0)),
            ("expert_count", json!(8)),
            ("rope.scaling.attn_factor", json!(2.0)),
            ("a.key.of.next.year", json!(false)),
        ] {
            let error = config(&[(key, value.clone())]).unwrap_err();
            assert!(error.contains(&format!("`{key}: {value}`")), "{error}");
        }
        let turned = config(&[("attention.key_length", json!(16)), ("rope.dimension_count", json!(8))]).unwrap_err();
        assert!(turned.contains("`llama.rope.dimension_count` of 8"), "{turned}");
        let harmless = [("attention.sliding_window", json!(0)), ("attention.causal", json!(true)), ("pooling_type", json!(3))];
        let same = [("attention.key_length", json!(8)), ("attention.value_length", json!(8)), ("rope.dimension_count", json!(8))];
        assert_eq!(config(&[harmless.as_slice(), &same].concat()).unwrap()["head_dim"], 8);
    }
}
