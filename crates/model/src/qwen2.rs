//! Qwen2 and Qwen2.5 (Yang et al. 2024): the decoder with biases on queries, keys and values.

use super::config::Biases;
use super::decoder::DecoderArchitecture;
use super::fields::Fields;
use super::Architecture;
use crate::FileFault;
use serde_json::{json, Value};
use std::sync::Arc;

/// Its `model_type`.
pub const NAME: &str = "qwen2";

/// What `transformers` takes where a file says nothing.
pub fn defaults() -> Value {
    json!({ "max_position_embeddings": 32_768, "num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28 })
}

/// Reads its `config.json`.
pub fn read(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let biases = Biases { qkv: true, ..Biases::default() };
    Ok(Arc::new(DecoderArchitecture::new(NAME, Fields::read(config, defaults())?.decoder(biases, false)?, config)))
}
