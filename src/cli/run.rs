//! `flow run`: trains.

use super::follow::follow;
use super::session::{info, Machine, Session};
use super::{answer, models, Outcome};
use crate::log::{self, Lock};
use crate::{ops, pipeline};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct Run {
    /// The pipeline file
    pipeline: PathBuf,
    /// Overrides a value, as `nodes.update.with.lr=1e-4`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// The run's folder; runs/<name> (and a number) unless given
    #[arg(long)]
    out: Option<PathBuf>,
    /// Checks everything, makes the models, and stops before the first iteration
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    machine: Machine,
}

impl Run {
    pub fn run(self) -> Outcome {
        let pipeline = pipeline::load(&self.pipeline, &self.sets, &ops::catalog()).map_err(|d| d.to_string())?;
        if let Some(hosts) = self.machine.hosts()?.filter(|hosts| hosts.process > 0 && !self.dry_run) {
            return follow(&hosts, &self.machine, pipeline);
        }
        let policy = models::start(&pipeline, self.machine.threads(), &models::Starts::new())?;
        if self.dry_run {
            answer(&format!("{} is ready to run: {} nodes, {} iterations", pipeline.name, pipeline.all().count(), pipeline.iterations));
            return Ok(ExitCode::SUCCESS);
        }
        let root = self.out.clone().unwrap_or_else(|| free(&pipeline.name));
        let folder = log::Run::create(&root, &pipeline.to_yaml(), &info(&pipeline)).map_err(|e| format!("error: {e}"))?;
        let lock = Some(Lock::take(&folder).map_err(|e| format!("error: {e}"))?);
        if let Some(policy) = &policy {
            models::save_start(policy, &pipeline, &folder)?;
        }
        let (feeds, past) = Default::default();
        Session { machine: &self.machine, pipeline, policy, folder, first: 0, feeds, past, replays: None, before: None, lock }.conduct()
    }
}

/// The first of runs/name, runs/name-2, ... that isn't there.
pub fn free(name: &str) -> PathBuf {
    let path = |n: u32| PathBuf::from("runs").join(if n == 1 { name.to_owned() } else { format!("{name}-{n}") });
    (1..).map(path).find(|p| !p.exists()).unwrap_or_else(|| path(1))
}
