//! Models on disk, as they are opened: what `flow` saved, an ordinary Hugging Face folder, or an adapter's folder.

use crate::adapter::StoredAdapter;
use crate::safetensors::SafetensorsFiles;
use crate::saved::{check_moments, NewModelConfig, TrainingProgress};
use crate::source::{check, TensorSource};
use flow_core::files;
use flow_core::printable::shell_word;
use flow_model::config::{EMBEDDING, OUTPUT};
use flow_model::folder::{names, read, EXPECTED_FILES, LONGEST};
use flow_model::lora::Adapter;
use flow_model::on_disk::{gguf_at, is_adapter_folder, CONFIG, MOMENTS, TRAINED};
use flow_model::{find, Architecture, FileFault, PolicyError, Result};
use flow_text::{Tokenizer, FILES, WORDS_FILE};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// More adapters on one another than anyone has.
const DEEPEST: usize = 8;

/// A model as it lies on disk: all but its tensors.
pub struct StoredModel {
    /// The model without its weights.
    pub architecture: Arc<dyn Architecture>,
    /// Its vocabulary.
    pub tokenizer: Arc<Tokenizer>,
    /// Its tensors.
    pub source: Box<dyn TensorSource>,
    /// How far it was trained.
    pub trained: TrainingProgress,
    /// The optimiser's moments, if there are any.
    pub moments: Option<SafetensorsFiles>,
    /// Adapters over those weights, the first one the first to be added.
    pub adapters: Vec<(Arc<Adapter>, StoredAdapter)>,
}

/// Opens a saved version or a Hugging Face folder, and checks that every tensor is there.
///
/// # Errors
/// [`PolicyError::File`], which names the file and, where it is one tensor that is wrong, the tensor. No tensor was
/// read by then.
pub fn open(path: &Path) -> Result<StoredModel> {
    open_over(path, DEEPEST)
}

/// As [`open`], with at most `deepest` adapters on one another.
fn open_over(path: &Path, deepest: usize) -> Result<StoredModel> {
    if is_adapter_folder(path) {
        let own = StoredAdapter::open(path)?;
        let base = own.base()?;
        let mut stored = if base == path {
            open_plain(path, true)?
        } else {
            let deeper = deepest
                .checked_sub(1)
                .ok_or_else(|| PolicyError::at(path, FileFault::Unusable("adapters on adapters without an end".into())))?;
            open_over(&base, deeper)?
        };
        let adapter = stored.adapted_by(&own)?;
        stored.adapters.push((Arc::new(adapter), own));
        return Ok(stored);
    }
    open_plain(path, false)
}

/// Opens a model, whatever adapter lies beside it. With `adapted` it was never trained itself.
fn open_plain(path: &Path, adapted: bool) -> Result<StoredModel> {
    converted(path)?;
    let config = path.join(CONFIG);
    if path.is_dir() && !config.exists() {
        let unusable = |what: String| Err(PolicyError::at(path, FileFault::Unusable(what)));
        return match &names(path)[..] {
            [] => unusable(format!("the folder is empty: {EXPECTED_FILES}")),
            all => unusable(format!("there is no `{CONFIG}`, but {}; {EXPECTED_FILES}", listed(all))),
        };
    }
    let json: Value = read(&config)?;
    if json.get("format").is_none() && json.get("model_type").is_some() {
        open_published(path, &json)
    } else {
        open_own(path, json, adapted)
    }
}

/// Refuses a GGUF file, or a folder with one alone.
///
/// # Errors
/// How to convert it.
pub fn converted(path: &Path) -> Result<()> {
    let Some(file) = gguf_at(path) else { return Ok(()) };
    let folder = if path == file { file.with_extension("") } else { path.to_owned() };
    let [from, to] = [&file, &folder].map(|path| shell_word(&path.display().to_string()));
    Err(PolicyError::at(&file, FileFault::Unusable(format!("a GGUF file must be converted: `flow model convert {from} {to}`"))))
}

/// The first names of a folder's files, for a message.
fn listed(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(first.len());
    first.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

fn open_own(folder: &Path, json: Value, adapted: bool) -> Result<StoredModel> {
    let path = folder.join(CONFIG);
    let fault = |fault| PolicyError::at(&path, fault);
    let format = json.get("format").and_then(Value::as_str).unwrap_or_default();
    let read_architecture = find(format).ok_or_else(|| fault(FileFault::UnknownFormat))?;
    let NewModelConfig { shape, version, steps, .. } = serde_json::from_value(json).map_err(|e| PolicyError::file(&path, e))?;
    let architecture = read_architecture(&shape).map_err(fault)?;
    let words: Vec<String> = read(&folder.join(WORDS_FILE))?;
    let (tokens, vocab) = (Tokenizer::new(&words).vocab_size(), architecture.sizes().vocab);
    // With another vocabulary every token would mean another word.
    if tokens != vocab {
        return Err(PolicyError::at(&folder.join(WORDS_FILE), FileFault::Vocabulary { tokens, vocab }));
    }
    let source = Box::new(SafetensorsFiles::of_folder(folder)?);
    let moments = folder.join(MOMENTS);
    let moments = if adapted || !moments.exists() { None } else { Some(SafetensorsFiles::open(&moments, vec![moments.clone()])?) };
    let (tokenizer, trained) = (Arc::new(Tokenizer::new(&words)), TrainingProgress { version, steps });
    StoredModel { architecture, tokenizer, source, trained, moments, adapters: Vec::new() }.checked(|_| false)
}

fn open_published(folder: &Path, config: &Value) -> Result<StoredModel> {
    let path = folder.join(CONFIG);
    let fault = |fault| PolicyError::at(&path, fault);
    let mut architecture = described(config).map_err(fault)?;
    let tokenizer = tokenizer(folder)?;
    let source = Box::new(SafetensorsFiles::of_folder(folder)?);
    // As `transformers`: an output matrix that lies there and isn't the embedding counts, whatever the configuration
    // says.
    if config["tie_word_embeddings"] == true && source.differ(EMBEDDING, OUTPUT)? {
        let mut untied = config.clone();
        untied["tie_word_embeddings"] = false.into();
        architecture = described(&untied).map_err(fault)?;
    }
    let (trained, moments) = (folder.join(TRAINED), folder.join(MOMENTS));
    let trained = if trained.exists() { read(&trained)? } else { TrainingProgress::default() };
    let moments = if moments.exists() { Some(SafetensorsFiles::open(&moments, vec![moments.clone()])?) } else { None };
    // The output layer of a model that ties it, and tables that follow from the configuration: some checkpoints have
    // them.
    let unread = |name: &str| name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq");
    StoredModel { architecture, tokenizer, source, trained, moments, adapters: Vec::new() }.checked(unread)
}

/// The tokenizer of a published model, whatever its architecture.
///
/// # Errors
/// If there is none, or it can't be read.
pub fn tokenizer(folder: &Path) -> Result<Arc<Tokenizer>> {
    let config: Value = read(&folder.join(CONFIG))?;
    let mut files = BTreeMap::new();
    for name in FILES {
        let path = folder.join(name);
        match files::text(&path, LONGEST) {
            Ok(text) => drop(files.insert(name.to_string(), text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(PolicyError::file(&path, error)),
        }
    }
    if !files.contains_key(FILES[0]) {
        return Err(PolicyError::at(folder, FileFault::Unusable(without_tokenizer(folder))));
    }
    Ok(Arc::new(Tokenizer::published(&files, &config, folder)?))
}

/// The fault of a folder without `tokenizer.json`, by the files that it has instead.
fn without_tokenizer(folder: &Path) -> String {
    let others = ["tokenizer.model", "vocab.json", "merges.txt", "vocab.txt"];
    let found: Vec<String> = names(folder).into_iter().filter(|name| others.contains(&name.as_str())).collect();
    if found.is_empty() {
        return format!("there is no `tokenizer.json`: {EXPECTED_FILES}");
    }
    let found = listed(&found);
    format!(
        "there is no `tokenizer.json`, but {found}: make it of that by transformers' `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`"
    )
}

/// The architecture of a published model's configuration.
fn described(config: &Value) -> Result<Arc<dyn Architecture>, FileFault> {
    let name = config["model_type"].as_str().unwrap_or_default();
    match find(name).filter(|_| name != flow_model::tiny::NAME) {
        Some(read) => read(config),
        None => {
            let known: Vec<_> =
                flow_model::ARCHITECTURES.iter().map(|(name, _)| *name).filter(|name| *name != flow_model::tiny::NAME).collect();
            Err(FileFault::Unsupported(format!(
                "the architecture `{name}`; {} are. `train: {{ torchrun: 1 }}` with `serve: {{ vllm: [ADDRESS] }}` trains any family of transformers",
                known.join(", ")
            )))
        }
    }
}

impl StoredModel {
    /// The adapter without its weights, over this model.
    ///
    /// # Errors
    /// Names what doesn't fit.
    pub fn adapted_by(&self, own: &StoredAdapter) -> Result<Adapter> {
        own.adapter(&self.architecture.layout(), self.architecture.sizes().width)
    }

    /// Whether it is a critic: by itself, or by the head that an adapter brings.
    pub fn values(&self) -> bool {
        self.architecture.sizes().value || self.adapters.iter().any(|(adapter, _)| adapter.head)
    }

    fn checked(self, unread: fn(&str) -> bool) -> Result<StoredModel> {
        let layout = self.architecture.layout();
        check(&*self.source, &layout, "", unread)?;
        if let Some(moments) = &self.moments {
            check_moments(moments, &layout)?;
        }
        let (tokens, vocab) = (self.tokenizer.vocab_size(), self.architecture.sizes().vocab);
        if tokens > vocab {
            return Err(PolicyError::at(self.source.path(), FileFault::Vocabulary { tokens, vocab }));
        }
        Ok(StoredModel { architecture: self.architecture.with_tokens(tokens), ..self })
    }
}
