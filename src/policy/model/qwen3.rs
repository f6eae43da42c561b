//! Qwen3, dense (Yang et al. 2025): the decoder with an RMSNorm of each head's queries and keys before they are turned, and heads whose
//! width doesn't follow from that of the stream.

use super::config::Biases;
use super::decoder::DecoderArchitecture;
use super::fields::Fields;
use super::Architecture;
use crate::policy::FileFault;
use serde_json::Value;
use std::sync::Arc;

/// Its `model_type`.
pub const NAME: &str = "qwen3";

/// Reads its `config.json`.
pub fn read(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let mut fields = Fields::read(config)?;
    // What the reference implementation takes where the file says nothing.
    fields.head_dim = fields.head_dim.or(Some(128));
    let biases = Biases { qkv: fields.attention_bias, out: fields.attention_bias, feed_forward: false };
    Ok(Arc::new(DecoderArchitecture::new(NAME, fields.decoder(biases, true)?, config)))
}
