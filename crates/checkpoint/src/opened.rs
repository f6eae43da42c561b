//! The models that a pipeline loads, as they are on disk: with the adapter that they learn on, and what a trainer takes
//! of them.

use crate::adapter::StoredAdapter;
use crate::saved::portable;
use crate::stored::{self, StoredModel};
use flow_model::folder::read;
use flow_model::lora::{Adapter, HEAD_MODULE};
use flow_model::on_disk::{is_adapter_folder, ADAPTER_CONFIG, CONFIG};
use flow_model::{Base, Head, LoadModel, PolicyError, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model as it lies on disk, and the adapter that it learns on; no weights are read.
pub type OpenedModel = (StoredModel, Option<(Arc<Adapter>, StoredAdapter)>);

/// Opens the model of `load`.
///
/// # Errors
/// The setting that names what can't be opened, and why.
pub fn opened(load: &LoadModel) -> Result<OpenedModel, (&'static str, PolicyError)> {
    let mut stored = stored::open(Path::new(&load.load)).map_err(|error| ("load", error))?;
    if let Some(tokenizer) = Arc::get_mut(&mut stored.tokenizer) {
        tokenizer.set(&load.template);
    }
    let adapter = match &load.adapter {
        None => None,
        // The folder of an adapter names its base, too.
        Some(folder) if *folder == load.load && !stored.adapters.is_empty() => stored.adapters.pop(),
        Some(folder) => {
            let own = || {
                let own = StoredAdapter::open(Path::new(folder))?;
                Ok((Arc::new(stored.adapted_by(&own)?), own))
            };
            Some(own().map_err(|error| ("adapter", error))?)
        }
    };
    Ok((stored, adapter))
}

/// Why a model can't learn in a trainer, by its settings and its files, if it can't; and the setting that says it.
///
/// # Errors
/// If a file can't be read.
pub fn unfit(load: &LoadModel) -> Result<Option<(&'static str, &'static str)>> {
    let Some(train) = &load.train else { return Ok(None) };
    let own = Path::new(&load.load);
    stored::converted(own)?;
    Ok(match () {
        () if [train.torchrun.is_some(), train.address.is_some(), train.tinker.is_some()].iter().filter(|named| **named).count() != 1 => {
            Some(("train", "say either `torchrun` or `address` or `tinker`"))
        }
        () if train.tinker.is_none() && train.named.is_some() => {
            Some(("train", "`named` is the name on a server of `tinker`: leave it out"))
        }
        () if train.tinker.is_some() && train.memory.is_some() => {
            Some(("train", "`memory` is of a GPU on this machine, and a server of `tinker` has its own: leave it out"))
        }
        () if load.base != Base::Own => Some(("base", "a trainer computes its base itself: leave `base` out")),
        () if load.act.asks() => Some(("act", "the trainer's own weights act: leave `act` out")),
        () if is_adapter_folder(own) && load.adapter.as_ref() != Some(&load.load) => {
            Some(("load", "an adapter lies there: name its base, and the folder with `adapter`"))
        }
        () if train.tinker.is_some() && hosted(load).is_some() => hosted(load),
        () => {
            let path = places(load)?.base.join(CONFIG);
            let config: Value = read(&path)?;
            portable(&config).map_err(|fault| PolicyError::at(&path, fault))?;
            config["model_type"].is_null().then_some(("load", "transformers doesn't know models that were begun by `new`"))
        }
    })
}

/// The file in an adapter's folder that names its state on a server of Tinker's protocol.
const HOSTED_STATE: &str = "optimizer/tinker.json";

/// Why an adapter can't learn on a server of Tinker's protocol, by its settings.
fn hosted(load: &LoadModel) -> Option<(&'static str, &'static str)> {
    let states = |folder: &String| Path::new(folder).join(HOSTED_STATE).exists();
    if load.adapter.as_ref().is_some_and(|folder| !states(folder)) {
        return Some(("adapter", "no weights can be sent to such a server: name an adapter that a run left there, or leave `adapter` out"));
    }
    if load.head == Some(Head::Value) {
        return Some(("head", "such a server has language models and no critics: leave `head` or `train` out"));
    }
    let Some(lora) = &load.lora else {
        if load.adapter.is_some() {
            return None;
        }
        return Some(("train", "such a server trains adapters, and not all weights: write `lora: { rank: 32, alpha: 32 }`"));
    };
    match () {
        () if lora.dropout != 0.0 => Some(("lora", "such a server has no dropout: leave it out")),
        () if lora.targets != ["all-linear"] => Some(("lora", "such a server chooses the layers itself: write `targets: [all-linear]`")),
        () => None,
    }
}

/// Whether it is a critic: `head` says so, or its files.
///
/// # Errors
/// If a file can't be read.
pub fn critic(load: &LoadModel) -> Result<bool> {
    let Places { base, adapter } = places(load)?;
    let stored = read::<Value>(&base.join(CONFIG))?["value_head"] == true;
    let config = adapter.map(|folder| read::<Value>(&folder.join(ADAPTER_CONFIG))).transpose()?;
    let trained = config
        .is_some_and(|config| config["modules_to_save"].as_array().is_some_and(|saved| saved.iter().any(|module| module == HEAD_MODULE)));
    Ok(load.head == Some(Head::Value) || stored || trained)
}

/// The folder of the model that it is an adapter of, or it itself.
///
/// # Errors
/// If a file can't be read.
pub fn base(load: &LoadModel) -> Result<PathBuf> {
    Ok(places(load)?.base)
}

/// Where its weights lie. An adapter must be one that flow and servers compute as PEFT does.
pub fn places(load: &LoadModel) -> Result<Places> {
    let adapter = load.adapter.as_ref().map(PathBuf::from);
    let stored = adapter.as_deref().map(StoredAdapter::open).transpose()?;
    let base = match stored.filter(|_| load.adapter.as_ref() == Some(&load.load)) {
        Some(stored) => stored.base()?,
        None => PathBuf::from(&load.load),
    };
    Ok(Places { base, adapter })
}

/// Where the weights lie that a trainer loads.
pub struct Places {
    /// The model.
    pub base: PathBuf,
    /// The adapter that it learns on, where it has one already.
    pub adapter: Option<PathBuf>,
}
