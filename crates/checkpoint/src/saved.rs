//! What a model's folder says of its training.

use crate::safetensors::SafetensorsFiles;
use crate::source::{check, TensorSource};
use flow_model::parameters::Layout;
use flow_model::{Architecture, FileFault, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `config.json` of a new model.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewModelConfig {
    /// The architecture's name.
    pub format: String,
    /// Its configuration.
    pub shape: Value,
    /// The version of its weights.
    pub version: u64,
    /// Steps of the optimiser.
    pub steps: u64,
}

/// How far a model was trained.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// The version of its weights.
    pub version: u64,
    /// Steps of the optimiser.
    pub steps: u64,
}

/// Whether a model came from elsewhere, as a folder that others can read.
pub fn published(architecture: &dyn Architecture) -> bool {
    architecture.config().get("model_type").is_some()
}

/// Refuses a `config.json` that other programs can't read: its rope factors come from a GGUF file.
///
/// # Errors
/// [`FileFault::Unusable`].
pub fn portable(config: &Value) -> Result<(), FileFault> {
    let fault = || FileFault::Unusable("its rope factors come from a GGUF file, and only flow computes them".into());
    (config["rope_scaling"]["rope_type"] != "factors").then_some(()).ok_or_else(fault)
}

/// Whether the moments of every parameter of `layout` are in `files`.
pub fn check_moments(files: &SafetensorsFiles, layout: &Layout) -> Result<()> {
    let mut prefixes = ["first.", "second."].into_iter().chain(has_mean(files).then_some(MEAN));
    prefixes.try_for_each(|prefix| check(files, layout, prefix, |_| false))
}

/// What the names of a mean of the weights begin with.
pub const MEAN: &str = "mean.";

pub fn has_mean(files: &SafetensorsFiles) -> bool {
    files.names().iter().any(|name| name.starts_with(MEAN))
}
