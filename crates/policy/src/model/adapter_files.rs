//! Writes adapters in PEFT's format, and reads their numbers; [`flow_checkpoint::adapter`] opens and checks them.
//!
//! Of a published model the folder names the base by its path. A model that was born in a run lies in the adapter's
//! folder itself: then that folder is all there is of it.

use crate::model::flat::read as read_tensors;
use crate::model::saved::{self, named, read_moments, write_moments, write_weights};
use crate::moments::Moments;
use crate::tensors::write as tensors;
use flow_checkpoint::adapter::{StoredAdapter, MOMENTS};
use flow_checkpoint::saved::TrainingProgress;
use flow_model::folder::{json, write_atomically};
use flow_model::lora::Adapter;
use flow_model::on_disk::{ADAPTER_CONFIG, ADAPTER_WEIGHTS, TRAINED};
use flow_model::peft_config::PeftConfig;
use flow_model::Result;
use std::path::Path;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// Its weights, `[parameters]`.
///
/// # Errors
/// If the file can't be read.
pub fn read_adapter(own: &StoredAdapter, adapter: &Adapter, device: Device) -> Result<Tensor> {
    read_tensors(&own.files, adapter.layout(), "", device, Kind::Float)
}

/// The optimiser's moments of its weights `flat`.
///
/// # Errors
/// If the file can't be read.
pub fn adapter_moments(own: &StoredAdapter, adapter: &Adapter, flat: &Tensor) -> Result<Moments> {
    match &own.moments {
        Some(files) => read_moments(files, adapter.layout(), own.trained.steps, flat.device()),
        None => Ok(Moments::new(flat)),
    }
}

/// The model that an adapter is of.
pub enum BaseLocation<'a> {
    /// It lies there.
    Named(&'a str),
    /// It has no other place than beside the adapter.
    Here(&'a saved::SavedModel),
}

/// An adapter with its weights.
pub struct SavedAdapter<'a> {
    /// What kind it is of.
    pub adapter: Arc<Adapter>,
    /// Its weights, `[parameters]`.
    pub flat: Tensor,
    /// The optimiser's moments.
    pub moments: Moments,
    /// The version of its weights.
    pub version: u64,
    /// The model that it is of.
    pub base: BaseLocation<'a>,
}

/// Writes `saved` into `folder`, replacing its content.
///
/// # Errors
/// [`PolicyError::File`] if something can't be written; then `folder` is as it was.
pub fn save(saved: &SavedAdapter, folder: &Path) -> Result<()> {
    write_atomically(folder, |to| {
        let base = match &saved.base {
            BaseLocation::Named(path) => path.to_string(),
            BaseLocation::Here(model) => {
                write_weights(model, to)?;
                ".".into()
            }
        };
        json(&to.join(ADAPTER_CONFIG), &PeftConfig::of(&saved.adapter, base))?;
        tensors(&to.join(ADAPTER_WEIGHTS), &named(saved.adapter.layout(), &saved.flat, ""))?;
        json(&to.join(TRAINED), &TrainingProgress { version: saved.version, steps: saved.moments.steps })?;
        if saved.moments.steps > 0 {
            write_moments(&to.join(MOMENTS), saved.adapter.layout(), &saved.moments)?;
        }
        Ok(())
    })
}
