//! The vocabularies of a run's models: kept in its folder, so that what a model read can be read wherever the folder
//! goes.

use super::error::{Error, Result};
use crate::ops;
use flow_core::files;
use flow_log::{Decoder, LogError, Manifest, Run};
use flow_pipeline::Pipeline;
use flow_policy::Policy;
use flow_text::Tokenizer;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The most bytes of a file of a vocabulary.
const LONGEST: u64 = 256 << 20;

/// Where the vocabulary of a model lies in a run.
fn folder(run: &Run, model: &str) -> PathBuf {
    run.vocabularies().join(model)
}

/// Saves the vocabularies of the pipeline's models in a new run.
pub fn save(policy: &Policy, pipeline: &Pipeline, run: &Run) -> Result<()> {
    for model in pipeline.models.keys() {
        let (folder, files) = (folder(run, model), policy.tokenizer(model)?.files());
        if files.is_empty() || folder.exists() {
            continue;
        }
        // What is written through a link is outside the run's folder.
        if let Some(link) = [&run.vocabularies(), &folder].into_iter().find(|folder| folder.is_symlink()) {
            return Err(LogError::Linked(link.clone()).into());
        }
        std::fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(Error::file(&path))?;
        }
    }
    Ok(())
}

/// The files of the saved vocabularies, relative to the run's folder; links are left out.
pub fn files(run: &Run) -> Result<Vec<String>> {
    let entries = |folder: &Path| match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let (folder, mut files) = (run.vocabularies(), Vec::new());
    let folders: Vec<PathBuf> = entries(&folder).map_err(Error::file(&folder))?;
    let unlinked =
        |path: &&PathBuf, file: bool| path.symlink_metadata().is_ok_and(|data| if file { data.is_file() } else { data.is_dir() });
    for folder in folders.iter().filter(|folder| unlinked(folder, false)) {
        files.extend(entries(folder).map_err(Error::file(folder))?);
    }
    files.sort();
    let name = |path: &PathBuf| Some(path.strip_prefix(run.root()).ok()?.to_str()?.to_owned());
    Ok(files.iter().filter(|file| unlinked(file, true)).filter_map(name).collect())
}

/// Insists that the saved vocabularies are the ones that lie beside the models' first weights.
///
/// # Errors
/// If a file differs.
pub fn verify(run: &Run, manifest: &Manifest) -> Result<()> {
    for weights in &manifest.start {
        let (own, saved) = (run.root().join(&weights.path), folder(run, &weights.model));
        for name in weights.files.iter().map(|file| &file.name).filter(|name| saved.join(name).is_file()) {
            let bytes = |folder: &Path| std::fs::read(folder.join(name)).map_err(Error::file(&folder.join(name)));
            if bytes(&own)? != bytes(&saved)? {
                let place = Path::new("vocabularies").join(&weights.model).join(name);
                return Err(Error::Request(format!("{} differs from the model's own: restore it from a copy", place.display())));
            }
        }
    }
    Ok(())
}

/// Vocabularies by the models, and by the nodes that have them read.
pub struct Vocabularies {
    models: BTreeMap<String, Arc<Tokenizer>>,
    /// By "" that of the model that acts.
    nodes: BTreeMap<String, Arc<Tokenizer>>,
}

impl Vocabularies {
    /// The run's vocabularies.
    pub fn of(run: &Run) -> Vocabularies {
        let mut vocabularies = Vocabularies { models: BTreeMap::new(), nodes: BTreeMap::new() };
        let Ok(pipeline) = flow_pipeline::load(&run.pipeline(), &[], &ops::replayed(Default::default())) else { return vocabularies };
        for model in pipeline.models.keys() {
            // Runs of before kept them with the weights alone.
            let saved = read(&folder(run, model)).or_else(|| read(&run.root().join(Run::version(0, model))));
            vocabularies.models.extend(saved.map(|tokenizer| (model.clone(), Arc::new(tokenizer))));
        }
        let of = |node: &flow_pipeline::Node| vocabularies.models.get(node.model()?).cloned();
        let players = pipeline.all().filter(|node| ops::plays(node)).filter_map(|node| Some((node.id.clone(), of(node)?)));
        // In a node's own table, and for a column of one node, no node is named.
        let first = pipeline.all().filter(|node| ops::acts(node)).chain(pipeline.all()).find_map(of);
        vocabularies.nodes = players.chain(first.map(|tokenizer| (String::new(), tokenizer))).collect();
        vocabularies
    }

    /// The vocabulary of the node that played; of the model that acts where the node is unknown.
    pub fn of_node(&self, node: &str) -> Option<&Tokenizer> {
        self.nodes.get(node).or_else(|| self.nodes.get("")).map(Arc::as_ref)
    }

    fn of_model(&self, model: Option<&str>) -> std::result::Result<&Tokenizer, String> {
        let known = || format!("the run has vocabularies of {}", self.models.keys().cloned().collect::<Vec<_>>().join(", "));
        match model {
            None => self.of_node("").ok_or_else(|| "the run has no vocabulary of its models: `text` can't be asked".into()),
            Some(model) => self.models.get(model).map(Arc::as_ref).ok_or_else(|| format!("there is no model `{model}`: {}", known())),
        }
    }
}

/// What `text(...)` asks in a query over this run. Nothing is read before it is asked.
pub fn decoder(run: &Run) -> Decoder {
    let (run, vocabularies) = (run.clone(), OnceLock::new());
    Arc::new(move |tokens, model| {
        let vocabularies = vocabularies.get_or_init(|| Vocabularies::of(&run));
        Ok(vocabularies.of_model(model)?.transcribe(tokens))
    })
}

/// The vocabulary in a folder, as far as it can be read.
fn read(folder: &Path) -> Option<Tokenizer> {
    Tokenizer::saved(folder, &|path| files::text(path, LONGEST).ok())
}
