//! A saved version: `config.json`, `vocabulary.json`, `model.safetensors` and `optimizer.safetensors` in a folder of their own.
//! Tensors carry the names that the architecture gives them. The folder is written under another name, synced, then renamed.

use super::parameters::Layout;
use super::{Architecture, ARCHITECTURES};
use crate::policy::update::Moments;
use crate::policy::{FileFault, Head, ModelFault, PolicyError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// `config.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The architecture's name.
    format: String,
    /// Its configuration.
    shape: Value,
    version: u64,
    /// Steps of the optimiser.
    steps: u64,
}

/// Everything that a folder holds.
pub struct Saved {
    /// The model without its weights.
    pub architecture: Arc<dyn Architecture>,
    /// The words of its vocabulary.
    pub words: Vec<String>,
    /// The version of the weights.
    pub version: u64,
    /// The weights, `[parameters]`.
    pub flat: Tensor,
    /// The optimiser's moments.
    pub moments: Moments,
}

impl Saved {
    /// With `head` in place of the head it has: weights that both have stay, a value head starts at 0. No policy comes of a critic.
    pub fn with_head(self, head: Head) -> Result<Saved, ModelFault> {
        if self.architecture.sizes().value == (head == Head::Value) {
            return Ok(self);
        }
        let architecture = self.architecture.with_head(head)?;
        let layout = self.architecture.layout();
        let had: HashMap<&str, Tensor> = layout.named(&self.flat).collect();
        let nothing = |len: i64| Tensor::zeros([len], (Kind::Float, self.flat.device()));
        let new = architecture.layout();
        let parts = new.parameters().iter().map(|p| had.get(p.name.as_str()).map_or_else(|| nothing(p.len()), |had| had.reshape([-1])));
        let flat = Tensor::cat(&parts.collect::<Vec<_>>(), 0);
        Ok(Saved { moments: Moments::new(&flat), architecture, flat, ..self })
    }
}

fn beside(folder: &Path, tail: &str) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    folder.with_file_name(format!(".{name}.{tail}-{}", std::process::id()))
}

/// Writes `saved` into `folder`, in place of what is there.
///
/// # Errors
/// [`PolicyError::File`] if something can't be written; then `folder` is as it was.
pub fn save(saved: &Saved, folder: &Path) -> Result<(), PolicyError> {
    let unfinished = beside(folder, "unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(|e| PolicyError::file(&unfinished, e))?;
    let written = write(saved, &unfinished).and_then(|()| replace(&unfinished, folder));
    if written.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    written
}

fn write(saved: &Saved, folder: &Path) -> Result<(), PolicyError> {
    let architecture = &saved.architecture;
    let (format, shape) = (architecture.name().to_string(), architecture.config());
    json(&folder.join("config.json"), &Config { format, shape, version: saved.version, steps: saved.moments.steps })?;
    json(&folder.join("vocabulary.json"), &saved.words)?;
    let layout = architecture.layout();
    let named = |flat: &Tensor, prefix: &str| {
        layout.named(flat).map(|(name, part)| (format!("{prefix}{name}"), part.to_device(Device::Cpu).contiguous())).collect::<Vec<_>>()
    };
    let mut moments = named(&saved.moments.first, "first.");
    moments.extend(named(&saved.moments.second, "second."));
    for (name, tensors) in [("model.safetensors", named(&saved.flat, "")), ("optimizer.safetensors", moments)] {
        let path = folder.join(name);
        Tensor::write_safetensors(&tensors, &path).map_err(|e| PolicyError::file(&path, e))?;
        File::open(&path).and_then(|file| file.sync_all()).map_err(|e| PolicyError::file(&path, e))?;
    }
    File::open(folder).and_then(|file| file.sync_all()).map_err(|e| PolicyError::file(folder, e))
}

fn json(path: &Path, value: &impl Serialize) -> Result<(), PolicyError> {
    let text = serde_json::to_string_pretty(value).map_err(|e| PolicyError::file(path, e))?;
    fs::write(path, text + "\n").and_then(|()| File::open(path)?.sync_all()).map_err(|e| PolicyError::file(path, e))
}

fn replace(from: &Path, to: &Path) -> Result<(), PolicyError> {
    let old = beside(to, "old");
    let there = to.exists();
    if there {
        let _ = fs::remove_dir_all(&old);
        fs::rename(to, &old).map_err(|e| PolicyError::file(to, e))?;
    }
    fs::rename(from, to).map_err(|e| PolicyError::file(to, e))?;
    if there {
        fs::remove_dir_all(&old).map_err(|e| PolicyError::file(&old, e))?;
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, PolicyError> {
    let text = fs::read_to_string(path).map_err(|e| PolicyError::file(path, e))?;
    serde_json::from_str(&text).map_err(|e| PolicyError::file(path, e))
}

/// Reads what [`save`] wrote.
///
/// # Errors
/// [`PolicyError::File`], which names the file and, where it is one tensor that is wrong, the tensor.
pub fn load(folder: &Path, device: Device) -> Result<Saved, PolicyError> {
    let path = folder.join("config.json");
    let config: Value = read(&path)?;
    let format = config.get("format").and_then(Value::as_str);
    let Some((_, architecture)) = ARCHITECTURES.iter().find(|(name, _)| Some(*name) == format) else {
        let foreign = config.get("model_type").is_some();
        return Err(PolicyError::at(&path, if foreign { FileFault::HuggingFace } else { FileFault::UnknownFormat }));
    };
    let config: Config = serde_json::from_value(config).map_err(|e| PolicyError::file(&path, e))?;
    let architecture = architecture(&config.shape).map_err(|fault| PolicyError::at(&path, fault))?;
    let layout = architecture.layout();
    let words: Vec<String> = read(&folder.join("vocabulary.json"))?;
    let model = folder.join("model.safetensors");
    let flat = gather(&tensors(&model)?, &layout, "", &model)?.to_device(device);
    let path = folder.join("optimizer.safetensors");
    let state = tensors(&path)?;
    let moment = |prefix| gather(&state, &layout, prefix, &path).map(|flat| flat.to_device(device));
    let moments = Moments { first: moment("first.")?, second: moment("second.")?, steps: config.steps };
    Ok(Saved { architecture, words, version: config.version, flat, moments })
}

fn tensors(path: &Path) -> Result<HashMap<String, Tensor>, PolicyError> {
    Ok(Tensor::read_safetensors(path).map_err(|e| PolicyError::file(path, e))?.into_iter().collect())
}

/// The flat vector of the tensors that `layout` names.
fn gather(tensors: &HashMap<String, Tensor>, layout: &Layout, prefix: &str, path: &Path) -> Result<Tensor, PolicyError> {
    let mut flat = Vec::new();
    for parameter in layout.parameters() {
        let name = format!("{prefix}{}", parameter.name);
        let Some(tensor) = tensors.get(&name) else {
            return Err(PolicyError::at(path, FileFault::NoTensor { tensor: name }));
        };
        if tensor.size() != parameter.size || tensor.kind() != Kind::Float {
            let (found, wanted) = (format!("{:?} {:?}", tensor.kind(), tensor.size()), format!("Float {:?}", parameter.size));
            return Err(PolicyError::at(path, FileFault::Tensor { tensor: name, found, wanted }));
        }
        flat.push(tensor.reshape([-1]));
    }
    Ok(Tensor::cat(&flat, 0))
}
