//! Encoders on disk: a BERT as `sentence-transformers` has it.

use crate::safetensors::SafetensorsFiles;
use crate::source;
use flow_core::defaults::number;
use flow_core::files;
use flow_model::folder::{read as json, LONGEST};
use flow_model::parameters::{Initializer, Layout};
use flow_model::{FileFault, ModelFault, PolicyError, Result};
use flow_text::BoundedTokenizer;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What `config.json` says of it. What isn't named here doesn't change what is computed.
#[derive(Clone, Debug, Deserialize)]
pub struct BertConfig {
    /// Tokens.
    pub vocab_size: usize,
    /// Numbers of a state.
    pub hidden_size: usize,
    /// Blocks.
    pub num_hidden_layers: usize,
    /// Heads of the attention.
    pub num_attention_heads: usize,
    /// Numbers inside the feed-forward part.
    pub intermediate_size: usize,
    /// The most tokens of a text.
    pub max_position_embeddings: usize,
    #[serde(default = "number::<usize, 2>")]
    type_vocab_size: usize,
    #[serde(default = "eps")]
    /// Added to a variance.
    pub layer_norm_eps: f64,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn eps() -> f64 {
    1e-12
}
fn gelu() -> String {
    "gelu".into()
}
fn absolute() -> String {
    "absolute".into()
}

impl BertConfig {
    /// Reads it.
    ///
    /// # Errors
    /// Names a field that is missing, sizes that don't fit one another, or what can't be computed here.
    pub fn read(json: &Value) -> Result<BertConfig, FileFault> {
        let name = json["model_type"].as_str().unwrap_or_default();
        if name != "bert" {
            return Err(FileFault::Unsupported(format!("an encoder of the architecture `{name}`; `bert` is")));
        }
        let config =
            BertConfig::deserialize(json).map_err(|e| FileFault::Unusable(format!("not a configuration that can be read: {e}")))?;
        let BertConfig { vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, .. } = config;
        let sizes = [vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, config.max_position_embeddings];
        if sizes.contains(&0) || config.type_vocab_size == 0 {
            return Err(ModelFault::ZeroSize.into());
        }
        if num_hidden_layers > 1000 || sizes.iter().any(|size| *size > 1 << 24) {
            return Err(ModelFault::TooLarge.into());
        }
        if !hidden_size.is_multiple_of(num_attention_heads) {
            return Err(FileFault::Unusable(format!("{hidden_size} numbers of a state are no multiple of {num_attention_heads} heads")));
        }
        if config.hidden_act != "gelu" || config.position_embedding_type != "absolute" {
            let what =
                format!("the activation `{}` and {} places; `gelu` and `absolute` are", config.hidden_act, config.position_embedding_type);
            return Err(FileFault::Unsupported(what));
        }
        Ok(config)
    }

    /// The parameters, under their names on Hugging Face.
    pub fn layout(&self) -> Layout {
        let [v, d, f] = [self.vocab_size, self.hidden_size, self.intermediate_size].map(|size| size as i64);
        let mut layout = Layout::default();
        // Encoders are always loaded, so their initialisation doesn't matter.
        let any = Initializer::Zeros;
        for (name, rows) in [("word", v), ("position", self.max_position_embeddings as i64), ("token_type", self.type_vocab_size as i64)] {
            layout.add(format!("embeddings.{name}_embeddings.weight"), &[rows, d], any);
        }
        let pair = |layout: &mut Layout, name: &str, size: &[i64]| {
            layout.add(format!("{name}.weight"), size, any);
            layout.add(format!("{name}.bias"), &size[..1], any);
        };
        pair(&mut layout, "embeddings.LayerNorm", &[d]);
        for i in 0..self.num_hidden_layers {
            let name = |tail: &str| format!("encoder.layer.{i}.{tail}");
            let parts = |kind: &str| ["query", "key", "value"].map(|part| (name(&format!("attention.self.{part}.{kind}")), d));
            layout.stacked(name("attention.self.weight"), &parts("weight"), Some(d), any);
            layout.stacked(name("attention.self.bias"), &parts("bias"), None, any);
            pair(&mut layout, &name("attention.output.dense"), &[d, d]);
            pair(&mut layout, &name("attention.output.LayerNorm"), &[d]);
            pair(&mut layout, &name("intermediate.dense"), &[f, d]);
            pair(&mut layout, &name("output.dense"), &[d, f]);
            pair(&mut layout, &name("output.LayerNorm"), &[d]);
        }
        layout
    }
}

/// Whether a tensor isn't used for the states: position indices, and the pooler that only classifiers use.
pub fn unread(name: &str) -> bool {
    name == "embeddings.position_ids" || name.starts_with("pooler.")
}

/// An encoder as it lies on disk; nothing of it was read but headers and its tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderDescription {
    /// How many parameters it has.
    pub parameters: u64,
    /// The most tokens of a text that are read.
    pub context: usize,
    /// How many tokens it knows.
    pub vocab: usize,
    /// How many numbers a vector has.
    pub width: usize,
}

impl EncoderDescription {
    /// Describes the encoder in `folder`; none if another kind of model lies there.
    ///
    /// # Errors
    /// As when it is loaded: what is missing, damaged or unknown is named.
    pub fn read(folder: &Path) -> Result<Option<EncoderDescription>> {
        let path = folder.join("config.json");
        if !path.exists() || json::<Value>(&path)?["model_type"] != "bert" {
            return Ok(None);
        }
        let (config, tokenizer, _, layout) = open(folder)?;
        let context = tokenizer.inner.get_truncation().map_or(config.max_position_embeddings, |cut| cut.max_length);
        let parameters = layout.len() as u64;
        Ok(Some(EncoderDescription { parameters, context, vocab: config.vocab_size, width: config.hidden_size }))
    }
}

/// An encoder's folder, opened and checked; no tensor is read.
pub fn open(folder: &Path) -> Result<(BertConfig, BoundedTokenizer, SafetensorsFiles, Layout)> {
    let path = folder.join("config.json");
    let config = BertConfig::read(&json(&path)?).map_err(|fault| PolicyError::at(&path, fault))?;
    let pooling = folder.join("1_Pooling/config.json");
    if pooling.exists() && json::<Value>(&pooling)?["pooling_mode_mean_tokens"] != true {
        return Err(PolicyError::at(&pooling, FileFault::Unsupported("another pooling than the mean of the tokens".into())));
    }
    let tokenizer = tokenizer(folder, &config)?;
    let vocab = tokenizer.inner.get_vocab_size(true);
    if vocab > config.vocab_size {
        return Err(PolicyError::at(folder, FileFault::Vocabulary { tokens: vocab, vocab: config.vocab_size }));
    }
    let (files, layout): (_, Layout) = (SafetensorsFiles::of_folder(folder)?, config.layout());
    source::check(&files, &layout, "", unread)?;
    Ok((config, tokenizer, files, layout))
}

/// The tokenizer in `folder`, which opens and closes texts, pads none, and cuts them where the model was trained to.
fn tokenizer(folder: &Path, config: &BertConfig) -> Result<BoundedTokenizer> {
    let path: PathBuf = folder.join("tokenizer.json");
    let text = files::text(&path, LONGEST).map_err(|e| PolicyError::file(&path, e))?;
    let mut tokenizer = BoundedTokenizer::read(&path.display().to_string(), &text).map_err(|e| PolicyError::file(&path, e))?;
    let trained = folder.join("sentence_bert_config.json");
    let trained = if trained.exists() { json::<Value>(&trained)?["max_seq_length"].as_u64() } else { None };
    let max_length = trained.map_or(config.max_position_embeddings, |most| config.max_position_embeddings.min(most as usize));
    tokenizer.cut(Some(max_length)).map_err(|e| PolicyError::file(&path, e))?;
    Ok(tokenizer)
}
