//! Models from disk, with their weights.

use super::lora::merge;
use crate::model::adapter_files::read_adapter;
use crate::model::flat::read as read_tensors;
use crate::model::saved::{read_moments, SavedModel};
use crate::model::Net;
use crate::moments::Moments;
use flow_checkpoint::source::read_leaf;
use flow_checkpoint::stored::{open, StoredModel};
use flow_int8::engine::MatrixFormat;
use flow_model::{Head, PolicyError, Result};
use std::cell::RefCell;
use std::path::Path;
use tch::{Device, Kind};

/// The model as the engine computes it, its base packed matrix by matrix as it is read; none where adapters are to
/// become part of the base.
///
/// # Errors
/// If a file can't be read.
pub fn packed(stored: &StoredModel, kept: MatrixFormat) -> Result<Option<Net>> {
    if !stored.adapters.is_empty() {
        return Ok(None);
    }
    let layout = stored.architecture.layout();
    let failed = RefCell::new(None);
    let leaf = |name: &str| {
        let leaf = layout.leaf_of(name).map(|leaf| &layout.leaves[leaf]).filter(|_| failed.borrow().is_none())?;
        match read_leaf(&*stored.source, &layout, leaf) {
            Ok(numbers) => Some((numbers, leaf.size.clone())),
            Err(error) => {
                failed.replace(Some(error));
                None
            }
        }
    };
    let net = Net::read_packed(stored.architecture.clone(), &leaf, kept, stored.tokenizer.ends());
    failed.into_inner().map_or(Ok(Some(net)), Err)
}

/// Reads the tensors, as numbers of `kind`; what adapters there are becomes part of them.
///
/// # Errors
/// If a file can't be read.
pub fn load_stored(stored: StoredModel, device: Device, kind: Kind) -> Result<SavedModel> {
    let layout = stored.architecture.layout();
    let flat = read_tensors(&*stored.source, &layout, "", device, kind)?;
    let moments = match &stored.moments {
        Some(files) if stored.adapters.is_empty() => read_moments(files, &layout, stored.trained.steps, device)?,
        _ => Moments::new(&flat),
    };
    let (architecture, tokenizer, version) = (stored.architecture.clone(), stored.tokenizer.clone(), stored.trained.version);
    let mut saved = SavedModel { architecture, tokenizer, version, flat, moments };
    for (adapter, own) in &stored.adapters {
        if adapter.head {
            saved = saved.with_head(Head::Value).map_err(|fault| PolicyError::at(stored.source.path(), fault.into()))?;
        }
        merge(adapter, &saved.architecture.layout(), &mut saved.flat, &read_adapter(own, adapter, device)?);
        saved.version = own.trained.version;
    }
    Ok(saved)
}

/// Reads a model from disk; see [`open`].
///
/// # Errors
/// As [`open`], or if a file can't be read.
pub fn load(path: &Path, device: Device, kind: Kind) -> Result<SavedModel> {
    load_stored(open(path)?, device, kind)
}
