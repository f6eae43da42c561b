//! What the policy thread owns: the models with their versions, and what is asked of them.

use super::adamw::Moments;
use super::generate::generate;
use super::hands::{hash, Hands};
use super::model::{random, Net};
use super::passes::{logprobs, read_rows, values, Row};
use super::rope::Rope;
use super::shape::Shape;
use super::store::{self, Saved};
use super::update::{update, Before};
use super::{
    Example, Head, ModelSettings, Objective, Peers, PolicyError, Reply, Request, Sampling, TokenKind, Tokenizer, UpdateReport,
    UpdateSettings,
};
use crate::seed::{mix, text};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tch::{Device, Tensor};

/// One model: its newest versions, its moments, and the weights it began with.
pub struct Model {
    shape: Shape,
    rope: Rope,
    pub tokenizer: Arc<Tokenizer>,
    /// Oldest first, the newest last; never empty.
    versions: VecDeque<(u64, Tensor)>,
    moments: Moments,
    start: Tensor,
    seed: u64,
}

/// New weights and moments.
type Made = (Tensor, Moments);

/// All models of a process.
pub struct State {
    models: BTreeMap<String, Model>,
    device: Device,
    threads: usize,
}

impl Model {
    fn new(name: &str, settings: &ModelSettings, words: &[String], seed: u64, device: Device) -> Result<Model, PolicyError> {
        let seed = mix(seed, text(name));
        let (shape, tokenizer, version, flat, moments) = match settings {
            ModelSettings::New(new) => {
                let tokenizer = match new.tokens {
                    TokenKind::Words => Tokenizer::new(words),
                    TokenKind::Bytes => Tokenizer::bytes(),
                };
                let shape =
                    Shape::new(new, tokenizer.vocab_size()).map_err(|error| PolicyError::Settings(format!("model `{name}`: {error}")))?;
                let flat = Tensor::from_slice(&random(&shape, seed)).to_device(device);
                let moments = Moments::new(&flat);
                (shape, tokenizer, 0, flat, moments)
            }
            ModelSettings::Load(load) => {
                // The weights are taken, the training isn't: it starts at version 0 with fresh moments.
                let mut saved = store::load(Path::new(&load.load), device)?;
                if let Some(head) = load.head {
                    saved = saved.with_head(head).map_err(|error| PolicyError::Settings(format!("model `{name}`: {error}")))?;
                }
                let moments = Moments::new(&saved.flat);
                (saved.shape, Tokenizer::new(&saved.words), 0, saved.flat, moments)
            }
        };
        let rope = Rope::new(&shape, device);
        let start = flat.shallow_clone();
        Ok(Model { shape, rope, tokenizer: Arc::new(tokenizer), versions: VecDeque::from([(version, flat)]), moments, start, seed })
    }

    fn newest(&self) -> (u64, &Tensor) {
        // Never empty, so the fallback is never taken.
        self.versions.back().map_or((0, &self.start), |(version, flat)| (*version, flat))
    }

    /// The net at a version that is still kept.
    fn at(&self, name: &str, version: u64) -> Result<Net, PolicyError> {
        let flat = self.versions.iter().find(|(kept, _)| *kept == version).map(|(_, flat)| flat);
        let kept = || self.versions.iter().map(|(version, _)| *version).collect();
        flat.map(|flat| self.net(flat)).ok_or_else(|| PolicyError::NoVersion { model: name.into(), version, kept: kept() })
    }

    fn net(&self, flat: &Tensor) -> Net {
        Net::new(&self.shape, flat, &self.rope, false)
    }
}

impl State {
    pub fn new(models: &BTreeMap<String, ModelSettings>, words: &[String], seed: u64, threads: usize) -> Result<State, PolicyError> {
        tch::set_num_threads(1);
        let device = Device::cuda_if_available();
        let threads = if device.is_cuda() { 1 } else { threads.max(1) };
        let make = |(name, settings): (&String, &ModelSettings)| Ok((name.clone(), Model::new(name, settings, words, seed, device)?));
        let state = State { models: models.iter().map(make).collect::<Result<_, PolicyError>>()?, device, threads };
        state.understood()?;
        Ok(state)
    }

    /// Refuses a critic that reads the tokens of no policy there is.
    fn understood(&self) -> Result<(), PolicyError> {
        let policies: Vec<&Model> = self.models.values().filter(|model| !model.shape.value).collect();
        let alone = |model: &Model| model.shape.value && !policies.iter().any(|policy| policy.tokenizer == model.tokenizer);
        match self.models.iter().find(|(_, model)| !policies.is_empty() && alone(model)) {
            Some((name, _)) => Err(PolicyError::Settings(format!("the critic `{name}` has another vocabulary than every policy"))),
            None => Ok(()),
        }
    }

    pub fn models(&self) -> impl Iterator<Item = (&String, &Model)> {
        self.models.iter()
    }

    /// Work that no other process has a part in.
    fn alone(&self) -> Hands<'static> {
        Hands { threads: self.threads, peers: None, start: 0 }
    }

    /// The model called `name` if it has that head.
    fn with_head(&self, name: &str, head: Head) -> Result<&Model, PolicyError> {
        let model = self.model(name)?;
        let wrong = match head {
            Head::Language if model.shape.value => "has a value head and writes nothing",
            Head::Value if !model.shape.value => "has no value head: give it `head: value`",
            _ => return Ok(model),
        };
        Err(PolicyError::Settings(format!("model `{name}` {wrong}")))
    }

    fn model(&self, name: &str) -> Result<&Model, PolicyError> {
        self.models.get(name).ok_or_else(|| PolicyError::NoModel(name.into()))
    }

    pub fn versions(&self, name: &str) -> Result<Vec<u64>, PolicyError> {
        Ok(self.model(name)?.versions.iter().map(|(version, _)| *version).collect())
    }

    pub fn parameters(&self, name: &str) -> Result<usize, PolicyError> {
        Ok(self.model(name)?.shape.parameters())
    }

    pub fn generate(&self, name: &str, version: u64, requests: &[Request], sampling: &Sampling) -> Result<Vec<Reply>, PolicyError> {
        let net = self.with_head(name, Head::Language)?.at(name, version)?;
        generate(&net, requests, sampling, self.threads)
    }

    pub fn values(&self, name: &str, version: u64, prompts: &[Example]) -> Result<Vec<f32>, PolicyError> {
        let net = self.with_head(name, Head::Value)?.at(name, version)?;
        let rows = prompts.iter().enumerate().map(|(i, e)| Row::value(i, e, &net.shape)).collect::<Result<Vec<_>, _>>()?;
        let size = UpdateSettings::default().micro_batch;
        Ok(read_rows(&net, &rows, size, &self.alone(), |pass, net| pass.values(net, &rows))?.concat())
    }

    pub fn logprobs(&self, name: &str, rows: &[Example], temperature: f64) -> Result<Vec<Vec<f32>>, PolicyError> {
        let model = self.with_head(name, Head::Language)?;
        let net = model.net(model.newest().1);
        let rows = rows.iter().enumerate().map(|(i, e)| Row::new(i, e, &net.shape)).collect::<Result<Vec<_>, _>>()?;
        logprobs(&net, &rows, temperature, UpdateSettings::default().micro_batch, &self.alone())
    }

    /// What an update makes of the newest weights and its moments, if it learns anything; its report has the version before.
    pub fn learn(
        &self,
        name: &str,
        rows: &[Example],
        settings: &UpdateSettings,
        peers: Option<&dyn Peers>,
    ) -> Result<(Option<Made>, UpdateReport), PolicyError> {
        let head = if settings.objective == Objective::Value { Head::Value } else { Head::Language };
        let model = self.with_head(name, head)?;
        let (version, flat) = model.newest();
        let reference = match &settings.reference {
            _ if settings.kl == 0.0 || head == Head::Value => None,
            None => Some(model.net(&model.start)),
            Some(other) => {
                let reference = self.with_head(other, Head::Language)?;
                if reference.tokenizer != model.tokenizer {
                    return Err(PolicyError::Settings(format!("reference `{other}` has another vocabulary than `{name}`")));
                }
                Some(reference.net(reference.newest().1))
            }
        };
        let net = model.net(flat);
        let seed = mix(model.seed, version + 1);
        let hands = Hands { threads: self.threads, peers, start: peers.map_or(0, |_| hash(&values(flat))) };
        let before = Before { name, net: &net, flat, moments: &model.moments, reference, seed, hands };
        let (made, report) = update(&before, rows, settings)?;
        Ok((made, UpdateReport { version, ..report }))
    }

    /// Makes that the newest version, and keeps `keep` older ones.
    pub fn adopt(&mut self, name: &str, made: (Option<Made>, UpdateReport), keep: usize) -> Result<UpdateReport, PolicyError> {
        let (Some((flat, moments)), mut report) = made else { return Ok(made.1) };
        report.version += 1;
        let model = self.models.get_mut(name).ok_or_else(|| PolicyError::NoModel(name.into()))?;
        model.moments = moments;
        model.versions.push_back((report.version, flat));
        while model.versions.len() > keep + 1 {
            model.versions.pop_front();
        }
        Ok(report)
    }

    pub fn save(&self, name: &str, folder: &Path) -> Result<(), PolicyError> {
        let model = self.model(name)?;
        let (version, flat) = model.newest();
        let words = model.tokenizer.words().to_vec();
        let saved = Saved { shape: model.shape.clone(), words, version, flat: flat.shallow_clone(), moments: model.moments.share() };
        store::save(&saved, folder)
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
            model.versions = versions;
        }
        Ok(newest)
    }

    pub fn load(&mut self, name: &str, folder: &Path) -> Result<u64, PolicyError> {
        let saved = store::load(folder, self.device)?;
        let model = self.models.get_mut(name).ok_or_else(|| PolicyError::NoModel(name.into()))?;
        if saved.shape != model.shape || saved.words != model.tokenizer.words() {
            let what = format!("the sizes or the vocabulary aren't those of model `{name}`");
            return Err(PolicyError::File { path: folder.display().to_string(), what });
        }
        model.versions = VecDeque::from([(saved.version, saved.flat)]);
        model.moments = saved.moments;
        Ok(saved.version)
    }
}
