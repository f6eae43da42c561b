//! One model of a process: what it begins with, the versions of what is trained of it that are kept, and how these are saved.

use super::generate::store::Store;
use super::model::adapter::{self, BaseLocation};
use super::model::checkpoint;
use super::model::lora::{Adapter, Lora};
use super::model::saved::{self, SavedModel};
use super::model::tiny::Tiny;
use super::model::{Architecture, Net};
use super::remote::ExportedAdapter;
use super::tensors::values;
use super::update::parallel::hash;
use super::update::Moments;
use super::{Base, Dtype, FileFault, LoadModel, LoraSettings, ModelFault, ModelSettings, PolicyError, TokenKind, Tokenizer};
use crate::seed::{mix, text};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// One model: its newest versions, its moments, and the weights it began with.
pub struct VersionedModel {
    /// With the weights it began with.
    pub start: Net,
    /// Its vocabulary.
    pub tokenizer: Arc<Tokenizer>,
    /// The versions of its trained weights, oldest first; never empty.
    pub versions: VecDeque<(u64, Tensor)>,
    /// The optimiser's.
    pub moments: Moments,
    /// The cached keys and values of the versions that generated answers.
    pub stores: RefCell<BTreeMap<u64, Store>>,
    /// Bytes that each of those may take, where that is set.
    pub cache: Option<u64>,
    /// The seed of its random numbers.
    pub seed: u64,
    /// Where the weights lie that its adapter is of, if it has one and they lie anywhere else than beside it.
    base: Option<String>,
}

impl VersionedModel {
    /// A model of that name, as the pipeline describes it: `words` are those of a new vocabulary, `seed` is the run's.
    ///
    /// # Errors
    /// If its sizes make no model, or what is on disk can't be read.
    pub fn new(name: &str, settings: &ModelSettings, words: &[String], seed: u64, device: Device) -> Result<VersionedModel, PolicyError> {
        let seed = mix(seed, text(name));
        let wrong = |fault| PolicyError::model(name, fault);
        match settings {
            ModelSettings::New(new) => {
                let tokenizer = match new.tokens {
                    TokenKind::Words => Tokenizer::new(words),
                    TokenKind::Bytes => Tokenizer::bytes(),
                };
                let tiny = Tiny::new(new, tokenizer.vocab_size()).map_err(wrong)?;
                let flat = Tensor::from_slice(&tiny.layout().random(seed)).to_device(device);
                let model = VersionedModel::begin(Arc::new(tiny), Arc::new(tokenizer), &flat, Kind::Float, seed);
                match &new.lora {
                    Some(lora) => model.adapted(lora).map_err(wrong),
                    None => Ok(model),
                }
            }
            ModelSettings::Load(load) => VersionedModel::load(load, seed, device, &wrong),
            // Neither is kept among the models that learn.
            ModelSettings::Encode(_) | ModelSettings::Remote(_) => Err(wrong(ModelFault::WritesNothing)),
        }
    }

    /// A model from disk. The weights are taken, the training isn't: it starts at version 0 with fresh moments.
    fn load(load: &LoadModel, seed: u64, device: Device, wrong: &dyn Fn(ModelFault) -> PolicyError) -> Result<VersionedModel, PolicyError> {
        let kind = match load.dtype {
            Dtype::F32 => Kind::Float,
            Dtype::Bf16 => Kind::BFloat16,
        };
        let mut stored = checkpoint::open(Path::new(&load.load))?;
        let adapter = match &load.adapter {
            None => None,
            // The folder of an adapter names its base, too.
            Some(folder) if *folder == load.load => stored.adapters.pop(),
            Some(folder) => {
                let own = adapter::StoredAdapter::open(Path::new(folder))?;
                Some((Arc::new(own.adapter(&stored.architecture.layout())?), own))
            }
        };
        let base = match &adapter {
            Some((_, own)) if load.adapter.as_ref() == Some(&load.load) => own.base()?.display().to_string(),
            _ => load.load.clone(),
        };
        // Where all weights are trained, the first update makes them f32; the forward pass computes in `kind`.
        let mut saved = stored.load(device, kind)?;
        if let Some(head) = load.head {
            saved = saved.with_head(head).map_err(wrong)?;
        }
        let named = saved::published(&*saved.architecture);
        let mut model = VersionedModel::begin(saved.architecture, saved.tokenizer, &saved.flat, kind, seed);
        if load.base == Base::Int8 {
            let dropout = adapter.as_ref().map(|(adapter, _)| adapter.lora.dropout).or(load.lora.as_ref().map(|lora| lora.dropout));
            let why = match dropout {
                _ if device.is_cuda() => Some("a GPU computes in other kinds"),
                _ if load.dtype != Dtype::F32 => Some("what stands beside it is computed in f32: leave `dtype` out"),
                None => Some("only the base of an adapter stands still: say `lora` or `adapter`"),
                Some(dropout) if dropout > 0.0 => Some("an adapter beside it has no dropout"),
                Some(_) => None,
            };
            if let Some(why) = why {
                return Err(wrong(ModelFault::Int8 { why: why.into() }));
            }
            drop(saved.flat);
            model.versions.clear();
            model.moments = Moments::new(&Tensor::zeros([0], (Kind::Float, device)));
            model.start = model.start.rounded(!named);
        }
        if let Some(lora) = &load.lora {
            model = model.adapted(lora).map_err(wrong)?;
        } else if let Some((adapter, own)) = adapter {
            let flat = own.read(&adapter, device)?;
            model = model.with_adapter(adapter, flat).map_err(wrong)?;
        }
        let cache = load.cache_gb.map(|gigabytes| (gigabytes * 1e9) as u64);
        Ok(VersionedModel { base: named.then_some(base), cache, ..model })
    }

    /// A model that begins with those weights, all of which are trained.
    fn begin(architecture: Arc<dyn Architecture>, tokenizer: Arc<Tokenizer>, flat: &Tensor, kind: Kind, seed: u64) -> VersionedModel {
        let start = Net::new(architecture, flat, kind, tokenizer.ends());
        let versions = VecDeque::from([(0, flat.shallow_clone())]);
        VersionedModel {
            start,
            tokenizer,
            versions,
            moments: Moments::new(flat),
            stores: RefCell::default(),
            cache: None,
            seed,
            base: None,
        }
    }

    /// The same with a new adapter, which alone is trained.
    fn adapted(self, lora: &LoraSettings) -> Result<VersionedModel, ModelFault> {
        let adapter = Arc::new(Adapter::new(Lora::new(lora), self.start.base_layout())?);
        let flat = Tensor::from_slice(&adapter.layout().random(mix(self.seed, text("adapter")))).to_device(self.start.device());
        self.with_adapter(adapter, flat)
    }

    /// The same with that adapter, which alone is trained.
    fn with_adapter(self, adapter: Arc<Adapter>, flat: Tensor) -> Result<VersionedModel, ModelFault> {
        if self.values() {
            return Err(ModelFault::CriticAdapter);
        }
        let (start, moments) = (self.start.adapted(&adapter, &flat), Moments::new(&flat));
        Ok(VersionedModel { start, moments, versions: VecDeque::from([(0, flat)]), ..self })
    }

    /// The newest version of what is trained.
    pub fn newest(&self) -> (u64, &Tensor) {
        // Never empty, so the fallback is never taken.
        self.versions.back().map_or((0, self.start.flat()), |(version, flat)| (*version, flat))
    }

    /// The net at a version that is still kept.
    pub fn at(&self, name: &str, version: u64) -> Result<Net, PolicyError> {
        self.trained_at(name, version).map(|flat| self.net(flat))
    }

    /// Its trained weights at a version that is still kept.
    fn trained_at(&self, name: &str, version: u64) -> Result<&Tensor, PolicyError> {
        let flat = self.versions.iter().find(|(number, _)| *number == version).map(|(_, flat)| flat);
        flat.ok_or_else(|| PolicyError::NoVersion { model: name.into(), version, kept: self.version_numbers() })
    }

    /// The versions that are kept, oldest first.
    pub fn version_numbers(&self) -> Vec<u64> {
        self.versions.iter().map(|(version, _)| *version).collect()
    }

    /// Whether a server can generate for it: with an adapter, of a model that other programs can read.
    pub fn can_be_served(&self) -> bool {
        self.start.adapter().is_some() && self.base.is_some()
    }

    /// Writes the adapter of a version that is still kept, for a server to load: into a folder in `root` that is called after what is in it, so
    /// that no two adapters have one name. `name` is what the model is called.
    ///
    /// # Errors
    /// If it has none, or it can't be written.
    pub fn lend(&self, name: &str, version: u64, root: &Path) -> Result<ExportedAdapter, PolicyError> {
        let (Some(adapter), Some(base)) = (self.start.adapter(), &self.base) else {
            return Err(PolicyError::model(name, ModelFault::NotServed));
        };
        let flat = self.trained_at(name, version)?;
        // Of another run it is another adapter, which that run may take away.
        let content = mix(hash(&values(flat)), text(&root.display().to_string()));
        let lent = ExportedAdapter { name: format!("{name}-{version}-{content:016x}"), versions: self.version_numbers() };
        let folder = root.join(&lent.name);
        if !folder.exists() {
            let (flat, moments) = (flat.shallow_clone(), Moments::new(flat));
            adapter::save(
                &adapter::SavedAdapter { adapter: adapter.clone(), flat, moments, version, base: BaseLocation::Named(base) },
                &folder,
            )?;
        }
        Ok(lent)
    }

    /// The model with these trained weights.
    pub fn net(&self, flat: &Tensor) -> Net {
        self.start.with(flat, false)
    }

    /// Whether it is a critic.
    pub fn values(&self) -> bool {
        self.start.sizes.value
    }

    /// Writes its newest version into `folder`.
    ///
    /// # Errors
    /// If something can't be written.
    pub fn save(&self, folder: &Path) -> Result<(), PolicyError> {
        let (version, flat) = self.newest();
        let (flat, moments) = (flat.shallow_clone(), self.moments.share());
        let whole = |flat: Tensor, version, moments| SavedModel {
            architecture: self.start.architecture().clone(),
            tokenizer: self.tokenizer.clone(),
            version,
            flat,
            moments,
        };
        let Some(adapter) = self.start.adapter() else { return saved::save(&whole(flat, version, moments), folder) };
        let below = self.start.bare();
        let here = whole(below.flat().shallow_clone(), 0, Moments::new(below.flat()));
        let base = self.base.as_deref().map_or(BaseLocation::Here(&here), BaseLocation::Named);
        adapter::save(&adapter::SavedAdapter { adapter: adapter.clone(), flat, moments, version, base }, folder)
    }

    /// Takes the version in `folder` in place of those that it has, and gives its number. `name` is what the model is called.
    ///
    /// # Errors
    /// If the folder can't be read, or holds another model.
    pub fn restore(&mut self, name: &str, folder: &Path, device: Device) -> Result<u64, PolicyError> {
        let other = || PolicyError::at(folder, FileFault::OtherModel { model: name.into() });
        let (version, flat, moments) = match self.start.adapter() {
            None => {
                let saved = checkpoint::load(folder, device, Kind::Float)?;
                let (own, theirs) = (self.start.architecture(), &saved.architecture);
                if own.name() != theirs.name() || own.config() != theirs.config() || saved.tokenizer != self.tokenizer {
                    return Err(other());
                }
                (saved.version, saved.flat, saved.moments)
            }
            Some(own) if adapter::is_adapter_folder(folder) => {
                let stored = adapter::StoredAdapter::open(folder)?;
                let theirs = stored.adapter(self.start.base_layout())?;
                if theirs.lora != own.lora {
                    return Err(other());
                }
                let flat = stored.read(&theirs, device)?;
                (stored.trained.version, flat.shallow_clone(), stored.moments(&theirs, &flat)?)
            }
            Some(_) => return Err(other()),
        };
        self.versions = VecDeque::from([(version, flat)]);
        self.moments = moments;
        self.stores.get_mut().clear();
        Ok(version)
    }
}
