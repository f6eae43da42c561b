//! Credit from a Parquet file, 10^5 to 10^7 rows: `flow`, SQL in DuckDB, and plain Python loops up to 10^6.
//!
//! What is timed: from the closed file to visitation depth, group by (task, state, visitation depth) with its size,
//! discounted return, baseline, scale and advantage of every row, in memory. The file lies in the page cache. Python
//! gets its columns as lists, so its reading isn't counted. Each run is a process of its own, whose peak memory is the
//! kernel's VmHWM; contestants take turns. All advantages must agree to 1e-4.
//!
//! The file's row groups hold whole tasks, as the parts of a log do, and credit by task needs no more: `flow` reads
//! and credits one row group after the other and keeps what it made of each.

mod walks;

use arrow::array::{Float64Array, Int64Array, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use flow_core::row;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::arrow::ArrowWriter;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;
use walks::{advantages, agree, credit, queries, walks, EPS, GAMMA};

/// How many rows, and how often each contestant runs on them.
const SIZES: [(usize, usize); 3] = [(100_000, 5), (1_000_000, 5), (10_000_000, 3)];
/// As DuckDB writes them itself, and enough of them for two threads in the smallest file too.
const ROW_GROUP: usize = 122_880;
const PYTHON_UP_TO: usize = 1_000_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [child, contestant, folder] = &arguments[..] {
        if child == "--contestant" {
            return run(contestant, Path::new(folder));
        }
    }
    println!("{:<10} {:<14} {:>9} {:>9} {:>9} {:>8} {:>10}", "rows", "", "median ms", "least", "most", "ns a row", "peak MiB");
    for (rows, rounds) in SIZES {
        let folder = std::env::temp_dir().join(format!("flow-bench-scale-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let done = compare(rows, rounds, &folder);
        std::fs::remove_dir_all(&folder)?;
        done?;
    }
    Ok(())
}

/// Every contestant in turn, round after round.
fn compare(rows: usize, rounds: usize, folder: &Path) -> Result<()> {
    make(rows, folder)?;
    let mut contestants = vec!["flow 1", "flow 2", "DuckDB 0", "DuckDB 1"];
    contestants.extend((rows <= PYTHON_UP_TO).then_some("Python"));
    let mut runs: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut expected: Vec<f32> = Vec::new();
    for round in 0..rounds {
        for contestant in &contestants {
            runs.entry(contestant).or_default().push(if *contestant == "Python" { python(folder)? } else { child(contestant, folder)? });
            if round > 0 {
                continue;
            }
            let bytes = std::fs::read(folder.join("advantages"))?;
            let values = bytes.chunks_exact(8).map(|chunk| chunk.try_into().map(f64::from_ne_bytes));
            let values: Vec<f64> = values.collect::<std::result::Result<_, _>>()?;
            if expected.is_empty() {
                expected = values.iter().map(|f| *f as f32).collect();
            }
            agree(&values, &expected, contestant)?;
        }
    }
    // Of the two queries the faster one counts.
    let mut fastest: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for contestant in contestants {
        let mut seconds: Vec<f64> = runs[contestant].iter().map(|r| r.0).collect();
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        // Not known of Python.
        let peak = runs[contestant].iter().map(|r| r.1).fold(f64::NAN, f64::max);
        let each = median * 1e9 / rows as f64;
        let (least, most) = (seconds[0] * 1e3, seconds[seconds.len() - 1] * 1e3);
        println!("{rows:<10} {contestant:<14} {:>9.1} {least:>9.1} {most:>9.1} {each:>8.0} {:>10.0}", median * 1e3, peak);
        let name = if contestant.starts_with("DuckDB") { "DuckDB" } else { contestant };
        let best = fastest.entry(name).or_insert((median, peak));
        if median < best.0 {
            *best = (median, peak);
        }
    }
    let ratio = |name: &str, over: &str| Some(fastest.get(name)?.0 / fastest.get(over)?.0);
    let result = serde_json::json!({
        "bench": "scale", "rows": rows,
        "seconds": fastest.iter().map(|(name, (seconds, _))| (*name, *seconds)).collect::<BTreeMap<_, _>>(),
        "peak_mib": fastest.iter().map(|(name, (_, peak))| (*name, *peak)).filter(|(_, peak)| !peak.is_nan()).collect::<BTreeMap<_, _>>(),
        "duckdb_over_flow_1": ratio("DuckDB", "flow 1"), "duckdb_over_flow_2": ratio("DuckDB", "flow 2"),
        "python_over_flow_1": ratio("Python", "flow 1"),
    });
    println!("{result}");
    Ok(())
}

/// The file, and for Python the columns.
fn make(rows: usize, folder: &Path) -> Result<()> {
    let mut walks = walks(rows);
    let group = ROW_GROUP.min(rows.div_ceil(8));
    let first = walks.take(group)?;
    let mut writer = ArrowWriter::try_new(File::create(folder.join("rows.parquet"))?, first.schema(), None)?;
    let mut all = Vec::new();
    let mut next = first;
    while next.num_rows() > 0 {
        writer.write(&next)?;
        writer.flush()?;
        all.extend((rows <= PYTHON_UP_TO).then(|| next.clone()));
        next = walks.take(group)?;
    }
    writer.close()?;
    if let Some(first) = all.first() {
        let rows = concat_batches(&first.schema(), &all)?;
        let columns = serde_json::json!({
            "task": row::texts(&rows, "task")?.iter().collect::<Vec<_>>(), "sample": row::u32s(&rows, "sample")?.values().to_vec(),
            "state": row::u64s(&rows, "state")?.values().to_vec(), "reward": row::f32s(&rows, "reward")?.values().to_vec(),
        });
        std::fs::write(folder.join("columns.json"), columns.to_string())?;
    }
    Ok(())
}

/// A run in a process of its own: seconds and peak memory in MiB.
fn child(contestant: &str, folder: &Path) -> Result<(f64, f64)> {
    let ran = Command::new(std::env::current_exe()?).args(["--contestant", contestant]).arg(folder).output()?;
    if !ran.status.success() {
        return Err(format!("{contestant}: {}", String::from_utf8_lossy(&ran.stderr)).into());
    }
    Ok(serde_json::from_slice(&ran.stdout)?)
}

fn python(folder: &Path) -> Result<(f64, f64)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/credit_loops.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(folder.join("columns.json")).arg(folder.join("advantages"));
    let ran = command.args([GAMMA.to_string(), EPS.to_string(), "1".into()]).output()?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into());
    }
    let seconds: Vec<f64> = serde_json::from_slice(&ran.stdout)?;
    Ok((seconds[0], f64::NAN))
}

/// What the child does: the work, the measurements, and then the advantages in the order of the rows.
fn run(contestant: &str, folder: &Path) -> Result<()> {
    let file = folder.join("rows.parquet");
    let (kind, number) = contestant.split_once(' ').ok_or("no such contestant")?;
    let number: usize = number.parse()?;
    let (seconds, peak, advantages): (f64, f64, Vec<f64>) = if kind == "flow" {
        let start = Instant::now();
        let batches = flow(&file, number)?;
        let seconds = start.elapsed().as_secs_f64();
        let values = batches.iter().map(advantages).collect::<std::result::Result<Vec<_>, _>>()?;
        (seconds, peak()?, values.concat().into_iter().map(f64::from).collect())
    } else {
        let connection = duckdb::Connection::open_in_memory()?;
        connection.execute_batch("SET threads = 2")?;
        let source = format!("(SELECT file_row_number AS row, * FROM read_parquet('{}', file_row_number = true))", file.display());
        let (_, query) = &queries(&source)[number];
        let start = Instant::now();
        let batches: Vec<RecordBatch> = connection.prepare(query)?.query_arrow([])?.collect();
        let seconds = start.elapsed().as_secs_f64();
        (seconds, peak()?, in_order(&batches)?)
    };
    println!("{}", serde_json::json!([seconds, peak]));
    let bytes: Vec<u8> = advantages.iter().flat_map(|a| a.to_ne_bytes()).collect();
    Ok(std::fs::write(folder.join("advantages"), bytes)?)
}

/// Row group by row group; a thread that is done takes the next.
fn flow(path: &Path, threads: usize) -> Result<Vec<RecordBatch>> {
    let file = File::open(path)?;
    let metadata = ArrowReaderMetadata::load(&file, Default::default())?;
    let groups = metadata.metadata().num_row_groups();
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, RecordBatch>> = Mutex::default();
    let work = || -> std::result::Result<(), String> {
        loop {
            let group = next.fetch_add(1, Ordering::Relaxed);
            if group >= groups {
                return Ok(());
            }
            let rows = metadata.metadata().row_group(group).num_rows() as usize;
            let file = File::open(path).map_err(|e| e.to_string())?;
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
            let mut reader = reader.with_row_groups(vec![group]).with_batch_size(rows).build().map_err(|e| e.to_string())?;
            let rows = reader.next().ok_or("an empty row group")?.map_err(|e| e.to_string())?;
            let credited = credit(&rows).map_err(|e| e.to_string())?;
            done.lock().map_err(|_| "a thread panicked")?.insert(group, credited);
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        others.into_iter().try_fold(work()?, |(), other| other.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(done.into_inner()?.into_values().collect())
}

/// The advantages that DuckDB found, each at its row.
fn in_order(batches: &[RecordBatch]) -> Result<Vec<f64>> {
    let mut advantages = vec![f64::NAN; batches.iter().map(RecordBatch::num_rows).sum()];
    for batch in batches {
        let column = |name: &str, kind| -> Result<_> { Ok(cast(batch.column_by_name(name).ok_or("a column is missing")?, kind)?) };
        let (rows, values) = (column("row", &DataType::Int64)?, column("advantage", &DataType::Float64)?);
        let rows = rows.as_any().downcast_ref::<Int64Array>().ok_or("no rows")?;
        let values = values.as_any().downcast_ref::<Float64Array>().ok_or("no advantages")?;
        for (row, value) in rows.values().iter().zip(values.values()) {
            *advantages.get_mut(*row as usize).ok_or("a row too many")? = *value;
        }
    }
    Ok(advantages)
}

/// The most memory that this process has held, in MiB.
fn peak() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
