//! The one operator shape. A stage holds what arrives until the frontier of every input has passed an iteration,
//! then runs once for that iteration and emits. Nothing waits on a count.

use super::beside::Beside;
use super::edge::{Answer, Batch, Edge, Route, Rows};
use super::failure::{guarded, Failed, Failure};
use super::seat::{source, Awaited};
use super::Context;
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::generic::{builder_rc::OperatorBuilder, OutputBuilder};
use timely::dataflow::operators::Capability;
use timely::progress::frontier::MutableAntichain;
use timely::scheduling::SyncActivator;

/// Where a stage runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// On the timely worker: for what takes microseconds.
    Worker,
    /// On a thread of its own: for whatever may wait (the policy, an environment, a disk).
    Thread,
}

/// What a stage is.
pub struct Stage<'s> {
    pub name: String,
    pub inputs: Vec<(Edge<'s>, Route)>,
    /// Runs at iteration 0 (on the first worker of each process) though nothing has arrived. A resumed run is past that.
    pub begins: bool,
    pub place: Place,
}

/// Builds the stage. `run` gets the iteration and, for each input, the batches that arrived since the last run up to
/// and with that iteration, in no particular order: sort before any fold over floats. Its error ends the run.
pub fn stage<'s>(
    stage: Stage<'s>,
    ctx: &Context,
    run: impl FnMut(u64, Rows) -> Result<Vec<RecordBatch>, Failed> + Send + 'static,
) -> Edge<'s> {
    let scope = stage.inputs[0].0.scope();
    let (here, each) = (scope.index(), ctx.team.workers);
    let begins = stage.begins && here.is_multiple_of(each) && ctx.first == 0;
    let mut builder = OperatorBuilder::new(stage.name.clone(), scope);
    let wake = scope.worker().sync_activator_for(builder.operator_info().address.to_vec());
    let sources = stage.inputs.iter().map(|(edge, _)| Awaited::Operator(source(edge))).collect();
    let seat = ctx.shared.watch.seat(&ctx.owner, &stage.name, here, builder.operator_info().address.to_vec(), sources);
    let mut inputs: Vec<_> =
        stage.inputs.into_iter().map(|(edge, route)| builder.new_input(route.ready(edge, each), route.pact(here, each))).collect();
    let (output, stream) = builder.new_output();
    let mut output = OutputBuilder::<_, CapacityContainerBuilder<Batch>>::from(output);
    let mut runner = Runner::new(&stage.name, stage.place, wake, seat.timed(run));
    let (shared, name) = (ctx.shared.clone(), stage.name);
    builder.build(move |mut capabilities| {
        let mut due: BTreeMap<u64, Capability<u64>> = BTreeMap::new();
        if let Some(start) = capabilities.pop().filter(|_| begins) {
            due.insert(0, start);
        }
        let mut held: Vec<BTreeMap<u64, Vec<RecordBatch>>> = vec![BTreeMap::new(); inputs.len()];
        let mut running: Option<Capability<u64>> = None;
        move |frontiers: &[MutableAntichain<u64>]| {
            for (input, held) in inputs.iter_mut().zip(&mut held) {
                input.for_each_time(|capability, batches| {
                    let time = *capability.time();
                    due.entry(time).or_insert_with(|| capability.retain(0));
                    held.entry(time).or_default().extend(batches.map(|b| std::mem::take(b).rows));
                });
            }
            if shared.failed() {
                return;
            }
            let mut output = output.activate();
            loop {
                if let Some(capability) = running.take() {
                    match runner.poll() {
                        None => {
                            running = Some(capability);
                            return;
                        }
                        Some(Ok(batches)) => {
                            for rows in batches.into_iter().filter(|b| b.num_rows() > 0) {
                                output.session(&capability).give_container(&mut Batch::new(rows));
                            }
                        }
                        Some(Err(error)) => return shared.fail(Failure::new(&name, *capability.time(), error)),
                    }
                }
                let Some(next) = due.first_entry() else { return seat.rests() };
                let time = *next.key();
                if frontiers.iter().any(|f| f.less_equal(&time)) {
                    return seat.waits(time, frontiers.iter().map(|f| f.less_equal(&time)));
                }
                running = Some(next.remove());
                let rows = held.iter_mut().map(|held| up_to(held, time)).collect();
                runner.start(time, rows);
            }
        }
    });
    stream
}

/// What is held of the iterations up to and with `iteration`, taken out.
pub(super) fn up_to(held: &mut BTreeMap<u64, Vec<RecordBatch>>, iteration: u64) -> Vec<RecordBatch> {
    let later = held.split_off(&(iteration + 1));
    std::mem::replace(held, later).into_values().flatten().collect()
}

/// Runs one iteration at a time, here or on a thread.
enum Runner<F> {
    Here { run: F, answer: Option<Answer> },
    There(Beside<(u64, Rows), Vec<RecordBatch>>),
}

impl<F: FnMut(u64, Rows) -> Answer + Send + 'static> Runner<F> {
    fn new(name: &str, place: Place, wake: SyncActivator, mut run: F) -> Self {
        if place == Place::Worker {
            return Runner::Here { run, answer: None };
        }
        Runner::There(Beside::start(name, wake, move |jobs, back| {
            for (time, rows) in jobs {
                if !back.send(guarded(|| run(time, rows))) {
                    return;
                }
            }
        }))
    }

    fn start(&mut self, time: u64, rows: Rows) {
        match self {
            Runner::Here { run, answer } => *answer = Some(guarded(|| run(time, rows))),
            Runner::There(thread) => thread.send((time, rows)),
        }
    }

    fn poll(&mut self) -> Option<Answer> {
        match self {
            Runner::Here { answer, .. } => answer.take(),
            Runner::There(thread) => thread.answer(),
        }
    }
}
