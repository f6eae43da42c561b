//! The adapter that a model begins with, as it would if it learnt in this process.

use flow_checkpoint::saved::TrainingProgress;
use flow_checkpoint::stored;
use flow_core::seed::{mix, text};
use flow_model::folder::{json, write_atomically};
use flow_model::lora::{Adapter, Lora};
use flow_model::on_disk::{ADAPTER_CONFIG, ADAPTER_WEIGHTS, TRAINED};
use flow_model::peft_config::PeftConfig;
use flow_model::{FileFault, LoadModel, PolicyError, Result};
use safetensors::tensor::{serialize_to_file, Dtype, TensorView};
use std::fs::File;
use std::path::Path;

/// Writes a new adapter for a model whose architecture is known here. Gives whether that was done.
///
/// # Errors
/// If the model or the adapter makes no sense, or something can't be written.
pub fn fresh(load: &LoadModel, critic: bool, base: &Path, seed: u64, folder: &Path) -> Result<bool> {
    let Some(lora) = &load.lora else { return Ok(false) };
    let stored = match stored::open(base) {
        Ok(stored) => stored,
        Err(PolicyError::File { fault: FileFault::Unsupported(_), .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    if stored.values() {
        // Its head is learnt on from its present values.
        return Ok(false);
    }
    let head = critic.then(|| stored.architecture.sizes().width);
    let adapter =
        Adapter::new(Lora::new(lora), &stored.architecture.layout(), head).map_err(|fault| PolicyError::at(base, fault.into()))?;
    write_atomically(folder, |to| {
        json(&to.join(ADAPTER_CONFIG), &PeftConfig::of(&adapter, base.display().to_string()))?;
        write(&adapter, seed, &to.join(ADAPTER_WEIGHTS))?;
        json(&to.join(TRAINED), &TrainingProgress::default())
    })?;
    Ok(true)
}

/// Its random start as safetensors.
fn write(adapter: &Adapter, seed: u64, path: &Path) -> Result<()> {
    let layout = adapter.layout();
    let numbers: Vec<u8> = layout.random(mix(seed, text("adapter"))).into_iter().flat_map(f32::to_le_bytes).collect();
    let failed = |e: &dyn std::fmt::Display| PolicyError::file(path, e);
    let views = layout.parameters.iter().map(|parameter| {
        let (at, len) = (4 * parameter.at as usize, 4 * parameter.len() as usize);
        let size = parameter.size.iter().map(|size| *size as usize).collect();
        Ok((parameter.name.clone(), TensorView::new(Dtype::F32, size, &numbers[at..at + len]).map_err(|e| failed(&e))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    serialize_to_file(views, &None, path).map_err(|e| failed(&e))?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| failed(&e))
}
