//! A run that may have been begun before: how far it has come, and whether it is still the same.

use super::error::{Error, Result};
use crate::ops;
use flow_log::Status;
use flow_pipeline::Pipeline;
use std::path::Path;

/// How far a run has come.
#[derive(Debug, PartialEq, Eq)]
pub enum RunProgress {
    Absent,
    /// It has so many iterations to go.
    Partial(u64),
    Finished,
}

impl RunProgress {
    /// The word for other programs.
    pub fn word(&self) -> &'static str {
        match self {
            RunProgress::Absent => "absent",
            RunProgress::Partial(_) => "partial",
            RunProgress::Finished => "finished",
        }
    }
}

/// How far the run in `folder` has come on its way to `target` iterations.
///
/// # Errors
/// A run that another pipeline made than `expected`: its metrics would be taken for those of `expected`.
pub fn progress(folder: &Path, expected: &Pipeline, target: u64) -> Result<RunProgress> {
    if !folder.join("manifest.json").exists() {
        return Ok(RunProgress::Absent);
    }
    let existing = flow_pipeline::load(&folder.join("pipeline.yaml"), &[], &ops::replayed(Default::default()))?;
    // A run that was trained further says so in its manifest alone.
    let other: Vec<String> =
        flow_pipeline::differences(&existing.source, &expected.source).into_iter().map(|d| d.path).filter(|p| p != "iterations").collect();
    if !other.is_empty() {
        return Err(Error::request(format!("{} was made with other settings than these: {}", folder.display(), other.join(", "))));
    }
    let manifest = flow_log::Run::open(folder)?.manifest()?;
    let remaining = target.saturating_sub(manifest.trained());
    Ok(if remaining == 0 && manifest.status == Status::Finished { RunProgress::Finished } else { RunProgress::Partial(remaining) })
}
