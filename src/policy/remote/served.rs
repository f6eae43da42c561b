//! A server that generates for a model which learns here: it holds the same base, and loads the adapter of each version that is asked for, as
//! vLLM does (`load_lora_adapter`, `unload_lora_adapter`). Each adapter has a name of its own, which the questions then give as their model.

use super::server::{Server, ServerError};
use super::tokens;
use crate::policy::model::Sizes;
use crate::policy::sequence::check;
use crate::policy::{
    GenerationOutput, ModelFault, PolicyError, Reply, Request, RowFault, Sampling, ServeSettings, Tally, Tokenizer, Unanswered,
};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// An adapter that was written for a server.
pub struct ExportedAdapter {
    /// What it is called, and its folder: the model, the version, and a hash of what is in it.
    pub name: String,
    /// The versions that may still be requested.
    pub versions: Vec<u64>,
}

/// The server, and which adapters it has loaded.
pub struct GenerationServer {
    name: String,
    server: Server,
    tokenizer: Arc<Tokenizer>,
    sizes: Sizes,
    loaded: Mutex<LoadedAdapters>,
}

struct LoadedAdapters {
    /// Where the adapters lie.
    root: PathBuf,
    /// Whether that is a temporary folder, which is removed at the end.
    passing: bool,
    /// The names of the versions that the server has loaded.
    names: BTreeMap<u64, String>,
}

impl GenerationServer {
    /// The server of the model called `name`, which reads these tokens and has those sizes. No request is sent yet.
    ///
    /// # Errors
    /// If the key that the server is to be asked with isn't there.
    pub fn new(name: &str, settings: &ServeSettings, tokenizer: Arc<Tokenizer>, sizes: Sizes) -> Result<GenerationServer, PolicyError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = format!("flow-lent-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let loaded = LoadedAdapters { root: std::env::temp_dir().join(folder), passing: true, names: BTreeMap::new() };
        Ok(GenerationServer {
            name: name.into(),
            server: Server::new(name, &settings.server)?,
            tokenizer,
            sizes,
            loaded: Mutex::new(loaded),
        })
    }

    /// From now on adapters lie in `root`.
    pub fn lend_in(&self, root: &Path) {
        *self.loaded.lock() = LoadedAdapters { root: root.into(), passing: false, names: BTreeMap::new() };
    }

    /// Forgets what the server has loaded, so that adapters are sent again.
    pub fn forget(&self) {
        self.loaded.lock().names.clear();
    }

    /// Answers `requests` with the adapter of `version`, which `lend` writes into a folder where the server doesn't have it yet: one reply a
    /// request, in order.
    ///
    /// # Errors
    /// [`PolicyError::Row`] if the model can't read a request; if the server is gone, doesn't load the adapter, or can't say which tokens it
    /// wrote and how likely they were.
    pub fn answer(
        &self,
        version: u64,
        requests: &[Request],
        sampling: &Sampling,
        lend: impl FnOnce(&Path) -> Result<ExportedAdapter, PolicyError>,
    ) -> Result<GenerationOutput, PolicyError> {
        for (row, request) in requests.iter().enumerate() {
            let longest = request.choices.iter().map(Vec::len).max().unwrap_or(sampling.max_tokens);
            check(&request.prompt, &request.choices, longest, &self.sizes).map_err(|fault| PolicyError::Row { row, fault })?;
        }
        let adapter = self.adapter(version, lend)?;
        let client =
            tokens::CompletionsClient { adapter: &adapter, server: &self.server, ends: self.tokenizer.ends(), vocab: self.sizes.vocab };
        let (ranked, free): (Vec<usize>, Vec<usize>) = (0..requests.len()).partition(|&i| !requests[i].choices.is_empty());
        let mut replies: Vec<Result<Reply, RowFault>> = requests.iter().map(|_| Ok(Reply::default())).collect();
        let choices: Vec<&Request> = ranked.iter().map(|&i| &requests[i]).collect();
        ranked.into_iter().zip(client.rank(&choices, sampling)?).for_each(|(i, reply)| replies[i] = reply);
        let written = self.server.each(&free, |&i| client.write(&requests[i], sampling))?;
        free.into_iter().zip(written).for_each(|(i, reply)| replies[i] = reply);
        Ok(GenerationOutput { replies, tokens: Tally::default() })
    }

    /// What the server calls the adapter of `version`, once it has loaded it.
    fn adapter(&self, version: u64, lend: impl FnOnce(&Path) -> Result<ExportedAdapter, PolicyError>) -> Result<String, PolicyError> {
        let mut loaded = self.loaded.lock();
        if let Some(name) = loaded.names.get(&version) {
            return Ok(name.clone());
        }
        let ExportedAdapter { name, versions } = lend(&loaded.root)?;
        self.take_back(&mut loaded, &versions);
        let folder = loaded.root.join(&name);
        let path = std::path::absolute(&folder).map_err(|error| PolicyError::file(&folder, error))?;
        match self.server.tell("load_lora_adapter", &json!({ "lora_name": name, "lora_path": path })) {
            Ok(()) => {}
            // By another process of this run, or before this one was resumed: what has this name is this adapter.
            Err(ServerError::Row(RowFault::Unanswered { cause: Unanswered::Refused, what })) if what.contains("already been loaded") => {}
            Err(ServerError::Gone(what)) => return Err(self.server.fault(ModelFault::Server { what })),
            Err(ServerError::Refused(what)) => return Err(self.server.fault(ModelFault::NotLoaded { what })),
            Err(ServerError::Row(fault)) => return Err(self.server.fault(ModelFault::NotLoaded { what: fault.to_string() })),
        }
        loaded.names.insert(version, name.clone());
        Ok(name)
    }

    /// Unloads adapters that won't be requested any more, also those of a process that was killed. If the server doesn't, nothing is lost.
    fn take_back(&self, loaded: &mut LoadedAdapters, versions: &[u64]) {
        loaded.names.retain(|version, _| versions.contains(version));
        for folder in std::fs::read_dir(&loaded.root).into_iter().flatten().flatten() {
            let Ok(name) = folder.file_name().into_string() else { continue };
            if self.version(&name).is_some_and(|version| !versions.contains(&version)) {
                drop(self.server.tell("unload_lora_adapter", &json!({ "lora_name": name })));
                drop(std::fs::remove_dir_all(folder.path()));
            }
        }
    }

    /// The version in the name of an adapter of this model.
    fn version(&self, adapter: &str) -> Option<u64> {
        let (rest, _) = adapter.rsplit_once('-')?;
        let (model, version) = rest.rsplit_once('-')?;
        version.parse().ok().filter(|_| model == self.name)
    }
}

impl Drop for GenerationServer {
    fn drop(&mut self) {
        let loaded = self.loaded.get_mut();
        if loaded.passing {
            drop(std::fs::remove_dir_all(&loaded.root));
        }
    }
}
