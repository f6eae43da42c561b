//! However a node fails, inside a loop or outside, on the worker or on a thread: the run ends at once, names the node
//! and the iteration, and the error is the one that the node met.

use arrow::array::RecordBatch;
use flow_core::row::{self, RowError};
use flow_dataflow::run::{run, Plan};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::streaming::{streaming, InputPiece, OutputPiece, Streaming, StreamingInputs};
use flow_dataflow::{
    source, Attempt, Context, Edge, Failed, Failure, Inner, InnerPorts, Panicked, Place, Ports, Render, RenderOutside, Route, ThreadGone,
};
use flow_pipeline::{Body, Input, Node, Pipeline, Until, With, LOOP};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timely::dataflow::Scope;

/// The ways in which code can fail.
const WAYS: [&str; 3] = ["error", "panic", "gone"];

/// A panic whose message panics when it goes: nothing catches that, and it takes the thread along.
struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("and once more");
        }
    }
}

/// Fails in this way, or doesn't.
fn fail(way: &str) -> Result<(), Failed> {
    match way {
        "error" => Err(RowError::Missing("state".into()).into()),
        "panic" => panic!("so it goes"),
        "gone" => std::panic::panic_any(Twice),
        _ => Ok(()),
    }
}

/// Whether the run failed in this way.
fn failed(way: &str, failure: &Failure) -> bool {
    let error = &failure.error;
    match way {
        "error" => matches!(error.downcast_ref(), Some(RowError::Missing(column)) if column == "state"),
        "panic" => error.downcast_ref::<Panicked>().is_some_and(|panic| panic.0 == "so it goes"),
        _ => error.is::<ThreadGone>(),
    }
}

fn one(iteration: u64) -> Result<Vec<RecordBatch>, Failed> {
    Ok(vec![row::batch(vec![("iteration", Arc::new(arrow::array::UInt64Array::from(vec![iteration])))])?])
}

fn way(node: &Node, place: &str) -> String {
    node.with.raw()[place].as_str().unwrap_or_default().to_owned()
}

/// Each node fails in iteration 1, where its settings say so.
fn open<'s>(node: &Node, _: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let way = way(node, "source");
    Ok(source::iterations(&node.id, scope, ctx, move |iteration| {
        fail(if iteration == 1 { &way } else { "" })?;
        one(iteration)
    }))
}

fn pass<'s>(node: &Node, ports: Ports<'s>, place: Place, ctx: &Context) -> Result<Edge<'s>, Failed> {
    fail(&way(node, "build"))?;
    let (way, inputs) = (way(node, "run"), ports.into_iter().map(|(_, edge)| (edge, Route::One)).collect());
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place }, ctx, move |iteration, mut rows| {
        fail(if iteration == 1 { &way } else { "" })?;
        Ok(rows.swap_remove(0))
    }))
}

fn here<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    pass(node, ports, Place::Worker, ctx)
}

fn there<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    pass(node, ports, Place::Thread, ctx)
}

/// Hands on what it takes.
struct Attempts {
    node: Node,
    iteration: u64,
    pieces: Vec<InputPiece>,
}

impl Attempts {
    fn fail(&self, place: &str) -> Result<(), Failed> {
        fail(if self.iteration == 1 { self.node.with.raw()[place].as_str().unwrap_or_default() } else { "" })
    }
}

impl Streaming for Attempts {
    fn begin(&mut self, iteration: u64, _: Vec<Vec<RecordBatch>>) -> Result<(), Failed> {
        self.iteration = iteration;
        self.fail("begin")
    }
    fn take(&mut self, piece: InputPiece) -> Result<(), Failed> {
        self.pieces.push(piece);
        self.fail("take")
    }
    fn idle(&self) -> bool {
        self.pieces.is_empty()
    }
    fn work(&mut self) -> Result<Vec<OutputPiece>, Failed> {
        self.fail("work")?;
        Ok(self.pieces.drain(..).map(|piece| OutputPiece { input: piece.id, rows: vec![piece.rows], last: true }).collect())
    }
}

fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    fail(&way(node, "build"))?;
    let rows = ports.into_iter().map(|(_, edge)| (edge, Route::Stay)).collect();
    let operator = Attempts { node: node.clone(), iteration: 0, pieces: vec![] };
    Ok(streaming(StreamingInputs { name: node.id.clone(), rows, gates: vec![] }, ctx, operator))
}

fn find(op: &str) -> Option<Render> {
    let outside: RenderOutside = match op {
        "open" => open,
        "here" => here,
        _ => there,
    };
    Some(Render { outside, inside: Some(inside) })
}

const MINIMAL: &str = "{ flow: x, iterations: 3, nodes: { t: { op: tasks, with: { env: sokoban, batch: 1 } } }, log: [t] }";

/// Three iterations of tasks -> here -> there -> a loop of two attempts at play -> last; `node` fails in this way at
/// this place.
fn ended(workers: usize, node: &str, place: &str, way: &str) -> Result<(), Failure> {
    let input = |port: &str, from: &str, staleness| Input { port: port.into(), from: from.into(), staleness };
    let given = |id: &str| if id == node { serde_json::json!({ place: way }) } else { serde_json::Value::Null };
    let with = |id: &str| With::read(given(id), &serde_json::Value::Null, |_| Ok(Arc::new(()))).unwrap();
    let node = |id: &str, op: &str, inputs| Node { id: id.into(), op: op.into(), inputs, with: with(id), body: None, columns: None };
    let play = node("play", "there", vec![input("rows", "there", None), input("memory", "play", Some(0))]);
    let body = Body { attempts: 2, until: Until::Never, nodes: vec![play], output: vec!["play".into()] };
    let nodes = vec![
        node("tasks", "open", vec![]),
        node("here", "here", vec![input("rows", "tasks", None)]),
        node("there", "there", vec![input("rows", "here", None)]),
        Node { body: Some(body), ..node("trial", LOOP, vec![input("rows", "there", None)]) },
        node("last", "here", vec![input("rows", "trial", None)]),
    ];
    let pipeline = Pipeline { nodes, ..flow_pipeline::parse("x", MINIMAL, &[], &flow::ops::catalog()).unwrap() };
    let start = Instant::now();
    let ended = run(Plan { workers, ..Plan::new(pipeline, find, |_| vec![]) });
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    ended
}

#[test]
fn a_run_in_which_nothing_fails_ends_well() {
    for workers in [1, 2] {
        ended(workers, "", "", "").unwrap();
    }
}

#[test]
fn whatever_fails_ends_the_run_with_its_name_and_its_error() {
    for workers in [1, 2] {
        for (node, place) in [("tasks", "source"), ("here", "run"), ("there", "run"), ("play", "begin"), ("play", "take"), ("play", "work")]
        {
            // What runs on the worker has no thread of its own that could be gone.
            let own_thread = !["tasks", "here"].contains(&node);
            for way in WAYS.into_iter().filter(|way| *way != "gone" || own_thread) {
                let failure = ended(workers, node, place, way).unwrap_err();
                assert_eq!((failure.node.as_str(), failure.iteration), (node, 1), "{place} {way}: {failure}");
                assert!(failed(way, &failure), "{node} {place} {way}: {failure}");
            }
        }
    }
}

#[test]
fn a_node_that_cannot_be_built_is_named() {
    for node in ["here", "there", "play"] {
        let failure = ended(2, node, "build", "error").unwrap_err();
        assert!(failure.node == node && failed("error", &failure), "{failure}");
    }
}
