//! Inside a loop no trial waits for another.

use flow_core::row;
use flow_dataflow::run::{run, Plan};
use flow_dataflow::streaming::{streaming, InputPiece, OutputPiece, Streaming, StreamingInputs};
use flow_dataflow::{source, Attempt, Context, Edge, Failed, Inner, InnerPorts, Ports, Render, RenderOutside, Route};
use flow_pipeline::{Body, Input, Node, Pipeline, Until, LOOP};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use timely::dataflow::Scope;

/// An attempt at task n takes n + 1 steps; the order in which attempts end is noted.
struct Slow {
    left: Vec<(InputPiece, usize)>,
    ended: Ended,
}

impl Streaming for Slow {
    fn begin(&mut self, _: u64, _: Vec<Vec<arrow::array::RecordBatch>>) -> Result<(), Failed> {
        Ok(())
    }
    fn take(&mut self, piece: InputPiece) -> Result<(), Failed> {
        let task = row::u64s(&piece.rows, "state")?.value(0);
        self.left.push((piece, task as usize * 3 + 1));
        Ok(())
    }
    fn idle(&self) -> bool {
        self.left.is_empty()
    }
    fn work(&mut self) -> Result<Vec<OutputPiece>, Failed> {
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (over, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.left).into_iter().map(|(p, n)| (p, n - 1)).partition(|(_, n)| *n == 0);
        self.left = left;
        let mut ended = self.ended.lock().unwrap();
        let made = over.into_iter().map(|(piece, _)| {
            let task = row::u64s(&piece.rows, "state").unwrap().value(0);
            ended.push((task, piece.attempt));
            OutputPiece { input: piece.id, rows: vec![piece.rows], last: true }
        });
        Ok(made.collect())
    }
}

/// Tasks and attempts, in the order in which they ended.
type Ended = Arc<Mutex<Vec<(u64, u64)>>>;

static ENDED: Mutex<Option<Ended>> = Mutex::new(None);

/// Each task as rows of its own.
fn open<'s>(node: &Node, _: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    Ok(source::iterations(&node.id, scope, ctx, |_| {
        let one = |task: u64| row::batch(vec![("state", Arc::new(arrow::array::UInt64Array::from(vec![task])) as _)]);
        Ok((0..4).map(one).collect::<Result<_, _>>()?)
    }))
}

fn nowhere<'s>(_: &Node, _: Ports<'s>, _: Scope<'s, u64>, _: &Context) -> Result<Edge<'s>, Failed> {
    Err("stands in a loop only".into())
}

fn slow<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let rows = ports.into_iter().map(|(_, edge)| (edge, Route::One)).collect();
    let ended = ENDED.lock().unwrap().clone().ok_or("nobody looks on")?;
    Ok(streaming(StreamingInputs { name: node.id.clone(), rows, gates: vec![] }, ctx, Slow { left: vec![], ended }))
}

fn find(op: &str) -> Option<Render> {
    let outside: RenderOutside = if op == "open" { open } else { nowhere };
    Some(Render { outside, inside: Some(slow) })
}

#[test]
fn no_trial_waits_for_another_ones_attempt() {
    const MINIMAL: &str = "{ flow: x, iterations: 1, nodes: { t: { op: tasks, with: { env: sokoban, batch: 1 } } }, log: [t] }";
    let input = |port: &str, from: &str, staleness| Input { port: port.into(), from: from.into(), staleness };
    let node =
        |id: &str, op: &str, inputs| Node { id: id.into(), op: op.into(), inputs, with: Default::default(), body: None, columns: None };
    let inner = node("play", "slow", vec![input("tasks", "tasks", None), input("memory", "play", Some(0))]);
    let body = Body { attempts: 3, until: Until::Never, nodes: vec![inner], output: vec!["play".into()] };
    let trial = Node { body: Some(body), ..node("trial", LOOP, vec![input("tasks", "tasks", None)]) };
    let nodes = vec![node("tasks", "open", vec![]), trial];
    let pipeline = Pipeline { nodes, ..flow_pipeline::parse("x", MINIMAL, &[], &flow::ops::catalog()).unwrap() };
    let ended = Arc::new(Mutex::new(Vec::new()));
    *ENDED.lock().unwrap() = Some(ended.clone());
    run(Plan::new(pipeline, find, |_| vec![])).unwrap();
    let ended = ended.lock().unwrap().clone();
    let mut attempts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    ended.iter().for_each(|(task, attempt)| attempts.entry(*task).or_default().push(*attempt));
    assert!(attempts.len() == 4 && attempts.values().all(|a| a == &[0, 1, 2]), "{ended:?}");
    // Three attempts at the first task take three steps, one at the last ten.
    let at = |wanted| ended.iter().position(|e| *e == wanted).unwrap();
    assert!(at((0, 2)) < at((3, 0)), "{ended:?}");
}
