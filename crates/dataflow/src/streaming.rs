//! The shape of an operator inside a loop: rows are processed as they arrive, so that no trial waits for the attempt of
//! another. Only iterations wait for one another, and an iteration waits for the inputs that gate it (the weights).

use super::edge::{Attempt, Inner, Route, RowBatch};
use super::failure::{guarded, Failed, Failure};
use super::monitor::{source, Dependency, StageMonitor};
use super::stage::up_to;
use super::stage_thread::StageThread;
use super::Context;
use arrow::array::RecordBatch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::generic::{builder_rc::OperatorBuilder, OutputBuilder};
use timely::dataflow::operators::Capability;
use timely::order::Product;
use timely::progress::frontier::MutableAntichain;
use timely::scheduling::SyncActivator;

/// The name and the inputs of the operator.
pub struct StreamingInputs<'s> {
    pub name: String,
    /// Inputs whose rows are processed as they arrive.
    pub rows: Vec<(Inner<'s>, Route)>,
    /// Inputs whose rows must all be there before an iteration begins.
    pub gates: Vec<(Inner<'s>, Route)>,
}

/// A batch of rows that arrived together.
pub struct InputPiece {
    /// Its id.
    pub id: u64,
    /// The index of its input among `rows` of [`StreamingInputs`].
    pub port: usize,
    pub attempt: u64,
    pub rows: RecordBatch,
}

/// Output rows for an input piece.
pub struct OutputPiece {
    /// The id of that input piece.
    pub input: u64,
    pub rows: Vec<RecordBatch>,
    /// Whether this is its last output.
    pub last: bool,
}

/// An operator that processes rows as they arrive, on its own thread.
pub trait Streaming: Send + 'static {
    /// Begins an iteration with the rows that each gate received since the previous one, which is complete.
    fn begin(&mut self, iteration: u64, gates: Vec<Vec<RecordBatch>>) -> Result<(), Failed>;
    /// Accepts a piece.
    fn take(&mut self, piece: InputPiece) -> Result<(), Failed>;
    /// Whether there is no work left.
    fn idle(&self) -> bool;
    /// Does some of the work, and returns so that pieces that have arrived meanwhile can join.
    fn work(&mut self) -> Result<Vec<OutputPiece>, Failed>;
}

enum StreamingJob {
    Begin(u64, Vec<Vec<RecordBatch>>),
    Take(InputPiece),
}

/// Rows whose iteration hasn't begun.
struct QueuedRows {
    capability: Capability<Attempt>,
    port: usize,
    rows: RecordBatch,
}

/// Builds the operator. An iteration begins when the gates have passed it and no more rows of the previous one can
/// arrive.
pub fn streaming<'s>(inputs: StreamingInputs<'s>, ctx: &Context, operator: impl Streaming) -> Inner<'s> {
    let scope = inputs.rows[0].0.scope();
    let here = scope.index();
    let mut builder = OperatorBuilder::new(inputs.name.clone(), scope);
    let address = builder.operator_info().address.to_vec();
    let wake = scope.worker().sync_activator_for(address.clone());
    let sources = inputs.rows.iter().chain(&inputs.gates).map(|(edge, _)| Dependency::Operator(source(edge))).collect();
    let monitor = ctx.shared.watch.monitor(&ctx.owner, &inputs.name, here, address, sources);
    let count = inputs.rows.len();
    let each = ctx.team.workers;
    let all = inputs.rows.into_iter().chain(inputs.gates);
    let mut ports: Vec<_> = all.map(|(edge, route)| builder.new_input(route.ready(edge, each), route.pact(here, each))).collect();
    let (output, stream) = builder.new_output();
    let mut output = OutputBuilder::<_, CapacityContainerBuilder<RowBatch>>::from(output);
    let thread = thread(&inputs.name, operator, wake, monitor.clone());
    let (shared, name) = (ctx.shared.clone(), inputs.name);
    builder.build(move |_| {
        let mut waiting: BTreeMap<u64, VecDeque<QueuedRows>> = BTreeMap::new();
        let mut gated: Vec<BTreeMap<u64, Vec<RecordBatch>>> = vec![BTreeMap::new(); ports.len() - count];
        let mut open: Option<u64> = None;
        let mut capabilities: BTreeMap<u64, Capability<Attempt>> = BTreeMap::new();
        let mut pieces = 0;
        move |frontiers: &[MutableAntichain<Attempt>]| {
            for (port, input) in ports.iter_mut().enumerate() {
                input.for_each_time(|capability, batches| {
                    let time = *capability.time();
                    let batches = batches.map(|b| std::mem::take(b).rows).filter(|rows| rows.num_rows() > 0);
                    match port.checked_sub(count) {
                        Some(gate) => gated[gate].entry(time.outer).or_default().extend(batches),
                        None => {
                            for rows in batches {
                                let piece = QueuedRows { capability: capability.retain(0), port, rows };
                                waiting.entry(time.outer).or_default().push_back(piece);
                            }
                        }
                    }
                });
            }
            if shared.failed() {
                return;
            }
            let mut output = output.activate();
            while let Some(answer) = thread.answer() {
                let pieces_out = match answer {
                    Ok(pieces_out) => pieces_out,
                    Err(error) => return shared.fail(Failure::new(&name, open.unwrap_or_default(), error)),
                };
                for OutputPiece { input, rows, last } in pieces_out {
                    if let Some(capability) = capabilities.get(&input) {
                        let rows = rows.into_iter().filter(|rows| rows.num_rows() > 0);
                        rows.for_each(|rows| output.session(capability).give_container(&mut RowBatch::new(rows)));
                    }
                    if last {
                        capabilities.remove(&input);
                    }
                }
            }
            let passed = |port: &MutableAntichain<Attempt>, iteration| !port.less_equal(&Product::new(iteration, u64::MAX));
            if let Some(iteration) = open {
                let over =
                    capabilities.is_empty() && !waiting.contains_key(&iteration) && frontiers[..count].iter().all(|f| passed(f, iteration));
                open = open.filter(|_| !over);
            }
            if let (None, Some(&next)) = (open, waiting.keys().next()) {
                if frontiers[count..].iter().all(|f| passed(f, next)) {
                    let gates = gated.iter_mut().map(|gate| up_to(gate, next)).collect();
                    thread.send(StreamingJob::Begin(next, gates));
                    open = Some(next);
                } else {
                    let bits = frontiers.iter().enumerate().map(|(port, f)| port >= count && !passed(f, next));
                    return monitor.waits(next, bits);
                }
            }
            let Some(iteration) = open else { return monitor.rests() };
            for QueuedRows { capability, port, rows } in waiting.remove(&iteration).into_iter().flatten() {
                pieces += 1;
                thread.send(StreamingJob::Take(InputPiece { id: pieces, port, attempt: capability.time().inner, rows }));
                capabilities.insert(pieces, capability);
            }
            if capabilities.is_empty() {
                monitor.waits(iteration, frontiers.iter().map(|f| !passed(f, iteration)));
            }
        }
    });
    stream
}

/// The operator's thread: accepts arrived messages, works for a while, and repeats; it sleeps while there is nothing to
/// do. It ends after an error.
fn thread(
    name: &str,
    mut operator: impl Streaming,
    wake: SyncActivator,
    monitor: Arc<StageMonitor>,
) -> StageThread<StreamingJob, Vec<OutputPiece>> {
    StageThread::start(name, wake, move |jobs, back| {
        let mut now = 0;
        loop {
            let first = if operator.idle() { jobs.recv().ok().map(Some) } else { Some(None) };
            let Some(first) = first else { return };
            let output = guarded(|| {
                for job in first.into_iter().chain(jobs.try_iter()) {
                    match job {
                        StreamingJob::Begin(iteration, gates) => {
                            now = iteration;
                            operator.begin(iteration, gates)?;
                        }
                        StreamingJob::Take(piece) => operator.take(piece)?,
                    }
                }
                if operator.idle() {
                    return Ok(vec![]);
                }
                monitor.begin(now);
                let output = operator.work();
                let rows = output.iter().flatten().flat_map(|output| output.rows.iter().cloned()).collect();
                monitor.end(now, &Ok(rows));
                output
            });
            let over = output.is_err();
            if !back.send(output) || over {
                return;
            }
        }
    })
}
