//! What the policy thread owns: the models of a process by name.

use crate::backend::{self, At, Learnt, Model, Opening};
use crate::memory;
use crate::{DeviceChoice, FoundDevice, Hardware};
use flow_int8::products::choice as products;
use flow_model::{Act, Example, ModelFault, ModelSettings, Peers, PolicyError, Result, Sizes, UpdateReport, UpdateSettings};
use flow_text::Tokenizer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The facts on a model that need no computing.
pub struct ModelFacts {
    pub tokenizer: Arc<Tokenizer>,
    pub sizes: Sizes,
    /// Which weights act, of one that is trained whole, here, and isn't a critic.
    pub act: Option<Act>,
}

/// All models of a process.
pub struct PolicyState {
    models: BTreeMap<String, Box<dyn Model>>,
    device: FoundDevice,
}

impl PolicyState {
    pub fn new(models: &BTreeMap<String, ModelSettings>, words: &[String], seed: u64, hardware: Hardware) -> Result<PolicyState> {
        products::check()?;
        // Where servers run all models nothing is computed, and libtorch need not be there.
        let remote = models.values().all(|settings| matches!(settings, ModelSettings::Remote(_)));
        let choice = if remote { DeviceChoice::Cpu } else { hardware.device };
        #[cfg(feature = "torch")]
        if !remote {
            crate::libtorch()?;
            tch::set_num_threads(1);
        }
        let place = FoundDevice::look(choice)?;
        let threads = if place.is_cuda() { 1 } else { hardware.threads.max(1) };
        let opening = Opening {
            words,
            seed,
            hardware: &hardware,
            #[cfg(feature = "torch")]
            device: place.device(),
            threads,
        };
        let mut state = PolicyState { models: BTreeMap::new(), device: place };
        let mut shared = Vec::new();
        for (name, settings) in models {
            match settings {
                // The model whose base it is has to be there.
                ModelSettings::Shared(settings) => shared.push((name, settings)),
                _ => drop(state.models.insert(name.clone(), backend::open(name, settings, &opening)?)),
            }
        }
        for (name, settings) in shared {
            let fault = |fault| PolicyError::model(name, fault);
            if let Some(ModelSettings::Shared(_)) = models.get(&settings.on) {
                return Err(fault(ModelFault::SharedBase { on: settings.on.clone() }));
            }
            let base = state.models.get(&settings.on).ok_or_else(|| fault(ModelFault::NoBase { on: settings.on.clone() }))?;
            let model = base.on_base(name, settings, seed)?;
            state.models.insert(name.clone(), model);
        }
        state.understood()?;
        Ok(state)
    }

    /// Refuses a critic that reads the tokens of no policy there is.
    fn understood(&self) -> Result<()> {
        let (critics, policies): (Vec<_>, Vec<_>) = self.models().partition(|(_, _, sizes)| sizes.value);
        let alone = |tokenizer: &Arc<Tokenizer>| policies.iter().all(|(_, policy, _)| *policy != tokenizer);
        match critics.iter().find(|(_, tokenizer, _)| !policies.is_empty() && alone(tokenizer)) {
            Some((name, ..)) => Err(PolicyError::model(name, ModelFault::CriticVocabulary)),
            None => Ok(()),
        }
    }

    /// Where the models are computed.
    pub fn device(&self) -> &FoundDevice {
        &self.device
    }

    /// The facts on the models that read and write tokens, for the threads beside this one.
    pub fn facts(&self) -> BTreeMap<String, ModelFacts> {
        let facts = self.models().map(|(name, tokenizer, sizes)| {
            let act = self.models.get(name).and_then(|model| model.acting());
            (name.clone(), ModelFacts { tokenizer: tokenizer.clone(), sizes, act })
        });
        facts.collect()
    }

    /// Notes how much of a GPU's memory the models take now. The sizes of batches and passes follow from the rest, so
    /// this comes before each job.
    pub fn account(&self) {
        if self.device.is_cuda() {
            memory::taken(self.device.free, self.models.values().map(|model| model.bytes()).sum());
        }
    }

    /// Looks whether models that compute elsewhere are still there, while nothing is asked of them.
    ///
    /// # Errors
    /// Why one is gone for good.
    pub fn watch(&self) -> Result<()> {
        self.models.values().try_for_each(|model| model.watch())
    }

    /// The models that read and write tokens, by name, with their vocabularies and their sizes.
    fn models(&self) -> impl Iterator<Item = (&String, &Arc<Tokenizer>, Sizes)> {
        self.models.iter().filter_map(|(name, model)| model.described().map(|(tokenizer, sizes)| (name, tokenizer, sizes)))
    }

    /// The model called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn model(&self, name: &str) -> Result<&dyn Model> {
        self.models.get(name).map(|model| &**model).ok_or_else(|| PolicyError::NoModel(name.into()))
    }

    /// The same, to be changed.
    pub fn model_mut(&mut self, name: &str) -> Result<&mut dyn Model> {
        match self.models.get_mut(name) {
            Some(model) => Ok(&mut **model),
            None => Err(PolicyError::NoModel(name.into())),
        }
    }

    pub fn reference_logprobs(&self, name: &str, other: Option<&str>, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let model = self.model(name)?;
        let Some(reference) = other else { return model.logprobs(At::Start, rows, temperature) };
        if model.described().is_some_and(|(_, sizes)| sizes.value) {
            return Err(PolicyError::model(name, ModelFault::WritesNothing));
        }
        let other = self.model(reference)?;
        let newest = other.versions()?.last().copied().unwrap_or(0);
        let read = |model: &dyn Model| model.described().map(|(tokenizer, _)| tokenizer.clone());
        if read(model) != read(other) {
            return Err(PolicyError::model(name, ModelFault::ReferenceVocabulary { reference: reference.into() }));
        }
        other.logprobs(At::Version(newest), rows, temperature)
    }

    /// What one update makes; the report has the version before the update.
    pub fn learn(
        &self,
        name: &str,
        rows: &[Example],
        settings: &UpdateSettings,
        peers: Option<&dyn Peers>,
    ) -> Result<(Learnt, UpdateReport)> {
        self.model(name)?.learn(rows, settings, peers, &|other| self.model(other))
    }

    /// Makes the outcome the newest version, and keeps `keep` older ones.
    pub fn adopt(&mut self, name: &str, outcome: (Learnt, UpdateReport), keep: usize) -> Result<UpdateReport> {
        let (learnt, mut report) = outcome;
        if !matches!(learnt, Learnt::Nothing) {
            report.version += 1;
            self.model_mut(name)?.adopt(learnt, &mut report, keep)?;
        }
        Ok(report)
    }
}
