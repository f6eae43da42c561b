//! What a pipeline can say about models.

use super::remote_settings::{RemoteModel, ServeSettings, TemplateVariables, TrainSettings};
use crate::on_disk::{is_adapter_folder, CONFIG, TRAINED};
use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::path::Path;

/// A model: a new one, one that lies on disk, one on the base of another, an encoder, or one that a server runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelSettings {
    /// A new model with random weights.
    New(NewModel),
    /// A model on disk: one that `flow` saved, or a Hugging Face folder.
    Load(LoadModel),
    /// A further adapter on the base of another model of the pipeline.
    Shared(SharedModel),
    /// An encoder on disk, which gives a text's vector and never learns.
    Encode(EncoderModel),
    /// A model that a server runs, which acts and reflects and never learns.
    Remote(RemoteModel),
}

/// An encoder on disk: a folder of `sentence-transformers` with a BERT in it, such as `flow model fetch minilm` gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EncoderModel {
    /// Its folder.
    #[schemars(extend("x-names" = "file"))]
    pub encode: String,
}

/// A new model with random weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewModel {
    /// The family: `tiny` is a decoder-only transformer of the Llama shape.
    pub new: NewKind,
    /// The kind of tokens: `words` are the words and symbols of the environments' texts (anything else falls back to
    /// bytes), `bytes` are bytes.
    #[serde(default)]
    pub tokens: TokenKind,
    /// Transformer blocks.
    #[serde(default = "number::<usize, 3>")]
    #[schemars(range(min = 1, max = 1000))]
    pub layers: usize,
    /// Width of the residual stream; a multiple of twice `heads`.
    #[serde(default = "number::<usize, 128>")]
    #[schemars(range(min = 2, max = 65_536))]
    pub width: usize,
    /// Attention heads.
    #[serde(default = "number::<usize, 4>")]
    #[schemars(range(min = 1, max = 1024))]
    pub heads: usize,
    /// Heads of the keys and values; `heads` is a multiple of it.
    #[serde(default = "number::<usize, 2>")]
    #[schemars(range(min = 1, max = 1024))]
    pub kv_heads: usize,
    /// Width inside the feed-forward part; 8/3 of `width`, rounded to a multiple of 16, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub hidden: Option<usize>,
    /// The most tokens that a prompt and its answer may have together.
    #[serde(default = "number::<usize, 512>")]
    #[schemars(range(min = 2, max = 1_048_576))]
    pub context: usize,
    /// Whether the output layer shares the weights of the token embedding.
    #[serde(default)]
    pub tied: bool,
    /// The model's output: tokens, or one number.
    #[serde(default)]
    pub head: Head,
    /// Trains low-rank adapters beside the model's matrices and leaves those as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
    /// The weights that act, as with a model that is loaded.
    #[serde(default, skip_serializing_if = "Act::is_auto")]
    pub act: Act,
}

/// Low-rank adapters (Hu et al. 2021), which are trained in place of the model's own weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoraSettings {
    /// The rank of the adapters.
    #[schemars(range(min = 1, max = 65_536))]
    pub rank: usize,
    /// The adapters' updates are scaled by `alpha` / `rank`.
    #[schemars(range(min = 0.0))]
    pub alpha: f64,
    /// The dropout rate of the adapters' inputs during training.
    #[schemars(range(min = 0.0, max = 0.99))]
    pub dropout: f64,
    /// Which matrices have an adapter, by how their names end: `q_proj`, `k_proj`, `v_proj`, `o_proj`, `gate_proj`,
    /// `up_proj`, `down_proj`; `all-linear` stands for all of these.
    #[schemars(length(min = 1))]
    pub targets: Vec<String>,
}

impl Default for LoraSettings {
    fn default() -> Self {
        LoraSettings { rank: 16, alpha: 32.0, dropout: 0.0, targets: vec!["q_proj".into(), "v_proj".into()] }
    }
}

/// What the numbers of a model's weights are, and what is computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with the range of 32 and 8 significant ones. Trained weights are kept in f32 nevertheless.
    Bf16,
}

/// A model's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Head {
    /// The next token: a policy.
    #[default]
    Language,
    /// The return to expect after the prompt, read at its last token: a critic (the operator `value`, the objective
    /// `value`).
    Value,
}

/// That an adapter is either new or loaded.
fn one_adapter() -> Value {
    json!([{ "if": { "required": ["adapter"] }, "then": { "properties": { "lora": false } } }])
}

/// The same, and that there is one.
fn an_adapter() -> Value {
    json!([{ "if": { "required": ["adapter"] }, "then": { "properties": { "lora": false } }, "else": { "required": ["lora"] } }])
}

/// A model on disk: one that `flow` saved, or a Hugging Face folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = one_adapter()))]
pub struct LoadModel {
    /// A saved version's folder, a run (its newest weights), or a Hugging Face folder of Llama, Qwen2 or Qwen3. An
    /// adapter's folder (PEFT's) is loaded as the model that it makes of its base. `flow model convert` makes a folder of
    /// a GGUF file.
    #[schemars(extend("x-names" = "file"))]
    pub load: String,
    /// The model's name in that run, if not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The head; the one that was saved when left out. Another one than that starts anew: `value` makes a critic of a
    /// saved policy, whose head is learnt whole also where the rest learns by an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Trains new low-rank adapters beside the model's matrices and leaves those as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
    /// Trains on the adapter in this folder (PEFT's, or that of a run) and leaves the model's own weights as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-names" = "file"))]
    pub adapter: Option<String>,
    /// The number format of weights and of computation.
    #[serde(default, skip_serializing_if = "is_f32")]
    pub dtype: Dtype,
    /// The number format of an adapter's frozen base. `int8` rounds its matrices once, when it is loaded, in groups of
    /// 64 numbers with a scale each: a quarter of the memory, several times the speed, and play and learning compute
    /// the same bits. The adapter is trained for the rounded base. `f32` computes in the same way, row by row, without
    /// rounding: exact, with less memory for long rows, faster where few rows are written at a time and slower where
    /// many tokens are read or learnt.
    #[serde(default, skip_serializing_if = "Base::is_own")]
    pub base: Base,
    /// The weights that act, of a model that is trained whole or not at all: with `int8` answers are generated, and
    /// choices ranked, row by row with matrices that are rounded anew for each version of the weights, as `base: int8`
    /// rounds a base. Learning, scoring texts and saved weights stay f32. `logprob_gap` of `gpu-update` says how far
    /// the two are apart, and a policy gradient weighs each token by it (`old: recomputed`) unless `old` says
    /// otherwise. `f32` acts in the same way without rounding, as `base: f32` does: four bytes a weight more, and
    /// log-probabilities of acting and learning differ by some 2e-7.
    #[serde(default, skip_serializing_if = "Act::is_auto")]
    pub act: Act,
    /// Bytes, in GB, of the keys and values of read and written tokens that are kept while the weights stay the same; a
    /// quarter of the memory that is free when they are first needed, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 100_000.0))]
    pub cache_gb: Option<f64>,
    /// Variables of its chat template, as `{ enable_thinking: false }`.
    #[serde(default, skip_serializing_if = "TemplateVariables::is_empty")]
    pub template: TemplateVariables,
    /// Servers that generate in place of this process; the adapter, which the model must have, is trained here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<Box<ServeSettings>>,
    /// Trains the model in processes of their own, of any architecture that transformers has. Without `serve` each
    /// version is loaded here as well, to play and to read texts, and the architecture must be one that flow computes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Box<TrainSettings>>,
}

/// A further adapter on the base of another model of the pipeline. The base's weights are in memory once, and each
/// adapter learns, is kept and is exported by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = an_adapter()))]
pub struct SharedModel {
    /// The model whose base it adapts, one with `load` or `new`: its weights as they were when the run began, without
    /// its own adapter.
    #[schemars(extend("x-names" = "model"))]
    pub on: String,
    /// The new low-rank adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
    /// In place of a new one, the adapter in this folder (PEFT's, or that of a run), which is trained on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-names" = "file"))]
    pub adapter: Option<String>,
    /// The model's name in the run that `adapter` names, if not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The head; that of the base when left out. `value` makes a critic on the base of a policy: its head is learnt
    /// whole, beside the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// As of a model that is loaded: bytes, in GB, of the keys and values that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.001, max = 100_000.0))]
    pub cache_gb: Option<f64>,
}

impl LoadModel {
    /// Whether it lies as others published it: flow has neither written its weights nor is an adapter among them.
    pub fn published(&self) -> bool {
        let folder = Path::new(&self.load);
        let written = is_adapter_folder(folder) || folder.join(TRAINED).exists();
        self.adapter.is_none() && self.of.is_none() && !written && folder.join(CONFIG).exists()
    }

    /// Why its base can't be computed as `base` asks, if it can't; `dropout` is that of its adapter, if it has one.
    pub fn base_fault(&self, dropout: Option<f64>) -> Option<&'static str> {
        match dropout {
            _ if self.base == Base::Own => None,
            _ if self.dtype != Dtype::F32 => Some("the adapter is computed in f32: leave `dtype` out"),
            None => Some("only the base of an adapter stands still: say `lora` or `adapter`"),
            Some(dropout) if dropout > 0.0 => Some("an adapter beside it has no dropout"),
            Some(_) => None,
        }
    }
}

fn is_f32(dtype: &Dtype) -> bool {
    *dtype == Dtype::F32
}

/// The number format of an adapter's frozen base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// As `dtype` says.
    #[default]
    Own,
    /// 8 bits, row by row on a CPU.
    Int8,
    /// f32, row by row on a CPU.
    F32,
}

impl Base {
    fn is_own(&self) -> bool {
        *self == Base::Own
    }
}

/// The acting copy of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// `f32` where that can be and is the faster: on a CPU with AVX2, of a model in f32 that is trained whole; else
    /// `own`.
    #[default]
    Auto,
    /// The weights that learn, by libtorch.
    Own,
    /// The same in 8 bits, row by row on a CPU.
    Int8,
    /// The same in f32, row by row on a CPU.
    F32,
}

impl Act {
    fn is_auto(&self) -> bool {
        *self == Act::Auto
    }

    /// The setting that says it.
    pub fn name(self) -> &'static str {
        match self {
            Act::Auto => "auto",
            Act::Own => "own",
            Act::Int8 => "int8",
            Act::F32 => "f32",
        }
    }

    /// Whether it asks for matrices other than the learning model's.
    pub fn asks(self) -> bool {
        matches!(self, Act::Int8 | Act::F32)
    }
}

/// Families of new models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NewKind {
    /// A small decoder-only transformer of the Llama shape.
    #[default]
    Tiny,
}

/// What a token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// Words and symbols of the environments' texts, and bytes for the rest.
    #[default]
    Words,
    /// Bytes.
    Bytes,
}

impl Default for NewModel {
    fn default() -> Self {
        NewModel {
            new: NewKind::Tiny,
            tokens: TokenKind::Words,
            layers: 3,
            width: 128,
            heads: 4,
            kv_heads: 2,
            hidden: None,
            context: 512,
            tied: false,
            head: Head::Language,
            lora: None,
            act: Act::Auto,
        }
    }
}
