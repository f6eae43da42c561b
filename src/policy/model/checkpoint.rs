//! Models on disk: what `flow` saves, an ordinary Hugging Face folder, or a GGUF file.
//!
//! A published model is saved as the folder it came as (`config.json`, its tokenizer, `model.safetensors`), which other programs can
//! load, and beside it `flow.json` and `optimizer.safetensors`. A new model has a `config.json` of its own and `vocabulary.json`.
//! Tensors carry the names that the architecture gives them. A folder is written under another name, synced, then renamed.

use super::gguf::{self, Gguf};
use super::safetensors::Files;
use super::source::{check, read as read_tensors, Source};
use super::{find, Architecture};
use crate::policy::tokenizer::{Tokenizer, FILES, WORDS_FILE};
use crate::policy::update::Moments;
use crate::policy::{FileFault, Head, ModelFault, PolicyError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const MOMENTS: &str = "optimizer.safetensors";
/// What `flow` adds to a published model's folder.
const TRAINED: &str = "flow.json";

/// The `config.json` of a new model.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    /// The architecture's name.
    format: String,
    /// Its configuration.
    shape: Value,
    version: u64,
    /// Steps of the optimiser.
    steps: u64,
}

/// How far a model was trained.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Trained {
    version: u64,
    /// Steps of the optimiser.
    steps: u64,
}

/// A model as it lies on disk: all but its tensors.
pub struct Stored {
    /// The model without its weights.
    pub architecture: Arc<dyn Architecture>,
    /// Its vocabulary.
    pub tokenizer: Arc<Tokenizer>,
    source: Box<dyn Source>,
    trained: Trained,
    /// The optimiser's moments, if there are any.
    moments: Option<Files>,
}

/// A model with all that is saved of it.
pub struct Saved {
    /// The model without its weights.
    pub architecture: Arc<dyn Architecture>,
    /// Its vocabulary.
    pub tokenizer: Arc<Tokenizer>,
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
    let (architecture, trained) = (&saved.architecture, Trained { version: saved.version, steps: saved.moments.steps });
    let shape = architecture.config();
    let published = shape.get("model_type").is_some();
    if published {
        json(&folder.join(CONFIG), &shape)?;
        json(&folder.join(TRAINED), &trained)?;
    } else {
        let Trained { version, steps } = trained;
        json(&folder.join(CONFIG), &Own { format: architecture.name().into(), shape, version, steps })?;
    }
    for (name, contents) in saved.tokenizer.files() {
        text(&folder.join(name), &contents)?;
    }
    let layout = architecture.layout();
    let named = |flat: &Tensor, prefix: &str| {
        layout.named(flat).map(|(name, part)| (format!("{prefix}{name}"), part.to_device(Device::Cpu).contiguous())).collect::<Vec<_>>()
    };
    tensors(&folder.join(WEIGHTS), &named(&saved.flat, ""))?;
    // Of a published model nobody has trained yet there are no moments, which would take twice its size.
    if !published || trained.steps > 0 {
        let mut moments = named(&saved.moments.first, "first.");
        moments.extend(named(&saved.moments.second, "second."));
        tensors(&folder.join(MOMENTS), &moments)?;
    }
    File::open(folder).and_then(|file| file.sync_all()).map_err(|e| PolicyError::file(folder, e))
}

fn tensors(path: &Path, named: &[(String, Tensor)]) -> Result<(), PolicyError> {
    Tensor::write_safetensors(named, path).map_err(|e| PolicyError::file(path, e))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| PolicyError::file(path, e))
}

fn json(path: &Path, value: &impl Serialize) -> Result<(), PolicyError> {
    let contents = serde_json::to_string_pretty(value).map_err(|e| PolicyError::file(path, e))?;
    text(path, &(contents + "\n"))
}

fn text(path: &Path, contents: &str) -> Result<(), PolicyError> {
    fs::write(path, contents).and_then(|()| File::open(path)?.sync_all()).map_err(|e| PolicyError::file(path, e))
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

/// Opens a saved version, a Hugging Face folder, a GGUF file, or a folder with one GGUF file, and checks that every tensor is there.
///
/// # Errors
/// [`PolicyError::File`], which names the file and, where it is one tensor that is wrong, the tensor. No tensor was read by then.
pub fn open(path: &Path) -> Result<Stored, PolicyError> {
    if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
        return open_gguf(path);
    }
    let config = path.join(CONFIG);
    if !config.exists() {
        if let [only] = &ggufs(path)[..] {
            return open_gguf(only);
        }
    }
    let said: Value = read(&config)?;
    if said.get("format").is_none() && said.get("model_type").is_some() {
        open_published(path, &said)
    } else {
        open_own(path, said)
    }
}

/// The GGUF files in a folder.
fn ggufs(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf"))).collect()
}

fn open_own(folder: &Path, said: Value) -> Result<Stored, PolicyError> {
    let path = folder.join(CONFIG);
    let wrong = |fault| PolicyError::at(&path, fault);
    let format = said.get("format").and_then(Value::as_str).unwrap_or_default();
    let read_it = find(format).ok_or_else(|| wrong(FileFault::UnknownFormat))?;
    let Own { shape, version, steps, .. } = serde_json::from_value(said).map_err(|e| PolicyError::file(&path, e))?;
    let architecture = read_it(&shape).map_err(wrong)?;
    let words: Vec<String> = read(&folder.join(WORDS_FILE))?;
    let source = Box::new(Files::of_folder(folder)?);
    let moments = folder.join(MOMENTS);
    let moments = Some(Files::open(&moments, vec![moments.clone()])?);
    let stored = Stored { architecture, tokenizer: Arc::new(Tokenizer::new(&words)), source, trained: Trained { version, steps }, moments };
    stored.checked(|_| false)
}

fn open_published(folder: &Path, config: &Value) -> Result<Stored, PolicyError> {
    let path = folder.join(CONFIG);
    let architecture = described(config).map_err(|fault| PolicyError::at(&path, fault))?;
    let mut files = BTreeMap::new();
    for name in FILES {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => drop(files.insert(name.to_string(), text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(PolicyError::file(&path, error)),
        }
    }
    let tokenizer = Arc::new(Tokenizer::published(&files, config, folder)?);
    let source = Box::new(Files::of_folder(folder)?);
    let (trained, moments) = (folder.join(TRAINED), folder.join(MOMENTS));
    let trained = if trained.exists() { read(&trained)? } else { Trained::default() };
    let moments = if moments.exists() { Some(Files::open(&moments, vec![moments.clone()])?) } else { None };
    // The output layer of a model that ties it, and tables that follow from the configuration: some checkpoints have them.
    let unread = |name: &str| name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq");
    Stored { architecture, tokenizer, source, trained, moments }.checked(unread)
}

fn open_gguf(path: &Path) -> Result<Stored, PolicyError> {
    let gguf = Gguf::open(path)?;
    let architecture = described(&gguf.config).map_err(|fault| PolicyError::at(path, fault))?;
    let tokenizer = Arc::new(Tokenizer::published(&gguf.files, &gguf.config, path)?);
    let stored = Stored { architecture, tokenizer, source: Box::new(gguf), trained: Trained::default(), moments: None };
    stored.checked(gguf::unread)
}

/// The architecture of a published model's configuration.
fn described(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let name = config["model_type"].as_str().unwrap_or_default();
    match find(name).filter(|_| name != super::tiny::NAME) {
        Some(read) => read(config),
        None => {
            let known: Vec<_> = super::ARCHITECTURES.iter().map(|(name, _)| *name).filter(|name| *name != super::tiny::NAME).collect();
            Err(FileFault::Unsupported(format!("the architecture `{name}`; {} are", known.join(", "))))
        }
    }
}

impl Stored {
    fn checked(self, unread: fn(&str) -> bool) -> Result<Stored, PolicyError> {
        let layout = self.architecture.layout();
        check(&*self.source, &layout, "", unread)?;
        if let Some(moments) = &self.moments {
            check(moments, &layout, "first.", |_| false)?;
            check(moments, &layout, "second.", |_| false)?;
        }
        let (tokens, vocab) = (self.tokenizer.vocab_size(), self.architecture.sizes().vocab);
        if tokens > vocab {
            return Err(PolicyError::at(self.source.path(), FileFault::Vocabulary { tokens, vocab }));
        }
        Ok(self)
    }

    /// Reads the tensors.
    ///
    /// # Errors
    /// If a file can't be read.
    pub fn load(self, device: Device) -> Result<Saved, PolicyError> {
        let layout = self.architecture.layout();
        let flat = read_tensors(&*self.source, &layout, "", device)?;
        let moments = match &self.moments {
            None => Moments::new(&flat),
            Some(files) => Moments {
                first: read_tensors(files, &layout, "first.", device)?,
                second: read_tensors(files, &layout, "second.", device)?,
                steps: self.trained.steps,
            },
        };
        Ok(Saved { architecture: self.architecture, tokenizer: self.tokenizer, version: self.trained.version, flat, moments })
    }
}

/// Reads a model from disk; see [`open`].
///
/// # Errors
/// As [`open`], or if a file can't be read.
pub fn load(path: &Path, device: Device) -> Result<Saved, PolicyError> {
    open(path)?.load(device)
}
