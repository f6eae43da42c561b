//! No run waits for ever: one in which nothing moves ends, and says who holds what and for whom.

use flow_core::row;
use flow_dataflow::edge::RowBatch;
use flow_dataflow::run::{run, Plan};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{source, Context, Edge, Failed, Failure, Place, Ports, Render, RenderOutside, Route};
use flow_pipeline::{Input, Node, Pipeline};
use std::sync::Arc;
use std::time::{Duration, Instant};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact;
use timely::dataflow::operators::generic::Operator;
use timely::dataflow::Scope;

fn open<'s>(node: &Node, _: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    Ok(source::iterations(&node.id, scope, ctx, |iteration| {
        let column = Arc::new(arrow::array::UInt64Array::from(vec![iteration]));
        Ok(vec![row::batch(vec![("iteration", column)])?])
    }))
}

fn after<'s>(node: &Node, ports: Ports<'s>, place: Place, ctx: &Context, takes: Duration) -> Result<Edge<'s>, Failed> {
    let inputs = ports.into_iter().map(|(_, edge)| (edge, Route::One)).collect();
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place }, ctx, move |_, mut rows| {
        std::thread::sleep(takes);
        Ok(rows.swap_remove(0))
    }))
}

fn quick<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    after(node, ports, Place::Worker, ctx, Duration::ZERO)
}

fn slow<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    after(node, ports, Place::Thread, ctx, Duration::from_millis(1300))
}

fn stuck<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    after(node, ports, Place::Thread, ctx, Duration::from_secs(20))
}

/// Hands rows on and keeps the right to send more: the mistake that stalls a dataflow in silence.
fn keep<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, _: &Context) -> Result<Edge<'s>, Failed> {
    let edge = ports[0].1.clone();
    Ok(edge.unary_frontier::<CapacityContainerBuilder<RowBatch>, _, _, _>(pact::Pipeline, &node.id, |capability, _| {
        let mut kept = Some(capability);
        move |(input, _), output| {
            let _ = kept.get_or_insert_with(|| unreachable!("it is kept"));
            input.for_each_time(|time, batches| {
                let mut session = output.session(&time);
                batches.for_each(|batch| session.give_container(batch));
            });
        }
    }))
}

fn find(op: &str) -> Option<Render> {
    let outside: RenderOutside = match op {
        "open" => open,
        "keep" => keep,
        "slow" => slow,
        "stuck" => stuck,
        _ => quick,
    };
    Some(Render::outside(outside))
}

/// Two iterations of tasks -> middle -> last, with a second to stand still.
fn ran(middle: &str, workers: usize) -> (Result<(), Failure>, Duration) {
    let input = |from: &str| vec![Input { port: "rows".into(), from: from.into(), staleness: None }];
    let node =
        |id: &str, op: &str, inputs| Node { id: id.into(), op: op.into(), inputs, with: Default::default(), body: None, columns: None };
    let nodes = vec![node("tasks", "open", vec![]), node("middle", middle, input("tasks")), node("last", "quick", input("middle"))];
    let pipeline = Pipeline { nodes, ..flow_pipeline::parse("x", MINIMAL, &[], &flow::ops::catalog()).unwrap() };
    let start = Instant::now();
    let ended = run(Plan { workers, stall: Some(Duration::from_secs(1)), ..Plan::new(pipeline, find, |_| vec![]) });
    (ended, start.elapsed())
}

const MINIMAL: &str = "{ flow: x, iterations: 2, nodes: { t: { op: tasks, with: { env: sokoban, batch: 1 } } }, log: [t] }";

#[test]
fn a_capability_kept_by_accident_ends_the_run_with_the_names_of_those_who_wait() {
    for workers in [1, 2] {
        let (ended, took) = ran("keep", workers);
        let failure = ended.unwrap_err();
        assert_eq!((failure.node.as_str(), failure.iteration), ("engine", 0), "{failure}");
        assert!(failure.error.to_string().contains("nothing has moved for 1 s, and the run isn't over"), "{failure}");
        assert!(failure.error.to_string().contains("\n  `last` holds iteration 0 and waits for `middle`"), "{failure}");
        assert!(took < Duration::from_secs(8), "it took {took:?}");
    }
}

#[test]
fn a_stage_that_takes_its_time_is_left_to_it() {
    let (ended, took) = ran("slow", 1);
    ended.unwrap();
    assert!(took > Duration::from_millis(2500), "two iterations, each longer than the run may stand still");
}

/// A stage that is busy for twice as long as the run may stand still, and shows no sign of life, waits for what doesn't
/// come.
#[test]
fn a_stage_that_shows_no_sign_of_life_ends_the_run() {
    let (ended, took) = ran("stuck", 1);
    let failure = ended.unwrap_err();
    assert!(failure.error.to_string().contains("`middle` is busy with iteration 0 and shows no sign of life"), "{failure}");
    assert!(took < Duration::from_secs(19), "it took {took:?}");
}
