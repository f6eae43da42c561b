//! Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024), SmolLM2 and whatever else says `model_type: llama`:
//! the decoder as it stands, with biases where the configuration asks for them.

use super::config::Biases;
use super::decoder::DecoderArchitecture;
use super::fields::Fields;
use super::Architecture;
use crate::FileFault;
use serde_json::{json, Value};
use std::sync::Arc;

/// Its `model_type`.
pub const NAME: &str = "llama";

/// Reads its `config.json`.
pub fn read(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let fields = Fields::read(config, json!({ "max_position_embeddings": 2048 }))?;
    let biases = Biases { qkv: fields.attention_bias, out: fields.attention_bias, feed_forward: fields.mlp_bias };
    Ok(Arc::new(DecoderArchitecture::new(NAME, fields.decoder(biases, false)?, config)))
}
