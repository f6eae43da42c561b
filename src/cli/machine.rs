//! The resources of a training run: workers, processes, threads, the device. They are never part of a pipeline, because
//! they don't change what is computed: a GPU rounds otherwise, and that is all.

use super::error::{Error, Result};
use super::output::OutputFormat;
use clap::Args;
use flow_core::files;
use flow_dataflow::cluster::Hosts;
use flow_policy::{DeviceChoice, Hardware};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The resources of a training run.
#[derive(Args)]
pub struct Machine {
    /// Worker threads of the dataflow; the rows are the same on any number
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub workers: u32,
    /// A file with one `address:port` a line, one for each process of the run; all of them start with the same
    /// arguments but --process. With a line `secret: TEXT` only processes that know the text take part. What they send
    /// is not encrypted: use loopback or a private network
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Which line of --hosts this process is, from 0
    #[arg(long, default_value_t = 0, requires = "hosts", value_name = "P")]
    pub process: usize,
    /// Threads of libtorch; one a core unless given here or by OMP_NUM_THREADS
    #[arg(long)]
    threads: Option<usize>,
    /// The device for models: `cuda` is the first GPU in CUDA_VISIBLE_DEVICES, and an error without one; `auto` is a
    /// GPU if there is one, otherwise the CPU. The variable FLOW_DEVICE is the default
    #[arg(long, value_name = "auto|cpu|cuda")]
    device: Option<DeviceChoice>,
    /// Processes of each trainer that flow starts (`train: { torchrun: 8 }` of a model), in place of the pipeline's
    /// number
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Option<u32>,
    /// Ends the run after so many seconds without any progress, and reports which node waits for which; 0: never
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    stall: u64,
    /// Ends the run in good order once its committed iterations have used so many tokens: computed here, or read,
    /// written and trained by servers. Iterations that are open by then are completed, so it may use more
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: Option<u64>,
    /// Prints the address of pages that follow the run (`flow view`), served on this machine alone until it ends
    #[arg(long)]
    pub view: bool,
    #[arg(long, value_enum, default_value = "text")]
    pub format: OutputFormat,
}

impl Machine {
    /// The processes of the run, if it has more than one.
    pub fn hosts(&self) -> Result<Option<Hosts>> {
        let Some(path) = &self.hosts else { return Ok(None) };
        let text = files::text(path, 1 << 20).map_err(Error::file(path))?;
        Hosts::parse(&text, self.process).map(Some).map_err(|e| Error::request(e).at(path.display()))
    }

    /// Insists on one process.
    pub fn require_one_process(&self, what: &str) -> Result<()> {
        match self.hosts {
            Some(_) => Err(Error::Request(format!("{what} plays nothing and runs in one process: leave --hosts out"))),
            None => Ok(()),
        }
    }

    /// The same as arguments of another `flow` in one process, without the format.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all = vec![format!("--workers={}", self.workers), format!("--stall={}", self.stall)];
        all.extend(self.threads.map(|threads| format!("--threads={threads}")));
        all.extend(self.device.map(|device| format!("--device={device}")));
        all.extend(self.ranks.map(|ranks| format!("--ranks={ranks}")));
        all.extend(self.budget.map(|tokens| format!("--budget={tokens}")));
        all.extend(self.view.then(|| "--view".into()));
        all.into_iter().map(OsString::from).collect()
    }

    /// How long a run may stand still.
    pub fn stall(&self) -> Option<Duration> {
        (self.stall > 0).then(|| Duration::from_secs(self.stall))
    }

    /// What computes the models.
    pub fn hardware(&self) -> Result<Hardware> {
        let device = self.device.map_or_else(DeviceChoice::named, Ok)?;
        Ok(Hardware { threads: self.threads(), device, ranks: self.ranks.map(|ranks| ranks as usize), yields: false })
    }

    fn threads(&self) -> usize {
        let named = std::env::var("OMP_NUM_THREADS").ok().and_then(|t| t.parse().ok());
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        self.threads.or(named).filter(|t| *t > 0).unwrap_or_else(cores)
    }
}
