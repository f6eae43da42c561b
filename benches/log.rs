//! A log that grows: `cargo bench --bench log [-- ITERATIONS]` commits a run of that many small iterations (20,000)
//! with five logged nodes, and prints what its first and last hundred commits took, what questions about one iteration
//! and about all rows take, beside the same rows in one file a node, and what going on with it takes. `TMPDIR` says
//! where it writes.

#[path = "../tests/shared/logged.rs"]
mod logged;

use arrow::array::{ArrayRef, Float32Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::concat_batches;
use flow_core::row;
use flow_log::{query, write_part, Committer, LogError, Metrics, NodeInfo, Part, Run, RunInfo, Status};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODES: [(&str, &str); 5] =
    [("rollout", "rollout"), ("group", "group"), ("advantage", "advantage"), ("reward", "reward"), ("update", "gpu-update")];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let iterations: u64 = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(20_000);
    let folder = tempfile::tempdir()?;
    let run = begin(&folder.path().join("run"), iterations)?;
    let mut committer = Committer::new(run.clone())?;
    let mut commits = Vec::new();
    for iteration in 0..iterations {
        let parts = parts(&run, iteration)?;
        let start = Instant::now();
        committer.commit(iteration, parts, metrics(iteration), vec![])?;
        commits.push(start.elapsed());
    }
    // As after a kill: nothing was tidied up at the end.
    committer.finish(Status::Stopped)?;
    drop(committer);
    let mean = |some: &[Duration]| some.iter().sum::<Duration>().as_secs_f64() * 1e3 / some.len() as f64;
    let hundred = commits.len().min(100);
    let (first, last) = (mean(&commits[..hundred]), mean(&commits[commits.len() - hundred..]));
    println!("commits: the first {hundred} took {first:.2} ms each, the last {last:.2} ms: {:.2} times", last / first);
    println!("{} files, a manifest of {} bytes", files(run.root())?, std::fs::metadata(run.root().join("manifest.json"))?.len());

    let merged = begin(&folder.path().join("one"), 1)?;
    together(&run, &merged)?;
    let about_one = format!("select count(*) from provenance where iteration = {}", iterations / 2);
    println!("one iteration: {:.3} s", query_seconds(&run, &about_one)?);
    for sql in ["select count(*), avg(reward) from rollout", "select count(*) from provenance where used = 'yes'"] {
        let (many, few) = (query_seconds(&run, sql)?, query_seconds(&merged, sql)?);
        println!("{sql}: {many:.3} s, in one file a node {few:.3} s: {:.2} times", many / few);
    }
    let start = Instant::now();
    let next = run.manifest()?.next();
    drop(Committer::new(run)?);
    println!("going on with iteration {next}: {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn begin(root: &Path, iterations: u64) -> Result<Run, LogError> {
    let upstream = |id: &str| NODES.iter().map(|(other, _)| other.to_string()).take_while(|other| other != id).collect();
    let node = |(id, op): &(&str, &str)| NodeInfo { id: id.to_string(), op: op.to_string(), upstream: upstream(id), ..Default::default() };
    Run::create(
        root,
        "flow: bench\n",
        &RunInfo { name: "bench".into(), nodes: NODES.iter().map(node).collect(), iterations, ..Default::default() },
    )
}

/// The rows of an iteration, a node each: 40 turns.
fn rows(iteration: u64) -> Result<Vec<RecordBatch>, row::RowError> {
    let rollout = logged::rollout(iteration, 0, 2);
    let advantage = logged::advantages(iteration, 0, 2);
    let names: Vec<(&str, ArrayRef)> = row::NAME.iter().filter_map(|name| Some((*name, advantage.column_by_name(name)?.clone()))).collect();
    let n = advantage.num_rows();
    let with = |more: Vec<(&'static str, ArrayRef)>| row::batch([names.clone(), more].concat());
    let group = with(vec![("group", Arc::new(UInt64Array::from_iter_values((0..n as u64).map(|i| i / 4))))])?;
    let reward = with(vec![("reward", Arc::new(Float32Array::from_iter_values((0..n).map(|i| i as f32))))])?;
    let used = StringArray::from_iter_values((0..n).map(|i| if i % 8 == 0 { "singleton" } else { "yes" }));
    let update = with(vec![("version", Arc::new(UInt64Array::from(vec![iteration + 1; n]))), ("used", Arc::new(used))])?;
    Ok(vec![rollout, group, advantage, reward, update])
}

fn parts(run: &Run, iteration: u64) -> Result<Vec<Part>, Box<dyn std::error::Error>> {
    let written = NODES.iter().zip(rows(iteration)?).map(|((node, _), rows)| write_part(run, node, iteration, 0, &rows));
    Ok(written.collect::<Result<_, _>>()?)
}

/// As many figures as an update has.
fn metrics(iteration: u64) -> Metrics {
    let figures = |node: &str| (node.to_string(), (0..8).map(|m| (format!("figure_{m}"), (iteration * m) as f64 * 0.1)).collect());
    NODES.iter().map(|(node, _)| figures(node)).collect()
}

/// All rows of `run` in one file a node.
fn together(run: &Run, merged: &Run) -> Result<(), Box<dyn std::error::Error>> {
    let mut committer = Committer::new(merged.clone())?;
    let mut parts = Vec::new();
    for (node, _) in NODES {
        let all = flow_log::read(run, node)?;
        parts.push(write_part(merged, node, 0, 0, &concat_batches(&all[0].schema(), &all)?)?);
    }
    committer.commit(0, parts, Metrics::new(), vec![])?;
    Ok(committer.finish(Status::Finished)?)
}

/// The least of five times, in seconds: the files lie in the page cache.
fn query_seconds(run: &Run, sql: &str) -> Result<f64, LogError> {
    let mut least = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        query(run, sql)?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn files(folder: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        count += if path.is_dir() { files(&path)? } else { 1 };
    }
    Ok(count)
}
