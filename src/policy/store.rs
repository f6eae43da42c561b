//! A saved version: `config.json`, `vocabulary.json`, `model.safetensors` and `optimizer.safetensors` in a folder of their own.
//! Tensors carry the names of the Llama family. The folder is written under another name, synced, then renamed.

use super::adamw::Moments;
use super::shape::Shape;
use super::{Head, PolicyError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};

const FORMAT: &str = "flow-tiny-1";

/// `config.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    format: String,
    shape: Shape,
    version: u64,
    /// Steps of the optimiser.
    steps: u64,
}

/// Everything that a folder holds.
pub struct Saved {
    pub shape: Shape,
    pub words: Vec<String>,
    pub version: u64,
    pub flat: Tensor,
    pub moments: Moments,
}

impl Saved {
    /// With `head` in place of the head it has: weights that both have stay, a value head starts at 0. No policy comes of a critic.
    pub fn with_head(self, head: Head) -> Result<Saved, String> {
        if self.shape.value == (head == Head::Value) {
            return Ok(self);
        }
        if head == Head::Language {
            return Err("the saved model has a value head and writes nothing: it can't be loaded with `head: language`".into());
        }
        let kept = |at: i64, len: i64| self.flat.narrow(0, at, len);
        let shape = Shape { value: true, ..self.shape.clone() };
        let mut places = BTreeMap::new();
        let mut at = 0;
        for part in self.shape.parts() {
            places.insert(part.name.clone(), at);
            at += part.len();
        }
        let begin = |part: super::shape::Part| match places.get(&part.name) {
            Some(at) => kept(*at, part.len()),
            None => Tensor::zeros([part.len()], (Kind::Float, self.flat.device())),
        };
        let flat = Tensor::cat(&shape.parts().into_iter().map(begin).collect::<Vec<_>>(), 0);
        Ok(Saved { moments: Moments::new(&flat), shape, flat, ..self })
    }
}

fn failed(path: &Path, what: impl std::fmt::Display) -> PolicyError {
    let what = super::error::first_line(&what.to_string());
    // libtorch hands on what the system said as text: no space left, a quota, a limit on files.
    let full = [28, 122, 27].iter().any(|e| what.contains(&format!("(os error {e})")) || what.contains(&format!("code: {e},")));
    let what = if full { "the disk is full: free some space, then resume the run".into() } else { what };
    PolicyError::File { path: path.display().to_string(), what }
}

fn beside(folder: &Path, tail: &str) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    folder.with_file_name(format!(".{name}.{tail}-{}", std::process::id()))
}

/// Writes `saved` into `folder`, in place of what is there.
pub fn save(saved: &Saved, folder: &Path) -> Result<(), PolicyError> {
    let unfinished = beside(folder, "unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(|e| failed(&unfinished, e))?;
    let written = write(saved, &unfinished).and_then(|()| replace(&unfinished, folder));
    if written.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    written
}

fn write(saved: &Saved, folder: &Path) -> Result<(), PolicyError> {
    let config = Config { format: FORMAT.into(), shape: saved.shape.clone(), version: saved.version, steps: saved.moments.steps };
    json(&folder.join("config.json"), &config)?;
    json(&folder.join("vocabulary.json"), &saved.words)?;
    let named = |flat: &Tensor, prefix: &str| {
        let mut at = 0;
        let slice = |part: super::shape::Part| {
            let view = flat.narrow(0, at, part.len()).view(part.size.as_slice()).to_device(Device::Cpu).contiguous();
            at += part.len();
            (format!("{prefix}{}", part.name), view)
        };
        saved.shape.parts().into_iter().map(slice).collect::<Vec<_>>()
    };
    let mut moments = named(&saved.moments.first, "first.");
    moments.extend(named(&saved.moments.second, "second."));
    for (name, tensors) in [("model.safetensors", named(&saved.flat, "")), ("optimizer.safetensors", moments)] {
        let path = folder.join(name);
        Tensor::write_safetensors(&tensors, &path).map_err(|e| failed(&path, e))?;
        File::open(&path).and_then(|file| file.sync_all()).map_err(|e| failed(&path, e))?;
    }
    File::open(folder).and_then(|file| file.sync_all()).map_err(|e| failed(folder, e))
}

fn json(path: &Path, value: &impl Serialize) -> Result<(), PolicyError> {
    let text = serde_json::to_string_pretty(value).map_err(|e| failed(path, e))?;
    fs::write(path, text + "\n").and_then(|()| File::open(path)?.sync_all()).map_err(|e| failed(path, e))
}

fn replace(from: &Path, to: &Path) -> Result<(), PolicyError> {
    let old = beside(to, "old");
    let there = to.exists();
    if there {
        let _ = fs::remove_dir_all(&old);
        fs::rename(to, &old).map_err(|e| failed(to, e))?;
    }
    fs::rename(from, to).map_err(|e| failed(to, e))?;
    if there {
        fs::remove_dir_all(&old).map_err(|e| failed(&old, e))?;
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, PolicyError> {
    let text = fs::read_to_string(path).map_err(|e| failed(path, e))?;
    serde_json::from_str(&text).map_err(|e| failed(path, e))
}

/// Reads what [`save`] wrote.
pub fn load(folder: &Path, device: Device) -> Result<Saved, PolicyError> {
    let path = folder.join("config.json");
    let config: serde_json::Value = read(&path)?;
    if config.get("format").and_then(|format| format.as_str()) != Some(FORMAT) {
        let what = if config.get("model_type").is_some() {
            "a Hugging Face model; only folders that flow saved can be loaded as yet"
        } else {
            "not the configuration of a model that this version of flow saved"
        };
        return Err(failed(&path, what));
    }
    let config: Config = serde_json::from_value(config).map_err(|e| failed(&path, e))?;
    let shape = config.shape.checked().map_err(|e| failed(&path, e))?;
    let words: Vec<String> = read(&folder.join("vocabulary.json"))?;
    let model = folder.join("model.safetensors");
    let flat = gather(&tensors(&model)?, &shape, "", &model)?.to_device(device);
    let path = folder.join("optimizer.safetensors");
    let state = tensors(&path)?;
    let moment = |prefix| gather(&state, &shape, prefix, &path).map(|flat| flat.to_device(device));
    let moments = Moments { first: moment("first.")?, second: moment("second.")?, steps: config.steps };
    Ok(Saved { shape, words, version: config.version, flat, moments })
}

fn tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, PolicyError> {
    Ok(Tensor::read_safetensors(path).map_err(|e| failed(path, e))?.into_iter().collect())
}

/// The flat vector of the tensors of `shape`.
fn gather(tensors: &BTreeMap<String, Tensor>, shape: &Shape, prefix: &str, path: &Path) -> Result<Tensor, PolicyError> {
    let mut flat = Vec::new();
    for part in shape.parts() {
        let name = format!("{prefix}{}", part.name);
        let tensor = tensors.get(&name).ok_or_else(|| failed(path, format!("there is no tensor `{name}`")))?;
        if tensor.size() != part.size || tensor.kind() != Kind::Float {
            let what = format!("`{name}` is {:?} {:?}, wanted Float {:?}", tensor.kind(), tensor.size(), part.size);
            return Err(failed(path, what));
        }
        flat.push(tensor.reshape([-1]));
    }
    Ok(Tensor::cat(&flat, 0))
}
