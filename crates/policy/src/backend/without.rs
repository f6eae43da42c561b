//! The models of this process in a flow without libtorch: there are none.

use super::{Model, Opening};
use crate::trainer::Twin;
use crate::without::refused;
use flow_model::{ModelSettings, PolicyError, Result};
use std::path::Path;

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
