//! Group and advantage on 1,000,000 rows: `flow::credit`, plain Python loops, and SQL in DuckDB, on the same rows.
//!
//! What is timed, in each: from the columns in memory to visitation depth, group by (task, state, visitation depth)
//! with its size, discounted return, baseline, scale and advantage of every row, in memory. Loading and checking aren't.
//! `flow::credit` gets one thread and then two, DuckDB two. Medians; all advantages must agree to 1e-4.

use arrow::array::{ArrayRef, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow::credit::{
    advantages_in, begin_ids, episodes, fold_ids, fold_run, values, visitation_depth, AdvantageSettings, Advantages, Columns, Groups, Of,
};
use flow::row;
use flow::seed::{mix, text, Random};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const ROWS: usize = 1_000_000;
const SAMPLES: u32 = 16;
const TURNS: u32 = 20;
const GAMMA: f64 = 0.9;
const EPS: f64 = 1e-6;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let rows = walks()?;
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
    let wanted = &ours.advantages.advantage;
    if halves.iter().flat_map(|half| &half.advantages.advantage).ne(wanted) {
        return Err("two threads give other bits than one".into());
    }
    let duckdb_s = duckdb(rows, folder, wanted)?;
    let python_s = python(rows, folder, wanted)?;
    let groups = ours.sizes.iter().map(|size| 1.0 / f64::from(*size)).sum::<f64>();
    let alone = ours.sizes.iter().filter(|size| **size == 1).count();
    println!("{ROWS} rows, {SAMPLES} samples a task, {groups:.0} groups, {alone} rows alone");
    println!("{:<32} {:>10} {:>8}", "", "ms", "ratio");
    let rest = [("flow::credit, 2 threads", two_s), ("DuckDB, 2 threads", duckdb_s), ("Python loops, 1 thread", python_s)];
    for (name, seconds) in [("flow::credit, 1 thread", one_s)].into_iter().chain(rest) {
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
fn timed(parts: &[RecordBatch]) -> Result<(f64, Vec<Credit>)> {
    let mut times = Vec::new();
    let mut last = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        let made: std::result::Result<Vec<Credit>, _> = std::thread::scope(|scope| {
            let (mine, others) = parts.split_first().ok_or("no rows")?;
            let others: Vec<_> = others.iter().map(|part| scope.spawn(|| credit(part).map_err(|e| e.to_string()))).collect();
            let mine = credit(mine).map_err(|e| e.to_string());
            std::iter::once(mine).chain(others.into_iter().map(|other| other.join().map_err(|_| "a thread panicked")?)).collect()
        });
        times.push(start.elapsed().as_secs_f64());
        last = made?;
    }
    Ok((median(times), last))
}

/// The rows in two, between two tasks, as two workers would hold them.
fn halves(rows: &RecordBatch) -> Result<[RecordBatch; 2]> {
    let tasks = row::texts(rows, "task")?;
    let cut = (rows.num_rows() / 2..rows.num_rows()).find(|i| tasks.value(*i) != tasks.value(i - 1)).ok_or("one task only")?;
    Ok([rows.slice(0, cut), rows.slice(cut, rows.num_rows() - cut)])
}

/// Rows as a rollout of 6x6 Sokoban by a random policy would give them: sixteen walks a task from one start, over 16
/// cells, a push now and then that can't be undone, up to 20 turns.
fn walks() -> Result<RecordBatch> {
    let (mut tasks, mut samples, mut turns, mut states, mut rewards) = (vec![], vec![], vec![], vec![], vec![]);
    let mut random = Random::new(1);
    for task in 0.. {
        for sample in 0..SAMPLES {
            let (mut x, mut y, mut boxes) = (1, 1, mix(7, task));
            for turn in 0..TURNS {
                tasks.push(format!("sokoban-6x6-2-{task:08}"));
                samples.push(sample);
                turns.push(turn);
                // A positive i64, so that no engine has to carry 64 bits without a sign.
                states.push(mix(boxes, x * 4 + y) >> 1);
                let side = random.below(4);
                match side {
                    0 => x = (x + 1).min(3),
                    1 => y = (y + 1).min(3),
                    2 => x = x.saturating_sub(1),
                    _ => y = y.saturating_sub(1),
                }
                if random.below(8) == 0 {
                    boxes = mix(boxes, side as u64);
                }
                let won = random.below(40) == 0;
                rewards.push(if won { 9.9 } else { -0.1 });
                if won || tasks.len() == ROWS {
                    break;
                }
            }
            if tasks.len() == ROWS {
                return Ok(row::batch(vec![
                    ("task", Arc::new(StringArray::from(tasks)) as ArrayRef),
                    ("sample", Arc::new(UInt32Array::from(samples))),
                    ("turn", Arc::new(UInt32Array::from(turns))),
                    ("state", Arc::new(UInt64Array::from(states))),
                    ("reward", Arc::new(Float32Array::from(rewards))),
                ])?);
            }
        }
    }
    unreachable!("the tasks have no end")
}

/// Everything that the run made: it stays in memory, as it does for the others.
struct Credit {
    _ids: Vec<u64>,
    _depths: Vec<u32>,
    sizes: Vec<u32>,
    advantages: Advantages,
}

fn credit(rows: &RecordBatch) -> Result<Credit> {
    let (tasks, samples) = (row::texts(rows, "task")?, row::u32s(rows, "sample")?.values());
    let (states, rewards) = (row::u64s(rows, "state")?.values(), row::f32s(rows, "reward")?.values());
    let settings = AdvantageSettings { of: Of::StepReturn, gamma: GAMMA, eps: EPS, ..Default::default() };
    let episodes = episodes(|i| samples[i] == samples[i - 1] && tasks.value(i) == tasks.value(i - 1), rows.num_rows());
    let depths = visitation_depth(states, &episodes);
    let mut ids = begin_ids(3, rows.num_rows());
    let (mut task, mut hash) = ("", text(""));
    for episode in &episodes {
        let next = tasks.value(episode.start);
        if next != task {
            (task, hash) = (next, text(next));
        }
        fold_run(&mut ids[episode.clone()], hash);
    }
    fold_ids(&mut ids, states.iter().copied());
    fold_ids(&mut ids, depths.iter().map(|depth| u64::from(*depth)));
    let groups = Groups::of(&ids);
    let columns = Columns { reward: rewards, ..Default::default() };
    let values = values(&columns, &episodes, &settings);
    Ok(Credit { _ids: ids, _depths: depths, sizes: groups.sizes(), advantages: advantages_in(&values, &groups, &columns, &settings) })
}

/// The same in SQL, in the two ways that suggest themselves; the faster one counts.
fn duckdb(rows: &RecordBatch, folder: &Path, wanted: &[f32]) -> Result<f64> {
    let parquet = folder.join("rows.parquet");
    let mut writer = parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&parquet)?, rows.schema(), None)?;
    writer.write(rows)?;
    writer.close()?;
    let connection = duckdb::Connection::open_in_memory()?;
    let file = parquet.display();
    connection.execute_batch(&format!(
        "SET threads = 2; CREATE TABLE turns AS SELECT row_number() OVER () - 1 AS row, * FROM read_parquet('{file}');"
    ))?;
    let valued = format!(
        "depths AS (SELECT row, task, state, row_number() OVER (PARTITION BY task, sample, state ORDER BY turn) - 1 AS depth,
         sum(reward::DOUBLE * pow({GAMMA}, turn)) OVER (PARTITION BY task, sample ORDER BY turn DESC) / pow({GAMMA}, turn) AS value FROM turns)"
    );
    let columns = format!(
        "row, depth, n, value, CASE WHEN n = 1 THEN value ELSE mean END AS baseline, CASE WHEN n = 1 THEN 1 ELSE std + {EPS} END AS scale,
         CASE WHEN n = 1 THEN 0 ELSE (value - mean) / (std + {EPS}) END AS advantage"
    );
    let windowed = format!(
        "WITH {valued} SELECT {columns} FROM (SELECT row, depth, value, count(*) OVER g AS n, avg(value) OVER g AS mean,
         stddev_samp(value) OVER g AS std FROM depths WINDOW g AS (PARTITION BY task, state, depth))"
    );
    let joined = format!(
        "WITH {valued}, groups AS (SELECT task, state, depth, count(*) AS n, avg(value) AS mean, stddev_samp(value) AS std
         FROM depths GROUP BY ALL) SELECT {columns} FROM depths JOIN groups USING (task, state, depth)"
    );
    let mut best = f64::INFINITY;
    for (name, query) in [("windows", windowed), ("group by and join", joined)] {
        let mut times = Vec::new();
        for _ in 0..7 {
            let start = Instant::now();
            let mut statement = connection.prepare(&query)?;
            let found: usize = statement.query_arrow([])?.collect::<Vec<_>>().iter().map(RecordBatch::num_rows).sum();
            times.push(start.elapsed().as_secs_f64());
            same(found, ROWS, name)?;
        }
        let seconds = median(times);
        println!("DuckDB with {name}: {:.1} ms", seconds * 1e3);
        best = best.min(seconds);
        let mut statement = connection.prepare(&format!("SELECT advantage FROM ({query}) ORDER BY row"))?;
        let found = statement.query_map([], |row| row.get::<_, f64>(0))?.collect::<std::result::Result<Vec<_>, _>>()?;
        agree(&found, wanted, name)?;
    }
    Ok(best)
}

fn python(rows: &RecordBatch, folder: &Path, wanted: &[f32]) -> Result<f64> {
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
    let found: Vec<f64> =
        bytes.chunks_exact(8).map(|chunk| chunk.try_into().map(f64::from_ne_bytes)).collect::<std::result::Result<_, _>>()?;
    agree(&found, wanted, "Python")?;
    Ok(median(serde_json::from_slice(&ran.stdout)?))
}

fn agree(found: &[f64], wanted: &[f32], name: &str) -> Result<()> {
    same(found.len(), wanted.len(), name)?;
    match found.iter().zip(wanted).position(|(f, w)| (f - f64::from(*w)).abs().partial_cmp(&1e-4).is_none_or(|order| order.is_gt())) {
        Some(i) => Err(format!("{name}: row {i} has advantage {}, flow says {}", found[i], wanted[i]).into()),
        None => Ok(()),
    }
}

fn same(found: usize, wanted: usize, name: &str) -> Result<()> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{name} gave {found} rows, not {wanted}").into())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
