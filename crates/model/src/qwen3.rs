//! Qwen3, dense (Yang et al. 2025): the decoder with an RMSNorm of each head's queries and keys before they are turned,
//! and heads whose width doesn't follow from that of the stream.

use super::config::Biases;
use super::decoder::DecoderArchitecture;
use super::fields::Fields;
use super::{qwen2, Architecture};
use crate::FileFault;
use serde_json::Value;
use std::sync::Arc;

/// Its `model_type`.
pub const NAME: &str = "qwen3";

/// Reads its `config.json`.
pub fn read(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let mut defaults = qwen2::defaults();
    defaults["head_dim"] = 128.into();
    let fields = Fields::read(config, defaults)?;
    if fields.head_dim.is_none() {
        return Err(FileFault::Unusable("not a configuration that can be read: `head_dim` is null".into()));
    }
    let biases = Biases { qkv: fields.attention_bias, out: fields.attention_bias, feed_forward: false };
    Ok(Arc::new(DecoderArchitecture::new(NAME, fields.decoder(biases, true)?, config)))
}
