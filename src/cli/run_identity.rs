//! What the processes of one run exchange before it begins.

use flow_dataflow::cluster::{Hosts, RunIdentity};
use flow_pipeline::Pipeline;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// What the first process sends to the others.
#[derive(Serialize, Deserialize)]
pub struct RunStart {
    /// The run's folder, which all processes must see.
    pub run: PathBuf,
    pub first: u64,
    pub iterations: u64,
}

/// What all processes of a run must agree on.
pub fn same(hosts: &Hosts, workers: u32, pipeline: &Pipeline) -> RunIdentity {
    RunIdentity {
        program: env!("CARGO_PKG_VERSION").into(),
        pipeline: format!("{:x}", Sha256::digest(pipeline.to_yaml("".as_ref()))),
        workers: workers as usize,
        processes: hosts.addresses.len(),
    }
}
