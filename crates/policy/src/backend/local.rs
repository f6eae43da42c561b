//! A model of this process: libtorch or the engine computes it.

use super::{At, Learnt, Model, Opening, Others};
use crate::generate::generate;
use crate::generate::store::Store;
use crate::generate::weigh;
use crate::model::Net;
use crate::tensors::values;
use crate::trainer::Twin;
use crate::update::local::{logprobs, LocalLearner};
use crate::update::parallel::{hash, Parallel};
use crate::update::passes::TrainingRow;
use crate::update::update;
use crate::versions::VersionedModel;
use flow_core::seed::mix;
use flow_model::{
    Act, ChoiceScores, Example, GenerationOutput, Head, ModelFault, ModelSettings, Objective, Peers, PolicyError, RatioDenominator,
    Request, Result, Sampling, SharedModel, Sizes, UpdateReport, UpdateSettings,
};
use flow_serve::ExportedWeights;
use flow_text::Tokenizer;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Kind};

/// A model with its versions.
pub struct LocalModel {
    name: String,
    pub versioned: VersionedModel,
    device: Device,
    threads: usize,
}

pub fn open(name: &str, settings: &ModelSettings, opening: &Opening) -> Result<Option<Box<dyn Model>>> {
    let model = LocalModel::new(name, settings, opening)?;
    let served = matches!(settings, ModelSettings::Load(load) if load.serve.is_some());
    if served && !model.versioned.can_be_served() {
        return Err(PolicyError::model(name, ModelFault::NotServed));
    }
    Ok(Some(Box::new(model)))
}

impl LocalModel {
    /// The model called `name`, as the pipeline describes it.
    ///
    /// # Errors
    /// If it can't be made as described.
    pub fn new(name: &str, settings: &ModelSettings, opening: &Opening) -> Result<LocalModel> {
        let versioned = VersionedModel::new(name, settings, opening.words, opening.seed, opening.device)?;
        Ok(LocalModel { name: name.into(), versioned, device: opening.device, threads: opening.threads })
    }

    /// What a trainer of the same model needs of it.
    pub fn twin(&self) -> Twin<'_> {
        let model = &self.versioned;
        let adapter = model.start.adapter().is_some().then(|| Box::new(|folder: &Path| model.save(folder)) as Box<_>);
        Twin { tokenizer: &model.tokenizer, limits: model.start.limits(), adapter }
    }

    fn fault(&self, fault: ModelFault) -> PolicyError {
        PolicyError::model(&self.name, fault)
    }

    /// Insists on a head: a model that writes, or a critic.
    fn has(&self, head: Head) -> Result<()> {
        match head {
            Head::Language if self.versioned.values() => Err(self.fault(ModelFault::WritesNothing)),
            Head::Value if !self.versioned.values() => Err(self.fault(ModelFault::NoValueHead)),
            _ => Ok(()),
        }
    }

    fn at(&self, version: u64) -> Result<Net> {
        self.versioned.at(&self.name, version)
    }

    fn acting_at(&self, version: u64) -> Result<Net> {
        self.has(Head::Language)?;
        self.versioned.acting_at(&self.name, version)
    }

    /// Calls `read` with the cache of keys and values of that version.
    fn stored<T>(&self, version: u64, net: &Net, read: impl FnOnce(&mut Store) -> Result<T>) -> Result<T> {
        let mut stores = self.versioned.stores.borrow_mut();
        read(stores.entry(version).or_insert_with(|| Store::new(net, self.versioned.cache)))
    }

    /// What `net` makes of rows, computed by this process alone.
    fn weigh(&self, net: &Net, rows: &[TrainingRow], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let alone = Parallel { threads: self.threads, peers: None, start: 0 };
        logprobs(net, rows, temperature, UpdateSettings::default().micro_batch, &alone)
    }

    /// What a divergence is measured from: `other`, or the model itself as it was when the run began.
    fn reference(&self, other: Option<&str>, others: Others) -> Result<Net> {
        self.has(Head::Language)?;
        let Some(name) = other else { return self.net(At::Start) };
        let other = others(name)?;
        let net = other.net(At::Newest)?;
        if other.described().is_some_and(|(tokenizer, _)| *tokenizer != self.versioned.tokenizer) {
            return Err(self.fault(ModelFault::ReferenceVocabulary { reference: name.into() }));
        }
        Ok(net)
    }
}

impl Model for LocalModel {
    fn refusal(&self) -> PolicyError {
        self.fault(ModelFault::NoEncoder)
    }

    fn described(&self) -> Option<(&Arc<Tokenizer>, Sizes)> {
        Some((&self.versioned.tokenizer, self.versioned.start.sizes))
    }

    fn parameters(&self) -> Result<(usize, usize)> {
        let start = &self.versioned.start;
        let adapter = start.adapter().map_or(0, |adapter| adapter.layout().len());
        Ok(((start.base_layout().len() + adapter) as usize, start.layout().len() as usize))
    }

    fn acting(&self) -> Option<Act> {
        let whole = !self.versioned.values() && self.versioned.start.adapter().is_none();
        whole.then(|| self.versioned.acting.act())
    }

    fn bytes(&self) -> u64 {
        self.versioned.bytes()
    }

    fn versions(&self) -> Result<Vec<u64>> {
        Ok(self.versioned.version_numbers())
    }

    fn generate(&self, version: u64, requests: &[Request], sampling: &Sampling) -> Result<GenerationOutput> {
        let net = self.acting_at(version)?;
        let writes = (sampling, &*self.versioned.tokenizer);
        let answers = self.stored(version, &net, |store| generate(&net, version, store, requests, writes, self.threads))?;
        // Refuse replies that were sampled from NaN logits.
        let finite = answers.replies.iter().flatten().all(|reply| reply.logprobs.iter().all(|logprob| logprob.is_finite()));
        if finite {
            Ok(answers)
        } else {
            Err(self.fault(ModelFault::Diverged { version }))
        }
    }

    fn logprobs(&self, at: At, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let net = self.net(at)?;
        let rows = rows.iter().enumerate().map(|(i, e)| TrainingRow::new(i, e, &net.limits())).collect::<Result<Vec<_>, _>>()?;
        self.weigh(&net, &rows, temperature)
    }

    fn values(&self, version: u64, prompts: &[Example]) -> Result<Vec<Vec<f32>>> {
        self.has(Head::Value)?;
        let net = self.at(version)?;
        let rows = prompts.iter().enumerate().map(|(i, e)| TrainingRow::value(i, e, &net.limits())).collect::<Result<Vec<_>, _>>()?;
        self.weigh(&net, &rows, None)
    }

    fn likelihoods(&self, version: u64, requests: &[Request], temperature: f64) -> Result<ChoiceScores> {
        let net = self.acting_at(version)?;
        self.stored(version, &net, |store| weigh::likelihoods(&net, version, store, requests, temperature, self.threads))
    }

    fn choice_values(&self, version: u64, requests: &[Request]) -> Result<ChoiceScores> {
        self.has(Head::Value)?;
        let net = self.at(version)?;
        self.stored(version, &net, |store| weigh::choice_values(&net, version, store, requests, self.threads))
    }

    fn net(&self, at: At) -> Result<Net> {
        self.has(Head::Language)?;
        match at {
            At::Start => Ok(self.versioned.start.share(false)),
            At::Newest => Ok(self.versioned.net(self.versioned.newest().1)),
            At::Version(version) => self.at(version),
        }
    }

    fn on_base(&self, name: &str, settings: &SharedModel, seed: u64) -> Result<Box<dyn Model>> {
        let versioned = self.versioned.shared(name, settings, seed)?;
        Ok(Box::new(LocalModel { name: name.into(), versioned, device: self.device, threads: self.threads }))
    }

    fn learn(
        &self,
        rows: &[Example],
        settings: &UpdateSettings,
        peers: Option<&dyn Peers>,
        others: Others,
    ) -> Result<(Learnt, UpdateReport)> {
        self.has(if settings.objective == Objective::Value { Head::Value } else { Head::Language })?;
        let model = &self.versioned;
        let (version, flat) = model.newest();
        // Learning weights are kept in f32, whatever the computation's format is.
        let flat = &flat.to_kind(Kind::Float);
        let reference = match settings.reference_ema {
            _ if !settings.compares() => None,
            Some(_) => Some(model.mean()),
            None => Some(self.reference(settings.reference.as_deref(), others)?),
        };
        // What acted may have been rounded.
        let settings =
            &UpdateSettings { old: settings.old.or(model.acting.rounded().then_some(RatioDenominator::Recomputed)), ..settings.clone() };
        let seed = mix(model.seed, version + 1);
        let parallel = Parallel { threads: self.threads, peers, start: peers.map_or(0, |_| hash(&values(flat))) };
        let mut learner = LocalLearner::new(&self.name, model.net(flat), model.moments.share(), reference, seed, parallel);
        let (learnt, report) = update(&self.name, &mut learner, rows, settings, seed)?;
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

    fn adopt(&mut self, learnt: Learnt, report: &mut UpdateReport, keep: usize) -> Result<()> {
        if let Learnt::Here(flat, moments) = learnt {
            self.versioned.moments = moments;
            self.versioned.push(report.version, flat, keep);
        }
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<()> {
        self.versioned.save(folder)
    }

    fn restore(&mut self, folders: &[PathBuf]) -> Result<u64> {
        let mut newest = self.versioned.newest().0;
        let mut versions = VecDeque::new();
        for folder in folders {
            newest = self.versioned.restore(&self.name, folder, self.device)?;
            versions.extend(self.versioned.versions.pop_back());
        }
        if !versions.is_empty() {
            self.versioned.replace(versions);
        }
        Ok(newest)
    }

    fn export(&self, version: u64, root: &Path, trained: bool) -> Result<ExportedWeights> {
        self.has(Head::Language)?;
        self.versioned.export(&self.name, version, root, trained)
    }
}

impl LocalModel {
    /// Takes the weights in `folder`, which a trainer has written, as `version`.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn follow(&mut self, version: u64, folder: &Path, keep: usize) -> Result<()> {
        let (_, flat, _) = self.versioned.read(&self.name, folder, self.device)?;
        self.versioned.push(version, flat, keep);
        Ok(())
    }
}
