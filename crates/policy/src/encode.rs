//! Encoders: what a text means as a vector, so that texts can be compared. A text's vector is the mean of the final
//! states of its tokens, of length 1 (Reimers and Gurevych 2019): the product of two is the cosine of the angle between
//! them.
//!
//! A text's vector depends on the text alone: it is padded to a multiple of [`PAD_TO`] tokens, and shares its batch
//! with texts of that length, as in generation.

use crate::model::bert::{unread, Bert, BertConfig};
use crate::model::safetensors::SafetensorsFiles;
use crate::model::weights::Weights;
use crate::model::{flat, source};
use crate::tensors::{indices, values};
use crate::threads::spread;
use flow_core::files;
use flow_model::folder::{read as json, LONGEST};
use flow_model::parameters::Layout;
use flow_model::sequence::padded;
use flow_model::{FileFault, PolicyError, Result, PAD_TO};
use flow_text::BoundedTokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Texts of one pass.
const TEXTS: usize = 64;

/// The tokens of a text, and the indices of the texts that have them.
type TokenizedText = (Vec<u32>, Vec<usize>);

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

/// An encoder with its weights.
pub struct Encoder {
    config: BertConfig,
    weights: Weights,
    tokenizer: BoundedTokenizer,
}

impl Encoder {
    /// Loads the encoder in `folder`: `config.json`, `tokenizer.json` and safetensors of a BERT, as
    /// `sentence-transformers` has them.
    ///
    /// # Errors
    /// Names the file that is missing, damaged, or says something that can't be computed here.
    pub fn load(folder: &Path, device: Device) -> Result<Encoder> {
        let (config, tokenizer, files, layout) = open(folder)?;
        let flat = flat::read(&files, &layout, "", device, Kind::Float)?;
        Ok(Encoder { weights: Weights::new(&Arc::new(layout), &flat, Kind::Float, false), config, tokenizer })
    }

    /// The vector of each text, in order; of a text that is too long, that of its beginning.
    ///
    /// # Errors
    /// If libtorch can't do it.
    pub fn embed(&self, texts: &[String], threads: usize) -> Result<Vec<Vec<f32>>> {
        // Equal texts once, batches of one padded length.
        let mut lengths: BTreeMap<usize, BTreeMap<Vec<u32>, Vec<usize>>> = BTreeMap::new();
        for (index, text) in texts.iter().enumerate() {
            let encoded = self.tokenizer.encode(text, true).map_err(PolicyError::Template)?;
            let ids = encoded.get_ids().to_vec();
            lengths.entry(ids.len().next_multiple_of(PAD_TO)).or_default().entry(ids).or_default().push(index);
        }
        let all = lengths.into_iter().flat_map(|(places, texts)| {
            let texts: Vec<_> = texts.into_iter().collect();
            texts.chunks(TEXTS).map(|texts| (places, texts.to_vec())).collect::<Vec<_>>()
        });
        let batches: Vec<(usize, Vec<TokenizedText>)> = all.collect();
        let (config, weights) = (&self.config, || self.weights.bare());
        let embeddings =
            spread(threads, weights, &batches, |weights, (places, texts)| Ok(tch::no_grad(|| vectors(config, weights, *places, texts))))?;
        let mut vectors = vec![Vec::new(); texts.len()];
        for ((_, texts), batch) in batches.iter().zip(embeddings) {
            for ((_, indices), vector) in texts.iter().zip(batch.chunks_exact(self.config.hidden_size)) {
                indices.iter().for_each(|&index| vectors[index] = vector.to_vec());
            }
        }
        Ok(vectors)
    }
}

/// An encoder's folder, opened and checked; no tensor is read.
fn open(folder: &Path) -> Result<(BertConfig, BoundedTokenizer, SafetensorsFiles, Layout)> {
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

/// The vectors of `texts`, one after the other, each padded to `places`.
fn vectors(config: &BertConfig, weights: &Weights, places: usize, texts: &[TokenizedText]) -> Vec<f32> {
    let rows = texts.len().next_multiple_of(PAD_TO);
    // A padding row attends to itself, so that its mean is a number.
    let lengths: Vec<i64> = (0..rows).map(|row| texts.get(row).map_or(1, |(ids, _)| ids.len() as i64)).collect();
    let device = weights.device();
    let ids = indices(&padded(texts.iter().map(|(ids, _)| ids.as_slice()), rows, places), device).view([rows as i64, places as i64]);
    let place = Tensor::arange(places as i64, (Kind::Int64, device));
    let mask = place.lt_tensor(&indices(&lengths, device).unsqueeze(1));
    let states = Bert { config, weights }.states(&ids, &mask);
    let mask = mask.to_kind(Kind::Float).unsqueeze(-1);
    let mean = (states * &mask).sum_dim_intlist(1, false, None) / mask.sum_dim_intlist(1, false, None);
    let length = mean.square().sum_dim_intlist(-1, true, None).sqrt().clamp_min(1e-12);
    values(&(mean / length).narrow(0, 0, texts.len() as i64))
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
