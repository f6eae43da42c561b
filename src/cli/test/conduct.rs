//! One test: the fed nodes' rows through the real engine, up to the nodes from which rows are expected.

use super::compare::{compare, RowComparison};
use crate::cli::error::{Error, Result};
use crate::cli::models;
use crate::ops;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use flow_core::row::{self, lines, lines::Line};
use flow_dataflow::feed::{Feed, Feeds};
use flow_dataflow::run::{run, Plan};
use flow_dataflow::Sink;
use flow_pipeline::{Catalog, Needed, Pipeline, Test};
use flow_policy::{DeviceChoice, Hardware};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The engine opens every iteration up to the last one with a row: a test that asks for more than this was mistyped.
const MOST_ITERATIONS: u64 = 10_000;

/// Every expected row and every row that came, compared; or why the test could not run.
pub fn conduct(pipeline: &Pipeline, test: &Test, catalog: &Catalog) -> Result<Vec<RowComparison>> {
    let mut expected: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for (node, file) in &test.expect {
        expected.insert(node.clone(), lines::read(file)?);
    }
    let expecting: BTreeSet<String> = test.expect.keys().cloned().collect();
    let mut part = pipeline.part(&expecting, &test.feed.keys().cloned().collect());
    fn columns(lines: &[Line]) -> BTreeSet<&str> {
        lines.iter().flat_map(|line| line.cells.keys().map(String::as_str)).collect()
    }
    let mut needed = part.needed(&expected.iter().map(|(node, lines)| (node.clone(), columns(lines))).collect(), catalog);
    let mut feeds = Feeds::new();
    part.iterations = 1;
    for (node, file) in &test.feed {
        let (feed, iterations) = feed(file, &needed.remove(node).unwrap_or_default())?;
        part.iterations = part.iterations.max(iterations);
        feeds.insert(node.clone(), feed);
    }
    // A new model's words come from all that the pipeline plays, whichever part of it runs; one thread, so that the
    // bits are the same on every machine of a kind.
    let whole = Pipeline { models: part.models.clone(), ..pipeline.clone() };
    let policy = models::start(&whole, Hardware { threads: 1, device: DeviceChoice::Cpu, ..Default::default() }, &Default::default())?;
    let sink = Sink::of(expecting);
    let plan = Plan::new(part, ops::find, ops::adds);
    run(Plan { updates: ops::updates(&plan.pipeline), feeds, policy, sink: Some(sink.clone()), ..plan })?;
    let mut compared = Vec::new();
    // In the pipeline's order, so that the first difference is where things begin to differ.
    for (node, lines) in pipeline.nodes.iter().filter_map(|n| expected.get_key_value(&n.id)) {
        let actual = row::sorted(&sink.take(node)).map_err(|e| Error::from(e).at(node))?;
        compared.extend(compare(node, lines, actual.as_ref(), test.tolerance));
    }
    Ok(compared)
}

/// The rows of a file by iteration, and how many iterations they make.
fn feed(file: &Path, needed: &Needed) -> Result<(Feed, u64)> {
    let name = file.display().to_string();
    let lines = lines::read(file)?;
    if let Some(late) = lines.iter().find(|l| l.name.iteration >= MOST_ITERATIONS) {
        let help = format!("a test has iterations 0 to {}, and runs all up to its last", MOST_ITERATIONS - 1);
        let why = format!("iteration {} is too late for a test", late.name.iteration);
        return Err(Error::Request(why).at(format!("{name}:{}", late.number)).help(format!("  = help: {help}")));
    }
    let iterations = lines.iter().map(|l| l.name.iteration + 1).max().unwrap_or(0);
    let rows = lines::batch(&name, &lines, needed)?;
    let mut by_iteration: BTreeMap<u64, RecordBatch> = BTreeMap::new();
    for iteration in lines.iter().map(|l| l.name.iteration).collect::<BTreeSet<_>>() {
        let those: BooleanArray = lines.iter().map(|l| Some(l.name.iteration == iteration)).collect();
        if let Some(rows) = &rows {
            by_iteration.insert(iteration, filter_record_batch(rows, &those).map_err(|e| Error::from(e).at(format!("{name}:1")))?);
        }
    }
    Ok((Arc::new(move |iteration| Ok(by_iteration.get(&iteration).cloned().into_iter().collect())), iterations))
}
