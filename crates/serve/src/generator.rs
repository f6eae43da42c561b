//! Servers that generate for a model, in place of the process that has its weights.

use crate::exported::Exported;
use crate::rest::Asleep;
use crate::ticket::Ticket;
use flow_model::{GenerationOutput, Request, Result, Sampling};
use std::path::Path;

/// Writes the weights that are asked for into a folder, and weighs a prompt with them.
pub type Export<'a> = &'a mut dyn FnMut(&Path, &[u32]) -> Result<Exported>;

/// Servers that generate for a model. Only their callers wait for them.
pub trait Generator: Send + Sync {
    /// Answers `requests` with the weights of `version`, one reply a request, in order. `export` is called where the
    /// servers don't have these weights yet.
    ///
    /// # Errors
    /// [`flow_model::PolicyError::Row`] if the model can't read a request; if no server answers any more, what is wrong
    /// with each.
    fn answer(&self, version: u64, requests: &[Request], sampling: &Sampling, export: Export) -> Result<GenerationOutput>;

    /// Begins a free answer, and gives it to `ticket`.
    ///
    /// # Errors
    /// As of [`Generator::answer`], before anything is sent.
    fn begin(&self, version: u64, request: &Request, sampling: &Sampling, ticket: Ticket, export: Export) -> Result<()>;

    /// Whether it reads and writes the tokens of the model that learns.
    fn own_tokens(&self) -> bool;

    /// Has servers that share a GPU with a trainer give their memory away as long as the result lives, once nothing is
    /// under way at them. Requests wait meanwhile.
    fn sleep(&self) -> Option<Asleep<'_>> {
        None
    }

    /// Figures of the servers, by name.
    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// From now on weights are written into `root`.
    fn export_into(&self, _root: &Path) {}

    /// Forgets which weights the servers have, so that they are sent again.
    fn forget(&self) {}
}
