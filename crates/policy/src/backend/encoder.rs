//! An encoder: it gives texts' vectors, and nothing else.

use super::{Model, Opening};
use crate::encode::Encoder;
use flow_model::{ModelSettings, PolicyError, Result};
use std::path::Path;

struct EncoderModel {
    name: String,
    encoder: Encoder,
    threads: usize,
}

pub fn open(name: &str, settings: &ModelSettings, opening: &Opening) -> Result<Option<Box<dyn Model>>> {
    let ModelSettings::Encode(encoder) = settings else { return Ok(None) };
    let encoder = Encoder::load(Path::new(&encoder.encode), opening.device)?;
    Ok(Some(Box::new(EncoderModel { name: name.into(), encoder, threads: opening.threads })))
}

impl Model for EncoderModel {
    fn refusal(&self) -> PolicyError {
        PolicyError::NoModel(self.name.clone())
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.encoder.embed(texts, self.threads)
    }
}
