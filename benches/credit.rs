//! Group and advantage on 1,000,000 rows: `flow_credit`, plain Python loops, and SQL in DuckDB, on the same rows.
//!
//! What is timed, in each: from the columns in memory to visitation depth, group by (task, state, visitation depth)
//! with its size, discounted return, baseline, scale and advantage of every row, in memory. Loading and checking
//! aren't. Ours is what the operators `group` and `advantage` run (`flow_credit::rows`): columns of rows sorted by
//! name in, the same rows with further columns out. `flow_credit` gets one thread and then two, DuckDB two. Medians;
//! all advantages must agree to 1e-4.

mod walks;

use arrow::array::RecordBatch;
use flow_core::row;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use walks::{advantages, agree, credit, queries, walks, EPS, GAMMA, SAMPLES};

const ROWS: usize = 1_000_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let rows = walks(ROWS).take(ROWS)?;
    let folder = std::env::temp_dir().join(format!("flow-bench-credit-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = compare(&rows, &folder);
    std::fs::remove_dir_all(&folder)?;
    done
}

fn compare(rows: &RecordBatch, folder: &Path) -> Result<()> {
    let (one_s, mut ours) = timed(std::slice::from_ref(rows))?;
    let (two_s, halves) = timed(&halves(rows)?)?;
    let ours = ours.pop().ok_or("no rows")?;
    let expected = advantages(&ours)?;
    let halves = halves.iter().map(advantages).collect::<std::result::Result<Vec<_>, _>>()?;
    if halves.concat() != expected {
        return Err("two threads give other bits than one".into());
    }
    let duckdb_s = duckdb(rows, folder, expected)?;
    let python_s = python(rows, folder, expected)?;
    let sizes = row::u32s(&ours, "group_size")?.values();
    let groups = sizes.iter().map(|size| 1.0 / f64::from(*size)).sum::<f64>();
    let alone = sizes.iter().filter(|size| **size == 1).count();
    println!("{ROWS} rows, {SAMPLES} samples a task, {groups:.0} groups, {alone} rows alone");
    println!("{:<32} {:>10} {:>8}", "", "ms", "ratio");
    let rest = [("flow_credit, 2 threads", two_s), ("DuckDB, 2 threads", duckdb_s), ("Python loops, 1 thread", python_s)];
    for (name, seconds) in [("flow_credit, 1 thread", one_s)].into_iter().chain(rest) {
        println!("{name:<32} {:>10.1} {:>8.1}", seconds * 1e3, seconds / one_s);
    }
    let result = serde_json::json!({
        "bench": "credit", "rows": ROWS, "flow_1_s": one_s, "flow_2_s": two_s, "duckdb_s": duckdb_s, "python_s": python_s,
        "duckdb_2_over_flow_1": duckdb_s / one_s, "duckdb_2_over_flow_2": duckdb_s / two_s, "python_over_flow_1": python_s / one_s,
    });
    println!("{result}");
    Ok(())
}

/// One thread for each part: the median time, and what the last run gave.
fn timed(parts: &[RecordBatch]) -> Result<(f64, Vec<RecordBatch>)> {
    let mut times = Vec::new();
    let mut last = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        let batches: std::result::Result<Vec<RecordBatch>, _> = std::thread::scope(|scope| {
            let (mine, others) = parts.split_first().ok_or("no rows")?;
            let others: Vec<_> = others.iter().map(|part| scope.spawn(|| credit(part).map_err(|e| e.to_string()))).collect();
            let mine = credit(mine).map_err(|e| e.to_string());
            std::iter::once(mine).chain(others.into_iter().map(|other| other.join().map_err(|_| "a thread panicked")?)).collect()
        });
        times.push(start.elapsed().as_secs_f64());
        last = batches?;
    }
    Ok((median(times), last))
}

/// The rows in two, between two tasks, as two workers would hold them.
fn halves(rows: &RecordBatch) -> Result<[RecordBatch; 2]> {
    let tasks = row::texts(rows, "task")?;
    let cut = (rows.num_rows() / 2..rows.num_rows()).find(|i| tasks.value(*i) != tasks.value(i - 1)).ok_or("one task only")?;
    Ok([rows.slice(0, cut), rows.slice(cut, rows.num_rows() - cut)])
}

/// The same in SQL; the faster way counts.
fn duckdb(rows: &RecordBatch, folder: &Path, expected: &[f32]) -> Result<f64> {
    let parquet = folder.join("rows.parquet");
    let mut writer = parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&parquet)?, rows.schema(), None)?;
    writer.write(rows)?;
    writer.close()?;
    let connection = duckdb::Connection::open_in_memory()?;
    let file = parquet.display();
    connection.execute_batch(&format!(
        "SET threads = 2; CREATE TABLE turns AS SELECT row_number() OVER () - 1 AS row, * FROM read_parquet('{file}');"
    ))?;
    let mut best = f64::INFINITY;
    for (name, query) in queries("turns") {
        let mut times = Vec::new();
        for _ in 0..7 {
            let start = Instant::now();
            let mut statement = connection.prepare(&query)?;
            let count: usize = statement.query_arrow([])?.collect::<Vec<_>>().iter().map(RecordBatch::num_rows).sum();
            times.push(start.elapsed().as_secs_f64());
            same(count, ROWS, name)?;
        }
        let seconds = median(times);
        println!("DuckDB with {name}: {:.1} ms", seconds * 1e3);
        best = best.min(seconds);
        let mut statement = connection.prepare(&format!("SELECT advantage FROM ({query}) ORDER BY row"))?;
        let values = statement.query_map([], |row| row.get::<_, f64>(0))?.collect::<std::result::Result<Vec<_>, _>>()?;
        agree(&values, expected, name)?;
    }
    Ok(best)
}

fn python(rows: &RecordBatch, folder: &Path, expected: &[f32]) -> Result<f64> {
    let tasks: Vec<_> = row::texts(rows, "task")?.iter().collect();
    let columns = serde_json::json!({
        "task": tasks, "sample": row::u32s(rows, "sample")?.values().to_vec(),
        "state": row::u64s(rows, "state")?.values().to_vec(), "reward": row::f32s(rows, "reward")?.values().to_vec(),
    });
    let (input, output) = (folder.join("columns.json"), folder.join("advantages.bin"));
    std::fs::write(&input, columns.to_string())?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/credit_loops.py");
    let numbers = [GAMMA.to_string(), EPS.to_string(), "5".into()];
    let ran = Command::new("python3").arg(script).arg(&input).arg(&output).args(numbers).output()?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into());
    }
    let bytes = std::fs::read(&output)?;
    let values: Vec<f64> =
        bytes.chunks_exact(8).map(|chunk| chunk.try_into().map(f64::from_ne_bytes)).collect::<std::result::Result<_, _>>()?;
    agree(&values, expected, "Python")?;
    Ok(median(serde_json::from_slice(&ran.stdout)?))
}

fn same(actual: usize, expected: usize, name: &str) -> Result<()> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{name} gave {actual} rows, not {expected}").into())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
