//! Decoders that a [`DecoderConfig`] says everything of.

use crate::config::{DecoderConfig, OutputHead};
use crate::parameters::Layout;
use crate::{Architecture, Head, ModelFault, Sizes};
use serde_json::Value;
use std::sync::Arc;

/// A decoder under its name, with the configuration that it was read from.
pub struct DecoderArchitecture {
    name: &'static str,
    config: DecoderConfig,
    json: Value,
}

impl DecoderArchitecture {
    /// `config` as the architecture called `name` has it, read from `json`.
    pub fn new(name: &'static str, config: DecoderConfig, json: &Value) -> DecoderArchitecture {
        DecoderArchitecture { name, config, json: json.clone() }
    }
}

impl Architecture for DecoderArchitecture {
    fn sizes(&self) -> Sizes {
        self.config.sizes()
    }

    fn layout(&self) -> Layout {
        self.config.layout()
    }

    fn with_head(&self, head: Head) -> Result<Arc<dyn Architecture>, ModelFault> {
        if head == Head::Language {
            return Err(ModelFault::CriticAsPolicy);
        }
        let mut json = self.json.clone();
        json["value_head"] = Value::Bool(true);
        Ok(Arc::new(DecoderArchitecture {
            name: self.name,
            config: DecoderConfig { output: OutputHead::Value, ..self.config.clone() },
            json,
        }))
    }

    fn with_tokens(&self, tokens: usize) -> Arc<dyn Architecture> {
        let config = DecoderConfig { tokens: tokens.min(self.config.vocab), ..self.config.clone() };
        Arc::new(DecoderArchitecture { name: self.name, config, json: self.json.clone() })
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn config(&self) -> Value {
        self.json.clone()
    }

    fn sized(&self) -> DecoderConfig {
        self.config.clone()
    }

    fn in_engine(&self) -> bool {
        true
    }
}
