//! What it costs to carry an iteration's rows from the last attempt to the update: LaMer's credit (reward, two groups,
//! two advantages, combine), run by the product's own engine and operators on rows that are fed in place of the loop's.
//!
//! 16 tasks of 8 samples and up to three attempts of seven turns, a reflection after each failure. The rows come as the
//! loop gives them: a batch for each attempt's turns and for each attempt's reflections. Bytes are those that all
//! threads asked of the allocator, so every copy of a column is counted, and so is every column that is made; the rows
//! that are fed stay where they are and count once, before the clock starts.
//!
//! `cargo bench --bench rows`

use arrow::array::{ArrayRef, BooleanArray, Float32Array, ListArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use flow::ops;
use flow_core::row;
use flow_core::seed::{mix, Random};
use flow_dataflow::feed::Feed;
use flow_dataflow::journal::{Journal, Observer};
use flow_dataflow::run::{run, Plan};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// Counts the bytes requested; forwards every call to the system's allocator.
struct Counting;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

// SAFETY: each call goes unchanged to the system's allocator; counting touches nothing but an atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size as u64, Ordering::Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TASKS: u64 = 16;
const SAMPLES: u32 = 8;
const ATTEMPTS: u32 = 3;
const TURNS: u32 = 7;
const ITERATIONS: u64 = 40;
const ROUNDS: usize = 5;

/// Tokens a prompt and characters a board: those of LaMer's boards, and those of an environment told in sentences.
const SHAPES: [(&str, usize, usize); 2] = [("LaMer on MineSweeper", 120, 96), ("prompts of 1,000 tokens", 1000, 2000)];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    println!("{:<26} {:>7} {:>6} {:>10} {:>8} {:>8} {:>12}", "", "workers", "rows", "median ms", "least", "most", "MiB asked");
    for (name, tokens, characters) in SHAPES {
        let fed = fed(tokens, characters)?;
        let rows: usize = fed.iter().map(RecordBatch::num_rows).sum();
        let weigh = |batch: &RecordBatch| batch.columns().iter().map(|c| c.get_buffer_memory_size()).sum::<usize>();
        println!("{name}: the rows themselves are {:.1} MiB", fed.iter().map(weigh).sum::<usize>() as f64 / f64::from(1 << 20));
        for workers in [1, 2] {
            iterations(&fed, workers)?;
            let mut times = Vec::new();
            let mut bytes = 0;
            for _ in 0..ROUNDS {
                let (seconds, allocated) = iterations(&fed, workers)?;
                times.push(seconds * 1e3);
                bytes = allocated;
            }
            times.sort_by(f64::total_cmp);
            let (median, mib) = (times[ROUNDS / 2], bytes as f64 / f64::from(1 << 20));
            println!("{name:<26} {workers:>7} {rows:>6} {median:>10.2} {:>8.2} {:>8.2} {mib:>12.2}", times[0], times[ROUNDS - 1]);
            println!(
                "{}",
                serde_json::json!({ "bench": "rows", "shape": name, "workers": workers, "rows": rows, "ms": median, "bytes": bytes })
            );
        }
    }
    Ok(())
}

/// LaMer's credit on these rows: seconds and bytes an iteration.
fn iterations(fed: &[RecordBatch], workers: usize) -> Result<(f64, u64)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/lamer/lamer.yaml");
    let catalog = ops::catalog();
    let whole = flow_pipeline::parse(file, &std::fs::read_to_string(file)?, &[], &catalog)?;
    let names = |name: &str| BTreeSet::from([name.to_owned()]);
    let mut part = whole.part(&names("advantage"), &names("trial"));
    part.iterations = ITERATIONS;
    let rows = fed.to_vec();
    let feed: Feed = Arc::new(move |_| Ok(rows.clone()));
    let observer: Observer = Arc::new(|_| {});
    let journal = Journal { run: None, committer: None, observer };
    let plan = Plan::new(part, ops::find, ops::adds);
    let plan = Plan { workers, journal, feeds: [("trial".to_owned(), feed)].into(), ..plan };
    let (start, before) = (Instant::now(), ALLOCATED.load(Ordering::Relaxed));
    run(plan)?;
    let (seconds, allocated) = (start.elapsed().as_secs_f64(), ALLOCATED.load(Ordering::Relaxed) - before);
    Ok((seconds / ITERATIONS as f64, allocated / ITERATIONS))
}

/// One row of an episode or one reflection.
struct Turn {
    task: u64,
    sample: u32,
    attempt: u32,
    turn: u32,
    reflection: bool,
    won: bool,
}

/// The rows of all attempts and reflections, a batch each.
fn fed(tokens: usize, characters: usize) -> Result<Vec<RecordBatch>> {
    let mut random = Random::new(5);
    let mut pieces: Vec<Vec<Turn>> = (0..2 * ATTEMPTS).map(|_| Vec::new()).collect();
    for task in 0..TASKS {
        for sample in 0..SAMPLES {
            for attempt in 0..ATTEMPTS {
                let (won, turns) = (random.below(2) == 0, 3 + random.below(TURNS as usize - 2) as u32);
                let turn = |turn, reflection, won| Turn { task, sample, attempt, turn, reflection, won };
                pieces[attempt as usize * 2].extend((0..turns).map(|t| turn(t, false, won && t + 1 == turns)));
                if won {
                    break;
                }
                if attempt + 1 < ATTEMPTS {
                    pieces[attempt as usize * 2 + 1].push(turn(turns, true, false));
                }
            }
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces.iter().map(|piece| table(piece, tokens, characters)).collect()
}

fn table(turns: &[Turn], tokens: usize, characters: usize) -> Result<RecordBatch> {
    let n = turns.len();
    let texts = |value: &dyn Fn(&Turn) -> String| Arc::new(StringArray::from_iter_values(turns.iter().map(value))) as ArrayRef;
    let u32s = |value: &dyn Fn(&Turn) -> u32| Arc::new(UInt32Array::from_iter_values(turns.iter().map(value))) as ArrayRef;
    let u64s = |value: &dyn Fn(&Turn) -> u64| Arc::new(UInt64Array::from_iter_values(turns.iter().map(value))) as ArrayRef;
    let f32s = |value: &dyn Fn(&Turn) -> f32| Arc::new(Float32Array::from_iter_values(turns.iter().map(value))) as ArrayRef;
    let bools = |value: &dyn Fn(&Turn) -> bool| Arc::new(BooleanArray::from_iter(turns.iter().map(|t| Some(value(t))))) as ArrayRef;
    let list = |inner: DataType, length: usize, values: ArrayRef| {
        let field = Arc::new(Field::new("item", inner, false));
        Arc::new(ListArray::new(field, OffsetBuffer::from_repeated_length(length, n), values, None)) as ArrayRef
    };
    let numbers = |length: usize| {
        let values = UInt32Array::from_iter_values((0..n * length).map(|i| i as u32 % 5000));
        list(DataType::UInt32, length, Arc::new(values))
    };
    let state = |t: &Turn| mix(t.task, u64::from(t.turn.min(3)) * 4 + u64::from(t.sample % 3));
    let board = |t: &Turn| format!("{:0>characters$}", state(t));
    Ok(row::batch(vec![
        ("iteration", u64s(&|_| 0)),
        ("task", texts(&|t| format!("minesweeper-6x6-m3-s{}", mix(3, t.task)))),
        ("sample", u32s(&|t| t.sample)),
        ("attempt", u32s(&|t| t.attempt)),
        ("turn", u32s(&|t| t.turn)),
        ("phase", texts(&|t| if t.reflection { "reflect" } else { "play" }.into())),
        ("observation", texts(&board)),
        ("state", u64s(&state)),
        ("prompt_tokens", numbers(tokens)),
        ("response_tokens", numbers(8)),
        ("choices", numbers(72)),
        ("logprobs", list(DataType::Float32, 8, Arc::new(Float32Array::from(vec![-0.5; n * 8])))),
        ("response", texts(&|_| "(3, 4)".into())),
        ("action", texts(&|t| if t.reflection { "" } else { "(3, 4)" }.into())),
        ("valid", bools(&|_| true)),
        ("mode", texts(&|t| if t.attempt > 0 { "memory" } else { "plain" }.into())),
        ("memory", texts(&|t| "Attempt 1, noted: (1, 2) is a mine. ".repeat(t.attempt as usize))),
        ("kept", texts(&|_| String::new())),
        ("outcome", texts(&|t| if t.won { board(t) } else { String::new() })),
        ("reward", f32s(&|t| if t.won { 1.0 } else { 0.0 })),
        ("done", bools(&|t| t.won)),
        ("won", bools(&|t| t.won)),
        ("score", f32s(&|t| if t.won { 1.0 } else { 0.0 })),
        ("weights", u64s(&|_| 0)),
        ("seed", u64s(&|t| mix(state(t), u64::from(t.attempt)))),
    ])?)
}
