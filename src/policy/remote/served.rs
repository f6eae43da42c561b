//! A server that generates for a model which learns here: it holds the same base, and loads the adapter of each version that is asked for, as
//! vLLM does (`load_lora_adapter`, `unload_lora_adapter`). Each adapter has a name of its own, which the questions then give as their model.

use super::server::{Server, Trouble};
use super::tokens;
use crate::policy::model::Sizes;
use crate::policy::sequence::check;
use crate::policy::{Answers, ModelFault, PolicyError, Reply, Request, RowFault, Sampling, ServeSettings, Tally, Tokenizer, Unanswered};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// An adapter that was written for a server.
pub struct Lent {
    /// What it is called, and its folder: the model, the version, and a hash of what is in it.
    pub name: String,
    /// The versions that may still be asked for.
    pub kept: Vec<u64>,
}

/// The server, and what it was told.
pub struct Served {
    name: String,
    server: Server,
    tokenizer: Arc<Tokenizer>,
    sizes: Sizes,
    told: Mutex<Told>,
}

struct Told {
    /// Where the adapters lie.
    root: PathBuf,
    /// Whether that is a folder of our own, which goes with us.
    passing: bool,
    /// The names of the versions that the server has loaded.
    names: BTreeMap<u64, String>,
}

impl Served {
    /// The server of the model called `name`, which reads these tokens and has those sizes. Nobody is asked yet.
    ///
    /// # Errors
    /// If the key that the server is to be asked with isn't there.
    pub fn new(name: &str, settings: &ServeSettings, tokenizer: Arc<Tokenizer>, sizes: Sizes) -> Result<Served, PolicyError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = format!("flow-lent-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let told = Told { root: std::env::temp_dir().join(folder), passing: true, names: BTreeMap::new() };
        Ok(Served { name: name.into(), server: Server::new(name, &settings.server)?, tokenizer, sizes, told: Mutex::new(told) })
    }

    /// From now on adapters lie in `root`.
    pub fn lend_in(&self, root: &Path) {
        *self.told.lock() = Told { root: root.into(), passing: false, names: BTreeMap::new() };
    }

    /// The server is told again.
    pub fn forget(&self) {
        self.told.lock().names.clear();
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
        lend: impl FnOnce(&Path) -> Result<Lent, PolicyError>,
    ) -> Result<Answers, PolicyError> {
        for (row, request) in requests.iter().enumerate() {
            let longest = request.choices.iter().map(Vec::len).max().unwrap_or(sampling.max_tokens);
            check(&request.prompt, &request.choices, longest, &self.sizes).map_err(|fault| PolicyError::Row { row, fault })?;
        }
        let adapter = self.adapter(version, lend)?;
        let asked = tokens::Asked { adapter: &adapter, server: &self.server, ends: self.tokenizer.ends(), vocab: self.sizes.vocab };
        let (ranked, free): (Vec<usize>, Vec<usize>) = (0..requests.len()).partition(|&i| !requests[i].choices.is_empty());
        let mut replies: Vec<Result<Reply, RowFault>> = requests.iter().map(|_| Ok(Reply::default())).collect();
        let choices: Vec<&Request> = ranked.iter().map(|&i| &requests[i]).collect();
        ranked.into_iter().zip(asked.rank(&choices, sampling)?).for_each(|(i, reply)| replies[i] = reply);
        let written = self.server.each(&free, |&i| asked.write(&requests[i], sampling))?;
        free.into_iter().zip(written).for_each(|(i, reply)| replies[i] = reply);
        Ok(Answers { replies, tokens: Tally::default() })
    }

    /// What the server calls the adapter of `version`, once it has loaded it.
    fn adapter(&self, version: u64, lend: impl FnOnce(&Path) -> Result<Lent, PolicyError>) -> Result<String, PolicyError> {
        let mut told = self.told.lock();
        if let Some(name) = told.names.get(&version) {
            return Ok(name.clone());
        }
        let Lent { name, kept } = lend(&told.root)?;
        self.take_back(&mut told, &kept);
        let folder = told.root.join(&name);
        let path = std::path::absolute(&folder).map_err(|error| PolicyError::file(&folder, error))?;
        match self.server.tell("load_lora_adapter", &json!({ "lora_name": name, "lora_path": path })) {
            Ok(()) => {}
            // By another process of this run, or before this one was resumed: what has this name is this adapter.
            Err(Trouble::Row(RowFault::Unanswered { cause: Unanswered::Refused, what })) if what.contains("already been loaded") => {}
            Err(Trouble::Gone(what)) => return Err(self.server.fault(ModelFault::Server { what })),
            Err(Trouble::Refused(what)) => return Err(self.server.fault(ModelFault::NotLoaded { what })),
            Err(Trouble::Row(fault)) => return Err(self.server.fault(ModelFault::NotLoaded { what: fault.to_string() })),
        }
        told.names.insert(version, name.clone());
        Ok(name)
    }

    /// Has the server unload what nobody will ask for any more, be it of a process that was killed. Where it doesn't, nothing is lost.
    fn take_back(&self, told: &mut Told, kept: &[u64]) {
        told.names.retain(|version, _| kept.contains(version));
        for folder in std::fs::read_dir(&told.root).into_iter().flatten().flatten() {
            let Ok(name) = folder.file_name().into_string() else { continue };
            if self.version(&name).is_some_and(|version| !kept.contains(&version)) {
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

impl Drop for Served {
    fn drop(&mut self) {
        let told = self.told.get_mut();
        if told.passing {
            drop(std::fs::remove_dir_all(&told.root));
        }
    }
}
