//! What an iteration costs when its operators do nothing: six nodes in a loop closed by a delayed edge, one row an
//! iteration, so that every frontier, capability and exchange is at work and nothing else is.
//!
//! `cargo bench --bench engine`

use flow_core::row;
use flow_dataflow::journal::Journal;
use flow_dataflow::run::{run, Plan};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{source, Context, Edge, Failed, Place, Ports, Render, RenderOutside, Route};
use flow_pipeline::{Input, Node, Pipeline};
use std::sync::Arc;
use std::time::Instant;
use timely::dataflow::Scope;

fn open<'s>(node: &Node, _: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    Ok(source::iterations(&node.id, scope, ctx, |iteration| {
        let column = Arc::new(arrow::array::UInt64Array::from(vec![iteration]));
        Ok(vec![row::batch(vec![("iteration", column)])?])
    }))
}

/// Hands on what the first port brought; on a thread, as the operators that wait for a policy do.
fn pass<'s>(node: &Node, ports: Ports<'s>, place: Place, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let inputs = ports.into_iter().map(|(_, edge)| (edge, Route::One)).collect();
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place }, ctx, |_, mut rows| Ok(rows.swap_remove(0))))
}

fn here<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    pass(node, ports, Place::Worker, ctx)
}

fn there<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    pass(node, ports, Place::Thread, ctx)
}

fn find(op: &str) -> Option<Render> {
    let outside: RenderOutside = match op {
        "open" => open,
        "here" => here,
        _ => there,
    };
    Some(Render::outside(outside))
}

fn microseconds(iterations: u64, workers: usize) -> Result<f64, String> {
    let input = |port: &str, from: &str, staleness| Input { port: port.into(), from: from.into(), staleness };
    let node =
        |id: &str, op: &str, inputs| Node { id: id.into(), op: op.into(), inputs, with: Default::default(), body: None, columns: None };
    let nodes = vec![
        node("tasks", "open", vec![]),
        node("rollout", "there", vec![input("tasks", "tasks", None), input("weights", "update", Some(0))]),
        node("reward", "here", vec![input("rows", "rollout", None)]),
        node("group", "here", vec![input("rows", "reward", None)]),
        node("advantage", "here", vec![input("rows", "group", None)]),
        node("update", "there", vec![input("rows", "advantage", None)]),
    ];
    let pipeline = Pipeline {
        paths: Default::default(),
        name: "empty".into(),
        about: String::new(),
        iterations,
        seed: 0,
        models: Default::default(),
        nodes,
        log: vec![],
        keep: Default::default(),
        tests: Vec::new(),
        source: serde_json::Value::Null,
    };
    let journal = Journal { run: None, committer: None, observer: Arc::new(|_| ()) };
    let plan = Plan { workers, journal, ..Plan::new(pipeline, find, |_| vec![]) };
    let start = Instant::now();
    run(plan).map_err(|e| e.to_string())?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / iterations as f64)
}

fn main() -> Result<(), String> {
    for workers in [1, 2] {
        microseconds(200, workers)?;
        let mut times = (0..5).map(|_| microseconds(2000, workers)).collect::<Result<Vec<_>, _>>()?;
        times.sort_by(f64::total_cmp);
        println!(
            "{workers} worker(s): an empty iteration of six nodes takes {:.0} us (median of 5 runs of 2000; {:.0} to {:.0})",
            times[2], times[0], times[4]
        );
        println!("{}", serde_json::json!({ "bench": "engine", "workers": workers, "microseconds": times[2] }));
    }
    Ok(())
}
