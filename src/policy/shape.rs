//! The sizes of a model, and where each of its tensors lies in the one flat vector that holds all its parameters.

use super::{Head, NewModel, PolicyError};
use serde::{Deserialize, Serialize};

/// The name of a value head's weights; it has no bias.
pub const VALUE_HEAD: &str = "value_head.weight";

/// The sizes of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub vocab: usize,
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub hidden: usize,
    pub context: usize,
    pub tied: bool,
    /// A value head in place of the output layer: one number instead of logits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub value: bool,
}

/// One tensor: its name (that of the Llama family on Hugging Face), its sizes, the deviation of its random start.
pub struct Part {
    pub name: String,
    pub size: Vec<i64>,
    /// `None`: starts as ones.
    pub deviation: Option<f64>,
}

impl Part {
    pub fn len(&self) -> i64 {
        self.size.iter().product()
    }
}

impl Shape {
    /// The sizes of a new model, checked.
    pub fn new(settings: &NewModel, vocab: usize) -> Result<Shape, PolicyError> {
        let hidden = settings.hidden.unwrap_or_else(|| (((settings.width * 8) as f64 / 3.0 / 16.0).round() as usize * 16).max(16));
        let NewModel { layers, width, heads, kv_heads, context, tied, head, .. } = *settings;
        Shape { vocab, layers, width, heads, kv_heads, hidden, context, tied, value: head == Head::Value }.checked()
    }

    /// Itself, if its sizes fit one another.
    pub fn checked(self) -> Result<Shape, PolicyError> {
        let wrong = |what: String| Err(PolicyError::Settings(what));
        if [self.vocab, self.layers, self.width, self.heads, self.kv_heads, self.hidden, self.context].contains(&0) {
            return wrong("every size of a model is at least 1".into());
        }
        if !self.width.is_multiple_of(2 * self.heads) {
            return wrong(format!("width {} is no multiple of twice the {} heads", self.width, self.heads));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return wrong(format!("{} heads are no multiple of {} kv_heads", self.heads, self.kv_heads));
        }
        Ok(self)
    }

    /// Width of a head.
    pub fn head(&self) -> usize {
        self.width / self.heads
    }

    /// Every tensor in the order in which they fill the flat vector. Matrices first, gains of norms last, so that weight decay
    /// is one span; the parts of a fused matrix next to each other, so that it is a view.
    ///
    /// Matrices start with deviation 1 / sqrt(inputs), those that write to the residual stream smaller by sqrt(2 layers)
    /// (Radford et al. 2019), the output layer at 0.02, so that a new policy is close to uniform, a value head at 0: it expects nothing yet.
    pub fn parts(&self) -> Vec<Part> {
        let (d, h, k, f, v) = (
            self.width as i64,
            (self.heads * self.head()) as i64,
            (self.kv_heads * self.head()) as i64,
            self.hidden as i64,
            self.vocab as i64,
        );
        let mut parts = Vec::new();
        let mut part = |name: String, size: &[i64], deviation| parts.push(Part { name, size: size.to_vec(), deviation });
        let matrix = |inputs: i64| Some(1.0 / (inputs as f64).sqrt());
        let residual = |inputs: i64| Some(1.0 / (inputs as f64 * 2.0 * self.layers as f64).sqrt());
        part("model.embed_tokens.weight".into(), &[v, d], Some(if self.tied { 0.02 } else { 0.5 }));
        if self.value {
            part(VALUE_HEAD.into(), &[1, d], Some(0.0));
        } else if !self.tied {
            part("lm_head.weight".into(), &[v, d], Some(0.02));
        }
        for i in 0..self.layers {
            let name = |tail: &str| format!("model.layers.{i}.{tail}.weight");
            part(name("self_attn.q_proj"), &[h, d], matrix(d));
            part(name("self_attn.k_proj"), &[k, d], matrix(d));
            part(name("self_attn.v_proj"), &[k, d], matrix(d));
            part(name("self_attn.o_proj"), &[d, h], residual(h));
            part(name("mlp.gate_proj"), &[f, d], matrix(d));
            part(name("mlp.up_proj"), &[f, d], matrix(d));
            part(name("mlp.down_proj"), &[d, f], residual(f));
        }
        for i in 0..self.layers {
            part(format!("model.layers.{i}.input_layernorm.weight"), &[d], None);
            part(format!("model.layers.{i}.post_attention_layernorm.weight"), &[d], None);
        }
        part("model.norm.weight".into(), &[d], None);
        parts
    }

    /// How many parameters there are.
    pub fn parameters(&self) -> usize {
        self.parts().iter().map(Part::len).sum::<i64>() as usize
    }

    /// How many of them, from the first, are matrices.
    pub fn decayed(&self) -> i64 {
        self.parts().iter().filter(|part| part.deviation.is_some()).map(Part::len).sum()
    }
}
