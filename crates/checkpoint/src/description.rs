//! What a person wants to know of a model before it is loaded: what it is, and whether it fits.

use crate::stored::open;
use flow_model::lora::{Adapter, Lora};
use flow_model::parameters::Layout;
use flow_model::{Dtype, LoraSettings, Result};
use flow_text::Omissions;
use std::path::Path;

/// Bytes of a number that is trained.
const F32: u64 = 4;

/// A model as it lies on disk; nothing of it was read but headers and its tokenizer.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its architecture.
    pub architecture: &'static str,
    /// How many parameters it has.
    pub parameters: u64,
    /// The most tokens of a prompt and its answer.
    pub context: usize,
    /// How many tokens it knows.
    pub vocab: usize,
    /// Rows of its embedding beyond these, which no text has.
    pub padding: usize,
    /// The tokens that open the first prompt, where there is no template.
    pub opening: Vec<String>,
    /// Whether it has a chat template.
    pub template: bool,
    /// What the template leaves out of a conversation with a system message.
    pub omits: Omissions,
    /// The texts of the tokens that end an answer.
    pub ends: Vec<String>,
    /// Whether it gives values and writes nothing.
    pub value: bool,
    /// Numbers of the keys and values that are kept a token.
    pub cached: u64,
    layout: Layout,
}

impl Description {
    /// Describes the model at `path`: a saved version or a Hugging Face folder.
    ///
    /// # Errors
    /// As when it is loaded: what is missing, damaged or unknown is named.
    pub fn read(path: &Path) -> Result<Description> {
        let stored = open(path)?;
        let sizes = stored.architecture.sizes();
        let ends = stored.tokenizer.ends().iter().map(|&end| stored.tokenizer.name(end)).collect();
        Ok(Description {
            architecture: stored.architecture.name(),
            parameters: stored.architecture.layout().len() as u64,
            context: sizes.context,
            vocab: sizes.vocab,
            padding: stored.architecture.sized().vocab - sizes.vocab,
            opening: stored.tokenizer.opening(),
            template: stored.tokenizer.has_template(),
            omits: stored.tokenizer.omissions(true),
            ends,
            value: stored.values(),
            cached: sizes.cached as u64,
            layout: stored.architecture.layout(),
        })
    }

    /// Bytes of the weights.
    pub fn weights(&self, dtype: Dtype) -> u64 {
        bytes(dtype) * self.parameters
    }

    /// Bytes of the keys and values of one sequence of `tokens`.
    pub fn cache(&self, tokens: usize, dtype: Dtype) -> u64 {
        bytes(dtype) * self.cached * tokens as u64
    }

    /// How many parameters such adapters have beside this model, without a head of their own; none if it has no such
    /// matrices.
    pub fn adapters(&self, lora: &LoraSettings) -> Option<u64> {
        u64::try_from(Adapter::new(Lora::new(lora), &self.layout, None).ok()?.layout().len()).ok()
    }

    /// Bytes that training holds besides activations, for all weights or, with `adapters`, for that many adapter
    /// parameters. For the trained weights: the weights before and after a step, AdamW's two moments before and after,
    /// and the gradient in `sums` partial sums, all in f32; plus the frozen or 16-bit weights that the forward pass
    /// uses, if those are others.
    pub fn learning(&self, dtype: Dtype, adapters: Option<u64>, sums: u64) -> u64 {
        let trained = F32 * adapters.unwrap_or(self.parameters) * (2 + 4 + sums);
        let computed = adapters.is_some() || dtype != Dtype::F32;
        trained + if computed { self.weights(dtype) } else { 0 }
    }
}

/// Bytes of a number.
fn bytes(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F32 => 4,
        Dtype::Bf16 => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_as_worked_by_hand() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/llama-biases");
        let model = Description::read(&path).unwrap();
        let n = model.parameters;
        assert_eq!((model.weights(Dtype::F32), model.weights(Dtype::Bf16)), (4 * n, 2 * n));
        // Two blocks with keys and values of 4 heads of 8 each.
        assert_eq!(model.cache(10, Dtype::Bf16), 2 * 10 * 2 * 2 * 32);
        // q and v of 32 by 32 in two blocks, each with 2 * 32 * 4 numbers.
        let adapters = model.adapters(&LoraSettings { rank: 4, ..Default::default() }).unwrap();
        assert_eq!(adapters, 2 * 2 * 2 * 32 * 4);
        assert_eq!(model.learning(Dtype::F32, None, 8), 4 * 14 * n);
        assert_eq!(model.learning(Dtype::F32, Some(adapters), 8), 4 * n + 4 * 14 * adapters);
        assert_eq!(model.learning(Dtype::Bf16, Some(adapters), 8), 2 * n + 4 * 14 * adapters);
        assert_eq!(model.learning(Dtype::Bf16, None, 8), 4 * 14 * n + 2 * n);
        assert_eq!(model.adapters(&LoraSettings { targets: vec!["x".into()], ..Default::default() }), None);
    }
}
