//! Edges: Arrow record batches as timely containers, counted by rows and sent between processes as Arrow IPC.

use super::failure::Failed;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::Schema;
use arrow::ipc::{reader::StreamDecoder, writer::StreamWriter};
use flow_core::row::keys;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use timely::bytes::arc::Bytes;
use timely::communication::Push;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{DistributorPact, Pipeline};
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::dataflow::channels::{ContainerBytes, Message};
use timely::dataflow::operators::Operator;
use timely::dataflow::Stream;
use timely::order::Product;
use timely::progress::Timestamp;
use timely::Accountable;

/// A stream of batches; its time is the training iteration.
pub type Edge<'s> = Stream<'s, u64, RowBatch>;

/// The input of a stage: for each port the batches that arrived.
pub(super) type StageInput = Vec<Vec<RecordBatch>>;
/// The output of a stage: rows, or the error that ends the run.
pub(super) type StageOutput = Result<Vec<RecordBatch>, Failed>;

/// Time inside a loop: the training iteration, and in it the attempt.
pub type Attempt = Product<u64, u64>;

/// A stream of batches inside a loop.
pub type Inner<'s> = Stream<'s, Attempt, RowBatch>;

/// A record batch in a form that timely can count, send and receive.
#[derive(Clone, Debug)]
pub struct RowBatch {
    pub rows: RecordBatch,
    /// The IPC encoding, cached: timely asks for the length first and for the bytes second.
    ipc: OnceLock<Arc<Vec<u8>>>,
    /// The worker that a copy is sent to; not encoded.
    to: usize,
}

impl RowBatch {
    pub fn new(rows: RecordBatch) -> Self {
        RowBatch { rows, ipc: OnceLock::new(), to: 0 }
    }

    fn encoded(&self) -> &Arc<Vec<u8>> {
        self.ipc.get_or_init(|| {
            // Writing to memory what Arrow itself built cannot fail; a failure is a defect of ours, and ends the
            // process by the panic hook.
            let encode = || {
                let mut writer = StreamWriter::try_new(Vec::new(), &self.rows.schema())?;
                writer.write(&self.rows)?;
                writer.into_inner()
            };
            Arc::new(encode().expect("Arrow IPC to memory"))
        })
    }
}

impl Default for RowBatch {
    fn default() -> Self {
        RowBatch::new(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }
}

impl Accountable for RowBatch {
    fn record_count(&self) -> i64 {
        self.rows.num_rows() as i64
    }
}

impl ContainerBytes for RowBatch {
    /// Without a copy: the Arrow buffers keep timely's slab alive.
    fn from_bytes(bytes: Bytes) -> Self {
        struct Slab(Bytes);
        impl AsRef<[u8]> for Slab {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let mut buffer = arrow::buffer::Buffer::from(bytes::Bytes::from_owner(Slab(bytes)));
        let rows = StreamDecoder::new().decode(&mut buffer).expect("Arrow IPC from a peer").expect("one batch a message");
        RowBatch::new(rows)
    }
    fn length_in_bytes(&self) -> usize {
        self.encoded().len().next_multiple_of(8)
    }
    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let bytes = self.encoded();
        let padding = bytes.len().next_multiple_of(8) - bytes.len();
        writer.write_all(bytes).and_then(|_| writer.write_all(&[0; 8][..padding])).expect("timely's own buffer");
    }
}

/// How rows are routed to workers.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// Rows stay on their worker.
    Stay,
    /// The first worker.
    One,
    /// By a hash of these columns: equal values meet on one worker.
    By(Vec<String>),
    /// As `By`, but only these columns are sent, as far as a row has them: the columns that the stage reads.
    Part { columns: Vec<String>, by: Vec<String> },
    /// Round-robin over the first workers of all processes, row by row.
    Deal,
    /// A copy to the first worker of each process.
    All,
    /// A copy without any column to the first worker of each process: only the number of rows is sent.
    Mark,
}

impl Route {
    pub fn by(columns: &[&str]) -> Route {
        Route::By(columns.iter().map(|c| c.to_string()).collect())
    }

    /// How timely takes this route: `each` is how many workers a process has.
    pub(super) fn pact(self, here: usize, each: usize) -> DistributorPact<impl FnOnce(usize) -> Router> {
        DistributorPact(move |peers| Router { route: self, here, each, pending: vec![Vec::new(); peers] })
    }

    /// Prepares `edge` for this route. Routing may not change the number of rows, since timely compares the number
    /// received with the number sent: a batch for several workers is copied first.
    pub(super) fn ready<'s, T: Timestamp>(&self, edge: Stream<'s, T, RowBatch>, each: usize) -> Stream<'s, T, RowBatch> {
        let peers = edge.scope().peers();
        if !matches!(self, Route::All | Route::Mark) || peers == each {
            return edge;
        }
        edge.unary::<CapacityContainerBuilder<RowBatch>, _, _, _>(Pipeline, "copies", |_, _| {
            move |input, output| {
                input.for_each_time(|time, batches| {
                    let mut session = output.session(&time);
                    for batch in batches {
                        (0..peers).step_by(each).for_each(|to| session.give_container(&mut RowBatch { to, ..batch.clone() }));
                    }
                })
            }
        })
    }
}

/// Batches of at least this many rows are sent as they are. Smaller ones are concatenated: the copy costs less than the
/// fixed cost of each batch in every stage.
const LARGE: usize = 128;

/// Splits batches by a route, and concatenates small ones.
pub struct Router {
    route: Route,
    here: usize,
    each: usize,
    pending: Vec<Vec<RecordBatch>>,
}

impl Router {
    /// Sends row i to the worker `to(i)`.
    fn split(&mut self, rows: RecordBatch, to: impl Fn(usize) -> usize) {
        let mut indices: Vec<Vec<u32>> = vec![Vec::new(); self.pending.len()];
        (0..rows.num_rows()).for_each(|i| indices[to(i)].push(i as u32));
        // Rows that all go to one worker go as they are, which is what happens to rows that are where they belong.
        if let Some(peer) = indices.iter().position(|indices| indices.len() == rows.num_rows()) {
            return self.pending[peer].push(rows);
        }
        for (peer, indices) in indices.into_iter().enumerate().filter(|(_, i)| !i.is_empty()) {
            self.pending[peer].push(take_record_batch(&rows, &UInt32Array::from(indices)).expect("indices lie within the batch"));
        }
    }
}

/// The columns of `rows` that are among `columns`, shared.
fn part(rows: &RecordBatch, columns: &[String]) -> RecordBatch {
    let schema = rows.schema();
    let those: Vec<usize> = (0..rows.num_columns()).filter(|i| columns.contains(schema.field(*i).name())).collect();
    rows.project(&those).expect("the columns are there")
}

impl Distributor<RowBatch> for Router {
    fn partition<T: Clone, P: Push<Message<T, RowBatch>>>(&mut self, batch: &mut RowBatch, _time: &T, pushers: &mut [P]) {
        let RowBatch { rows, to, .. } = std::mem::take(batch);
        let peers = pushers.len();
        let rows = match &self.route {
            Route::Part { columns, .. } => part(&rows, columns),
            Route::Mark => part(&rows, &[]),
            _ => rows,
        };
        match &self.route {
            _ if rows.num_rows() == 0 => {}
            Route::Stay => self.pending[self.here].push(rows),
            Route::All | Route::Mark => self.pending[to].push(rows),
            Route::By(columns) | Route::Part { by: columns, .. } if peers > 1 => {
                let keys = keys(&rows, columns);
                self.split(rows, |i| (keys[i] % peers as u64) as usize);
            }
            Route::Deal if peers > self.each => {
                let (each, processes) = (self.each, peers / self.each);
                self.split(rows, |i| i % processes * each);
            }
            Route::One | Route::By(_) | Route::Part { .. } | Route::Deal => self.pending[0].push(rows),
        }
    }

    fn flush<T: Clone, P: Push<Message<T, RowBatch>>>(&mut self, time: &T, pushers: &mut [P]) {
        for (pending, pusher) in self.pending.iter_mut().zip(pushers) {
            let (large, small): (Vec<_>, Vec<_>) = pending.drain(..).partition(|rows| rows.num_rows() >= LARGE);
            let small = small.first().map(|first| concat_batches(&first.schema(), &small).expect("batches of one edge share a schema"));
            for rows in large.into_iter().chain(small) {
                Message::push_at(&mut RowBatch::new(rows), time.clone(), pusher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringArray, UInt64Array};
    use flow_core::row;

    fn rows() -> RecordBatch {
        let task = Arc::new(StringArray::from(vec!["a", "b", "a"]));
        let state = Arc::new(UInt64Array::from(vec![1, 1, 1]));
        row::batch(vec![("task", task), ("state", state)]).unwrap()
    }

    #[test]
    fn bytes_round_trip() {
        for rows in [rows(), part(&rows(), &[])] {
            assert_eq!(rows.num_rows(), 3);
            let batch = RowBatch::new(rows);
            let mut bytes = Vec::new();
            batch.into_bytes(&mut bytes);
            assert_eq!(bytes.len(), batch.length_in_bytes());
            assert_eq!(bytes.len() % 8, 0);
            let mut slab = timely::bytes::arc::BytesMut::from(bytes).freeze();
            let length = slab.len();
            assert_eq!(RowBatch::from_bytes(slab.extract_to(length)).rows, batch.rows);
        }
    }
}
