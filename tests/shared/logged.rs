//! Rows like those of a real run: boards of text that repeat, lists of tokens, log-probabilities.
#![allow(dead_code)] // each test file uses its part

use arrow::array::{ArrayRef, BooleanArray, Float32Array, ListArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field};
use flow::ops;
use flow_core::row;
use flow_core::seed::{mix, text, Random};
use flow_log::{NodeInfo, Run, RunInfo};
use std::sync::Arc;

/// A run folder with the nodes `rollout`, `advantage`, `update` and `panel`.
pub fn run() -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let node = |id: &str, op: &str, columns: &[&str], upstream: &[&str]| NodeInfo {
        id: id.into(),
        op: op.into(),
        role: ops::role(op),
        columns: columns.iter().map(|c| c.to_string()).collect(),
        upstream: upstream.iter().map(|id| id.to_string()).collect(),
    };
    let nodes = vec![
        node("rollout", "rollout", &[], &[]),
        node("advantage", "advantage", &[], &["rollout"]),
        node("update", "gpu-update", &["iteration", "version"], &["rollout", "advantage"]),
        node("panel", "evaluate", &["iteration", "task", "sample", "attempt", "turn", "phase", "won"], &[]),
    ];
    let info = RunInfo { name: "test".into(), nodes, iterations: 3, seed: 7, ..Default::default() };
    let run = Run::create(&folder.path().join("run"), "flow: test\n", &info).unwrap();
    (folder, run)
}

pub fn list(values: ArrayRef, item: DataType, each: usize) -> ArrayRef {
    let rows = values.len() / each;
    Arc::new(ListArray::new(Arc::new(Field::new("item", item, false)), OffsetBuffer::from_lengths(vec![each; rows]), values, None))
}

/// A 6x6 board as text: one of `kinds` rooms, with the player somewhere.
fn board(room: u64, place: u64) -> String {
    let mut random = Random::new(room);
    let mut cells: Vec<char> = (0..36)
        .map(|i| if i % 6 == 0 || i % 6 == 5 || !(6..30).contains(&i) { '#' } else { ['_', '_', 'X', 'O'][random.below(4)] })
        .collect();
    cells[7 + (place % 4) as usize + 6 * (place / 4 % 4) as usize] = 'P';
    cells.chunks(6).map(|r| r.iter().map(|c| format!("{c} ")).collect::<String>().trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// The rollouts of one worker: 2 tasks, `samples` samples each, 10 turns, sorted by name.
pub fn rollout(iteration: u64, worker: usize, samples: u32) -> RecordBatch {
    let mut random = Random::new(mix(iteration, worker as u64));
    let names: Vec<(u64, u32, u32)> = (0..2)
        .flat_map(|t| (0..samples).flat_map(move |s| (0..10).map(move |turn| (iteration * 1000 + worker as u64 * 10 + t, s, turn))))
        .collect();
    let n = names.len();
    let mut place = 0;
    let seen: Vec<String> = names
        .iter()
        .map(|(room, _, turn)| {
            place = if *turn == 0 { 0 } else { (place + [1, 4, 15, 12][random.below(4)]) % 16 };
            board(*room, place)
        })
        .collect();
    let actions: Vec<&str> = (0..n).map(|_| ["up", "down", "left", "right"][random.below(4)]).collect();
    let prompt: Vec<u32> = seen.iter().flat_map(|b| (0..120).map(|i| b.as_bytes()[i % b.len()] as u32).collect::<Vec<_>>()).collect();
    let logprobs: Vec<f32> = (0..n * 4).map(|i| if i % 4 == 0 { -(random.unit() as f32) } else { 0.0 }).collect();
    let tokens: Vec<u32> = actions.iter().flat_map(|a| [300, 301 + a.len() as u32, 310, 2]).collect();
    let choices: Vec<u32> = (0..n).flat_map(|_| (0..16).map(|i| 300 + i)).collect();
    let texts = |f: &dyn Fn(usize) -> String| Arc::new((0..n).map(|i| Some(f(i))).collect::<StringArray>()) as ArrayRef;
    let u32s = |f: &dyn Fn(usize) -> u32| Arc::new((0..n).map(f).collect::<UInt32Array>()) as ArrayRef;
    let u64s = |f: &dyn Fn(usize) -> u64| Arc::new((0..n).map(f).collect::<UInt64Array>()) as ArrayRef;
    let f32s = |f: &dyn Fn(usize) -> f32| Arc::new((0..n).map(f).collect::<Float32Array>()) as ArrayRef;
    let bools = |f: &dyn Fn(usize) -> bool| Arc::new((0..n).map(|i| Some(f(i))).collect::<BooleanArray>()) as ArrayRef;
    let rows = row::batch(vec![
        ("iteration", u64s(&|_| iteration)),
        ("task", texts(&|i| format!("sokoban-6x6-2-{:016x}", mix(1, names[i].0)))),
        ("sample", u32s(&|i| names[i].1)),
        ("attempt", u32s(&|_| 0)),
        ("turn", u32s(&|i| names[i].2)),
        ("phase", texts(&|_| "play".into())),
        ("observation", texts(&|i| seen[i].clone())),
        ("state", u64s(&|i| text(&seen[i]))),
        ("prompt_tokens", list(Arc::new(UInt32Array::from(prompt)), DataType::UInt32, 120)),
        ("response_tokens", list(Arc::new(UInt32Array::from(tokens)), DataType::UInt32, 4)),
        ("choices", list(Arc::new(UInt32Array::from(choices)), DataType::UInt32, 16)),
        ("logprobs", list(Arc::new(Float32Array::from(logprobs)), DataType::Float32, 4)),
        ("response", texts(&|i| format!("<action>{}</action>", actions[i]))),
        ("action", texts(&|i| actions[i].into())),
        ("valid", bools(&|_| true)),
        ("mode", texts(&|_| "plain".into())),
        ("reward", f32s(&|i| if names[i].2 == 9 { 1.0 } else { -0.1 })),
        ("done", bools(&|i| names[i].2 == 9)),
        ("won", bools(&|i| names[i].2 == 9)),
        ("score", f32s(&|i| names[i].2 as f32 * -0.1)),
        ("weights", u64s(&|_| iteration)),
        ("seed", u64s(&|i| mix(mix(mix(7, names[i].0), names[i].1 as u64), names[i].2 as u64))),
    ])
    .unwrap();
    row::sorted(&[rows]).unwrap().unwrap()
}

/// What `advantage` makes of every second row, with a `reward` of its own.
pub fn advantages(iteration: u64, worker: usize, samples: u32) -> RecordBatch {
    let rows = rollout(iteration, worker, samples);
    let reward: Float32Array = row::f32s(&rows, "reward").unwrap().iter().map(|r| r.map(|r| 10.0 * r + 1.0)).collect();
    let columns: Vec<usize> = row::NAME.iter().map(|n| rows.schema().index_of(n).unwrap()).collect();
    let keys = rows.project(&columns).unwrap();
    let keys = row::with(&keys, "reward", Arc::new(reward.clone())).unwrap();
    let keys = row::with(&keys, "advantage", Arc::new(reward)).unwrap();
    filter_record_batch(&keys, &(0..rows.num_rows()).map(|i| Some(i % 2 == 0)).collect()).unwrap()
}
