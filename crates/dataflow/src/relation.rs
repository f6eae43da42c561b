//! A relation that changes over iterations, maintained incrementally: rows enter with +1 and leave with -1, and results
//! are updated, never recomputed from scratch. This is the engine's use of differential dataflow.
//!
//! Only what is needed for ranking travels here: a group, a rank, an id. The data behind an id (texts, floats) stays
//! with the operator that offers it.

use super::edge::{Edge, RowBatch};
use super::failure::Failed;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt32Type, UInt64Type};
use differential_dataflow::operators::arrange::arrangement::arrange_core;
use differential_dataflow::trace::implementations::{ContainerChunker, ValBatcher, ValBuilder, ValSpine};
use flow_core::row::RowError;
use std::collections::BTreeMap;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::Operator;

/// An insertion or removal of a candidate for the top places of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The group.
    pub group: u64,
    /// How many places the group has: the same for all of its contenders.
    pub places: u32,
    /// The rank within the group: less is better. Unique within a group.
    pub rank: (u32, u64),
    /// The id.
    pub id: u64,
    /// +1 for an insertion, -1 for a removal.
    pub change: i64,
    /// The iteration at which that happens: not before the iteration that emits it.
    pub at: u64,
}

/// A change of the result: an id that enters or leaves the top places of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub group: u64,
    pub id: u64,
    /// +1 or -1.
    pub change: i64,
}

/// A group and its places, a rank and an id.
type Update = (((u64, u32), ((u32, u64), u64)), u64, isize);
type ContenderTrace = ValSpine<(u64, u32), ((u32, u64), u64), u64, isize>;
type WinnerTrace = ValSpine<(u64, u32), u64, u64, isize>;

/// Maintains who has the places of each group, the best of its contenders, as changes: see [`Placed::read`]. In time
/// with `contenders`, whose batches come from [`Contender::rows`]; a group must stay on one worker. The cost of an
/// iteration is proportional to the size of the groups that it changes.
pub fn best<'s>(contenders: Edge<'s>) -> Edge<'s> {
    let updates = contenders.unary::<CapacityContainerBuilder<Vec<Update>>, _, _, _>(Pipeline, "contenders", |_, _| {
        move |input, output| {
            input.for_each_time(|time, batches| {
                let mut session = output.session(&time);
                for batch in batches {
                    let update = |c: Contender| (((c.group, c.places), (c.rank, c.id)), c.at.max(*time.time()), c.change as isize);
                    session.give_iterator(Contender::read(&batch.rows).into_iter().map(update));
                }
            });
        }
    });
    let arranged = arrange_core::<_, _, ContainerChunker<Vec<Update>>, ValBatcher<_, _, _, _>, ValBuilder<_, _, _, _>, ContenderTrace>(
        updates, Pipeline, "arranged",
    );
    let best = arranged.reduce_abelian::<_, ValBuilder<_, _, _, _>, WinnerTrace, _, _>(
        "best",
        // Values come in their order, which is that of ranks.
        move |group, contenders, places| {
            let there = contenders.iter().filter(|(_, count)| *count > 0);
            places.extend(there.take(group.1 as usize).map(|(contender, _)| (contender.1, 1)));
        },
        |into, group, places| {
            into.clear();
            into.extend(places.drain(..).map(|(id, time, change)| ((*group, id), time, change)));
        },
    );
    let changes = best.as_collection(|group, id| (group.0, *id));
    changes.inner.unary::<CapacityContainerBuilder<RowBatch>, _, _, _>(Pipeline, "places", |_, _| {
        move |input, output| {
            input.for_each_time(|time, updates| {
                let mut by_time: BTreeMap<u64, Vec<Placed>> = BTreeMap::new();
                for ((group, id), at, change) in updates.flat_map(|batch| batch.drain(..)) {
                    by_time.entry(at).or_default().push(Placed { group, id, change: change as i64 });
                }
                for (at, placed) in by_time {
                    output.session(&time.delayed(&at, 0)).give_container(&mut RowBatch::new(Placed::rows(&placed)));
                }
            });
        }
    })
}

impl Contender {
    /// Contenders as a batch. `extra` are further columns of the same length, which [`best`] doesn't read.
    ///
    /// # Errors
    /// If Arrow refuses: the columns have different lengths.
    pub fn rows(contenders: &[Contender], extra: Option<&RecordBatch>) -> Result<RecordBatch, Failed> {
        let u64s = |field: fn(&Contender) -> u64| Arc::new(UInt64Array::from_iter_values(contenders.iter().map(field))) as ArrayRef;
        let mut columns: Vec<(Field, ArrayRef)> = vec![
            ("contender_group", DataType::UInt64, u64s(|c| c.group)),
            ("contender_first", DataType::UInt32, Arc::new(UInt32Array::from_iter_values(contenders.iter().map(|c| c.rank.0)))),
            ("contender_second", DataType::UInt64, u64s(|c| c.rank.1)),
            ("contender_id", DataType::UInt64, u64s(|c| c.id)),
            ("contender_change", DataType::Int64, Arc::new(Int64Array::from_iter_values(contenders.iter().map(|c| c.change)))),
            ("contender_at", DataType::UInt64, u64s(|c| c.at)),
            ("contender_places", DataType::UInt32, Arc::new(UInt32Array::from_iter_values(contenders.iter().map(|c| c.places)))),
        ]
        .into_iter()
        .map(|(name, kind, column): (&str, DataType, ArrayRef)| (Field::new(name, kind, false), column))
        .collect();
        if let Some(extra) = extra {
            let fields = extra.schema_ref().fields().iter().map(|field| field.as_ref().clone());
            columns.extend(fields.zip(extra.columns().iter().cloned()));
        }
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(RowError::from)?)
    }

    fn read(rows: &RecordBatch) -> Vec<Contender> {
        let u64s = |i: usize| rows.column(i).as_primitive::<UInt64Type>();
        let (group, second, id, at) = (u64s(0), u64s(2), u64s(3), u64s(5));
        let (first, change) = (rows.column(1).as_primitive::<UInt32Type>(), rows.column(4).as_primitive::<Int64Type>());
        let places = rows.column(6).as_primitive::<UInt32Type>();
        let contender = |i: usize| Contender {
            group: group.value(i),
            places: places.value(i),
            rank: (first.value(i), second.value(i)),
            id: id.value(i),
            change: change.value(i),
            at: at.value(i),
        };
        (0..rows.num_rows()).map(contender).collect()
    }
}

impl Placed {
    fn rows(placed: &[Placed]) -> RecordBatch {
        let fields = [("group", DataType::UInt64), ("id", DataType::UInt64), ("change", DataType::Int64)];
        let schema = Schema::new(fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(placed.iter().map(|p| p.group))),
            Arc::new(UInt64Array::from_iter_values(placed.iter().map(|p| p.id))),
            Arc::new(Int64Array::from_iter_values(placed.iter().map(|p| p.change))),
        ];
        RecordBatch::try_new(Arc::new(schema), columns).expect("three columns of one length")
    }

    /// Reads the changes from a batch of [`best`].
    pub fn read(rows: &RecordBatch) -> Vec<Placed> {
        let u64s = |i: usize| rows.column(i).as_primitive::<UInt64Type>();
        let change = rows.column(2).as_primitive::<Int64Type>();
        let placed = |i: usize| Placed { group: u64s(0).value(i), id: u64s(1).value(i), change: change.value(i) };
        (0..rows.num_rows()).map(placed).collect()
    }
}
