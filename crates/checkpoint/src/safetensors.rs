//! Safetensors files, alone or as the shards of one checkpoint: their tensors by name, read a stretch at a time.
//!
//! A file is the length of its header (8 bytes, the least significant first), the header (JSON: for each tensor its
//! type, its sizes and where it lies), and the tensors' bytes.

use crate::source::TensorSource;
use flow_core::files;
use flow_model::folder::{names, EXPECTED_FILES, LONGEST, NOT_FETCHED, POINTER};
use flow_model::{FileFault, PolicyError, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// No header is longer: the limit of the format's own library.
const LONGEST_HEADER: u64 = 100_000_000;
/// Bytes that are read at a time.
const STRETCH: usize = 16 << 20;

/// The types of numbers that are read.
#[derive(Clone, Copy, PartialEq)]
enum NumberKind {
    F32,
    F16,
    Bf16,
    I64,
}

impl NumberKind {
    /// Bytes of one.
    fn bytes(self) -> usize {
        match self {
            NumberKind::F16 | NumberKind::Bf16 => 2,
            NumberKind::F32 => 4,
            NumberKind::I64 => 8,
        }
    }

    /// The numbers that lie in `bytes`, the least significant byte first.
    fn read(self, bytes: &[u8], to: &mut Vec<f32>) {
        to.clear();
        match self {
            NumberKind::F32 => to.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
            NumberKind::F16 => to.extend(bytes.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32())),
            NumberKind::Bf16 => to.extend(bytes.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32())),
            NumberKind::I64 => to.extend(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f32)),
        }
    }
}

/// One tensor in a file.
struct TensorEntry {
    file: usize,
    kind: NumberKind,
    size: Vec<i64>,
    /// Its first byte in the file.
    at: u64,
}

/// The tensors of some files.
pub struct SafetensorsFiles {
    whole: PathBuf,
    paths: Vec<PathBuf>,
    tensors: BTreeMap<String, TensorEntry>,
}

/// A tensor in a header.
#[derive(Deserialize)]
struct TensorHeader {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl SafetensorsFiles {
    /// The tensors of `folder`: of `model.safetensors`, or without it of the shards that `model.safetensors.index.json`
    /// names.
    ///
    /// # Errors
    /// Names the file that is missing, damaged or cut off; nothing but headers is read.
    pub fn of_folder(folder: &Path) -> Result<SafetensorsFiles> {
        let (whole, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
        if whole.exists() {
            return SafetensorsFiles::open(folder, vec![whole]);
        }
        if !index.exists() {
            return Err(PolicyError::at(folder, FileFault::Unusable(without_weights(folder))));
        }
        #[derive(Deserialize)]
        struct ShardIndex {
            weight_map: BTreeMap<String, String>,
        }
        let text = files::text(&index, LONGEST).map_err(|e| PolicyError::file(&index, e))?;
        let ShardIndex { weight_map } = serde_json::from_str(&text).map_err(|e| PolicyError::file(&index, e))?;
        let mut shards: Vec<&String> = weight_map.values().collect();
        shards.sort_unstable();
        shards.dedup();
        if let Some(outside) = shards.iter().find(|shard| Path::new(shard).components().count() != 1 || shard.starts_with('.')) {
            return Err(PolicyError::at(&index, FileFault::Unusable(format!("`{outside}` isn't the name of a file beside it"))));
        }
        let files = SafetensorsFiles::open(folder, shards.iter().map(|shard| folder.join(shard)).collect())?;
        match weight_map
            .iter()
            .find(|(tensor, shard)| files.tensors.get(*tensor).is_none_or(|entry| !files.paths[entry.file].ends_with(shard)))
        {
            Some((tensor, shard)) => Err(PolicyError::at(&folder.join(shard), FileFault::NoTensor { tensor: tensor.clone() })),
            None => Ok(files),
        }
    }

    /// The tensors of the files at `paths`; `whole` is what they are together.
    ///
    /// # Errors
    /// As [`SafetensorsFiles::of_folder`].
    pub fn open(whole: &Path, paths: Vec<PathBuf>) -> Result<SafetensorsFiles> {
        let mut tensors = BTreeMap::new();
        for (file, path) in paths.iter().enumerate() {
            for (name, entry) in header(path, file)? {
                if tensors.insert(name.clone(), entry).is_some() {
                    return Err(PolicyError::at(path, FileFault::Unusable(format!("`{name}` is in another file, too"))));
                }
            }
        }
        Ok(SafetensorsFiles { whole: whole.to_owned(), paths, tensors })
    }

    /// Whether both tensors are there and aren't the same, byte for byte.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn differ(&self, one: &str, other: &str) -> Result<bool> {
        let (Some(one), Some(other)) = (self.tensors.get(one), self.tensors.get(other)) else { return Ok(false) };
        if one.kind != other.kind || one.size != other.size {
            return Ok(true);
        }
        let (mut files, mut left) = (Vec::new(), one.size.iter().product::<i64>() as usize * one.kind.bytes());
        for entry in [one, other] {
            let path = &self.paths[entry.file];
            let io = |e: std::io::Error| PolicyError::file(path, e);
            let mut file = File::open(path).map_err(io)?;
            file.seek(SeekFrom::Start(entry.at)).map_err(io)?;
            files.push((path, file));
        }
        let mut parts = [vec![0; STRETCH.min(left)], vec![0; STRETCH.min(left)]];
        while left > 0 {
            let count = STRETCH.min(left);
            for (part, (path, file)) in parts.iter_mut().zip(&mut files) {
                file.read_exact(&mut part[..count]).map_err(|e| PolicyError::file(path, e))?;
            }
            if parts[0][..count] != parts[1][..count] {
                return Ok(true);
            }
            left -= count;
        }
        Ok(false)
    }
}

/// The fault of a folder without readable weights, by the files that it has instead.
fn without_weights(folder: &Path) -> String {
    let names = names(folder);
    let ending = |ends: &[&str]| names.iter().find(|name| ends.iter().any(|end| name.ends_with(end)));
    let other = ending(&[".safetensors"]).filter(|name| !["adapter_model.safetensors", "optimizer.safetensors"].contains(&name.as_str()));
    if let Some(other) = other {
        return format!(
            "there is no `model.safetensors`, but `{other}`: give it that name, or the shards their `model.safetensors.index.json`"
        );
    }
    match ending(&[".bin", ".pt", ".pth"]) {
        Some(other) => format!(
            "there is no `model.safetensors`, but `{other}`, which isn't read here: write it anew by transformers' \
             `AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(FOLDER)`"
        ),
        None => format!("there are no weights: {EXPECTED_FILES}"),
    }
}

/// The tensors of one file. Each lies within it.
fn header(path: &Path, file: usize) -> Result<Vec<(String, TensorEntry)>> {
    let io = |e: std::io::Error| PolicyError::file(path, e);
    let bad = |what: String| PolicyError::at(path, FileFault::Unusable(what));
    let mut open = files::open(path).map_err(io)?;
    let bytes = open.metadata().map_err(io)?.len();
    let mut length = [0; 8];
    open.read_exact(&mut length).map_err(|_| bad(format!("{bytes} bytes are no safetensors file")))?;
    if POINTER.as_bytes().starts_with(&length) {
        return Err(bad(NOT_FETCHED.into()));
    }
    let length = u64::from_le_bytes(length);
    let start = length.saturating_add(8);
    if length > LONGEST_HEADER || start > bytes {
        return Err(bad(format!("no safetensors file, or cut off: {bytes} bytes, and a header of {length}")));
    }
    let mut text = vec![0; length as usize];
    open.read_exact(&mut text).map_err(io)?;
    let described: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&text).map_err(|e| bad(format!("the header of the safetensors file isn't one: {e}")))?;
    let mut entries = Vec::new();
    for (name, described) in described.into_iter().filter(|(name, _)| name != "__metadata__") {
        let TensorHeader { dtype, shape, data_offsets: [from, to] } =
            serde_json::from_value(described).map_err(|e| bad(format!("`{name}` in the header: {e}")))?;
        let kind = match dtype.as_str() {
            "F32" => NumberKind::F32,
            "F16" => NumberKind::F16,
            "BF16" => NumberKind::Bf16,
            // The position indices that old encoder checkpoints contain; unused.
            "I64" if name.ends_with("position_ids") => NumberKind::I64,
            _ => return Err(bad(format!("`{name}` is of type {dtype}; F32, F16 and BF16 can be read"))),
        };
        let numbers = shape.iter().try_fold(1u64, |all, &dimension| all.checked_mul(dimension));
        let size = shape.iter().map(|&dimension| i64::try_from(dimension)).collect::<Result<Vec<_>, _>>();
        let (Some(needed), Ok(size)) = (numbers.and_then(|n| n.checked_mul(kind.bytes() as u64)), size) else {
            return Err(bad(format!("`{name}` has sizes {shape:?}")));
        };
        if to.checked_sub(from) != Some(needed) {
            return Err(bad(format!("`{name}` of {dtype} {shape:?} needs {needed} bytes and has those from {from} to {to}")));
        }
        if to > bytes - start {
            return Err(bad(format!("cut off: `{name}` ends at byte {}, the file at {bytes}", start.saturating_add(to))));
        }
        entries.push((name, TensorEntry { file, kind, size, at: start + from }));
    }
    Ok(entries)
}

impl TensorSource for SafetensorsFiles {
    fn path(&self) -> &Path {
        &self.whole
    }

    fn file(&self, name: &str) -> &Path {
        self.tensors.get(name).map_or(&self.whole, |entry| &self.paths[entry.file])
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn size(&self, name: &str) -> Option<Vec<i64>> {
        self.tensors.get(name).map(|entry| entry.size.clone())
    }

    fn read(&self, name: &str, put: &mut dyn FnMut(usize, &[f32]) -> Result<()>) -> Result<()> {
        let missing = || PolicyError::at(&self.whole, FileFault::NoTensor { tensor: name.into() });
        let entry = self.tensors.get(name).ok_or_else(missing)?;
        let path = &self.paths[entry.file];
        let io = |e: std::io::Error| PolicyError::file(path, e);
        let mut file = File::open(path).map_err(io)?;
        file.seek(SeekFrom::Start(entry.at)).map_err(io)?;
        let width = entry.kind.bytes();
        let (mut done, all) = (0, entry.size.iter().product::<i64>() as usize);
        let (mut bytes, mut numbers) = (vec![0; STRETCH.min(all * width)], Vec::new());
        while done < all {
            let count = (STRETCH / width).min(all - done);
            let part = &mut bytes[..count * width];
            file.read_exact(part).map_err(io)?;
            entry.kind.read(part, &mut numbers);
            put(done, &numbers)?;
            done += count;
        }
        Ok(())
    }
}
