//! `flow resume`: goes on with a run that was stopped, killed or cut off, as if it never had been.

use super::error::Error;
use super::follow::follow;
use super::log_inputs::past;
use super::machine::Machine;
use super::models;
use super::output::{finish, warn, CommandResult};
use super::session::TrainingSession;
use super::source::{reduced, ReplaySource};
use crate::ops;
use clap::Args;
use flow_dataflow::feed::Feeds;
use flow_log::{Lock, Status};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ResumeArgs {
    /// The run's folder
    run: PathBuf,
    /// Trains up to this many iterations instead of the planned number
    #[arg(long)]
    iterations: Option<u64>,
    /// Runs the functions in Python that the run brings, though they haven't run here before
    #[arg(long)]
    run_code: bool,
    #[command(flatten)]
    machine: Machine,
}

impl ResumeArgs {
    pub fn run(self) -> CommandResult {
        if self.run_code {
            ops::run_code();
        }
        let folder = flow_log::Run::open(&self.run)?;
        let lock = if self.machine.process == 0 { Some(Lock::take(&folder)?) } else { None };
        let manifest = folder.manifest()?;
        let sets: Vec<String> = self.iterations.iter().map(|n| format!("iterations={n}")).collect();
        let replays = manifest.info.replays.clone();
        if replays.is_some() {
            self.machine.require_one_process("a replay")?;
        }
        let catalog = if replays.is_some() { ops::replayed(Default::default()) } else { ops::catalog() };
        folder.same_pipeline(&manifest)?;
        let mut pipeline = flow_pipeline::load_moved(&folder.pipeline(), manifest.info.folder.as_ref(), &sets, &catalog)?;
        if self.iterations.is_none() {
            pipeline.iterations = manifest.info.iterations;
        }
        ops::functions_may_run(&pipeline).map_err(Error::Request)?;
        if let Some(hosts) = self.machine.hosts()?.filter(|hosts| hosts.process > 0) {
            return follow(&hosts, &self.machine, pipeline);
        }
        let (first, planned) = (manifest.next(), pipeline.iterations);
        if planned < first.min(manifest.info.iterations) {
            let done = first.min(manifest.info.iterations);
            return Err(Error::Request(format!("{done} iterations are committed already; --iterations {planned} would take some back")));
        }
        if manifest.status == Status::Finished && planned <= manifest.info.iterations {
            return finish(&format!(
                "{} is finished: all {planned} iterations are committed; `--iterations N` trains on",
                self.run.display()
            ));
        }
        let feeds = match &replays {
            None => Feeds::new(),
            Some(replays) => {
                let source = ReplaySource::open(Path::new(&replays.run))?;
                source.require_iterations(planned)?;
                pipeline = reduced(&pipeline, replays);
                source.feeds(replays)?
            }
        };
        // A finished run has measured its last weights at one time more than it has iterations; training on does that
        // again.
        let first = first.min(if planned > manifest.info.iterations { manifest.info.iterations } else { first });
        let manifest = folder.rewind(first)?;
        let policy = models::start(&pipeline, self.machine.hardware()?, &models::starts(&folder)?)?;
        if let Some(policy) = &policy {
            let (before, now) = (&manifest.info.device, policy.device().to_string());
            if !before.is_empty() && *before != now {
                warn(&format!("the run began on {before} and goes on on {now}: it isn't bit for bit the run that it would have been"));
            }
            if let Some((name, act)) = policy.slow() {
                warn(&format!(
                    "`{name}` acts as it did when the run began, by `act: {}`, and this CPU has no AVX2: that is slow",
                    act.name()
                ));
            }
            models::save_start(policy, &pipeline, &folder)?;
            models::restore(policy, &pipeline, &folder, &manifest)?;
        }
        eprintln!("going on with iteration {first} of {planned}");
        let past = past(&pipeline, &folder, &manifest)?;
        let earlier = manifest.committed.into_iter().map(|committed| (committed.iteration, committed.metrics)).collect();
        TrainingSession { machine: &self.machine, pipeline, policy, folder, first, feeds, past, replays, earlier, lock }.conduct()
    }
}
