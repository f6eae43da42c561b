//! A process that isn't the first of its run: it does its share of the rollouts and updates, and leaves saving weights,
//! committing to the log, progress and summary to the first.

use super::error::Error;
use super::log_inputs::past;
use super::machine::Machine;
use super::models;
use super::output::CommandResult;
use super::run_identity::{same, RunStart};
use super::session::journal_of;
use crate::ops;
use flow_dataflow::cluster::{Cluster, Hosts, Meanwhile};
use flow_dataflow::run::{run, Plan};
use flow_pipeline::Pipeline;
use std::process::ExitCode;

/// Takes part until the run ends.
pub fn follow(hosts: &Hosts, machine: &Machine, mut pipeline: Pipeline) -> CommandResult {
    let fault = |e: flow_log::LogError| Error::from(e).help("all processes must see the run's folder under the same path");
    let meanwhile = Meanwhile { tell: &|text| eprintln!("{text}"), ..Meanwhile::quiet() };
    let cluster = Cluster::join(hosts, &same(hosts, machine.workers, &pipeline), serde_json::Value::Null, &meanwhile)?;
    let news: RunStart = serde_json::from_value(cluster.news.clone()).map_err(|e| Error::from(e).at("the first process's news"))?;
    let folder = flow_log::Run::open(&news.run).map_err(fault)?;
    let manifest = folder.manifest().map_err(fault)?;
    pipeline.iterations = news.iterations;
    let policy = models::start(&pipeline, machine.hardware()?, &models::starts(&folder)?)?;
    if let Some(policy) = policy.as_ref().filter(|_| news.first > 0) {
        models::restore(policy, &pipeline, &folder, &manifest)?;
    }
    let past = past(&pipeline, &folder, &manifest)?;
    let plan = Plan {
        workers: machine.workers as usize,
        first: news.first,
        updates: ops::updates(&pipeline),
        past: past.into(),
        policy,
        journal: journal_of(&folder),
        cluster: Some(cluster),
        stall: machine.stall(),
        ..Plan::new(pipeline, ops::find, ops::adds)
    };
    run(plan)?;
    Ok(ExitCode::SUCCESS)
}
