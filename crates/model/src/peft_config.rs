//! What PEFT's `adapter_config.json` says of an adapter.

use super::harmless::{any, check, empty, off, Rule};
use super::lora::{Adapter, HEAD_MODULE};
use crate::FileFault;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is read of it. Every other field has a rule in `RULES`.
#[derive(Serialize, Deserialize)]
pub struct PeftConfig {
    peft_type: String,
    task_type: Option<String>,
    pub base_model_name_or_path: Option<String>,
    pub r: usize,
    pub lora_alpha: f64,
    #[serde(default)]
    pub lora_dropout: f64,
    /// Names, or one text that is a regular expression.
    pub target_modules: Value,
    #[serde(default = "none")]
    bias: String,
    #[serde(default)]
    pub use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    #[serde(default)]
    lora_bias: bool,
    #[serde(default)]
    fan_in_fan_out: bool,
    modules_to_save: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    exclude_modules: Value,
    #[serde(default)]
    layers_to_transform: Value,
    #[serde(default)]
    rank_pattern: serde_json::Map<String, Value>,
    #[serde(default)]
    alpha_pattern: serde_json::Map<String, Value>,
    #[serde(default)]
    inference_mode: bool,
}

fn none() -> String {
    "none".into()
}

/// Fields whose values are used as they are.
const READ: &str = "base_model_name_or_path r lora_alpha lora_dropout target_modules use_rslora";

/// The values of the other fields that mean plain LoRA. PEFT adds fields with each version: an unknown field that is
/// off changes nothing.
const RULES: &[Rule] = &[
    ("task_type inference_mode auto_mapping peft_version revision flow_tinker", any),
    // Which modules have an adapter follows from the tensors.
    ("exclude_modules layers_to_transform layers_pattern", any),
    // Settings of kinds that have a switch of their own.
    ("megatron_core qalora_group_size eva_config", any),
    ("bias", |bias| empty(bias) || bias == "none"),
    ("modules_to_save", |saved| empty(saved) || saved.as_array().is_some_and(|saved| saved.iter().all(|module| module == HEAD_MODULE))),
    // The others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) change the base when an adapter is loaded.
    ("init_lora_weights", |start| {
        start.is_null() || start.is_boolean() || start.as_str().is_some_and(|start| ["gaussian", "eva", "orthogonal"].contains(&start))
    }),
];

impl PeftConfig {
    /// Reads it.
    ///
    /// # Errors
    /// Names what is missing, or what can't be computed here.
    pub fn parse(config: &Value) -> Result<PeftConfig, FileFault> {
        if let Some(kind) = config["peft_type"].as_str().filter(|kind| *kind != "LORA") {
            return Err(FileFault::Unsupported(format!("an adapter of type `{kind}`; `LORA` is")));
        }
        let fields = config.as_object().into_iter().flatten().filter(|(name, _)| *name != "peft_type");
        check(fields.map(|(name, value)| (name.as_str(), value)), READ, RULES, off)?;
        PeftConfig::deserialize(config).map_err(|e| FileFault::Unusable(format!("not the description of an adapter: {e}")))
    }

    /// Whether every module that `target_modules` names has an adapter.
    pub fn takes_all(&self) -> bool {
        self.layers_to_transform.is_null() && empty(&self.exclude_modules)
    }

    /// That of `adapter`, whose model lies in `base`.
    pub fn of(adapter: &Adapter, base: String) -> PeftConfig {
        let lora = &adapter.lora;
        PeftConfig {
            peft_type: "LORA".into(),
            task_type: Some("CAUSAL_LM".into()),
            base_model_name_or_path: Some(base),
            r: lora.rank,
            lora_alpha: lora.alpha,
            lora_dropout: lora.dropout,
            target_modules: lora.targets.clone().into(),
            bias: none(),
            use_rslora: lora.stabilised,
            use_dora: false,
            lora_bias: false,
            fan_in_fan_out: false,
            modules_to_save: adapter.head.then(|| vec![HEAD_MODULE.into()]),
            exclude_modules: Value::Null,
            layers_to_transform: Value::Null,
            rank_pattern: Default::default(),
            alpha_pattern: Default::default(),
            inference_mode: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(changes: Value) -> Result<(), String> {
        let mut config = json!({ "peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"] });
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        PeftConfig::parse(&config).map(drop).map_err(|fault| fault.to_string())
    }

    #[test]
    fn fields_that_change_what_an_adapter_computes_are_refused() {
        for (field, value) in [
            ("alora_invocation_tokens", json!([5, 6])),
            ("init_lora_weights", json!("pissa")),
            ("init_lora_weights", json!("pissa_niter_16")),
            ("init_lora_weights", json!("olora")),
            ("init_lora_weights", json!("corda")),
            ("init_lora_weights", json!("loftq")),
            ("init_lora_weights", json!("lora_ga")),
            ("loftq_config", json!({ "loftq_bits": 4 })),
            ("use_dora", json!(true)),
            ("use_qalora", json!(true)),
            ("lora_bias", json!(true)),
            ("fan_in_fan_out", json!(true)),
            ("bias", json!("all")),
            ("modules_to_save", json!(["lm_head"])),
            ("rank_pattern", json!({ "q_proj": 8 })),
            ("alpha_pattern", json!({ "q_proj": 8 })),
            ("layer_replication", json!([[0, 2], [1, 2]])),
            ("target_parameters", json!(["mlp.experts"])),
            ("trainable_token_indices", json!([1, 2])),
            ("megatron_config", json!({ "tensor_model_parallel_size": 2 })),
            ("use_bdlora", json!({ "nblocks": 2 })),
            ("ensure_weight_tying", json!(true)),
            ("a_field_of_next_year", json!(0.5)),
        ] {
            let error = said(json!({ field: value })).unwrap_err();
            assert!(error.contains(&format!("`{field}: {value}`")), "{error}");
        }
        let other = said(json!({ "peft_type": "IA3" })).unwrap_err();
        assert!(other.contains("`IA3`"), "{other}");
    }

    #[test]
    fn fields_that_mean_plain_lora_are_taken() {
        let plain = json!({
            "init_lora_weights": true, "loftq_config": {}, "qalora_group_size": 16, "megatron_core": "megatron.core", "peft_version": "1.0",
            "revision": "main", "exclude_modules": ["lm_head"], "layers_pattern": "layers", "modules_to_save": [], "bias": "none",
            "a_field_of_next_year": false, "another": null, "eva_config": { "rho": 2.0 }, "task_type": "CAUSAL_LM", "auto_mapping": {},
        });
        assert_eq!(said(plain), Ok(()));
        for start in [json!(false), json!("gaussian"), json!("orthogonal"), Value::Null] {
            assert_eq!(said(json!({ "init_lora_weights": start })), Ok(()));
        }
    }
}
