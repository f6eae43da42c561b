//! A flow that was built without libtorch (`cargo build --no-default-features -p flow`): it computes no model itself.

use crate::device::{DeviceChoice, FoundDevice};
use crate::export::ExportKind;
use flow_model::{PolicyError, Result};
use std::path::{Path, PathBuf};

const WHY: &str =
    "this flow has no half for PyTorch, so it computes no model itself: `pip install 'flow-rl[torch]'` adds it, a build from \
                   source has it, and models that servers run (`openai: URL`, or `train` with `serve`) need none";

/// What would be known of libtorch.
pub struct Libtorch {
    pub version: Option<String>,
    pub folder: Option<PathBuf>,
    pub cuda: bool,
}

/// That it computes no model.
pub fn refused() -> PolicyError {
    PolicyError::Device(WHY.into())
}

/// Says that there is none.
///
/// # Errors
/// [`PolicyError::Device`], always.
pub fn libtorch() -> Result<&'static Libtorch> {
    Err(refused())
}

/// How many GPUs there are for it: none.
pub fn gpus() -> usize {
    0
}

/// Whether models are computed on a GPU: none are.
///
/// # Errors
/// [`PolicyError::Device`] where a GPU is asked for.
pub fn on_gpu(choice: DeviceChoice) -> Result<bool> {
    match choice {
        DeviceChoice::Cuda => Err(refused()),
        DeviceChoice::Auto | DeviceChoice::Cpu => Ok(false),
    }
}

impl FoundDevice {
    /// The device that was chosen, on which nothing is computed.
    ///
    /// # Errors
    /// As [`on_gpu`].
    pub fn look(choice: DeviceChoice) -> Result<FoundDevice> {
        Ok(FoundDevice { gpu: None, cuda: on_gpu(choice)?, free: None, idle: None })
    }
}

/// Writes no model for others.
///
/// # Errors
/// [`PolicyError::Device`], always.
pub fn export(_: &Path, _: &Path, _: bool) -> Result<ExportKind> {
    Err(refused())
}
