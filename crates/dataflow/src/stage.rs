//! The shape of every operator outside loops. A stage buffers what arrives until the frontier of every input has passed
//! an iteration, then runs once for that iteration and emits. Nothing waits for a count.

use super::edge::{Edge, Route, RowBatch, StageInput, StageOutput};
use super::failure::{guarded, Failed, Failure};
use super::monitor::{source, Dependency};
use super::stage_thread::StageThread;
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
    /// On the timely worker: for work of microseconds.
    Worker,
    /// On its own thread: for work that may block (the policy, an environment, a disk).
    Thread,
}

/// The description of a stage.
pub struct Stage<'s> {
    pub name: String,
    pub inputs: Vec<(Edge<'s>, Route)>,
    /// Runs at iteration 0 (on the first worker of each process) though nothing has arrived. A resumed run is past
    /// that.
    pub begins: bool,
    pub place: Place,
}

/// Builds the stage. `run` gets the iteration and, for each input, the batches that arrived since the last run up to
/// and with that iteration, in no particular order: sort before any fold over floats. Its error ends the run.
pub fn stage<'s>(
    stage: Stage<'s>,
    ctx: &Context,
    run: impl FnMut(u64, StageInput) -> Result<Vec<RecordBatch>, Failed> + Send + 'static,
) -> Edge<'s> {
    let scope = stage.inputs[0].0.scope();
    let (here, each) = (scope.index(), ctx.team.workers);
    let begins = stage.begins && here.is_multiple_of(each) && ctx.first == 0;
    let mut builder = OperatorBuilder::new(stage.name.clone(), scope);
    let wake = scope.worker().sync_activator_for(builder.operator_info().address.to_vec());
    let sources = stage.inputs.iter().map(|(edge, _)| Dependency::Operator(source(edge))).collect();
    let monitor = ctx.shared.watch.monitor(&ctx.owner, &stage.name, here, builder.operator_info().address.to_vec(), sources);
    let mut inputs: Vec<_> =
        stage.inputs.into_iter().map(|(edge, route)| builder.new_input(route.ready(edge, each), route.pact(here, each))).collect();
    let (output, stream) = builder.new_output();
    let mut output = OutputBuilder::<_, CapacityContainerBuilder<RowBatch>>::from(output);
    let mut runner = Runner::new(&stage.name, stage.place, wake, monitor.timed(run));
    let (shared, name) = (ctx.shared.clone(), stage.name);
    builder.build(move |mut capabilities| {
        let mut due: BTreeMap<u64, Capability<u64>> = BTreeMap::new();
        if let Some(start) = capabilities.pop().filter(|_| begins) {
            due.insert(0, start);
        }
        let mut arrived: Vec<BTreeMap<u64, Vec<RecordBatch>>> = vec![BTreeMap::new(); inputs.len()];
        let mut running: Option<Capability<u64>> = None;
        move |frontiers: &[MutableAntichain<u64>]| {
            for (input, arrived) in inputs.iter_mut().zip(&mut arrived) {
                input.for_each_time(|capability, batches| {
                    let time = *capability.time();
                    due.entry(time).or_insert_with(|| capability.retain(0));
                    arrived.entry(time).or_default().extend(batches.map(|b| std::mem::take(b).rows));
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
                                output.session(&capability).give_container(&mut RowBatch::new(rows));
                            }
                        }
                        Some(Err(error)) => return shared.fail(Failure::new(&name, *capability.time(), error)),
                    }
                }
                let Some(next) = due.first_entry() else { return monitor.rests() };
                let time = *next.key();
                if frontiers.iter().any(|f| f.less_equal(&time)) {
                    return monitor.waits(time, frontiers.iter().map(|f| f.less_equal(&time)));
                }
                running = Some(next.remove());
                let rows = arrived.iter_mut().map(|arrived| up_to(arrived, time)).collect();
                runner.start(time, rows);
            }
        }
    });
    stream
}

/// Takes the buffered rows of all iterations up to and including `iteration`.
pub(super) fn up_to(arrived: &mut BTreeMap<u64, Vec<RecordBatch>>, iteration: u64) -> Vec<RecordBatch> {
    let later = arrived.split_off(&(iteration + 1));
    std::mem::replace(arrived, later).into_values().flatten().collect()
}

/// Runs one iteration at a time, here or on a thread.
enum Runner<F> {
    Here { run: F, answer: Option<StageOutput> },
    There(StageThread<(u64, StageInput), Vec<RecordBatch>>),
}

impl<F: FnMut(u64, StageInput) -> StageOutput + Send + 'static> Runner<F> {
    fn new(name: &str, place: Place, wake: SyncActivator, mut run: F) -> Self {
        if place == Place::Worker {
            return Runner::Here { run, answer: None };
        }
        Runner::There(StageThread::start(name, wake, move |jobs, back| {
            for (time, rows) in jobs {
                if !back.send(guarded(|| run(time, rows))) {
                    return;
                }
            }
        }))
    }

    fn start(&mut self, time: u64, rows: StageInput) {
        match self {
            Runner::Here { run, answer } => *answer = Some(guarded(|| run(time, rows))),
            Runner::There(thread) => thread.send((time, rows)),
        }
    }

    fn poll(&mut self) -> Option<StageOutput> {
        match self {
            Runner::Here { answer, .. } => answer.take(),
            Runner::There(thread) => thread.answer(),
        }
    }
}
