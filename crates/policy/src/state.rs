//! What the policy thread owns: the models with the versions of their weights, and the operations on them.

use crate::device::libtorch;
use crate::encode::Encoder;
use crate::generate::generate;
use crate::generate::store::Store;
use crate::generate::weigh::{self, ChoiceScores};
use crate::learner::Tracer;
use crate::model::Net;
use crate::room;
use crate::tensors::values;
use crate::trainer::{self, TrainedModel, TrainerWeights};
use crate::update::local::{logprobs, LocalLearner};
use crate::update::parallel::{hash, Parallel};
use crate::update::passes::TrainingRow;
use crate::update::{update, Moments};
use crate::versions::VersionedModel;
use crate::{DeviceChoice, FoundDevice, Hardware, Peers, UpdateReport};
use flow_core::seed::mix;
use flow_int8::products::choice;
use flow_model::Sizes;
use flow_model::{
    Act, Example, GenerationOutput, Head, LoadModel, ModelFault, ModelSettings, Objective, PolicyError, RatioDenominator, Request, Result,
    Sampling, TrainSettings, UpdateSettings,
};
use flow_serve::ExportedWeights;
use flow_text::Tokenizer;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tch::{Kind, Tensor};

/// What an update made.
pub enum Learnt {
    /// Nothing: no row was left to learn from.
    Nothing,
    /// New weights and moments.
    Here(Tensor, Moments),
    /// Weights that a trainer has.
    InTrainer,
}

/// All models of a process.
pub struct PolicyState {
    models: BTreeMap<String, VersionedModel>,
    /// The models that learn in trainers. Where no server generates for one, it is among `models` as well, with the
    /// same versions.
    trained: BTreeMap<String, TrainedModel>,
    encoders: BTreeMap<String, Encoder>,
    device: FoundDevice,
    threads: usize,
}

impl PolicyState {
    pub fn new(models: &BTreeMap<String, ModelSettings>, words: &[String], seed: u64, hardware: Hardware) -> Result<PolicyState> {
        choice::check()?;
        libtorch()?;
        tch::set_num_threads(1);
        let place = FoundDevice::look(hardware.device)?;
        let device = place.device();
        let threads = if device.is_cuda() { 1 } else { hardware.threads.max(1) };
        let mut state =
            PolicyState { models: BTreeMap::new(), trained: BTreeMap::new(), encoders: BTreeMap::new(), device: place, threads };
        let mut shared = Vec::new();
        for (name, settings) in models {
            match settings {
                ModelSettings::Encode(encoder) => {
                    state.encoders.insert(name.clone(), Encoder::load(Path::new(&encoder.encode), device)?);
                }
                // The model whose base it is has to be there.
                ModelSettings::Shared(settings) => shared.push((name, settings)),
                ModelSettings::Load(load @ LoadModel { train: Some(train), .. }) => {
                    let ranks = hardware.ranks.filter(|_| train.torchrun.is_some());
                    let train = TrainSettings { torchrun: ranks.or(train.torchrun), ..(**train).clone() };
                    // What a critic is asked the trainer answers: it has no second copy here.
                    let plays = load.serve.is_none() && !trainer::critic(load)?;
                    let local = plays.then(|| VersionedModel::new(name, settings, words, seed, device)).transpose()?;
                    let model = TrainedModel::open(name, load, &train, local.as_ref(), seed, hardware.device == DeviceChoice::Cpu)?;
                    state.trained.insert(name.clone(), model);
                    state.models.extend(local.map(|local| (name.clone(), local)));
                }
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
    fn understood(&self) -> Result<()> {
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

    /// By model that is trained whole, here, and isn't a critic: which weights act.
    pub fn acting(&self) -> BTreeMap<String, Act> {
        let fits = |(name, model): &(&String, &VersionedModel)| {
            !model.values() && model.start.adapter().is_none() && !self.trained.contains_key(*name)
        };
        let whole = self.models.iter().filter(fits);
        whole.map(|(name, model)| (name.clone(), model.acting.act())).collect()
    }

    /// Notes how much of a GPU's memory the models take now. The sizes of batches and passes follow from the rest, so
    /// this comes before each job.
    pub fn account(&self) {
        if self.device.device().is_cuda() {
            room::taken(self.device.free, self.models.values().map(VersionedModel::bytes).sum());
        }
    }

    /// Looks whether the trainers of models are still there, while nothing is asked of them.
    ///
    /// # Errors
    /// Why one is gone for good.
    pub fn watch(&self) -> Result<()> {
        self.trained.values().try_for_each(TrainedModel::watch)
    }

    /// The models by name, with their vocabularies and their sizes.
    pub fn models(&self) -> impl Iterator<Item = (&String, &Arc<Tokenizer>, Sizes)> {
        let here = self.models.iter().map(|(name, model)| (name, &model.tokenizer, model.start.sizes));
        let only_trained = self.trained.iter().filter(|(name, _)| !self.models.contains_key(*name));
        here.chain(only_trained.map(|(name, model)| (name, &model.tokenizer, model.limits.sizes)))
    }

    /// The trainer's weights of a model that learns there: as they are at `version`, or the newest.
    fn in_trainer(&self, name: &str, version: Option<u64>) -> Option<Result<TrainerWeights<'_>>> {
        let model = self.trained.get(name)?;
        Some(version.map_or_else(|| model.weights(), |version| model.weights_at(version)))
    }

    /// Work that no other process has a part in.
    fn alone(&self) -> Parallel<'static> {
        Parallel { threads: self.threads, peers: None, start: 0 }
    }

    /// The model called `name` if it has that head.
    fn with_head(&self, name: &str, head: Head) -> Result<&VersionedModel> {
        let model = self.model(name)?;
        match head {
            Head::Language if model.values() => Err(PolicyError::model(name, ModelFault::WritesNothing)),
            Head::Value if !model.values() => Err(PolicyError::model(name, ModelFault::NoValueHead)),
            _ => Ok(model),
        }
    }

    fn model(&self, name: &str) -> Result<&VersionedModel> {
        let why = "a server generates for it and a trainer has its weights, so that it acts, learns and scores texts: for anything else leave `serve` out";
        let critic = "it learns in a trainer, which gives values of texts alone: to rank choices by it leave `train` out";
        self.models.get(name).ok_or_else(|| match self.trained.get(name) {
            Some(model) => PolicyError::model(name, ModelFault::Train { why: if model.values() { critic } else { why }.into() }),
            None => PolicyError::NoModel(name.into()),
        })
    }

    pub fn versions(&self, name: &str) -> Result<Vec<u64>> {
        match self.trained.get(name) {
            Some(model) => Ok(model.version_numbers()),
            None => Ok(self.model(name)?.version_numbers()),
        }
    }

    pub fn parameters(&self, name: &str) -> Result<usize> {
        if let Some(model) = self.trained.get(name) {
            return Ok(model.parameters.0);
        }
        let start = &self.model(name)?.start;
        let adapter = start.adapter().map_or(0, |adapter| adapter.layout().len());
        Ok((start.base_layout().len() + adapter) as usize)
    }

    pub fn trained(&self, name: &str) -> Result<usize> {
        if let Some(model) = self.trained.get(name) {
            return Ok(model.parameters.1);
        }
        Ok(self.model(name)?.start.layout().len() as usize)
    }

    pub fn generate(&self, name: &str, version: u64, requests: &[Request], sampling: &Sampling) -> Result<GenerationOutput> {
        let net = self.with_head(name, Head::Language)?.acting_at(name, version)?;
        let writes = (sampling, &*self.model(name)?.tokenizer);
        let answers = self.stored(name, version, &net, |store| generate(&net, version, store, requests, writes, self.threads))?;
        // Refuse replies that were sampled from NaN logits.
        let finite = answers.replies.iter().flatten().all(|reply| reply.logprobs.iter().all(|logprob| logprob.is_finite()));
        if finite {
            Ok(answers)
        } else {
            Err(PolicyError::model(name, ModelFault::Diverged { version }))
        }
    }

    pub fn lend(&self, name: &str, version: u64, root: &Path, trained: bool) -> Result<ExportedWeights> {
        match self.trained.get(name) {
            Some(model) => model.lend(version, root),
            None => self.with_head(name, Head::Language)?.lend(name, version, root, trained),
        }
    }

    pub fn values(&self, name: &str, version: u64, prompts: &[Example]) -> Result<Vec<Vec<f32>>> {
        if let Some(weights) = self.in_trainer(name, Some(version)) {
            let weights = weights?;
            return if self.trained[name].values() {
                weights.values(prompts)
            } else {
                Err(PolicyError::model(name, ModelFault::NoValueHead))
            };
        }
        let net = self.with_head(name, Head::Value)?.at(name, version)?;
        let rows = prompts.iter().enumerate().map(|(i, e)| TrainingRow::value(i, e, &net.limits())).collect::<Result<Vec<_>, _>>()?;
        logprobs(&net, &rows, None, UpdateSettings::default().micro_batch, &self.alone())
    }

    /// The log-probability of each response token.
    fn weigh(&self, net: &Net, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let rows = rows.iter().enumerate().map(|(i, e)| TrainingRow::new(i, e, &net.limits())).collect::<Result<Vec<_>, _>>()?;
        logprobs(net, &rows, temperature, UpdateSettings::default().micro_batch, &self.alone())
    }

    pub fn logprobs(&self, name: &str, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        if let Some(weights) = self.in_trainer(name, None) {
            return weights?.examples(rows, temperature);
        }
        let model = self.with_head(name, Head::Language)?;
        let net = model.net(model.newest().1);
        self.weigh(&net, rows, temperature)
    }

    pub fn text_logprobs(&self, name: &str, version: u64, rows: &[Example]) -> Result<Vec<Vec<f32>>> {
        if let Some(weights) = self.in_trainer(name, Some(version)).filter(|_| !self.models.contains_key(name)) {
            return weights?.examples(rows, None);
        }
        let net = self.with_head(name, Head::Language)?.at(name, version)?;
        self.weigh(&net, rows, None)
    }

    pub fn likelihoods(&self, name: &str, version: u64, requests: &[Request], temperature: f64) -> Result<ChoiceScores> {
        let net = self.with_head(name, Head::Language)?.acting_at(name, version)?;
        self.stored(name, version, &net, |store| weigh::likelihoods(&net, version, store, requests, temperature, self.threads))
    }

    pub fn choice_values(&self, name: &str, version: u64, requests: &[Request]) -> Result<ChoiceScores> {
        let net = self.with_head(name, Head::Value)?.at(name, version)?;
        self.stored(name, version, &net, |store| weigh::choice_values(&net, version, store, requests, self.threads))
    }

    /// Calls `read` with the cache of keys and values of that version.
    fn stored<T>(&self, name: &str, version: u64, net: &Net, read: impl FnOnce(&mut Store) -> Result<T>) -> Result<T> {
        let model = self.model(name)?;
        let mut stores = model.stores.borrow_mut();
        read(stores.entry(version).or_insert_with(|| Store::new(net, model.cache)))
    }

    pub fn embed(&self, name: &str, texts: &[String]) -> Result<Vec<Vec<f32>>> {
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
    fn reference(&self, name: &str, other: Option<&str>) -> Result<Net> {
        let model = self.with_head(name, Head::Language)?;
        let Some(other) = other else { return Ok(model.start.share(false)) };
        let reference = self.with_head(other, Head::Language)?;
        if reference.tokenizer != model.tokenizer {
            return Err(PolicyError::model(name, ModelFault::ReferenceVocabulary { reference: other.into() }));
        }
        Ok(reference.net(reference.newest().1))
    }

    pub fn reference_logprobs(&self, name: &str, other: Option<&str>, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let trained = self.trained.get(other.unwrap_or(name)).filter(|_| !self.models.contains_key(name));
        if let Some(model) = trained {
            return if other.is_some() { model.weights()? } else { model.reference() }.examples(rows, temperature);
        }
        let net = self.reference(name, other)?;
        self.weigh(&net, rows, temperature)
    }

    /// What one update makes; the report has the version before the update.
    pub fn learn(
        &self,
        name: &str,
        rows: &[Example],
        settings: &UpdateSettings,
        peers: Option<&dyn Peers>,
    ) -> Result<(Learnt, UpdateReport)> {
        let head = if settings.objective == Objective::Value { Head::Value } else { Head::Language };
        if let Some(model) = self.trained.get(name) {
            return self.learn_in_trainer(model, rows, settings, peers.is_some());
        }
        let model = self.with_head(name, head)?;
        let (version, flat) = model.newest();
        // Learning weights are kept in f32, whatever the computation's format is.
        let flat = &flat.to_kind(Kind::Float);
        let reference = match settings.reference_ema {
            _ if !settings.compares() => None,
            Some(_) => Some(model.mean()),
            None => Some(self.reference(name, settings.reference.as_deref())?),
        };
        // What acted may have been rounded.
        let settings =
            &UpdateSettings { old: settings.old.or(model.acting.rounded().then_some(RatioDenominator::Recomputed)), ..settings.clone() };
        let seed = mix(model.seed, version + 1);
        let parallel = Parallel { threads: self.threads, peers, start: peers.map_or(0, |_| hash(&values(flat))) };
        let mut learner = LocalLearner::new(name, model.net(flat), model.moments.share(), reference, seed, parallel);
        let (learnt, report) = update(name, &mut learner, rows, settings, seed)?;
        if !learnt {
            return Ok((Learnt::Nothing, UpdateReport { version, ..report }));
        }
        let (flat, moments) = learner.outcome();
        let moments = match settings.reference_ema {
            Some(decay) => tch::no_grad(|| moments.following(decay, model.start.flat(), &flat)),
            None => moments,
        };
        Ok((Learnt::Here(flat, moments), UpdateReport { version, ..report }))
    }

    fn learn_in_trainer(
        &self,
        model: &TrainedModel,
        rows: &[Example],
        settings: &UpdateSettings,
        shared: bool,
    ) -> Result<(Learnt, UpdateReport)> {
        let refuse = |why: &str| Err(PolicyError::model(&model.name, ModelFault::Train { why: why.into() }));
        if shared {
            return refuse("a run of several processes shares the work among these: leave `--hosts` out");
        }
        if settings.objective == Objective::Distill || settings.reference_ema.is_some() {
            return refuse(
                "a trainer gives a token's log-probability, neither a distribution to distil nor a mean of its weights: leave `train` out",
            );
        }
        match (settings.objective == Objective::Value, model.values()) {
            (true, false) => return Err(PolicyError::model(&model.name, ModelFault::NoValueHead)),
            (false, true) => return Err(PolicyError::model(&model.name, ModelFault::WritesNothing)),
            _ => {}
        }
        let reference: Option<Box<dyn Tracer + '_>> = match settings.reference.as_deref() {
            _ if settings.kl == 0.0 => None,
            None => Some(Box::new(model.reference())),
            Some(other) => match self.in_trainer(other, None) {
                Some(weights) => Some(Box::new(weights?)),
                None => {
                    let other = self.with_head(other, Head::Language)?;
                    Some(Box::new(other.net(other.newest().1)))
                }
            },
        };
        if let Some(other) = settings.reference.as_deref().filter(|_| reference.is_some()) {
            if self.models().any(|(name, tokenizer, _)| name == other && *tokenizer != model.tokenizer) {
                return Err(PolicyError::model(&model.name, ModelFault::ReferenceVocabulary { reference: other.into() }));
            }
        }
        let (learnt, report) = model.learn(rows, settings, reference.as_deref())?;
        Ok((if learnt { Learnt::InTrainer } else { Learnt::Nothing }, report))
    }

    /// Makes the outcome the newest version, and keeps `keep` older ones.
    pub fn adopt(&mut self, name: &str, outcome: (Learnt, UpdateReport), keep: usize) -> Result<UpdateReport> {
        let (learnt, mut report) = outcome;
        let device = self.device.device();
        let model = self.models.get_mut(name);
        let gone = || PolicyError::NoModel(name.into());
        report.version += 1;
        match learnt {
            Learnt::Nothing => report.version -= 1,
            Learnt::Here(flat, moments) => {
                let model = model.ok_or_else(gone)?;
                model.moments = moments;
                model.push(report.version, flat, keep);
            }
            Learnt::InTrainer => {
                let start = Instant::now();
                let folder = self.trained.get_mut(name).ok_or_else(gone)?.adopt(report.version, keep)?;
                report.seconds.insert("export_seconds".into(), start.elapsed().as_secs_f64());
                if let Some(model) = model {
                    let (_, flat, _) = model.read(name, &folder, device)?;
                    model.push(report.version, flat, keep);
                }
            }
        }
        Ok(report)
    }

    pub fn save(&self, name: &str, folder: &Path) -> Result<()> {
        match self.trained.get(name) {
            Some(model) => model.save(folder),
            None => self.model(name)?.save(folder),
        }
    }

    /// Takes the versions in `folders`, oldest first, in place of those there are, and the moments of the last one.
    pub fn restore(&mut self, name: &str, folders: &[PathBuf]) -> Result<u64> {
        let device = self.device.device();
        let mut newest = self.versions(name)?.last().copied().unwrap_or(0);
        if let Some(model) = self.models.get_mut(name) {
            let mut versions = VecDeque::new();
            for folder in folders {
                newest = model.restore(name, folder, device)?;
                versions.extend(model.versions.pop_back());
            }
            if !versions.is_empty() {
                model.replace(versions);
            }
        }
        match self.trained.get_mut(name) {
            Some(model) => model.restore(folders),
            None => Ok(newest),
        }
    }
}
