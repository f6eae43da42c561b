//! Low-rank adapters (Hu et al. 2021, section 4.1): beside a frozen matrix W `[out, in]` a matrix A `[rank, in]` and a
//! matrix B `[out, rank]` are trained, and the output is
//!
//! ```text
//! W x + s B A x        s = alpha / rank, or alpha / sqrt(rank) (rank-stabilised: Kalajdzievski 2023)
//! ```
//!
//! B begins at 0, so that a new adapter changes nothing, and A evenly within 1 / sqrt(in), as PEFT has it (Kaiming's
//! uniform start with a = sqrt 5). Names are PEFT's, too.
//!
//! Of a critic the value head is learnt whole beside them (what PEFT calls a module to save), so that the base need not
//! have one.

use super::config::VALUE_HEAD;
use super::parameters::{Initializer, Layout, Leaf, Parameter};
use crate::{LoraSettings, ModelFault};
use std::sync::Arc;

/// What PEFT puts before the name of a module.
const PREFIX: &str = "base_model.model.";
/// Stands for every matrix of every block.
const ALL: &str = "all-linear";

/// The configuration of low-rank adapters, and the matrices that have one.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// Rows of A.
    pub rank: usize,
    /// The numerator of the scaling.
    pub alpha: f64,
    /// The dropout rate of A's inputs during training.
    pub dropout: f64,
    /// Whether the scaling is alpha / sqrt(rank).
    pub stabilised: bool,
    /// Names of matrices, or how these end after a dot; or `all-linear`.
    pub targets: Vec<String>,
}

impl Lora {
    /// As a pipeline describes it.
    pub fn new(settings: &LoraSettings) -> Lora {
        let LoraSettings { rank, alpha, dropout, targets } = settings.clone();
        Lora { rank, alpha, dropout, stabilised: false, targets }
    }

    /// The factor on B A.
    pub fn scaling(&self) -> f64 {
        let rank = self.rank as f64;
        self.alpha / if self.stabilised { rank.sqrt() } else { rank }
    }

    /// The module that a tensor of an adapter's file belongs to; none for a name that isn't of that kind.
    pub fn module_of(tensor: &str) -> Option<&str> {
        let rest = tensor.strip_prefix(PREFIX)?;
        rest.strip_suffix(".lora_A.weight").or(rest.strip_suffix(".lora_B.weight"))
    }
}

/// Whether `target` names `module`.
fn belongs(module: &str, target: &str) -> bool {
    module == target || module.ends_with(&format!(".{target}"))
}

/// The matrices that may have an adapter: those of the blocks.
pub fn matrices(base: &Layout) -> impl Iterator<Item = &Parameter> {
    base.parameters.iter().filter(|p| p.size.len() == 2 && p.name.contains(".layers."))
}

/// A parameter's name without `.weight`.
pub fn module(parameter: &Parameter) -> &str {
    parameter.name.strip_suffix(".weight").unwrap_or(&parameter.name)
}

/// The names of A and B of a module.
pub fn names(module: &str) -> [String; 2] {
    ["lora_A", "lora_B"].map(|part| format!("{PREFIX}{module}.{part}.weight"))
}

/// The value head of a critic, as a module of its own.
pub const HEAD_MODULE: &str = "value_head";

/// The name of the tensor that is learnt whole in place of the model's own leaf `name`.
pub fn replacement(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The adapters of one model without their weights.
#[derive(Debug)]
pub struct Adapter {
    /// Their configuration.
    pub lora: Lora,
    /// Whether a value head is learnt beside them.
    pub head: bool,
    layout: Arc<Layout>,
}

impl Adapter {
    /// Adapters of a model whose weights are `base`; with `head` a value head beside them, for states of that width.
    ///
    /// # Errors
    /// If the rank is 0, the scaling or the dropout no number that makes sense, or a target is the name of nothing.
    pub fn new(mut lora: Lora, base: &Layout, head: Option<usize>) -> Result<Adapter, ModelFault> {
        let unknown = |target: &&String| *target != ALL && !matrices(base).any(|matrix| belongs(module(matrix), target));
        if let Some(target) = lora.targets.iter().find(unknown) {
            return Err(ModelFault::NoTarget { target: target.clone(), known: kinds(base) });
        }
        if lora.targets.iter().any(|target| target == ALL) {
            lora.targets = kinds(base);
        }
        if lora.rank == 0 {
            return Err(ModelFault::ZeroSize);
        }
        if !lora.scaling().is_finite() || !(0.0..1.0).contains(&lora.dropout) {
            return Err(ModelFault::Adapter { what: format!("alpha {} and dropout {} make no sense", lora.alpha, lora.dropout) });
        }
        let rank = lora.rank as i64;
        let mut layout = Layout::default();
        for matrix in matrices(base).filter(|matrix| lora.targets.iter().any(|target| belongs(module(matrix), target))) {
            let ([a, b], (outputs, inputs)) = (names(module(matrix)), (matrix.size[0], matrix.size[1]));
            layout.add(a, &[rank, inputs], Initializer::Uniform(1.0 / (inputs as f64).sqrt()));
            layout.add(b, &[outputs, rank], Initializer::Zeros);
        }
        if layout.len() == 0 {
            return Err(ModelFault::Adapter { what: "it has no targets".into() });
        }
        if let Some(width) = head {
            layout.add(replacement(VALUE_HEAD), &[1, width as i64], Initializer::Zeros);
        }
        Ok(Adapter { lora, head: head.is_some(), layout: Arc::new(layout) })
    }

    /// The adapters' weights, by PEFT's names.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The adapters of a leaf of the model's own: where each one's outputs begin, and the names of A and B.
    pub fn parts(&self, base: &Layout, leaf: &Leaf) -> Vec<AdapterPart> {
        let row = leaf.size[1..].iter().product::<i64>();
        let part = |p: &Parameter| AdapterPart { at: ((p.at - leaf.at) / row) as usize, names: names(module(p)) };
        let has_adapter = |p: &&Parameter| p.size.len() == 2 && self.layout.leaf_of(&names(module(p))[0]).is_some();
        base.stacked_in(leaf).filter(has_adapter).map(part).collect()
    }
}

/// Where an adapter of a part of a leaf has its weights.
pub struct AdapterPart {
    /// The first of the outputs that it adds to.
    pub at: usize,
    /// The names of A and B in the adapters' layout.
    pub names: [String; 2],
}

/// How the names of the matrices end: what targets are usually called by.
fn kinds(base: &Layout) -> Vec<String> {
    let mut kinds = Vec::new();
    for kind in matrices(base).filter_map(|p| module(p).rsplit('.').next()) {
        if !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_string());
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Layout {
        let mut layout = Layout::default();
        layout.add("model.embed_tokens.weight", &[5, 2], Initializer::Normal(1.0));
        let qk = [("model.layers.0.self_attn.q_proj.weight".into(), 2), ("model.layers.0.self_attn.k_proj.weight".into(), 1)];
        layout.stacked("model.layers.0.self_attn.qk.weight", &qk, Some(2), Initializer::Normal(1.0));
        layout.add("model.layers.0.input_layernorm.weight", &[2], Initializer::Ones);
        layout
    }

    fn lora(targets: &[&str]) -> Lora {
        let targets = targets.iter().map(|target| target.to_string()).collect();
        Lora { rank: 1, alpha: 2.0, dropout: 0.0, stabilised: false, targets }
    }

    #[test]
    fn a_new_adapter_begins_as_in_peft() {
        let adapter = Adapter::new(lora(&["all-linear"]), &base(), None).unwrap();
        let names: Vec<_> = adapter.layout().parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names[0], "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
        assert_eq!(names[3], "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight");
        let start = adapter.layout().random(1);
        let [a, b] = [&start[..2], &start[2..4]];
        assert!(a.iter().all(|x| *x != 0.0 && x * x < 0.5) && b == [0.0, 0.0], "{start:?}");
        let stabilised = Lora { rank: 4, stabilised: true, ..lora(&[]) };
        assert_eq!((stabilised.scaling(), Lora { stabilised: false, ..stabilised.clone() }.scaling()), (1.0, 0.5));
    }

    #[test]
    fn what_makes_no_adapter_is_said() {
        let said = |lora: Lora| Adapter::new(lora, &base(), None).unwrap_err().to_string();
        assert!(said(lora(&["q_proj", "w_proj"])).contains("`w_proj`") && said(lora(&["w"])).contains("q_proj, k_proj"));
        assert!(said(lora(&["embed_tokens"])).contains("`embed_tokens`"), "no adapter of an embedding");
        assert!(said(lora(&["all-linear", "embed_tokens"])).contains("`embed_tokens`"), "also beside all others");
        assert!(Adapter::new(lora(&["all-linear", "q_proj"]), &base(), None).is_ok());
        assert!(said(lora(&[])).contains("no targets"));
        assert!(said(Lora { dropout: 1.0, ..lora(&["q_proj"]) }).contains("dropout 1"));
        assert!(said(Lora { rank: 0, ..lora(&["q_proj"]) }).contains("at least 1"));
    }
}
