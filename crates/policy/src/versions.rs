//! One model of a process: what it begins with, the kept versions of its trained weights, and how they are saved.

use crate::acting::{not_in_engine, Acting};
use crate::generate::store::Store;
use crate::model::adapter_files::{self, BaseLocation};
use crate::model::adapter_files::{adapter_moments, read_adapter};
use crate::model::checkpoint::{self, load_stored, packed};
use crate::model::saved::{self, SavedModel};
use crate::model::Net;
use crate::moments::Moments;
use crate::tensors::values;
use crate::update::parallel::hash;
use flow_checkpoint::adapter::StoredAdapter;
use flow_checkpoint::opened::opened;
use flow_core::seed::{mix, text};
use flow_int8::engine::MatrixFormat;
use flow_model::lora::{Adapter, Lora};
use flow_model::on_disk::is_adapter_folder;
use flow_model::tiny::Tiny;
use flow_model::Architecture;
use flow_model::{
    Act, Base, Dtype, FileFault, Head, LoadModel, LoraSettings, ModelFault, ModelSettings, PolicyError, Result, SharedModel, TokenKind,
};
use flow_serve::{ExportedWeights, Weights};
use flow_text::Tokenizer;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Bytes of so many GB.
fn bytes(gigabytes: Option<f64>) -> Option<u64> {
    gigabytes.map(|gigabytes| (gigabytes * 1e9) as u64)
}

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
    /// The acting model of a version.
    pub acting: Acting,
    /// The seed of its random numbers.
    pub seed: u64,
    /// Where the weights lie that its adapter is of, if it has one and they lie anywhere else than beside it.
    base: Option<String>,
    /// Whether it begins as others published it.
    published: bool,
}

impl VersionedModel {
    /// A model of that name, as the pipeline describes it: `words` are those of a new vocabulary, `seed` is the run's.
    ///
    /// # Errors
    /// If its sizes make no model, or what is on disk can't be read.
    pub fn new(name: &str, settings: &ModelSettings, words: &[String], seed: u64, device: Device) -> Result<VersionedModel> {
        let seed = mix(seed, text(name));
        let fault = |fault| PolicyError::model(name, fault);
        match settings {
            ModelSettings::New(new) => {
                let tokenizer = match new.tokens {
                    TokenKind::Words => Tokenizer::new(words),
                    TokenKind::Bytes => Tokenizer::bytes(),
                };
                let tiny = Tiny::new(new, tokenizer.vocab_size()).map_err(fault)?;
                let flat = Tensor::from_slice(&tiny.layout().random(seed)).to_device(device);
                let model = VersionedModel::begin(Arc::new(tiny), Arc::new(tokenizer), &flat, Kind::Float, seed);
                let model = match &new.lora {
                    Some(lora) => model.adapted(lora, None).map_err(fault)?,
                    None => model,
                };
                Ok(VersionedModel { acting: Acting::new(new.act, &model.start).map_err(fault)?, ..model })
            }
            ModelSettings::Load(load) => VersionedModel::load(load, seed, device, &fault),
            // It is made of the other one, and the others aren't kept among the models that learn.
            ModelSettings::Shared(_) | ModelSettings::Encode(_) | ModelSettings::Remote(_) => Err(fault(ModelFault::WritesNothing)),
        }
    }

    /// A model of that name on the base of this one, with an adapter of its own.
    ///
    /// # Errors
    /// If there is no such adapter, or the base has another head that can't give way.
    pub fn shared(&self, name: &str, settings: &SharedModel, seed: u64) -> Result<VersionedModel> {
        let fault = |fault| PolicyError::model(name, fault);
        let start = self.start.bare();
        let moments = Moments::new(&Tensor::zeros([0], (Kind::Float, start.device())));
        let below = VersionedModel {
            start,
            tokenizer: self.tokenizer.clone(),
            versions: VecDeque::new(),
            moments,
            stores: RefCell::default(),
            acting: Acting::default(),
            cache: bytes(settings.cache_gb),
            seed: mix(seed, text(name)),
            base: self.base.clone(),
            published: false,
        };
        if let Some(folder) = &settings.adapter {
            let own = StoredAdapter::open(Path::new(folder))?;
            let adapter = own.adapter(below.start.base_layout(), below.start.sizes.width)?;
            let flat = read_adapter(&own, &adapter, below.start.device())?;
            return below.with_adapter(Arc::new(adapter), flat, settings.head).map_err(fault);
        }
        below.adapted(&settings.lora.clone().unwrap_or_default(), settings.head).map_err(fault)
    }

    /// A model from disk. The weights are taken, the training isn't: it starts at version 0 with fresh moments.
    fn load(load: &LoadModel, seed: u64, device: Device, fault: &dyn Fn(ModelFault) -> PolicyError) -> Result<VersionedModel> {
        let (stored, adapter) = opened(load).map_err(|(_, error)| error)?;
        let base = match &adapter {
            Some((_, own)) if load.adapter.as_ref() == Some(&load.load) => own.base()?.display().to_string(),
            _ => load.load.clone(),
        };
        let dropout = adapter.as_ref().map(|(adapter, _)| adapter.lora.dropout).or(load.lora.as_ref().map(|lora| lora.dropout));
        if let Some(why) = load.base_fault(dropout) {
            return Err(fault(ModelFault::Base { why: why.into() }));
        }
        let kind = match (load.dtype, load.base) {
            (Dtype::Bf16, _) => Kind::BFloat16,
            // A GPU has no such products: the narrowest kind that it computes in.
            (Dtype::F32, Base::Int8) if device.is_cuda() => Kind::BFloat16,
            (Dtype::F32, _) => Kind::Float,
        };
        let kept = match load.base {
            _ if device.is_cuda() => None,
            Base::Own => None,
            Base::Int8 => Some(MatrixFormat::Int8),
            Base::F32 => Some(MatrixFormat::F32),
        };
        if kept.is_some() && !stored.architecture.in_engine() {
            return Err(fault(ModelFault::Base { why: not_in_engine(&*stored.architecture) }));
        }
        let named = flow_checkpoint::saved::published(&*stored.architecture);
        // What need not be saved is packed as it is read, so that the base never lies in memory whole.
        let read = kept.filter(|_| named).map(|kept| packed(&stored, kept)).transpose()?.flatten();
        let mut model = match read {
            Some(start) => VersionedModel::frozen(start, stored.tokenizer, seed),
            None => {
                // Where all weights are trained, the first update makes them f32; the forward pass computes in `kind`.
                let mut saved = load_stored(stored, device, kind)?;
                // Where an adapter learns, the head is learnt beside it, and the base is what it was.
                let learns = load.lora.is_some() || adapter.is_some();
                if let Some(head) = load.head.filter(|_| !learns) {
                    saved = saved.with_head(head).map_err(fault)?;
                }
                let model = VersionedModel::begin(saved.architecture, saved.tokenizer, &saved.flat, kind, seed);
                drop(saved.flat);
                match kept {
                    Some(kept) => model.packed(kept, !named),
                    None => model,
                }
            }
        };
        if let Some(lora) = &load.lora {
            model = model.adapted(lora, load.head).map_err(fault)?;
        } else if let Some((adapter, own)) = adapter {
            let flat = read_adapter(&own, &adapter, device)?;
            model = model.with_adapter(adapter, flat, load.head).map_err(fault)?;
        }
        // What a trainer learns acts as it is.
        let act = if load.train.is_some() { Act::Own } else { load.act };
        let acting = Acting::new(act, &model.start).map_err(fault)?;
        Ok(VersionedModel { base: named.then_some(base), cache: bytes(load.cache_gb), acting, published: load.published(), ..model })
    }

    /// A model that begins with those weights and trains all of them.
    fn begin(architecture: Arc<dyn Architecture>, tokenizer: Arc<Tokenizer>, flat: &Tensor, kind: Kind, seed: u64) -> VersionedModel {
        let start = Net::new(architecture, flat, kind, tokenizer.ends());
        let versions = VecDeque::from([(0, flat.shallow_clone())]);
        let (stores, acting, cache, base) = Default::default();
        VersionedModel { start, tokenizer, versions, moments: Moments::new(flat), stores, acting, cache, seed, base, published: false }
    }

    /// The same with its base packed once, to be computed row by row, since only what will stand beside it is trained.
    /// Where it need not be `saved`, nothing else is left of it.
    fn packed(self, kept: MatrixFormat, saved: bool) -> VersionedModel {
        let VersionedModel { start, tokenizer, versions, seed, .. } = self;
        drop(versions);
        VersionedModel::frozen(start.packed(kept, saved), tokenizer, seed)
    }

    /// A model that begins with `start` and trains nothing of it: an adapter will stand beside it.
    fn frozen(start: Net, tokenizer: Arc<Tokenizer>, seed: u64) -> VersionedModel {
        let moments = Moments::new(&Tensor::zeros([0], (Kind::Float, start.device())));
        let (versions, stores, acting, cache, base) = Default::default();
        VersionedModel { start, tokenizer, versions, moments, stores, acting, cache, seed, base, published: false }
    }

    /// The same with a new adapter, which alone is trained: with a value head beside it where it has `head: value`, or
    /// is a critic already.
    fn adapted(self, lora: &LoraSettings, head: Option<Head>) -> Result<VersionedModel, ModelFault> {
        let sizes = self.start.sizes;
        let trained = (sizes.value || head == Some(Head::Value)).then_some(sizes.width);
        let adapter = Arc::new(Adapter::new(Lora::new(lora), self.start.base_layout(), trained)?);
        let mut flat = adapter.layout().random(mix(self.seed, text("adapter")));
        if let Some(begun) = self.start.value_head() {
            // The head of a saved critic is learnt on from its saved values.
            let at = flat.len() - begun.len();
            flat[at..].copy_from_slice(&begun);
        }
        let flat = Tensor::from_slice(&flat).to_device(self.start.device());
        self.with_adapter(adapter, flat, head)
    }

    /// The same with that adapter, which alone is trained. `head` is the one that is asked for.
    fn with_adapter(self, adapter: Arc<Adapter>, flat: Tensor, head: Option<Head>) -> Result<VersionedModel, ModelFault> {
        if self.start.engine().is_some() && adapter.lora.dropout > 0.0 {
            return Err(ModelFault::Adapter { what: "beside a base that is computed row by row an adapter has no dropout".into() });
        }
        let start = self.start.adapted(&adapter, &flat)?;
        match head {
            Some(Head::Language) if start.sizes.value => return Err(ModelFault::CriticAsPolicy),
            Some(Head::Value) if !start.sizes.value => return Err(ModelFault::NoValueHead),
            _ => {}
        }
        let moments = Moments::new(&flat);
        Ok(VersionedModel { start, moments, versions: VecDeque::from([(0, flat)]), ..self })
    }

    /// The acting model of a kept version.
    pub fn acting_at(&self, name: &str, version: u64) -> Result<Net> {
        Ok(self.acting.at(version, self.at(name, version)?))
    }

    /// Makes `version` with the weights `flat` the newest, keeps `keep` older ones, and forgets the others.
    pub fn push(&mut self, version: u64, flat: Tensor, keep: usize) {
        self.versions.push_back((version, flat));
        while self.versions.len() > keep + 1 {
            self.versions.pop_front();
        }
        let kept = self.version_numbers();
        self.stores.get_mut().retain(|version, _| kept.contains(version));
        self.acting.retain(&kept);
    }

    /// Replaces all versions by `versions`, and forgets whatever was made of the old ones.
    pub fn replace(&mut self, versions: VecDeque<(u64, Tensor)>) {
        self.versions = versions;
        self.stores.get_mut().clear();
        self.acting.retain(&[]);
    }

    /// The newest version of the trained weights.
    pub fn newest(&self) -> (u64, &Tensor) {
        // Never empty, so the fallback is never taken.
        self.versions.back().map_or((0, self.start.flat()), |(version, flat)| (*version, flat))
    }

    /// The net with the decaying mean of its versions; before the first of them with its first weights.
    pub fn mean(&self) -> Net {
        self.net(self.moments.mean.as_ref().unwrap_or(self.start.flat()))
    }

    /// The net at a version that is still kept.
    pub fn at(&self, name: &str, version: u64) -> Result<Net> {
        self.trained_at(name, version).map(|flat| self.net(flat))
    }

    /// Its trained weights at a version that is still kept.
    fn trained_at(&self, name: &str, version: u64) -> Result<&Tensor> {
        let flat = self.versions.iter().find(|(number, _)| *number == version).map(|(_, flat)| flat);
        flat.ok_or_else(|| PolicyError::NoVersion { model: name.into(), version, kept: self.version_numbers() })
    }

    /// The versions that are kept, oldest first.
    pub fn version_numbers(&self) -> Vec<u64> {
        self.versions.iter().map(|(version, _)| *version).collect()
    }

    /// Whether a server can generate for it: it writes, and other programs can read it.
    pub fn can_be_served(&self) -> bool {
        let readable =
            self.start.adapter().map_or_else(|| flow_checkpoint::saved::published(&**self.start.architecture()), |_| self.base.is_some());
        readable && !self.values()
    }

    /// Writes the adapter of a version that is still kept, or where it has none all its weights, for a server to load:
    /// into a folder in `root` that is called after what is in it, so that no two have one name. `name` is what the
    /// model is called. Of a published model that nothing trains a server has the weights already.
    ///
    /// # Errors
    /// If no server can generate for it, or it can't be written.
    pub fn export(&self, name: &str, version: u64, root: &Path, trained: bool) -> Result<ExportedWeights> {
        if !self.can_be_served() {
            return Err(PolicyError::model(name, ModelFault::NotServed));
        }
        let flat = self.trained_at(name, version)?;
        if self.published && !trained {
            return Ok(ExportedWeights { name: name.into(), versions: self.version_numbers(), kind: Weights::Own });
        }
        // Of another run they are other weights, which that run may take away.
        let (versions, whole) = (self.version_numbers(), self.start.adapter().is_none());
        // Of billions of numbers a million tell two updates apart.
        let step = if whole { (flat.numel() as i64 >> 20).max(1) } else { 1 };
        let content = mix(hash(&values(&flat.slice(0, None, None, step))), text(&root.display().to_string()));
        let kind = if whole { Weights::Whole } else { Weights::Adapter };
        let exported = ExportedWeights { name: format!("{name}-{version}-{content:016x}"), versions, kind };
        let folder = root.join(&exported.name);
        if !folder.exists() {
            let (flat, moments) = (flat.shallow_clone(), Moments::new(flat));
            match self.start.adapter() {
                Some(adapter) => {
                    let base = BaseLocation::Named(self.base.as_deref().unwrap_or_default());
                    adapter_files::save(&adapter_files::SavedAdapter { adapter: adapter.clone(), flat, moments, version, base }, &folder)?;
                }
                None => {
                    let (architecture, tokenizer) = (self.start.architecture().clone(), self.tokenizer.clone());
                    saved::save(&SavedModel { architecture, tokenizer, version, flat, moments }, &folder)?;
                }
            }
        }
        Ok(exported)
    }

    /// Bytes of its tensors: weights, moments, cached keys and values.
    pub fn bytes(&self) -> u64 {
        let stores = self.stores.borrow();
        let mut tensors = self.start.tensors();
        tensors.extend([&self.moments.first, &self.moments.second].into_iter().chain(&self.moments.mean));
        tensors.extend(self.versions.iter().map(|(_, flat)| flat));
        tensors.extend(stores.values().flat_map(Store::tensors));
        // Versions may be what the model began with.
        let unique: BTreeMap<usize, u64> = tensors.iter().map(|tensor| (tensor.data_ptr() as usize, size(tensor))).collect();
        unique.values().sum::<u64>() + self.acting.bytes()
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
    pub fn save(&self, folder: &Path) -> Result<()> {
        let (version, flat) = self.newest();
        let (flat, moments) = (flat.shallow_clone(), self.moments.share());
        let whole = |net: &Net, flat: Tensor, version, moments| SavedModel {
            architecture: net.architecture().clone(),
            tokenizer: self.tokenizer.clone(),
            version,
            flat,
            moments,
        };
        let Some(adapter) = self.start.adapter() else { return saved::save(&whole(&self.start, flat, version, moments), folder) };
        let below = self.start.bare();
        let here = whole(&below, below.flat().shallow_clone(), 0, Moments::new(below.flat()));
        let base = self.base.as_deref().map_or(BaseLocation::Here(&here), BaseLocation::Named);
        adapter_files::save(&adapter_files::SavedAdapter { adapter: adapter.clone(), flat, moments, version, base }, folder)
    }

    /// The version in `folder`: its number, what is trained, and its moments. `name` is what the model is called.
    ///
    /// # Errors
    /// If the folder can't be read, or holds another model.
    pub fn read(&self, name: &str, folder: &Path, device: Device) -> Result<(u64, Tensor, Moments)> {
        let other = || PolicyError::at(folder, FileFault::OtherModel { model: name.into() });
        match self.start.adapter() {
            None => {
                let saved = checkpoint::load(folder, device, Kind::Float)?;
                let (own, theirs) = (self.start.architecture(), &saved.architecture);
                if own.name() != theirs.name() || own.config() != theirs.config() || saved.tokenizer != self.tokenizer {
                    return Err(other());
                }
                Ok((saved.version, saved.flat, saved.moments))
            }
            Some(own) if is_adapter_folder(folder) => {
                let stored = StoredAdapter::open(folder)?;
                let theirs = stored.adapter(self.start.base_layout(), self.start.sizes.width)?;
                if theirs.lora != own.lora || theirs.head != own.head {
                    return Err(other());
                }
                let flat = read_adapter(&stored, &theirs, device)?;
                Ok((stored.trained.version, flat.shallow_clone(), adapter_moments(&stored, &theirs, &flat)?))
            }
            Some(_) => Err(other()),
        }
    }

    /// Replaces its versions by the one in `folder`, and returns that one's number. `name` is what the model is called.
    ///
    /// # Errors
    /// If the folder can't be read, or holds another model.
    pub fn restore(&mut self, name: &str, folder: &Path, device: Device) -> Result<u64> {
        let (version, flat, moments) = self.read(name, folder, device)?;
        self.replace(VecDeque::from([(version, flat)]));
        self.moments = moments;
        Ok(version)
    }
}

/// Bytes of a tensor's own numbers; of one that repeats a few, of these.
fn size(tensor: &Tensor) -> u64 {
    let repeats = tensor.stride().iter().all(|&stride| stride == 0);
    let numbers = if repeats { 1 } else { tensor.numel() };
    (numbers * tensor.kind().elt_size_in_bytes()) as u64
}
