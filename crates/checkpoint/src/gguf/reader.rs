//! Reads the part of a GGUF file that lies before its tensors.

use crate::gguf::blocks::{BlockType, TYPES};
use flow_core::files;
use flow_model::folder::{NOT_FETCHED, POINTER};
use flow_model::{FileFault, PolicyError, Result};
use serde_json::{Number, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Named values.
pub type Metadata = BTreeMap<String, Value>;

/// One tensor.
pub struct GgufTensor {
    /// How its numbers are packed.
    pub kind: &'static BlockType,
    /// Its sizes, rows first: ggml writes them the other way round.
    pub size: Vec<i64>,
    /// Its first byte in the file.
    pub at: u64,
}

/// A file that is being read; no length in it exceeds the rest of the file.
struct Reader {
    file: BufReader<File>,
    at: u64,
    bytes: u64,
}

type FileResult<T> = Result<T, FileFault>;

impl Reader {
    fn take(&mut self, count: u64) -> FileResult<Vec<u8>> {
        if count > self.bytes - self.at {
            return Err(FileFault::Unusable(format!(
                "cut off: at byte {} more than the {} bytes of the file are needed",
                self.at, self.bytes
            )));
        }
        let mut bytes = vec![0; count as usize];
        self.file.read_exact(&mut bytes).map_err(|e| FileFault::Unusable(e.to_string()))?;
        self.at += count;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> FileResult<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.take(N as u64)?);
        Ok(bytes)
    }

    fn u32(&mut self) -> FileResult<u32> {
        Ok(u32::from_le_bytes(self.fixed()?))
    }

    fn u64(&mut self) -> FileResult<u64> {
        Ok(u64::from_le_bytes(self.fixed()?))
    }

    fn text(&mut self) -> FileResult<String> {
        let length = self.u64()?;
        // A token needn't be text by itself.
        Ok(String::from_utf8_lossy(&self.take(length)?).into_owned())
    }

    fn value(&mut self, kind: u32, depth: usize) -> FileResult<Value> {
        let float = |x: f64| Number::from_f64(x).map_or(Value::Null, Value::Number);
        Ok(match kind {
            0 => self.fixed::<1>()?[0].into(),
            1 => (self.fixed::<1>()?[0] as i8).into(),
            2 => u16::from_le_bytes(self.fixed()?).into(),
            3 => i16::from_le_bytes(self.fixed()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.fixed()?).into(),
            6 => float(f32::from_le_bytes(self.fixed()?).into()),
            7 => (self.fixed::<1>()?[0] != 0).into(),
            8 => self.text()?.into(),
            9 if depth < 4 => {
                let (kind, count) = (self.u32()?, self.u64()?);
                let mut list = Vec::new();
                for _ in 0..count {
                    list.push(self.value(kind, depth + 1)?);
                }
                list.into()
            }
            10 => self.u64()?.into(),
            11 => i64::from_le_bytes(self.fixed()?).into(),
            12 => float(f64::from_le_bytes(self.fixed()?)),
            other => return Err(FileFault::Unusable(format!("a value of the unknown type {other} before byte {}", self.at))),
        })
    }
}

/// The metadata of the file at `path`, and its tensors under ggml's names. Each lies within the file.
pub fn read(path: &Path) -> Result<(Metadata, Vec<(String, GgufTensor)>)> {
    let io = |e: std::io::Error| PolicyError::file(path, e);
    let file = files::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    whole(&mut Reader { file: BufReader::new(file), at: 0, bytes }).map_err(|fault| PolicyError::at(path, fault))
}

fn whole(reader: &mut Reader) -> FileResult<(Metadata, Vec<(String, GgufTensor)>)> {
    let unusable = |what: String| Err(FileFault::Unusable(what));
    match &if reader.bytes < 24 { [0; 4] } else { reader.fixed::<4>()? } {
        b"GGUF" => {}
        begin if POINTER.as_bytes().starts_with(begin) => return unusable(NOT_FETCHED.into()),
        _ => return unusable("no GGUF file".into()),
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        return unusable(format!("GGUF of version {version}; 2 and 3 can be read"));
    }
    let (tensors, values) = (reader.u64()?, reader.u64()?);
    let mut metadata = Metadata::new();
    for _ in 0..values {
        let (name, kind) = (reader.text()?, reader.u32()?);
        metadata.insert(name, reader.value(kind, 0)?);
    }
    let mut entries = Vec::new();
    for _ in 0..tensors {
        let (name, sizes) = (reader.text()?, reader.u32()?);
        if sizes > 4 {
            return unusable(format!("`{name}` has {sizes} sizes"));
        }
        let mut size = Vec::new();
        for _ in 0..sizes {
            size.push(reader.u64()?);
        }
        size.reverse();
        let (kind, at) = (reader.u32()?, reader.u64()?);
        entries.push((name, size, kind, at));
    }
    let alignment = metadata.get("general.alignment").and_then(Value::as_u64).unwrap_or(32).max(1);
    let start = reader.at.next_multiple_of(alignment);
    let mut tensor_entries = Vec::new();
    for (name, size, kind, at) in entries {
        let Some(kind) = TYPES.iter().find(|known| known.code == kind) else {
            let known: Vec<_> = TYPES.iter().map(|known| known.name).collect();
            return Err(FileFault::Unsupported(format!("`{name}`, quantised in ggml's type {kind}; {} are", known.join(", "))));
        };
        let numbers = size.iter().try_fold(1u64, |all, &dimension| all.checked_mul(dimension)).filter(|n| n % kind.block as u64 == 0);
        let end = numbers
            .and_then(|n| (n / kind.block as u64).checked_mul(kind.bytes as u64))
            .and_then(|needed| start.checked_add(at)?.checked_add(needed));
        let (Some(end), Ok(sizes)) = (end, size.iter().map(|&dimension| i64::try_from(dimension)).collect::<Result<Vec<_>, _>>()) else {
            return unusable(format!("`{name}` of {} has sizes {size:?}", kind.name));
        };
        if end > reader.bytes {
            return unusable(format!("cut off: `{name}` ends at byte {end}, the file at {}", reader.bytes));
        }
        tensor_entries.push((name, GgufTensor { kind, size: sizes, at: start + at }));
    }
    Ok((metadata, tensor_entries))
}
