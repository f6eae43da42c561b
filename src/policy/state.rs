//! What the policy thread owns: the models with the versions of their weights, and the operations on them.

use super::encode::Encoder;
use super::generate::generate;
use super::generate::store::Store;
use super::generate::weigh::{self, ChoiceScores};
use super::model::Net;
use super::products::choice;
use super::remote::ExportedAdapter;
use super::room;
use super::tensors::values;
use super::update::parallel::{hash, Parallel};
use super::update::passes::{logprobs, read_rows, TrainingRow};
use super::update::{update, Moments, UpdateStart};
use super::versions::VersionedModel;
use super::{
    Example, FoundDevice, GenerationOutput, Hardware, Head, ModelFault, ModelSettings, Objective, Peers, PolicyError, RatioDenominator,
    Request, Sampling, UpdateReport, UpdateSettings,
};
use crate::seed::mix;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use tch::{Kind, Tensor};

/// New weights and moments.
type NewWeights = (Tensor, Moments);

/// All models of a process.
pub struct PolicyState {
    models: BTreeMap<String, VersionedModel>,
    encoders: BTreeMap<String, Encoder>,
    device: FoundDevice,
    threads: usize,
}

impl PolicyState {
    pub fn new(
        models: &BTreeMap<String, ModelSettings>,
        words: &[String],
        seed: u64,
        hardware: Hardware,
    ) -> Result<PolicyState, PolicyError> {
        choice::check()?;
        tch::set_num_threads(1);
        let place = FoundDevice::look(hardware.device)?;
        let device = place.device();
        let threads = if device.is_cuda() { 1 } else { hardware.threads.max(1) };
        let mut state = PolicyState { models: BTreeMap::new(), encoders: BTreeMap::new(), device: place, threads };
        let mut shared = Vec::new();
        for (name, settings) in models {
            match settings {
                ModelSettings::Encode(encoder) => {
                    state.encoders.insert(name.clone(), Encoder::load(Path::new(&encoder.encode), device)?);
                }
                // The model whose base it is has to be there.
                ModelSettings::Shared(settings) => shared.push((name, settings)),
                _ => {
                    let model = VersionedModel::new(name, settings, words, seed, device)?;
                    if matches!(settings, ModelSettings::Load(load) if load.serve.is_some()) && !model.can_be_served() {
                        return Err(PolicyError::model(name, ModelFault::NotServed));
                    }
                    state.models.insert(name.clone(), model);
                }
            }
        }
        for (name, settings) in shared {
            let fault = match models.get(&settings.on) {
                Some(ModelSettings::Shared(_)) => ModelFault::SharedBase { on: settings.on.clone() },
                _ => ModelFault::NoBase { on: settings.on.clone() },
            };
            let base = state.models.get(&settings.on).filter(|_| !matches!(fault, ModelFault::SharedBase { .. }));
            let model = base.ok_or_else(|| PolicyError::model(name, fault))?.shared(name, settings, seed)?;
            state.models.insert(name.clone(), model);
        }
        state.understood()?;
        Ok(state)
    }

    /// Refuses a critic that reads the tokens of no policy there is.
    fn understood(&self) -> Result<(), PolicyError> {
        let policies: Vec<&VersionedModel> = self.models.values().filter(|model| !model.values()).collect();
        let alone = |model: &VersionedModel| model.values() && !policies.iter().any(|policy| policy.tokenizer == model.tokenizer);
        match self.models.iter().find(|(_, model)| !policies.is_empty() && alone(model)) {
            Some((name, _)) => Err(PolicyError::model(name, ModelFault::CriticVocabulary)),
            None => Ok(()),
        }
    }

    /// Where the models are computed.
    pub fn device(&self) -> &FoundDevice {
        &self.device
    }

    /// Notes how much of a GPU's memory the models take now. The sizes of batches and passes follow from the rest, so this comes before each job.
    pub fn account(&self) {
        if self.device.device().is_cuda() {
            room::taken(self.device.free, self.models.values().map(VersionedModel::bytes).sum());
        }
    }

    pub fn models(&self) -> impl Iterator<Item = (&String, &VersionedModel)> {
        self.models.iter()
    }

    /// Work that no other process has a part in.
    fn alone(&self) -> Parallel<'static> {
        Parallel { threads: self.threads, peers: None, start: 0 }
    }

    /// The model called `name` if it has that head.
    fn with_head(&self, name: &str, head: Head) -> Result<&VersionedModel, PolicyError> {
        let model = self.model(name)?;
        match head {
            Head::Language if model.values() => Err(PolicyError::model(name, ModelFault::WritesNothing)),
            Head::Value if !model.values() => Err(PolicyError::model(name, ModelFault::NoValueHead)),
            _ => Ok(model),
        }
    }

    fn model(&self, name: &str) -> Result<&VersionedModel, PolicyError> {
        self.models.get(name).ok_or_else(|| PolicyError::NoModel(name.into()))
    }

    pub fn versions(&self, name: &str) -> Result<Vec<u64>, PolicyError> {
        Ok(self.model(name)?.version_numbers())
    }

    pub fn parameters(&self, name: &str) -> Result<usize, PolicyError> {
        let start = &self.model(name)?.start;
        let adapter = start.adapter().map_or(0, |adapter| adapter.layout().len());
        Ok((start.base_layout().len() + adapter) as usize)
    }

    pub fn trained(&self, name: &str) -> Result<usize, PolicyError> {
        Ok(self.model(name)?.start.layout().len() as usize)
    }

    pub fn generate(&self, name: &str, version: u64, requests: &[Request], sampling: &Sampling) -> Result<GenerationOutput, PolicyError> {
        let net = self.with_head(name, Head::Language)?.acting_at(name, version)?;
        let writes = (sampling, &*self.model(name)?.tokenizer);
        let answers = self.stored(name, version, &net, |store| generate(&net, version, store, requests, writes, self.threads))?;
        // Of a draw among numbers that are none nothing can be learnt, and nobody should be shown what was written.
        let finite = answers.replies.iter().flatten().all(|reply| reply.logprobs.iter().all(|logprob| logprob.is_finite()));
        if finite {
            Ok(answers)
        } else {
            Err(PolicyError::model(name, ModelFault::Diverged { version }))
        }
    }

    pub fn lend(&self, name: &str, version: u64, root: &Path) -> Result<ExportedAdapter, PolicyError> {
        self.with_head(name, Head::Language)?.lend(name, version, root)
    }

    pub fn values(&self, name: &str, version: u64, prompts: &[Example]) -> Result<Vec<Vec<f32>>, PolicyError> {
        let net = self.with_head(name, Head::Value)?.at(name, version)?;
        let rows = prompts.iter().enumerate().map(|(i, e)| TrainingRow::value(i, e, &net)).collect::<Result<Vec<_>, _>>()?;
        let size = UpdateSettings::default().micro_batch;
        read_rows(&net, &rows, size, &self.alone(), |pass, net| pass.values(net))
    }

    pub fn logprobs(&self, name: &str, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>, PolicyError> {
        let model = self.with_head(name, Head::Language)?;
        let net = model.net(model.newest().1);
        let rows = rows.iter().enumerate().map(|(i, e)| TrainingRow::new(i, e, &net)).collect::<Result<Vec<_>, _>>()?;
        logprobs(&net, &rows, temperature, UpdateSettings::default().micro_batch, &self.alone())
    }

    pub fn text_logprobs(&self, name: &str, version: u64, rows: &[Example]) -> Result<Vec<Vec<f32>>, PolicyError> {
        let net = self.with_head(name, Head::Language)?.at(name, version)?;
        let rows = rows.iter().enumerate().map(|(i, e)| TrainingRow::new(i, e, &net)).collect::<Result<Vec<_>, _>>()?;
        logprobs(&net, &rows, None, UpdateSettings::default().micro_batch, &self.alone())
    }

    pub fn likelihoods(&self, name: &str, version: u64, requests: &[Request], temperature: f64) -> Result<ChoiceScores, PolicyError> {
        let net = self.with_head(name, Head::Language)?.acting_at(name, version)?;
        self.stored(name, version, &net, |store| weigh::likelihoods(&net, version, store, requests, temperature, self.threads))
    }

    pub fn choice_values(&self, name: &str, version: u64, requests: &[Request]) -> Result<ChoiceScores, PolicyError> {
        let net = self.with_head(name, Head::Value)?.at(name, version)?;
        self.stored(name, version, &net, |store| weigh::choice_values(&net, version, store, requests, self.threads))
    }

    /// Calls `read` with the cache of keys and values of that version.
    fn stored<T>(
        &self,
        name: &str,
        version: u64,
        net: &Net,
        read: impl FnOnce(&mut Store) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        let model = self.model(name)?;
        let mut stores = model.stores.borrow_mut();
        read(stores.entry(version).or_insert_with(|| Store::new(net, model.cache)))
    }

    pub fn embed(&self, name: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, PolicyError> {
        let no = || {
            if self.models.contains_key(name) {
                PolicyError::model(name, ModelFault::NoEncoder)
            } else {
                PolicyError::NoModel(name.into())
            }
        };
        self.encoders.get(name).ok_or_else(no)?.embed(texts, self.threads)
    }

    /// What a divergence of model `name` is measured from: `other`, or the model itself as it was when the run began.
    fn reference(&self, name: &str, other: Option<&str>) -> Result<Net, PolicyError> {
        let model = self.with_head(name, Head::Language)?;
        let Some(other) = other else { return Ok(model.start.share(false)) };
        let reference = self.with_head(other, Head::Language)?;
        if reference.tokenizer != model.tokenizer {
            return Err(PolicyError::model(name, ModelFault::ReferenceVocabulary { reference: other.into() }));
        }
        Ok(reference.net(reference.newest().1))
    }

    pub fn reference_logprobs(
        &self,
        name: &str,
        other: Option<&str>,
        rows: &[Example],
        temperature: Option<f32>,
    ) -> Result<Vec<Vec<f32>>, PolicyError> {
        let net = self.reference(name, other)?;
        let rows = rows.iter().enumerate().map(|(i, e)| TrainingRow::new(i, e, &net)).collect::<Result<Vec<_>, _>>()?;
        logprobs(&net, &rows, temperature, UpdateSettings::default().micro_batch, &self.alone())
    }

    /// The new weights and moments of one update, or none if no row was trained on; the report has the version before the update.
    pub fn learn(
        &self,
        name: &str,
        rows: &[Example],
        settings: &UpdateSettings,
        peers: Option<&dyn Peers>,
    ) -> Result<(Option<NewWeights>, UpdateReport), PolicyError> {
        let head = if settings.objective == Objective::Value { Head::Value } else { Head::Language };
        let model = self.with_head(name, head)?;
        let (version, flat) = model.newest();
        // What learns is kept in f32, whatever it is computed with in.
        let flat = &flat.to_kind(Kind::Float);
        let needs_reference = settings.kl != 0.0 && head != Head::Value;
        let reference = if needs_reference { Some(self.reference(name, settings.reference.as_deref())?) } else { None };
        let net = model.net(flat);
        // What acted may have been rounded.
        let settings =
            &UpdateSettings { old: settings.old.or(model.acting.rounded().then_some(RatioDenominator::Recomputed)), ..settings.clone() };
        let seed = mix(model.seed, version + 1);
        let parallel = Parallel { threads: self.threads, peers, start: peers.map_or(0, |_| hash(&values(flat))) };
        let before = UpdateStart { name, net: &net, moments: &model.moments, reference, seed, parallel };
        let (new_weights, report) = update(&before, rows, settings)?;
        Ok((new_weights, UpdateReport { version, ..report }))
    }

    /// Makes the outcome the newest version, and keeps `keep` older ones.
    pub fn adopt(&mut self, name: &str, outcome: (Option<NewWeights>, UpdateReport), keep: usize) -> Result<UpdateReport, PolicyError> {
        let (Some((flat, moments)), mut report) = outcome else { return Ok(outcome.1) };
        report.version += 1;
        let model = self.models.get_mut(name).ok_or_else(|| PolicyError::NoModel(name.into()))?;
        model.moments = moments;
        model.push(report.version, flat, keep);
        Ok(report)
    }

    pub fn save(&self, name: &str, folder: &Path) -> Result<(), PolicyError> {
        self.model(name)?.save(folder)
    }

    /// Takes the versions in `folders`, oldest first, in place of those there are, and the moments of the last one.
    pub fn restore(&mut self, name: &str, folders: &[PathBuf]) -> Result<u64, PolicyError> {
        let mut versions = VecDeque::new();
        let mut newest = self.model(name)?.newest().0;
        for folder in folders {
            newest = self.load(name, folder)?;
            versions.extend(self.models.get_mut(name).and_then(|model| model.versions.pop_back()));
        }
        if let Some(model) = self.models.get_mut(name).filter(|_| !versions.is_empty()) {
            model.replace(versions);
        }
        Ok(newest)
    }

    pub fn load(&mut self, name: &str, folder: &Path) -> Result<u64, PolicyError> {
        let device = self.device.device();
        let model = self.models.get_mut(name).ok_or_else(|| PolicyError::NoModel(name.into()))?;
        model.restore(name, folder, device)
    }
}
