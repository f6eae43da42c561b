//! A model that learns in a trainer's processes. Where no server generates for it, this process has a copy that acts.

#[cfg(feature = "torch")]
use super::local::LocalModel;
#[cfg(not(feature = "torch"))]
use super::without::LocalModel;
use super::{At, Learnt, Model, Opening, Others};
#[cfg(feature = "torch")]
use crate::model::Net;
use crate::trainer::{TrainedModel, TrainerWeights};
use crate::update::tracer::Tracer;
use flow_model::{
    ChoiceScores, Example, GenerationOutput, LoadModel, ModelFault, ModelSettings, Objective, Peers, PolicyError, Request, Result,
    Sampling, SharedModel, Sizes, TrainSettings, UpdateReport, UpdateSettings,
};
use flow_serve::ExportedWeights;
use flow_text::Tokenizer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

struct TrainerModel {
    trained: TrainedModel,
    /// The copy that acts, with the same versions.
    local: Option<LocalModel>,
}

pub fn open(name: &str, settings: &ModelSettings, opening: &Opening) -> Result<Option<Box<dyn Model>>> {
    let ModelSettings::Load(load @ LoadModel { train: Some(train), .. }) = settings else { return Ok(None) };
    let ranks = opening.hardware.ranks.filter(|_| train.torchrun.is_some());
    let train = TrainSettings { torchrun: ranks.or(train.torchrun), ..(**train).clone() };
    // What a critic is asked the trainer answers: it has no second copy here.
    let plays = load.serve.is_none() && !flow_checkpoint::opened::critic(load)?;
    let local = plays.then(|| LocalModel::new(name, settings, opening)).transpose()?;
    let trained = TrainedModel::open(name, load, &train, local.as_ref().map(LocalModel::twin).as_ref(), opening.seed, opening.hardware)?;
    Ok(Some(Box::new(TrainerModel { trained, local })))
}

impl TrainerModel {
    fn refuse(&self, why: &str) -> PolicyError {
        PolicyError::model(&self.trained.name, ModelFault::Train { why: why.into() })
    }

    /// The copy that acts.
    fn local(&self) -> Result<&LocalModel> {
        self.local.as_ref().ok_or_else(|| self.refusal())
    }

    fn weights(&self, at: At) -> Result<TrainerWeights<'_>> {
        match at {
            At::Start => Ok(self.trained.reference()),
            At::Newest => self.trained.weights(),
            At::Version(version) => self.trained.weights_at(version),
        }
    }
}

impl Model for TrainerModel {
    fn refusal(&self) -> PolicyError {
        if self.trained.values() {
            return self.refuse("it learns in a trainer, which gives values of texts alone: to rank choices by it leave `train` out");
        }
        self.refuse("a server generates for it and a trainer has its weights, so that it acts, learns and scores texts: for anything else leave `serve` out")
    }

    fn described(&self) -> Option<(&Arc<Tokenizer>, Sizes)> {
        match &self.local {
            Some(local) => local.described(),
            None => Some((&self.trained.tokenizer, self.trained.limits.sizes)),
        }
    }

    fn parameters(&self) -> Result<(usize, usize)> {
        Ok(self.trained.parameters)
    }

    fn bytes(&self) -> u64 {
        self.local.as_ref().map_or(0, LocalModel::bytes)
    }

    fn watch(&self) -> Result<()> {
        self.trained.watch()
    }

    fn versions(&self) -> Result<Vec<u64>> {
        Ok(self.trained.version_numbers())
    }

    fn generate(&self, version: u64, requests: &[Request], sampling: &Sampling) -> Result<GenerationOutput> {
        self.local()?.generate(version, requests, sampling)
    }

    fn logprobs(&self, at: At, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        match (&self.local, at) {
            (Some(local), At::Start | At::Version(_)) => local.logprobs(at, rows, temperature),
            _ => self.weights(at)?.examples(rows, temperature),
        }
    }

    fn values(&self, version: u64, rows: &[Example]) -> Result<Vec<Vec<f32>>> {
        let weights = self.weights(At::Version(version))?;
        if !self.trained.values() {
            return Err(PolicyError::model(&self.trained.name, ModelFault::NoValueHead));
        }
        weights.values(rows)
    }

    fn likelihoods(&self, version: u64, requests: &[Request], temperature: f64) -> Result<ChoiceScores> {
        self.local()?.likelihoods(version, requests, temperature)
    }

    fn choice_values(&self, version: u64, requests: &[Request]) -> Result<ChoiceScores> {
        self.local()?.choice_values(version, requests)
    }

    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.local()?.embed(texts)
    }

    #[cfg(feature = "torch")]
    fn net(&self, at: At) -> Result<Net> {
        self.local()?.net(at)
    }

    fn tracer(&self, at: At) -> Result<Box<dyn Tracer + '_>> {
        Ok(Box::new(self.weights(at)?))
    }

    fn on_base(&self, name: &str, settings: &SharedModel, seed: u64) -> Result<Box<dyn Model>> {
        let no = || PolicyError::model(name, ModelFault::NoBase { on: settings.on.clone() });
        self.local.as_ref().ok_or_else(no)?.on_base(name, settings, seed)
    }

    fn learn(
        &self,
        rows: &[Example],
        settings: &UpdateSettings,
        peers: Option<&dyn Peers>,
        others: Others,
    ) -> Result<(Learnt, UpdateReport)> {
        let fault = |fault| PolicyError::model(&self.trained.name, fault);
        if peers.is_some() {
            return Err(self.refuse("a run of several processes shares the work among these: leave `--hosts` out"));
        }
        if settings.objective == Objective::Distill || settings.reference_ema.is_some() {
            return Err(self.refuse(
                "a trainer gives a token's log-probability, neither a distribution to distil nor a mean of its weights: leave `train` out",
            ));
        }
        let reads = |settings: &UpdateSettings| settings.function.as_ref().is_some_and(|of| of.0.reads_entropy());
        if self.trained.bare && (settings.entropy != 0.0 || reads(settings)) {
            return Err(self.refuse("its trainer has log-probabilities and no entropies: leave the entropy out of the loss"));
        }
        match (settings.objective == Objective::Value, self.trained.values()) {
            (true, false) => return Err(fault(ModelFault::NoValueHead)),
            (false, true) => return Err(fault(ModelFault::WritesNothing)),
            _ => {}
        }
        let reference: Option<Box<dyn Tracer + '_>> = match settings.reference.as_deref() {
            _ if settings.kl == 0.0 => None,
            None => Some(self.tracer(At::Start)?),
            Some(name) => {
                let other = others(name)?;
                let reference = other.tracer(At::Newest)?;
                if other.described().is_some_and(|(tokenizer, _)| *tokenizer != self.trained.tokenizer) {
                    return Err(fault(ModelFault::ReferenceVocabulary { reference: name.into() }));
                }
                Some(reference)
            }
        };
        let (learnt, report) = self.trained.learn(rows, settings, reference.as_deref())?;
        Ok((if learnt { Learnt::InTrainer } else { Learnt::Nothing }, report))
    }

    fn adopt(&mut self, learnt: Learnt, report: &mut UpdateReport, keep: usize) -> Result<()> {
        if !matches!(learnt, Learnt::InTrainer) {
            return Ok(());
        }
        let start = Instant::now();
        let folder = self.trained.adopt(report.version, keep)?;
        report.measured.insert("export_seconds".into(), start.elapsed().as_secs_f64());
        self.local.as_mut().map_or(Ok(()), |local| local.follow(report.version, &folder, keep))
    }

    fn save(&self, folder: &Path) -> Result<()> {
        self.trained.save(folder)
    }

    fn restore(&mut self, folders: &[PathBuf]) -> Result<u64> {
        self.local.as_mut().map(|local| local.restore(folders)).transpose()?;
        self.trained.restore(folders)
    }

    fn export(&self, version: u64, root: &Path, _: bool) -> Result<ExportedWeights> {
        self.trained.export(version, root)
    }
}
