//! What is saved of a model: its folder, and the optimiser's moments for continuing the training.
//!
//! A published model is saved as the folder it came as (`config.json`, its tokenizer, `model.safetensors`), which other
//! programs can load, and beside it `flow.json` and `optimizer.safetensors`. A new model has a `config.json` of its own
//! and `vocabulary.json`. Tensors carry the names that the architecture gives them. A folder is written under another
//! name, synced, then renamed.

use crate::model::flat::read as read_tensors;
use crate::moments::Moments;
use crate::tensors::{named_parts, write as tensors};
use flow_checkpoint::safetensors::SafetensorsFiles;
use flow_checkpoint::saved::{has_mean, published, NewModelConfig, TrainingProgress, MEAN};
use flow_model::folder::{json, text, write_atomically};
use flow_model::on_disk::{CONFIG, MOMENTS, TRAINED, WEIGHTS};
use flow_model::parameters::Layout;
use flow_model::Architecture;
use flow_model::{Head, ModelFault, Result};
use flow_text::Tokenizer;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// A model with all that is saved of it.
pub struct SavedModel {
    /// The model without its weights.
    pub architecture: Arc<dyn Architecture>,
    /// Its vocabulary.
    pub tokenizer: Arc<Tokenizer>,
    /// The version of the weights.
    pub version: u64,
    /// The weights, `[parameters]`.
    pub flat: Tensor,
    /// The optimiser's moments.
    pub moments: Moments,
}

impl SavedModel {
    /// With `head` in place of the head it has: weights that both have stay, a value head starts at 0. No policy comes
    /// of a critic.
    pub fn with_head(self, head: Head) -> Result<SavedModel, ModelFault> {
        if self.architecture.sizes().value == (head == Head::Value) {
            return Ok(self);
        }
        let architecture = self.architecture.with_head(head)?;
        let layout = self.architecture.layout();
        let had: HashMap<&str, Tensor> = named_parts(&layout, &self.flat).collect();
        let nothing = |len: i64| Tensor::zeros([len], (self.flat.kind(), self.flat.device()));
        let new = architecture.layout();
        let parts = new.parameters.iter().map(|p| had.get(p.name.as_str()).map_or_else(|| nothing(p.len()), |had| had.reshape([-1])));
        let flat = Tensor::cat(&parts.collect::<Vec<_>>(), 0);
        Ok(SavedModel { moments: Moments::new(&flat), architecture, flat, ..self })
    }
}

/// Writes `saved` into `folder`, replacing its content.
///
/// # Errors
/// [`PolicyError::File`] if something can't be written; then `folder` is as it was.
pub fn save(saved: &SavedModel, folder: &Path) -> Result<()> {
    write_atomically(folder, |to| write(saved, to))
}

fn write(saved: &SavedModel, folder: &Path) -> Result<()> {
    write_weights(saved, folder)?;
    let trained = TrainingProgress { version: saved.version, steps: saved.moments.steps };
    let published = published(&*saved.architecture);
    if published {
        json(&folder.join(TRAINED), &trained)?;
    }
    // A published model that wasn't trained yet has no moments to save; they would take twice its size.
    if !published || trained.steps > 0 {
        write_moments(&folder.join(MOMENTS), &saved.architecture.layout(), &saved.moments)?;
    }
    Ok(())
}

/// Writes all of `saved` but how it is being trained into a folder that is there.
pub fn write_weights(saved: &SavedModel, folder: &Path) -> Result<()> {
    let (architecture, shape) = (&saved.architecture, saved.architecture.config());
    if published(&**architecture) {
        json(&folder.join(CONFIG), &shape)?;
    } else {
        let (version, steps) = (saved.version, saved.moments.steps);
        json(&folder.join(CONFIG), &NewModelConfig { format: architecture.name().into(), shape, version, steps })?;
    }
    for (name, contents) in saved.tokenizer.files() {
        text(&folder.join(name), &contents)?;
    }
    tensors(&folder.join(WEIGHTS), &named(&architecture.layout(), &saved.flat, ""))
}

/// The parameters in `flat`, by name, as a file has them.
pub fn named(layout: &Layout, flat: &Tensor, prefix: &str) -> Vec<(String, Tensor)> {
    named_parts(layout, flat).map(|(name, part)| (format!("{prefix}{name}"), part.to_device(Device::Cpu).contiguous())).collect()
}

/// Writes the optimiser's moments of parameters with the layout `layout`.
pub fn write_moments(path: &Path, layout: &Layout, moments: &Moments) -> Result<()> {
    let mut both = named(layout, &moments.first, "first.");
    both.extend(named(layout, &moments.second, "second."));
    both.extend(moments.mean.iter().flat_map(|mean| named(layout, mean, MEAN)));
    tensors(path, &both)
}

/// The optimiser's moments in `files`, which [`check_moments`] found to be there.
pub fn read_moments(files: &SafetensorsFiles, layout: &Layout, steps: u64, device: Device) -> Result<Moments> {
    let read = |prefix| read_tensors(files, layout, prefix, device, Kind::Float);
    let mean = has_mean(files).then(|| read(MEAN)).transpose()?;
    Ok(Moments { first: read("first.")?, second: read("second.")?, steps, mean })
}
