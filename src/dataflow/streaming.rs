//! The operator shape inside a loop: rows are worked on as they come, so that no trial waits for another one's attempt.
//! Only iterations wait for one another, and an iteration for what enters the loop by its gates (the weights).

use super::beside::Beside;
use super::edge::{Attempt, Batch, Inner, Route};
use super::failure::{guarded, Failed, Failure};
use super::seat::{source, Awaited, Seat};
use super::stage::up_to;
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

/// What the operator is called and reads.
pub struct Inputs<'s> {
    pub name: String,
    /// Rows that are worked on as they come.
    pub rows: Vec<(Inner<'s>, Route)>,
    /// Rows that must all be there before an iteration begins.
    pub gates: Vec<(Inner<'s>, Route)>,
}

/// Rows that came in together.
pub struct Piece {
    /// Which of them it is.
    pub id: u64,
    /// Which of the inputs that don't wait they came by.
    pub port: usize,
    pub iteration: u64,
    pub attempt: u64,
    pub rows: RecordBatch,
}

/// Rows made of a piece.
pub struct Made {
    pub of: u64,
    pub rows: Vec<RecordBatch>,
    /// Whether nothing more will be made of it.
    pub last: bool,
}

/// What works on rows as they come, on a thread of its own.
pub trait Streaming: Send + 'static {
    /// An iteration begins: the rows of each gate since the one before. Nothing of an earlier one is left.
    fn begin(&mut self, iteration: u64, gates: Vec<Vec<RecordBatch>>) -> Result<(), Failed>;
    /// Takes on a piece.
    fn take(&mut self, piece: Piece) -> Result<(), Failed>;
    /// Whether there is nothing to work on.
    fn idle(&self) -> bool;
    /// Works for a while, so that what has come meanwhile can join in.
    fn work(&mut self) -> Result<Vec<Made>, Failed>;
}

enum Job {
    Begin(u64, Vec<Vec<RecordBatch>>),
    Take(Piece),
}

/// What waits for its iteration to begin.
struct Waiting {
    capability: Capability<Attempt>,
    port: usize,
    rows: RecordBatch,
}

/// Builds the operator. An iteration begins when the gates have passed it and nothing of the one before can come any more.
pub fn streaming<'s>(inputs: Inputs<'s>, ctx: &Context, operator: impl Streaming) -> Inner<'s> {
    let scope = inputs.rows[0].0.scope();
    let here = scope.index();
    let mut builder = OperatorBuilder::new(inputs.name.clone(), scope);
    let address = builder.operator_info().address.to_vec();
    let wake = scope.worker().sync_activator_for(address.clone());
    let sources = inputs.rows.iter().chain(&inputs.gates).map(|(edge, _)| Awaited::Operator(source(edge))).collect();
    let seat = ctx.shared.watch.seat(&ctx.owner, &inputs.name, here, address, sources);
    let count = inputs.rows.len();
    let each = ctx.team.workers;
    let all = inputs.rows.into_iter().chain(inputs.gates);
    let mut ports: Vec<_> = all.map(|(edge, route)| builder.new_input(route.ready(edge, each), route.pact(here, each))).collect();
    let (output, stream) = builder.new_output();
    let mut output = OutputBuilder::<_, CapacityContainerBuilder<Batch>>::from(output);
    let thread = thread(&inputs.name, operator, wake, seat.clone());
    let (shared, name) = (ctx.shared.clone(), inputs.name);
    builder.build(move |_| {
        let mut waiting: BTreeMap<u64, VecDeque<Waiting>> = BTreeMap::new();
        let mut gated: Vec<BTreeMap<u64, Vec<RecordBatch>>> = vec![BTreeMap::new(); ports.len() - count];
        let mut open: Option<u64> = None;
        let mut held: BTreeMap<u64, Capability<Attempt>> = BTreeMap::new();
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
                                let piece = Waiting { capability: capability.retain(0), port, rows };
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
                let made = match answer {
                    Ok(made) => made,
                    Err(error) => return shared.fail(Failure::new(&name, open.unwrap_or_default(), error)),
                };
                for Made { of, rows, last } in made {
                    if let Some(capability) = held.get(&of) {
                        let rows = rows.into_iter().filter(|rows| rows.num_rows() > 0);
                        rows.for_each(|rows| output.session(capability).give_container(&mut Batch::new(rows)));
                    }
                    if last {
                        held.remove(&of);
                    }
                }
            }
            let passed = |port: &MutableAntichain<Attempt>, iteration| !port.less_equal(&Product::new(iteration, u64::MAX));
            if let Some(iteration) = open {
                let over = held.is_empty() && !waiting.contains_key(&iteration) && frontiers[..count].iter().all(|f| passed(f, iteration));
                open = open.filter(|_| !over);
            }
            if let (None, Some(&next)) = (open, waiting.keys().next()) {
                if frontiers[count..].iter().all(|f| passed(f, next)) {
                    let gates = gated.iter_mut().map(|gate| up_to(gate, next)).collect();
                    thread.send(Job::Begin(next, gates));
                    open = Some(next);
                } else {
                    let bits = frontiers.iter().enumerate().map(|(port, f)| port >= count && !passed(f, next));
                    return seat.waits(next, bits);
                }
            }
            let Some(iteration) = open else { return seat.rests() };
            for Waiting { capability, port, rows } in waiting.remove(&iteration).into_iter().flatten() {
                pieces += 1;
                thread.send(Job::Take(Piece { id: pieces, port, iteration, attempt: capability.time().inner, rows }));
                held.insert(pieces, capability);
            }
            if held.is_empty() {
                seat.waits(iteration, frontiers.iter().map(|f| !passed(f, iteration)));
            }
        }
    });
    stream
}

/// The operator's thread: takes what is there, works for a while, and so on; it sleeps while there is nothing to do. An error is the
/// last that it says.
fn thread(name: &str, mut operator: impl Streaming, wake: SyncActivator, seat: Arc<Seat>) -> Beside<Job, Vec<Made>> {
    Beside::start(name, wake, move |jobs, back| {
        let mut now = 0;
        loop {
            let first = if operator.idle() { jobs.recv().ok().map(Some) } else { Some(None) };
            let Some(first) = first else { return };
            let made = guarded(|| {
                for job in first.into_iter().chain(jobs.try_iter()) {
                    match job {
                        Job::Begin(iteration, gates) => {
                            now = iteration;
                            operator.begin(iteration, gates)?;
                        }
                        Job::Take(piece) => operator.take(piece)?,
                    }
                }
                if operator.idle() {
                    return Ok(vec![]);
                }
                seat.begin(now);
                let made = operator.work();
                let rows = made.iter().flatten().flat_map(|made| made.rows.iter().cloned()).collect();
                seat.end(now, &Ok(rows));
                made
            });
            let over = made.is_err();
            if !back.send(made) || over {
                return;
            }
        }
    })
}
