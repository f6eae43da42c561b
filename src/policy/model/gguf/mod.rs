//! GGUF, llama.cpp's format: one file with metadata, a tokenizer, and tensors that may be quantised; read as if it were the folder that
//! `transformers` would have.
//!
//! The layout follows ggml's specification of version 2 and 3: a header, the metadata (named, typed values), where each tensor lies,
//! then the tensors, all with the least significant byte first.

mod blocks;
mod names;
mod reader;
mod tokenizer;

use super::source::TensorSource;
use crate::policy::{FileFault, PolicyError};
use blocks::BlockType;
use reader::{read, GgufTensor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tch::{Kind, Tensor};

/// Blocks that are read and dequantised at a time.
const STRETCH: usize = 1 << 17;

/// A GGUF file, its tensors under the names of the folder that it stands for.
pub struct Gguf {
    path: PathBuf,
    tensors: BTreeMap<String, GgufTensor>,
    /// What `config.json` would say.
    pub config: Value,
    /// The files of the tokenizer, by name.
    pub files: BTreeMap<String, String>,
    /// Heads of a matrix whose rows llama.cpp has permuted.
    permuted: fn(&str, &Value) -> Option<i64>,
}

impl Gguf {
    /// Opens a file and reads all but its tensors.
    ///
    /// # Errors
    /// If it isn't GGUF, is cut off, or holds an architecture, a tokenizer or a quantisation that isn't known here.
    pub fn open(path: &Path) -> Result<Gguf, PolicyError> {
        let (metadata, entries) = read(path)?;
        let wrong = |fault| PolicyError::at(path, fault);
        let family = names::GgufFamily::from_metadata(&metadata).map_err(wrong)?;
        let mut tensors = BTreeMap::new();
        for (name, entry) in entries {
            tensors.insert(family.name(&name).unwrap_or(name), entry);
        }
        let mut gguf = Gguf { path: path.to_owned(), tensors, config: Value::Null, files: BTreeMap::new(), permuted: family.permuted };
        let factors = match gguf.size(names::ROPE_FACTORS) {
            Some(size) => {
                let mut factors = Tensor::zeros([size.iter().product::<i64>()], (Kind::Float, tch::Device::Cpu));
                gguf.read(names::ROPE_FACTORS, &mut factors)?;
                Some(crate::policy::tensors::values(&factors))
            }
            None => None,
        };
        let tied = !gguf.tensors.contains_key("lm_head.weight");
        let vocab = gguf.size("model.embed_tokens.weight").and_then(|size| size.first().copied());
        gguf.config = family.config(&metadata, vocab, tied, factors.as_deref()).map_err(wrong)?;
        gguf.files = tokenizer::files(&metadata).map_err(wrong)?;
        Ok(gguf)
    }
}

/// Whether a tensor is for llama.cpp alone.
pub fn unread(name: &str) -> bool {
    name == names::ROPE_FACTORS
}

impl TensorSource for Gguf {
    fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, _: &str) -> &Path {
        &self.path
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn size(&self, name: &str) -> Option<Vec<i64>> {
        self.tensors.get(name).map(|entry| entry.size.clone())
    }

    fn read(&self, name: &str, to: &mut Tensor) -> Result<(), PolicyError> {
        let missing = || PolicyError::at(&self.path, FileFault::NoTensor { tensor: name.into() });
        let entry = self.tensors.get(name).ok_or_else(missing)?;
        let io = |e: std::io::Error| PolicyError::file(&self.path, e);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(entry.at)).map_err(io)?;
        let BlockType { block, bytes, .. } = *entry.kind;
        let (mut done, all) = (0, to.numel() / block);
        let mut packed = vec![0; STRETCH.min(all) * bytes];
        let mut values = vec![0f32; STRETCH.min(all) * block];
        while done < all {
            let count = STRETCH.min(all - done);
            file.read_exact(&mut packed[..count * bytes]).map_err(io)?;
            for (packed, values) in packed.chunks_exact(bytes).zip(values.chunks_exact_mut(block)).take(count) {
                (entry.kind.unpack)(packed, values);
            }
            let part = Tensor::from_slice(&values[..count * block]);
            to.narrow(0, (done * block) as i64, (count * block) as i64).f_copy_(&part)?;
            done += count;
        }
        if let Some(heads) = (self.permuted)(name, &self.config) {
            // llama.cpp turns neighbours where `transformers` turns halves, so it stores a head's rows pair by pair.
            let (rows, columns) = (entry.size[0], entry.size.get(1).copied().unwrap_or(1));
            let own = to.view([heads, rows / heads / 2, 2, columns]).transpose(1, 2).contiguous().view([-1]);
            to.f_copy_(&own)?;
        }
        Ok(())
    }
}
