//! `flow run`: trains.

use super::candidates;
use super::error::Result;
use super::follow::follow;
use super::grid::{cases, Case};
use super::machine::Machine;
use super::missing_files::missing;
use super::models;
use super::output::{finish, CommandResult};
use super::run_folder::free;
use super::seeds::{self, case_folder, continued, CaseRun};
use super::session::{info, TrainingSession};
use crate::ops;
use clap::Args;
use flow_log::Lock;
use flow_pipeline::Pipeline;
use std::path::PathBuf;

#[derive(Args)]
pub struct RunArgs {
    /// The pipeline file
    pipeline: PathBuf,
    /// Overrides a value, as `nodes.update.with.lr=1e-4`; a map is merged into the one that is there, and null removes a key
    #[arg(long = "set", value_name = "PATH=VALUE", add = candidates::paths())]
    sets: Vec<String>,
    /// The run's folder; runs/<name> (and a number) unless given
    #[arg(long)]
    out: Option<PathBuf>,
    /// Makes one run for each of these seeds, as `1,2,3`, with the seed in its name
    #[arg(long, value_delimiter = ',', value_name = "SEEDS", conflicts_with_all = ["hosts", "dry_run"])]
    seeds: Vec<u64>,
    /// Makes one run for each of these values, as `nodes.update.with.lr=1e-4,1e-3`; given several times, for every
    /// combination
    #[arg(long, value_name = "PATH=VALUES", add = candidates::paths(), conflicts_with_all = ["hosts", "dry_run"])]
    grid: Vec<String>,
    /// Checks everything, makes the models, and stops before the first iteration
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    machine: Machine,
}

impl RunArgs {
    pub fn run(self) -> CommandResult {
        ops::run_code();
        let catalog = ops::catalog();
        let look = |pipeline: &Pipeline| missing(pipeline, &self.pipeline, &catalog);
        let load = |sets: &[String]| flow_pipeline::load_to_run(&self.pipeline, sets, &catalog, false, &look);
        if !(self.seeds.is_empty() && self.grid.is_empty()) {
            let cases = cases(&self.grid, &self.seeds)?;
            // All are looked at before the first one runs.
            let loaded = |case: Case| Ok((load(&self.sets.iter().cloned().chain(case.overrides()).collect::<Vec<_>>())?, case));
            let cases = cases.into_iter().map(|case| loaded(case).map(|(pipeline, case)| (case, pipeline)));
            return self.each(&cases.collect::<Result<Vec<_>>>()?);
        }
        let pipeline = load(&self.sets)?;
        if let Some(hosts) = self.machine.hosts()?.filter(|hosts| hosts.process > 0 && !self.dry_run) {
            return follow(&hosts, &self.machine, pipeline);
        }
        let policy = models::start(&pipeline, self.machine.hardware()?, &models::Starts::default())?;
        if self.dry_run {
            return finish(&format!(
                "{} is ready to run: {} nodes, {} iterations",
                pipeline.name,
                pipeline.all().count(),
                pipeline.iterations
            ));
        }
        let root = self.out.clone().unwrap_or_else(|| free(&pipeline.name));
        let folder = flow_log::Run::create(&root, &pipeline.to_yaml(&root), &info(&pipeline, policy.as_ref()))?;
        let lock = Some(Lock::take(&folder)?);
        if let Some(policy) = &policy {
            models::save_start(policy, &pipeline, &folder)?;
        }
        let (feeds, past) = Default::default();
        TrainingSession { machine: &self.machine, pipeline, policy, folder, first: 0, feeds, past, replays: None, earlier: vec![], lock }
            .conduct()
    }
}

impl RunArgs {
    /// A run for each of the cases.
    fn each(&self, cases: &[(Case, Pipeline)]) -> CommandResult {
        let mut arguments = vec![self.pipeline.clone().into_os_string()];
        self.sets.iter().for_each(|set| arguments.extend(["--set".into(), set.into()]));
        arguments.extend(self.machine.arguments());
        let at = |out: &PathBuf, (case, pipeline): &(Case, Pipeline)| CaseRun {
            folder: case_folder(out, case),
            case: case.clone(),
            pipeline: pipeline.clone(),
        };
        let runs = match &self.out {
            Some(out) => cases.iter().map(|case| at(out, case)).collect(),
            None => continued(&cases[0].1.name, cases),
        };
        seeds::each(&runs, &arguments, &self.machine)
    }
}
