//! A flow that was built without libtorch (`cargo build --no-default-features -p flow`): it computes no model itself.

use crate::backend::{Model, Opening};
use crate::device::{DeviceChoice, FoundDevice};
use crate::export::ExportKind;
use crate::trainer::Twin;
use flow_model::{ModelSettings, PolicyError, Result};
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

fn refused() -> PolicyError {
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

/// A model of this process: there is none.
pub enum LocalModel {}

/// Opens no model of this process.
///
/// # Errors
/// [`PolicyError::Device`], always.
pub fn open(_: &str, _: &ModelSettings, _: &Opening) -> Result<Option<Box<dyn Model>>> {
    Err(refused())
}

impl LocalModel {
    /// As [`open`].
    ///
    /// # Errors
    /// [`PolicyError::Device`], always.
    pub fn new(_: &str, _: &ModelSettings, _: &Opening) -> Result<LocalModel> {
        Err(refused())
    }

    pub fn twin(&self) -> Twin<'_> {
        match *self {}
    }

    /// # Errors
    /// There is none that could be asked.
    pub fn follow(&mut self, _: u64, _: &Path, _: usize) -> Result<()> {
        match *self {}
    }
}

impl Model for LocalModel {
    fn refusal(&self) -> PolicyError {
        match *self {}
    }
}
