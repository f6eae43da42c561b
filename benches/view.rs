//! A long run to look at: `cargo bench --bench view -- SHORT LONG ITERATIONS` repeats the iterations of the run in the
//! folder SHORT, as often as it takes, into a new run in the folder LONG: with the same rows under other iterations,
//! and entries of its memories of their own. The last iteration has an episode of 500 turns besides, in which each
//! prompt goes on from the one before, and the last has 100,000 tokens. `benches/view.mjs` measures `flow view` on it.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Int32Array, ListArray, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow::compute::{cast, concat_batches, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Float32Type, Int32Type, UInt32Type, UInt64Type};
use flow_log::{read, write_part, Committer, Run, RunInfo, Status};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let [short, long, iterations] = arguments.as_slice() else {
        println!("benches/view.mjs says how this is called");
        return Ok(());
    };
    repeat(&Run::open(Path::new(short))?, Path::new(long), iterations.parse()?)
}

fn repeat(short: &Run, long: &Path, iterations: u64) -> Result<()> {
    let manifest = short.manifest()?;
    let yaml = std::fs::read_to_string(short.pipeline())?;
    let yaml = yaml.replacen(&format!("iterations: {}", manifest.info.iterations), &format!("iterations: {iterations}"), 1);
    let run = Run::create(long, &yaml, &RunInfo { iterations, ..manifest.info.clone() })?;
    copy(&short.root().join("vocabularies"), &long.join("vocabularies"))?;
    let nodes = manifest.info.nodes.iter().map(|node| Ok((node.id.clone(), read(short, &node.id)?))).collect::<Result<Vec<_>>>()?;
    let cycle = manifest.info.iterations;
    let memory = nodes.iter().find(|(node, _)| node == "memory").map_or(Ok(None), |(_, batches)| remaining(batches))?;
    let mut committer = Committer::new(run.clone())?;
    committer.plan(iterations);
    let mut rows = 0;
    for iteration in 0..iterations {
        let source = iteration % cycle;
        let mut parts = Vec::new();
        for (node, batches) in &nodes {
            for batch in batches.iter().filter(|batch| first(batch) == Some(source)) {
                let repeated = moved(batch, iteration, iteration / cycle)?;
                rows += repeated.num_rows();
                parts.push(write_part(&run, node, iteration, 0, &repeated)?);
            }
        }
        // What the cycle before left in the memory leaves it.
        if let Some(memory) = memory.as_ref().filter(|_| source == 0 && iteration > 0) {
            parts.push(write_part(&run, "memory", iteration, 1, &moved(memory, iteration, iteration / cycle - 1)?)?);
        }
        if iteration + 1 == iterations {
            let rollout = nodes.iter().find(|(node, _)| node == "rollout").and_then(|(_, batches)| batches.first());
            let long = long_episode(&moved(rollout.ok_or("the short run logged no `rollout`")?, iteration, 0)?)?;
            parts.push(write_part(&run, "rollout", iteration, 1, &long)?);
        }
        let committed = manifest.committed.iter().find(|committed| committed.iteration == source);
        committer.commit(iteration, parts, committed.map(|committed| committed.metrics.clone()).unwrap_or_default(), vec![])?;
    }
    committer.finish(Status::Finished)?;
    println!("{iterations} iterations, {rows} rows of {} nodes -> {}", nodes.len(), long.display());
    Ok(())
}

/// The iteration of a batch.
fn first(batch: &RecordBatch) -> Option<u64> {
    let iterations = batch.column_by_name("iteration")?.as_primitive::<UInt64Type>();
    (!iterations.is_empty()).then(|| iterations.value(0))
}

/// The rows in another iteration. In a further cycle entries of a memory are other entries.
fn moved(batch: &RecordBatch, iteration: u64, cycle: u64) -> Result<RecordBatch> {
    let other =
        |ids: &UInt64Array| UInt64Array::from_iter(ids.iter().map(|id| id.map(|id| id ^ cycle.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    let column = |(field, column): (&Arc<Field>, &ArrayRef)| -> Result<ArrayRef> {
        Ok(match field.name().as_str() {
            "iteration" => Arc::new(UInt64Array::from(vec![iteration; column.len()])),
            // Hashes and log-probabilities of a real run don't repeat, and so aren't compressed away.
            "state" => Arc::new(UInt64Array::from_iter(
                column.as_primitive::<UInt64Type>().iter().map(|state| state.map(|state| mixed(state ^ iteration))),
            )),
            "logprobs" => {
                let lists = column.as_list::<i32>();
                let values = cast(lists.values(), &DataType::Float32)?;
                let noise =
                    |(i, value): (usize, Option<f32>)| value.map(|value| value - (mixed(i as u64 ^ iteration << 32) >> 40) as f32 * 1e-9);
                let values: Float32Array = values.as_primitive::<Float32Type>().iter().enumerate().map(noise).collect();
                let DataType::List(inner) = lists.data_type() else { return Ok(column.clone()) };
                Arc::new(ListArray::try_new(inner.clone(), lists.offsets().clone(), Arc::new(values), lists.nulls().cloned())?)
            }
            "id" => Arc::new(other(column.as_primitive())),
            "retrieved" => {
                let lists = column.as_list::<i32>();
                let values = cast(lists.values(), &DataType::UInt64)?;
                let DataType::List(inner) = lists.data_type() else { return Ok(column.clone()) };
                Arc::new(ListArray::try_new(
                    inner.clone(),
                    lists.offsets().clone(),
                    Arc::new(other(values.as_primitive())),
                    lists.nulls().cloned(),
                )?)
            }
            _ => column.clone(),
        })
    };
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(column).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// A number that says nothing of the one that it is made of (Steele et al. 2014, SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The entries that a memory ends with, as they leave it.
fn remaining(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    let all = concat_batches(&first.schema(), batches)?;
    let (Some(ids), Some(changes)) = (all.column_by_name("id"), all.column_by_name("change")) else { return Ok(None) };
    let (ids, changes) = (ids.as_primitive::<UInt64Type>(), changes.as_primitive::<Int32Type>());
    let mut sums = BTreeMap::new();
    ids.values().iter().zip(changes.values()).for_each(|(id, change)| *sums.entry(*id).or_insert(0) += change);
    // Each once, as it came last.
    let last: BTreeMap<u64, usize> = ids.values().iter().enumerate().map(|(row, id)| (*id, row)).collect();
    let stays = |(row, id): (usize, &u64)| Some(sums[id] > 0 && last[id] == row);
    let rows = filter_record_batch(&all, &ids.values().iter().enumerate().map(stays).collect::<BooleanArray>())?;
    let at = rows.schema().index_of("change")?;
    let mut columns = rows.columns().to_vec();
    columns[at] = Arc::new(Int32Array::from(vec![-1; rows.num_rows()]));
    Ok(Some(RecordBatch::try_new(rows.schema(), columns)?))
}

/// 500 turns made of the first row.
fn long_episode(batch: &RecordBatch) -> Result<RecordBatch> {
    const TURNS: u32 = 500;
    const LONGEST: usize = 100_000;
    let column = |(field, column): (&Arc<Field>, &ArrayRef)| -> Result<ArrayRef> {
        Ok(match field.name().as_str() {
            "turn" => Arc::new(UInt32Array::from_iter_values(0..TURNS)),
            "task" => Arc::new(StringArray::from(vec!["long-episode"; TURNS as usize])),
            "done" | "won" => Arc::new((0..TURNS).map(|turn| Some(turn + 1 == TURNS)).collect::<BooleanArray>()),
            "prompt_tokens" => {
                let first = cast(&column.as_list::<i32>().value(0), &DataType::UInt32)?;
                let first = first.as_primitive::<UInt32Type>().values().to_vec();
                let tokens = |turn: u32| if turn + 1 == TURNS { LONGEST } else { first.len() * (turn as usize + 1) };
                let lists = (0..TURNS).map(|turn| Some(first.iter().cycle().take(tokens(turn)).copied().map(Some).collect::<Vec<_>>()));
                cast(&ListArray::from_iter_primitive::<UInt32Type, _, _>(lists), column.data_type())?
            }
            _ => take(column, &UInt32Array::from(vec![0; TURNS as usize]), None)?,
        })
    };
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(column).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name()))?,
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name()))?),
        }
    }
    Ok(())
}
