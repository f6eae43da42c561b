//! A memory: what it costs to find entries, and to keep the best as a million rows come.
//!
//! A query of 1,000 entries of 384 numbers, beside libtorch's product of the same matrix and vector (f32, one thread
//! each). Then the best 100 of each of 1,000 tasks while 1,000 iterations bring 1,000 rows each: the operator
//! `memory-update`, whole, from rows to changes, beside DuckDB asked for them anew from all rows so far
//! (`qualify row_number() over (...) <= 100`), at some of the iterations.

use arrow::array::{ArrayRef, BooleanArray, Float32Array, StringArray, UInt32Array, UInt64Array};
use flow::ops;
use flow_core::row;
use flow_core::row::Name;
use flow_core::seed::{mix, Random};
use flow_credit::memory::{Entry, Library, Lookup, Order, Retrieval, WIDTH};
use flow_dataflow::feed::{Feed, Feeds};
use flow_dataflow::journal::Journal;
use flow_dataflow::run::{run, Plan};
use std::collections::BTreeSet;
use std::error::Error;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const ENTRIES: usize = 1000;
const QUERIES: usize = 2000;
const ITERATIONS: u64 = 1000;
const ROWS: u64 = 1000;
const TASKS: usize = 1000;
const BEST: usize = 100;
/// DuckDB is queried every this many iterations.
const QUERY_EVERY: u64 = 100;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    queries()?;
    changes()
}

fn point(seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let point: Vec<f32> = (0..WIDTH).map(|_| random.unit() as f32 - 0.5).collect();
    let length = point.iter().map(|x| x * x).sum::<f32>().sqrt();
    point.into_iter().map(|x| x / length).collect()
}

fn queries() -> Result<()> {
    tch::set_num_threads(1);
    let mut library = Library::new();
    let mut matrix = Vec::with_capacity(ENTRIES * WIDTH);
    for i in 0..ENTRIES {
        let source = Name { sample: i as u32, ..Name::default() };
        let embedding = point(i as u64);
        matrix.extend_from_slice(&embedding);
        let (id, key) = (Entry::id_of(&source, 0), String::new());
        library.insert(Entry {
            id,
            bucket: 0,
            key,
            embedding,
            score: (i % 10) as f32,
            text: format!("tip {i}"),
            source,
            ordinal: 0,
            kind: String::new(),
            level: String::new(),
        });
    }
    let matrix = tch::Tensor::from_slice(&matrix).reshape([ENTRIES as i64, WIDTH as i64]);
    let retrieval = Retrieval { above: -1.0, order: Order::Similarity, ..Retrieval::default() };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for i in 0..QUERIES {
        let query = point(mix(7, i as u64));
        let start = Instant::now();
        black_box(retrieval.find(&library, &Lookup { buckets: &[0], key: "", point: &query, among: None }));
        ours.push(start.elapsed().as_secs_f64() * 1e6);
        let query = tch::Tensor::from_slice(&query);
        let start = Instant::now();
        drop(black_box(matrix.mv(&query)));
        theirs.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let [ours, theirs] = [ours, theirs].map(|mut micros| {
        micros.sort_by(f64::total_cmp);
        micros[QUERIES / 2]
    });
    println!(
        "a query of {ENTRIES} entries of {WIDTH} numbers, ten found: {ours:.1} us; libtorch's product alone: {theirs:.1} us; ratio {:.2}",
        ours / theirs
    );
    Ok(())
}

/// The task (which is the row's), and the score of a row.
fn drawn(iteration: u64, i: u64) -> (usize, f32) {
    let mut random = Random::new(mix(mix(3, iteration), i));
    (random.below(TASKS), random.unit() as f32)
}

fn rows(iteration: u64) -> Result<arrow::array::RecordBatch> {
    let all: Vec<(usize, f32)> = (0..ROWS).map(|i| drawn(iteration, i)).collect();
    let tip = |i: u64| format!("tip {iteration} {i}");
    let each = |text: &str| Arc::new(StringArray::from(vec![text; ROWS as usize])) as ArrayRef;
    Ok(row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![iteration; ROWS as usize])) as ArrayRef),
        ("task", Arc::new(StringArray::from_iter_values(all.iter().map(|(task, _)| format!("task {task}"))))),
        ("sample", Arc::new(UInt32Array::from_iter_values(0..ROWS as u32))),
        ("attempt", Arc::new(UInt32Array::from(vec![0; ROWS as usize]))),
        ("turn", Arc::new(UInt32Array::from(vec![1; ROWS as usize]))),
        ("phase", each("reflect")),
        ("action", Arc::new(StringArray::from_iter_values((0..ROWS).map(tip)))),
        ("observation", each("")),
        ("valid", Arc::new(BooleanArray::from(vec![true; ROWS as usize]))),
        ("score", Arc::new(Float32Array::from_iter_values(all.iter().map(|(_, score)| *score)))),
    ])?)
}

fn changes() -> Result<()> {
    let text = format!(
        "flow: remember\niterations: {ITERATIONS}\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
         tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 1 }} }}\n  \
         play: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 1 }} }} }}\n  \
         notes: {{ op: reflect, inputs: play, with: {{ agent: {{ model: actor }} }} }}\n  \
         memory: {{ op: memory-update, inputs: notes, with: {{ capacity: {BEST}, evict: lowest, points: none }} }}\nlog: [memory]\n"
    );
    let catalog = ops::catalog();
    let whole = flow_pipeline::parse("remember.yaml", &text, &[], &catalog)?;
    let part = whole.part(&BTreeSet::from(["memory".into()]), &BTreeSet::from(["notes".into()]));
    let batches: Vec<_> = (0..ITERATIONS).map(rows).collect::<Result<_>>()?;
    let feed: Feed = Arc::new(move |iteration| Ok(batches.get(iteration as usize).cloned().into_iter().collect()));
    // When each iteration was through, and what it had changed.
    let commits = Arc::new(Mutex::new(Vec::new()));
    let recorder = commits.clone();
    let start = Instant::now();
    let observer = Arc::new(move |committed: &flow_dataflow::journal::Committed| {
        let count = |name: &str| committed.figures.get("memory").and_then(|figures| figures.get(name)).copied().unwrap_or(0.0);
        let entry = (start.elapsed().as_secs_f64(), count("added"), count("removed"));
        recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(entry);
    });
    let journal = Journal { run: None, committer: None, observer };
    run(Plan { feeds: Feeds::from([("notes".into(), feed)]), journal, ..Plan::new(part, ops::find, ops::adds) })?;
    let ours = start.elapsed().as_secs_f64();
    let commits = commits.lock().map_err(|e| e.to_string())?.clone();
    let (added, removed) = commits.iter().fold((0.0, 0.0), |(added, removed), entry| (added + entry.1, removed + entry.2));
    println!(
        "{} rows in {ITERATIONS} iterations, the best {BEST} of {TASKS} tasks: {ours:.2} s, {:.3} ms an iteration",
        ITERATIONS * ROWS,
        ours * 1e3 / ITERATIONS as f64
    );
    println!("  {added} entries came, {removed} left");
    let part = |from: usize, to: usize| {
        let changes: f64 = commits[from..to].iter().map(|entry| entry.1 + entry.2).sum();
        let seconds = commits[to - 1].0 - commits[from].0;
        println!("  iterations {from} to {to}: {changes} changes, {:.3} ms an iteration", seconds * 1e3 / (to - from) as f64);
    };
    let tenth = ITERATIONS as usize / 10;
    (0..10).step_by(3).for_each(|i| part(i * tenth, (i + 1) * tenth));
    let theirs = duckdb()?;
    println!("DuckDB, anew from all rows so far: {:.3} ms an iteration; ratio {:.1}", theirs * 1e3, theirs * ITERATIONS as f64 / ours);
    Ok(())
}

/// Seconds an iteration, on one thread: the mean over every [`QUERY_EVERY`]th.
fn duckdb() -> Result<f64> {
    let db = duckdb::Connection::open_in_memory()?;
    db.execute_batch("SET threads = 1; CREATE TABLE notes (iteration UBIGINT, task UINTEGER, sample UINTEGER, score FLOAT)")?;
    let mut seconds = Vec::new();
    for iteration in 0..ITERATIONS {
        let mut appender = db.appender("notes")?;
        for i in 0..ROWS {
            let (task, score) = drawn(iteration, i);
            appender.append_row(duckdb::params![iteration, task as u32, i as u32, score])?;
        }
        appender.flush()?;
        if (iteration + 1) % QUERY_EVERY == 0 {
            let start = Instant::now();
            db.execute_batch(&format!(
                "CREATE OR REPLACE TEMP TABLE best AS SELECT * FROM notes \
                 QUALIFY row_number() OVER (PARTITION BY task ORDER BY score DESC, iteration, sample) <= {BEST}"
            ))?;
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(seconds.iter().sum::<f64>() / seconds.len() as f64)
}
