//! GGUF, llama.cpp's format: one file with metadata, a tokenizer, and tensors that may be quantised; read as if it were
//! the folder that `transformers` would have. A large model may lie in several such files (`NAME-00001-of-00003.gguf`
//! and so on), the first with the metadata.
//!
//! The layout follows ggml's specification of version 2 and 3: a header, the metadata (named, typed values), where each
//! tensor lies, then the tensors, all with the least significant byte first.

mod blocks;
mod names;
mod reader;
mod tokenizer;

use crate::source::TensorSource;
use blocks::BlockType;
use flow_model::on_disk::parts;
use flow_model::{FileFault, PolicyError, Result};
use reader::{read, GgufTensor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Blocks that are read and dequantised at a time.
const STRETCH: usize = 1 << 17;

/// A GGUF file, its tensors under the names of the folder that it stands for.
pub struct Gguf {
    /// Its parts; mostly one.
    paths: Vec<PathBuf>,
    /// Each with the part that it lies in.
    tensors: BTreeMap<String, (usize, GgufTensor)>,
    /// What `config.json` would say.
    pub config: Value,
    /// The files of the tokenizer, by name.
    pub files: BTreeMap<String, String>,
    /// Heads of a matrix whose rows llama.cpp has permuted.
    permuted: fn(&str, &Value) -> Option<i64>,
}

impl Gguf {
    /// Opens a file, and the others that it is one part with, and reads all but the tensors.
    ///
    /// # Errors
    /// If one isn't there, isn't GGUF or is cut off, or if they hold an architecture, a tokenizer or a quantisation
    /// that isn't known here.
    pub fn open(path: &Path) -> Result<Gguf> {
        let paths = parts(path);
        let (metadata, found) = read(&paths[0])?;
        let wrong = |fault| PolicyError::at(&paths[0], fault);
        let family = names::GgufFamily::from_metadata(&metadata).map_err(wrong)?;
        let named = |(name, entry): (String, GgufTensor), part: usize| (family.name(&name).unwrap_or(name), (part, entry));
        let mut tensors: BTreeMap<_, _> = found.into_iter().map(|tensor| named(tensor, 0)).collect();
        for (part, path) in paths.iter().enumerate().skip(1) {
            tensors.extend(read(path)?.1.into_iter().map(|tensor| named(tensor, part)));
        }
        let (config, files, permuted) = (Value::Null, BTreeMap::new(), family.permuted);
        let mut gguf = Gguf { paths: paths.clone(), tensors, config, files, permuted };
        let factors = match gguf.size(names::ROPE_FACTORS) {
            Some(size) => {
                let mut factors = Vec::with_capacity(size.iter().product::<i64>() as usize);
                gguf.read(names::ROPE_FACTORS, &mut |_, numbers| {
                    factors.extend_from_slice(numbers);
                    Ok(())
                })?;
                Some(factors)
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

/// The rows of a matrix of `heads` heads as `transformers` has them: llama.cpp turns neighbours where that turns halves,
/// so it stores a head's rows pair by pair.
fn halves(values: &[f32], heads: usize, size: &[i64]) -> Vec<f32> {
    let (rows, columns) = (size[0] as usize, size.get(1).map_or(1, |columns| *columns as usize));
    let pairs = rows / heads / 2;
    let row = |head: usize, half: usize, pair: usize| ((head * pairs + pair) * 2 + half) * columns;
    let places = (0..heads).flat_map(|head| (0..2).flat_map(move |half| (0..pairs).map(move |pair| row(head, half, pair))));
    places.flat_map(|at| values[at..at + columns].iter().copied()).collect()
}

impl TensorSource for Gguf {
    fn path(&self) -> &Path {
        &self.paths[0]
    }

    fn file(&self, name: &str) -> &Path {
        &self.paths[self.tensors.get(name).map_or(0, |(part, _)| *part)]
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn size(&self, name: &str) -> Option<Vec<i64>> {
        self.tensors.get(name).map(|(_, entry)| entry.size.clone())
    }

    fn read(&self, name: &str, put: &mut dyn FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
        let missing = || PolicyError::at(self.path(), FileFault::NoTensor { tensor: name.into() });
        let (part, entry) = self.tensors.get(name).ok_or_else(missing)?;
        let path = &self.paths[*part];
        let io = |e: std::io::Error| PolicyError::file(path, e);
        let mut file = File::open(path).map_err(io)?;
        file.seek(SeekFrom::Start(entry.at)).map_err(io)?;
        let BlockType { block, bytes, .. } = *entry.kind;
        let heads = (self.permuted)(name, &self.config);
        let (mut done, all) = (0, entry.size.iter().product::<i64>() as usize / block);
        // A tensor in another order is read whole.
        let stretch = if heads.is_some() { all } else { STRETCH.min(all) };
        let mut packed = vec![0; stretch * bytes];
        let mut values = vec![0f32; stretch * block];
        while done < all {
            let count = stretch.min(all - done);
            file.read_exact(&mut packed[..count * bytes]).map_err(io)?;
            for (packed, values) in packed.chunks_exact(bytes).zip(values.chunks_exact_mut(block)).take(count) {
                (entry.kind.unpack)(packed, values);
            }
            match heads {
                Some(heads) => put(0, &halves(&values, heads as usize, &entry.size))?,
                None => put(done * block, &values[..count * block])?,
            }
            done += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_model_are_known_by_the_name_of_one() {
        let of = |path: &str| parts(Path::new(path)).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            of("m/a-b-00002-of-00003.gguf"),
            ["m/a-b-00001-of-00003.gguf", "m/a-b-00002-of-00003.gguf", "m/a-b-00003-of-00003.gguf"]
        );
        for whole in ["m/a.gguf", "m/one-of-two.gguf", "m/a-1-of-3.gguf", "m/a-00001-of-0000x.gguf", "m/a-00000-of-00000.gguf"] {
            assert_eq!(of(whole), [whole]);
        }
    }
}
