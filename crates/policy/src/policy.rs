//! The handle on a run's models: it is asked by a model's name, whichever process or server computes it.

use crate::backend::At;
use crate::state::PolicyState;
use crate::thread::{PolicyThread, Started};
use crate::{generators, FoundDevice, Hardware};
use flow_core::pulse::Pulse;
use flow_int8::products::isa::row_by_row_is_quick;
use flow_model::{
    Act, ChoiceScores, Example, GenerationOutput, ModelFault, ModelSettings, Peers, PolicyError, Reply, Request, Result, Sampling,
    UpdateReport, UpdateSettings,
};
use flow_serve::{Asleep, Exported, Generator, Remote, StartedServers, Ticket};
use flow_text::Tokenizer;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A handle on the policy thread, which ends with its last handle.
/// Its calls block until the answer is there, so they belong on threads that may wait.
///
/// libtorch answers what it can't do with a panic; on this thread and its helpers (their names begin with `policy`)
/// that becomes an error of the call, so a panic hook that ends the process should leave these threads out.
#[derive(Clone)]
pub struct Policy {
    thread: PolicyThread,
    /// The models that read and write tokens.
    models: Arc<BTreeMap<String, ModelHandle>>,
    /// The servers that this process has started: after `models`, so that nothing is asked of them any more.
    _started: Arc<Vec<StartedServers>>,
    device: FoundDevice,
    /// Models that nothing trains.
    untrained: Arc<BTreeSet<String>>,
    peers: Option<Arc<dyn Peers>>,
}

/// A model as the threads see it which don't compute.
struct ModelHandle {
    tokenizer: Arc<Tokenizer>,
    /// Which weights act, where this process has them and `act` can say so.
    act: Option<Act>,
    /// The servers that generate for it, if some do: callers wait for them, not for the policy thread.
    generator: Option<Box<dyn Generator>>,
}

impl Policy {
    /// Starts the thread and makes the models; no request is sent to servers yet. `hardware` says where they are
    /// computed, and how many threads share the work on a CPU. `words` are the vocabulary of new models that ask for
    /// words. Random weights follow from `seed` and the model's name.
    ///
    /// # Errors
    /// If a model can't be made or loaded: the first one that can't.
    pub fn start(models: &BTreeMap<String, ModelSettings>, words: &[String], seed: u64, hardware: impl Into<Hardware>) -> Result<Policy> {
        let mut handles = BTreeMap::new();
        for (name, settings) in models {
            if let ModelSettings::Remote(settings) = settings {
                let remote = Remote::new(name, settings)?;
                let tokenizer = remote.tokenizer().clone();
                handles.insert(name.clone(), ModelHandle { tokenizer, act: None, generator: Some(Box::new(remote)) });
            }
        }
        let mut starting = generators::start(models)?;
        let Started { thread, facts, device } =
            PolicyThread::start(models, words, seed, Hardware { yields: generators::sleep(models), ..hardware.into() })?;
        let mut served = generators::connect(models, &facts, &mut starting, &thread.pulse)?;
        for (name, facts) in facts {
            let generator = served.remove(&name).map(|served| Box::new(served) as Box<dyn Generator>);
            let act = facts.act.filter(|_| generator.is_none());
            handles.insert(name, ModelHandle { tokenizer: facts.tokenizer, act, generator });
        }
        Ok(Policy {
            thread,
            models: Arc::new(handles),
            _started: Arc::new(starting.into_values().collect()),
            device,
            untrained: Arc::default(),
            peers: None,
        })
    }

    /// The same policy, which writes the adapters that servers are to load into `folder`, in place of a folder that
    /// goes with it.
    pub fn exporting_into(self, folder: &Path) -> Policy {
        self.models.values().filter_map(|model| model.generator.as_ref()).for_each(|generator| generator.export_into(folder));
        self
    }

    /// The same policy with models that nothing trains: the servers of a published model have its weights already.
    pub fn untrained(self, models: BTreeSet<String>) -> Policy {
        Policy { untrained: Arc::new(models), ..self }
    }

    /// The same policy, whose updates are made together with the same ones of other processes.
    pub fn among(self, peers: Arc<dyn Peers>) -> Policy {
        Policy { peers: Some(peers), ..self }
    }

    /// The model called `name`, if it reads and writes tokens.
    fn handle(&self, name: &str) -> Result<&ModelHandle> {
        self.models.get(name).ok_or_else(|| PolicyError::NoModel(name.into()))
    }

    /// The servers that generate for a model, if some do.
    fn generator(&self, model: &str) -> Option<&dyn Generator> {
        self.models.get(model)?.generator.as_deref()
    }

    /// Runs `work` with `model` on the policy thread, after the jobs queued before it, and waits for its result.
    fn ask<T: Send + 'static>(&self, model: &str, work: impl FnOnce(&mut PolicyState, &str) -> Result<T> + Send + 'static) -> Result<T> {
        let model = model.to_string();
        self.thread.run(move |state| work(&mut state.borrow_mut(), &model))
    }

    /// Runs `work`, which asks for a version of the weights of `model` that is there, at the next pause of whatever is
    /// being done.
    fn read<T: Send + 'static>(&self, model: &str, work: impl FnOnce(&PolicyState, &str) -> Result<T> + Send + 'static) -> Result<T> {
        let model = model.to_string();
        self.thread.read(move |state| work(state, &model))
    }

    /// Where the models are computed.
    pub fn device(&self) -> &FoundDevice {
        &self.device
    }

    /// Which weights act, by model for which `act` can say so.
    pub fn acting(&self) -> BTreeMap<String, Act> {
        self.models.iter().filter_map(|(name, model)| Some((name.clone(), model.act?))).collect()
    }

    /// A model that acts row by row, which is slow on this CPU.
    pub fn slow(&self) -> Option<(String, Act)> {
        self.acting().into_iter().find(|(_, act)| act.asks() && !row_by_row_is_quick())
    }

    /// How busy the thread is, and how many jobs wait for it.
    pub fn pulse(&self) -> Arc<Pulse> {
        self.thread.pulse.clone()
    }

    /// The vocabulary of `model`.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn tokenizer(&self, model: &str) -> Result<Arc<Tokenizer>> {
        Ok(self.handle(model)?.tokenizer.clone())
    }

    /// That a critic reads the tokens that `model` writes.
    ///
    /// # Errors
    /// If it doesn't, or there is no such model.
    pub fn same_tokens(&self, model: &str, critic: &str) -> Result<()> {
        if self.tokenizer(model)? == self.tokenizer(critic)? {
            return Ok(());
        }
        Err(PolicyError::model(critic, ModelFault::RankVocabulary { policy: model.into() }))
    }

    /// Answers `requests` with version `version` of the weights, one reply a request, in order.
    ///
    /// # Errors
    /// If the model is a critic, the version isn't kept, or a request can't be read: [`PolicyError::Row`] with its
    /// index.
    pub fn generate(&self, model: &str, version: u64, requests: Vec<Request>, sampling: Sampling) -> Result<Vec<Reply>> {
        let replies = self.answer(model, version, requests, sampling)?.replies;
        replies.into_iter().enumerate().map(|(row, reply)| reply.map_err(|fault| PolicyError::Row { row, fault })).collect()
    }

    /// As [`Policy::generate`], and how many tokens it took. A request that a server gave no answer to has a fault in
    /// place of its reply.
    ///
    /// # Errors
    /// As [`Policy::generate`], and if a server answers no request at all.
    pub fn answer(&self, model: &str, version: u64, requests: Vec<Request>, sampling: Sampling) -> Result<GenerationOutput> {
        if let Some(generator) = self.generator(model) {
            return generator.answer(version, &requests, &sampling, &mut |root, probe| self.export(model, version, root, probe));
        }
        self.read(model, move |state, model| state.model(model)?.generate(version, &requests, &sampling))
    }

    /// Whether servers generate for this model, in its own tokens.
    pub fn served(&self, model: &str) -> bool {
        self.generator(model).is_some_and(|generator| generator.own_tokens())
    }

    /// Whether answers of this model come one by one, since servers generate them ([`Policy::begin`]).
    pub fn streams(&self, model: &str) -> bool {
        self.generator(model).is_some()
    }

    /// Begins a free answer of a model whose answers come one by one, and gives it to `ticket`.
    ///
    /// # Errors
    /// As of [`Policy::answer`], before anything is sent.
    pub fn begin(&self, model: &str, version: u64, request: &Request, sampling: &Sampling, ticket: Ticket) -> Result<()> {
        let generator = self.generator(model).ok_or_else(|| PolicyError::NoModel(model.into()))?;
        generator.begin(version, request, sampling, ticket, &mut |root, probe| self.export(model, version, root, probe))
    }

    /// Figures of the servers that generate for `model`, by name.
    pub fn server_figures(&self, model: &str) -> Vec<(String, f64)> {
        self.generator(model).map(|generator| generator.figures()).unwrap_or_default()
    }

    /// Writes the adapter of a version into a folder in `root`, and weighs the tokens of `probe` with it, from the
    /// second one on.
    fn export(&self, model: &str, version: u64, root: &Path, probe: &[u32]) -> Result<Exported> {
        let root = root.to_path_buf();
        let trained = !self.untrained.contains(model);
        let row = Example { prompt: probe[..1].to_vec(), response: probe[1..].to_vec(), ..Example::default() };
        self.read(model, move |state, model| {
            let model = state.model(model)?;
            let expected = model.logprobs(At::Version(version), &[row], None)?.concat();
            Ok((model.export(version, &root, trained)?, expected))
        })
    }

    /// Makes the next version of the weights from `rows`, whose order is part of the input: sort them. Among [`Peers`]
    /// all must call it with the same rows and settings, and then have the same weights and the same report.
    ///
    /// # Errors
    /// If a row or a setting makes no sense, or something computed isn't a number: then the weights stay as they were.
    pub fn update(&self, model: &str, rows: Vec<Example>, settings: &UpdateSettings) -> Result<UpdateReport> {
        let (model, settings) = (model.to_string(), settings.clone());
        if let Some(peers) = &self.peers {
            peers.begin(&model)?;
        }
        let shared = self.peers.clone();
        let asleep: Vec<Asleep> = self.models.values().filter_map(|model| model.generator.as_ref()?.sleep()).collect();
        // While it learns the state is only read, so that others may read it too.
        let report = self.thread.run(move |state| {
            let outcome = state.borrow().learn(&model, &rows, &settings, shared.as_deref())?;
            state.borrow_mut().adopt(&model, outcome, settings.keep)
        });
        drop(asleep);
        if let Some(peers) = &self.peers {
            peers.end();
        }
        report
    }

    /// The log-probability of each response token under the newest weights, as an update computes it, at `temperature`
    /// or each row at its own: one list a row.
    ///
    /// # Errors
    /// If the model is a critic, or a row can't be read.
    pub fn logprobs(&self, model: &str, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let rows = rows.to_vec();
        self.ask(model, move |state, model| state.model(model)?.logprobs(At::Newest, &rows, temperature))
    }

    /// The log-probability of each response token under version `version` of the weights, over the whole vocabulary and
    /// at temperature 1: one list a row, in nats. What rows begin with in common is read once.
    ///
    /// # Errors
    /// If the model is a critic, the version isn't kept, or a row can't be read: [`PolicyError::Row`] with its index.
    pub fn text_logprobs(&self, model: &str, version: u64, rows: Vec<Example>) -> Result<Vec<Vec<f32>>> {
        self.read(model, move |state, model| state.model(model)?.logprobs(At::Version(version), &rows, None))
    }

    /// How likely version `version` of the weights finds each of the requests' choices: its log-probability, in nats,
    /// at each token among the tokens that the choices allow there, at `temperature`.
    ///
    /// # Errors
    /// If the model is a critic, the version isn't kept, or a request can't be read: [`PolicyError::Row`] with its
    /// index.
    pub fn likelihoods(&self, model: &str, version: u64, requests: Vec<Request>, temperature: f64) -> Result<ChoiceScores> {
        self.read(model, move |state, model| state.model(model)?.likelihoods(version, &requests, temperature))
    }

    /// The return that version `version` of a critic expects of each of the requests' choices: its value before the
    /// choice's last token.
    ///
    /// # Errors
    /// If the model is no critic, the version isn't kept, or a request can't be read: [`PolicyError::Row`] with its
    /// index.
    pub fn choice_values(&self, model: &str, version: u64, requests: Vec<Request>) -> Result<ChoiceScores> {
        self.read(model, move |state, model| state.model(model)?.choice_values(version, &requests))
    }

    /// The log-probability of each response token under the reference of `model`: under `reference`, or under the model
    /// as it was when the run began, at `temperature` or each row at its own. One list a row, in nats.
    ///
    /// # Errors
    /// If a model is a critic, the two have different vocabularies, or a row can't be read.
    pub fn reference_logprobs(
        &self,
        model: &str,
        reference: Option<&str>,
        rows: Vec<Example>,
        temperature: Option<f32>,
    ) -> Result<Vec<Vec<f32>>> {
        let reference = reference.map(String::from);
        self.read(model, move |state, model| state.reference_logprobs(model, reference.as_deref(), &rows, temperature))
    }

    /// The return that version `version` of a critic expects after each prompt and, where a row has a response, after
    /// each of its tokens but the last: as many numbers as the response has tokens, at least one.
    ///
    /// # Errors
    /// If the model is no critic, the version isn't kept, or a prompt can't be read.
    pub fn values(&self, model: &str, version: u64, prompts: Vec<Example>) -> Result<Vec<Vec<f32>>> {
        self.read(model, move |state, model| state.model(model)?.values(version, &prompts))
    }

    /// The vector of each text by the encoder called `model`: of length 1, so that the product of two is the cosine of
    /// the angle between them. A vector depends on its text alone.
    ///
    /// # Errors
    /// If there is no such encoder.
    pub fn embed(&self, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>> {
        self.read(model, move |state, model| state.model(model)?.embed(&texts))
    }

    /// Writes the newest weights and the optimiser's moments into `folder`, which appears complete or not at all.
    ///
    /// # Errors
    /// [`PolicyError::File`].
    pub fn save(&self, model: &str, folder: &Path) -> Result<()> {
        let folder = folder.to_path_buf();
        self.ask(model, move |state, model| state.model(model)?.save(&folder))
    }

    /// Takes weights, moments and versions from `folders`, oldest first, bit for bit, and gives the newest version.
    /// Other versions are dropped; the frozen start that a KL term compares with stays what it was.
    ///
    /// # Errors
    /// [`PolicyError::File`] if a folder can't be read, or holds another model than this one.
    pub fn restore(&self, model: &str, folders: &[PathBuf]) -> Result<u64> {
        // A version that is read from disk may differ from the one that the server has loaded.
        self.generator(model).into_iter().for_each(|generator| generator.forget());
        let folders = folders.to_vec();
        self.ask(model, move |state, model| state.model_mut(model)?.restore(&folders))
    }

    /// The versions that `generate` can use, oldest first.
    pub fn versions(&self, model: &str) -> Result<Vec<u64>> {
        self.ask(model, move |state, model| state.model(model)?.versions())
    }

    /// How many parameters of `model` are trained: all, or those of its adapter.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn trained(&self, model: &str) -> Result<usize> {
        self.ask(model, move |state, model| Ok(state.model(model)?.parameters()?.1))
    }

    /// How many parameters `model` has, its adapter's among them.
    pub fn parameters(&self, model: &str) -> Result<usize> {
        self.ask(model, move |state, model| Ok(state.model(model)?.parameters()?.0))
    }
}
