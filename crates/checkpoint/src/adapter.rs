//! Opens and checks adapters on disk, in PEFT's format: `adapter_config.json` describes them and names their base model,
//! `adapter_model.safetensors` has their weights. Beside them lie `flow.json` and, once trained,
//! `adapter_optimizer.safetensors`.

use crate::safetensors::SafetensorsFiles;
use crate::saved::{check_moments, TrainingProgress};
use crate::source::{check, TensorSource};
use flow_model::config::VALUE_HEAD;
use flow_model::folder::read;
use flow_model::lora::{replacement, Adapter, Lora};
use flow_model::on_disk::{ADAPTER_CONFIG, ADAPTER_WEIGHTS, CONFIG, TRAINED};
use flow_model::parameters::Layout;
use flow_model::peft_config::PeftConfig;
use flow_model::{FileFault, PolicyError, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The optimiser's moments of an adapter.
pub const MOMENTS: &str = "adapter_optimizer.safetensors";

/// The model that the adapter in `folder` is of, as its configuration names it; none if the folder has that model, too.
pub fn separate_base(folder: &Path) -> Option<String> {
    let config: PeftConfig = read(&folder.join(ADAPTER_CONFIG)).ok()?;
    config.base_model_name_or_path.filter(|_| !folder.join(CONFIG).exists())
}

/// An adapter as it lies on disk: all but its tensors.
pub struct StoredAdapter {
    folder: PathBuf,
    lora: Lora,
    base: Option<String>,
    /// Its weights.
    pub files: SafetensorsFiles,
    /// The optimiser's moments, if there are any.
    pub moments: Option<SafetensorsFiles>,
    /// How far it was trained.
    pub trained: TrainingProgress,
}

impl StoredAdapter {
    /// Opens the adapter in `folder`.
    ///
    /// # Errors
    /// Names the file that is missing or damaged, or what can't be computed here.
    pub fn open(folder: &Path) -> Result<StoredAdapter> {
        let path = folder.join(ADAPTER_CONFIG);
        let config = PeftConfig::parse(&read(&path)?).map_err(|fault| PolicyError::at(&path, fault))?;
        let weights = folder.join(ADAPTER_WEIGHTS);
        let files = SafetensorsFiles::open(&weights, vec![weights.clone()])?;
        let modules = || files.names().into_iter().filter_map(Lora::module_of).map(String::from).collect::<BTreeSet<_>>();
        let targets = match &config.target_modules {
            Value::Array(names) if config.takes_all() => names.iter().filter_map(|name| name.as_str().map(String::from)).collect(),
            _ => modules().into_iter().collect(),
        };
        let lora = Lora { rank: config.r, alpha: config.lora_alpha, dropout: config.lora_dropout, stabilised: config.use_rslora, targets };
        let (trained, moments) = (folder.join(TRAINED), folder.join(MOMENTS));
        let trained = if trained.exists() { read(&trained)? } else { TrainingProgress::default() };
        let moments = if moments.exists() { Some(SafetensorsFiles::open(&moments, vec![moments.clone()])?) } else { None };
        Ok(StoredAdapter { folder: folder.into(), lora, base: config.base_model_name_or_path, files, moments, trained })
    }

    /// Where the model lies that it adapts: in its own folder, or where it says, seen from here or from there.
    ///
    /// # Errors
    /// If there is nothing of that name.
    pub fn base(&self) -> Result<PathBuf> {
        if self.folder.join(CONFIG).exists() {
            return Ok(self.folder.clone());
        }
        let base = self.base.as_deref().unwrap_or_default();
        let places = [PathBuf::from(base), self.folder.join(base)];
        match places.into_iter().find(|place| !base.is_empty() && place.exists()) {
            Some(place) => Ok(place),
            None => Err(PolicyError::at(&self.folder.join(ADAPTER_CONFIG), FileFault::NoBase { base: base.into() })),
        }
    }

    /// The adapter without its weights, over a model whose weights are `base` and whose states have `width` numbers.
    ///
    /// # Errors
    /// Names what doesn't fit: a target, a tensor, its sizes.
    pub fn adapter(&self, base: &Layout, width: usize) -> Result<Adapter> {
        let head = self.files.names().contains(&replacement(VALUE_HEAD).as_str()).then_some(width);
        let adapter =
            Adapter::new(self.lora.clone(), base, head).map_err(|e| PolicyError::at(&self.folder.join(ADAPTER_CONFIG), e.into()))?;
        check(&self.files, adapter.layout(), "", |_| false)?;
        self.moments.as_ref().map_or(Ok(()), |moments| check_moments(moments, adapter.layout()))?;
        Ok(adapter)
    }
}
