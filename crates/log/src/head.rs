//! `manifest.json`: what a run is, its status, and which segments and journal hold its iterations. It is small and
//! replaced as a whole; committing an iteration appends a line to the journal beside it.
//!
//! ```text
//! {"format":2,"status":"running","sum":"0123456789abcdef",
//! "name":...}
//! ```
//!
//! `sum` is the checksum of all that follows the first line. It leaves the status out: a person may edit it to mark a
//! run as stopped.

use super::journal::BLOCK;
use super::run_info::RunInfo;
use super::segment::Segment;
use super::{disk, LogError, Part, SavedWeights, Status};
use flow_core::seed;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file in the run's folder.
pub(super) const FILE: &str = "manifest.json";

/// The version of the format that this code writes and reads.
pub(super) const FORMAT: u32 = 2;

/// The first line.
#[derive(Serialize, Deserialize)]
pub(super) struct ManifestHeader {
    pub format: u32,
    pub status: Status,
    sum: String,
}

/// The bytes after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ManifestBody {
    #[serde(flatten)]
    pub info: RunInfo,
    /// What the models began with, version 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<SavedWeights>,
    /// The number of the journal that counts: each process that continues the run begins a new one.
    pub generation: u64,
    /// The checksum that the journal's first line continues.
    pub chain: u64,
    /// The checksum of the journal's last line, once the run has ended: it shows whether lines were lost from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// Oldest first.
    pub segments: Vec<Segment>,
    /// The episodes that failed in the iteration that a failure ended, which is not committed: the part of the table
    /// `errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Part>,
}

impl ManifestBody {
    /// Replaces the manifest in the run's folder `root`.
    pub fn write(&self, root: &Path, status: &Status) -> Result<(), LogError> {
        let path = root.join(FILE);
        let refused = |e: serde_json::Error| LogError::Manifest { path: path.clone(), why: e.to_string() };
        let body = serde_json::to_vec(self).map_err(refused)?;
        let body = [&body[1..], b"\n"].concat(); // its brace stands in the first line
        let sum = format!("{:016x}", seed::bytes(&body));
        let mut top = serde_json::to_vec(&ManifestHeader { format: FORMAT, status: status.clone(), sum }).map_err(refused)?;
        top.pop();
        top.extend(b",\n");
        disk::replace(&path, &[&top, &body])
    }

    /// The first block of iterations that is in no segment.
    pub fn first_block(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.last / BLOCK + 1)
    }

    /// Parses `text`, or says why no run can have written it.
    pub fn read(text: &str) -> Result<(ManifestBody, Status), String> {
        let (top, body) = text.split_once(",\n").ok_or("its first line isn't there")?;
        let top: ManifestHeader = serde_json::from_str(&format!("{top}}}")).map_err(|e| e.to_string())?;
        if top.sum != format!("{:016x}", seed::bytes(body.as_bytes())) {
            return Err("its bytes have changed since it was written".into());
        }
        Ok((serde_json::from_str(&format!("{{{body}")).map_err(|e| e.to_string())?, top.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_noticed_but_for_how_the_run_stands() {
        let folder = tempfile::tempdir().unwrap();
        let info = RunInfo { name: "x".into(), iterations: 5, ..Default::default() };
        let head = ManifestBody { info, start: vec![], generation: 1, chain: 0, end: None, segments: vec![], lost: None };
        head.write(folder.path(), &Status::Finished).unwrap();
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        let (read, status) = ManifestBody::read(&text).unwrap();
        assert_eq!((read.info, status), (head.info.clone(), Status::Finished));
        assert_eq!(ManifestBody::read(&text.replacen("finished", "running", 1)).unwrap().1, Status::Running);
        assert!(ManifestBody::read(&text.replace("\"iterations\":5", "\"iterations\":4"))
            .unwrap_err()
            .contains("have changed since it was written"));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "it is one object: {text}");
    }
}
