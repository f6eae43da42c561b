//! `new: tiny`: a small decoder of the Llama shape, born in the run. Its sizes come from the pipeline; its constants
//! are fixed here.

use super::config::{Biases, DecoderConfig, OutputHead};
use super::parameters::Layout;
use super::rope::{RopeConfig, Scaling};
use super::{Architecture, Sizes};
use crate::{FileFault, Head, ModelFault, NewModel};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// The format of its configuration.
pub const NAME: &str = "flow-tiny-1";
const NORM_EPS: f64 = 1e-6;
const ROPE_BASE: f64 = 10_000.0;

/// Reads what [`Architecture::config`] gave.
pub fn read(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let tiny = Tiny::deserialize(config).map_err(|e| FileFault::Unusable(e.to_string()))?;
    Ok(Arc::new(tiny.checked()?))
}

/// The sizes of a tiny model, as its `config.json` has them under `shape`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiny {
    vocab: usize,
    layers: usize,
    width: usize,
    heads: usize,
    kv_heads: usize,
    hidden: usize,
    context: usize,
    tied: bool,
    /// A value head in place of the output layer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    value: bool,
}

impl Tiny {
    /// The sizes of a new model with `vocab` tokens, if they fit one another.
    pub fn new(settings: &NewModel, vocab: usize) -> Result<Tiny, ModelFault> {
        let hidden = settings.hidden.unwrap_or_else(|| (((settings.width * 8) as f64 / 3.0 / 16.0).round() as usize * 16).max(16));
        let NewModel { layers, width, heads, kv_heads, context, tied, head, .. } = *settings;
        Tiny { vocab, layers, width, heads, kv_heads, hidden, context, tied, value: head == Head::Value }.checked()
    }

    /// Itself, if its sizes fit one another.
    pub fn checked(self) -> Result<Tiny, ModelFault> {
        let Tiny { vocab, layers, width, heads, kv_heads, hidden, context, .. } = self;
        if [vocab, layers, width, heads, kv_heads, hidden, context].contains(&0) {
            return Err(ModelFault::ZeroSize);
        }
        if !width.is_multiple_of(2 * heads) {
            return Err(ModelFault::Width { width, heads });
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(ModelFault::Heads { heads, kv_heads });
        }
        self.decoder().checked()?;
        Ok(self)
    }

    fn decoder(&self) -> DecoderConfig {
        let Tiny { vocab, layers, width, heads, kv_heads, hidden, context, tied, value } = *self;
        let output = match (value, tied) {
            (true, _) => OutputHead::Value,
            (false, true) => OutputHead::Tied,
            (false, false) => OutputHead::Own,
        };
        let (head, rope) = (width / heads, RopeConfig { base: ROPE_BASE, scaling: Scaling::None });
        let (norm_eps, biases, head_norms) = (NORM_EPS, Biases::default(), false);
        DecoderConfig {
            vocab,
            tokens: vocab,
            layers,
            width,
            heads,
            kv_heads,
            head,
            hidden,
            context,
            norm_eps,
            rope,
            biases,
            head_norms,
            output,
        }
    }
}

impl Architecture for Tiny {
    fn sizes(&self) -> Sizes {
        self.decoder().sizes()
    }

    fn layout(&self) -> Layout {
        self.decoder().layout()
    }

    fn with_head(&self, head: Head) -> Result<Arc<dyn Architecture>, ModelFault> {
        match head {
            Head::Language if self.value => Err(ModelFault::CriticAsPolicy),
            _ => Ok(Arc::new(Tiny { value: head == Head::Value, ..self.clone() })),
        }
    }

    fn with_tokens(&self, _: usize) -> Arc<dyn Architecture> {
        Arc::new(self.clone())
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn sized(&self) -> DecoderConfig {
        self.decoder()
    }

    fn in_engine(&self) -> bool {
        true
    }

    fn config(&self) -> Value {
        // Of plain numbers, so it can't fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}
