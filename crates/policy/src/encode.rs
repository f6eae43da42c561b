//! Encoders: what a text means as a vector, so that texts can be compared. A text's vector is the mean of the final
//! states of its tokens, of length 1 (Reimers and Gurevych 2019): the product of two is the cosine of the angle between
//! them.
//!
//! A text's vector depends on the text alone: it is padded to a multiple of [`PAD_TO`] tokens, and shares its batch
//! with texts of that length, as in generation.

use crate::model::bert::Bert;
use crate::model::flat;
use crate::model::weights::Weights;
use crate::tensors::{indices, values};
use crate::threads::spread;
use flow_checkpoint::encoder::{open, BertConfig};
use flow_model::sequence::padded;
use flow_model::{PolicyError, Result, PAD_TO};
use flow_text::BoundedTokenizer;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Texts of one pass.
const TEXTS: usize = 64;

/// The tokens of a text, and the indices of the texts that have them.
type TokenizedText = (Vec<u32>, Vec<usize>);

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
