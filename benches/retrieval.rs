//! What a turn is told step by step (SLEA-RL, section 3.3): a cluster for each of 128 observations among 500 clusters,
//! and two strategies of it among 300 entries, as an agent's context finds them while episodes are played; by hashed
//! words, and by the share of characters that match. Half of the observations are new wordings, half were seen before.
//! Beside it Python's difflib in the same run, asked for the first of the same 500 prototypes that is alike at 0.85,
//! with the bounds that its documentation advises. One thread each.

use arrow::array::{ArrayRef, ListBuilder, RecordBatch, StringArray, UInt32Array, UInt64Array, UInt64Builder};
use arrow::datatypes::{DataType, Field};
use flow_core::row::{self, Name};
use flow_core::seed::Random;
use flow_credit::memory::{self, Change, Entry};
use flow_rollout::clustering::{Compare, ObservationClusters};
use flow_rollout::context::{ContextSource, MemoryRecall, MemorySettings, Moment};
use flow_rollout::episode::EpisodeStart;
use flow_rollout::points::{Pointer, Points};
use flow_text::Tokenizer;
use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const CLUSTERS: usize = 500;
const ENTRIES: usize = 300;
const TURNS: usize = 128;
const ROUNDS: usize = 51;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PLACES: [&str; 12] =
    ["kitchen", "hall", "cellar", "garden", "bathroom", "study", "garage", "attic", "pantry", "bedroom", "porch", "corridor"];
const THINGS: [&str; 24] = [
    "mug",
    "plate",
    "lamp",
    "red book",
    "knife",
    "towel",
    "apple",
    "bottle",
    "key",
    "soap bar",
    "cloth",
    "pan",
    "vase",
    "pillow",
    "newspaper",
    "remote",
    "statue",
    "candle",
    "spoon",
    "bowl",
    "box",
    "laptop",
    "watch",
    "egg",
];

/// What is seen in a place with some things, drawn by `seed`.
fn observation(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut draw = |names: &[&'static str]| names[(random.unit() * names.len() as f64) as usize];
    let place = draw(&PLACES);
    let things: Vec<String> = (0..8).map(|i| format!("a {} {}", draw(&THINGS), i + 1)).collect();
    format!("You are in the {place}. Looking around you, you see {}. What do you do next?", things.join(", "))
}

fn entry(i: usize) -> Change {
    let source = Name { sample: i as u32, task: "t".into(), phase: "reflect".into(), ..Name::default() };
    let key = observation(i as u64);
    let kind = if i.is_multiple_of(3) { "warning" } else { "strategy" };
    let entry = Entry {
        id: Entry::id_of(&source, 0),
        bucket: 0,
        embedding: memory::words(&key),
        key,
        score: (i % 10) as f32,
        text: format!("take the {} and go on", THINGS[i % THINGS.len()]),
        source,
        ordinal: 0,
        kind: kind.into(),
        level: "example".into(),
    };
    Change { iteration: 0, change: 1, entry }
}

/// The rows of an operator `cluster` that founded all of them.
fn founded() -> Result<RecordBatch> {
    let n = CLUSTERS;
    let mut linked = ListBuilder::new(UInt64Builder::new()).with_field(Field::new("item", DataType::UInt64, false));
    (0..n).for_each(|_| linked.append(true));
    let zeros = || Arc::new(UInt32Array::from(vec![0; n])) as ArrayRef;
    Ok(row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![0; n]))),
        ("task", Arc::new(StringArray::from(vec!["t"; n]))),
        ("sample", Arc::new(UInt32Array::from_iter_values(0..n as u32))),
        ("attempt", zeros()),
        ("turn", zeros()),
        ("phase", Arc::new(StringArray::from(vec!["play"; n]))),
        ("cluster", Arc::new(UInt64Array::from_iter_values(1..=n as u64))),
        ("prototype", Arc::new(StringArray::from_iter_values((0..n).map(|i| observation(i as u64))))),
        ("linked", Arc::new(linked.finish())),
    ])?)
}

/// Half of them as their clusters' prototypes have them, half with another wording at the end.
fn seen() -> Vec<String> {
    let text = |i: usize| observation((i * 37 % CLUSTERS) as u64);
    (0..TURNS).map(|i| if i % 2 == 0 { text(i) } else { text(i).replace("What do you do next?", "What will you do now?") }).collect()
}

fn median(mut millis: Vec<f64>) -> f64 {
    millis.sort_by(f64::total_cmp);
    millis[millis.len() / 2]
}

fn ours(compare: Compare) -> Result<f64> {
    let pointer = || Pointer::new(Points::Words, None, None);
    let clusters = ObservationClusters::new(compare, 0.85, pointer(), false);
    let settings = serde_json::json!({ "memory": "library", "clusters": "clusters", "kind": "strategy", "most": 2, "above": 0.85 });
    let settings: MemorySettings = serde_json::from_value(settings)?;
    let mut recall = MemoryRecall::new(settings, pointer()).observing(Some(clusters));
    let changes: Vec<Change> = (0..ENTRIES).map(entry).collect();
    recall.begin(&[vec![memory::table(&changes)?], vec![founded()?]], 1)?;
    let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 0, memory: String::new(), iteration: 1, version: 0 };
    let (seen, tokenizer) = (seen(), Tokenizer::bytes());
    let moments: Vec<Moment> = seen.iter().map(|text| Moment { start: &start, observation: text, state: 0, before: None }).collect();
    let mut millis = Vec::new();
    let mut answered = 0;
    for _ in 0..ROUNDS {
        let clock = Instant::now();
        let passages = black_box(recall.contribute(&moments, &tokenizer)?);
        millis.push(clock.elapsed().as_secs_f64() * 1e3);
        answered = passages.iter().filter(|passage| passage.retrieved()).count();
    }
    println!("by {compare:?}: {:.2} ms for {TURNS} turns, of which {answered} are told something", median(millis.clone()));
    Ok(median(millis))
}

const PEER: &str = "
import difflib, json, sys, time
prototypes, seen = json.load(sys.stdin)
def first(text):
    matcher = difflib.SequenceMatcher(None, '', text)
    for i, prototype in enumerate(prototypes):
        matcher.set_seq1(prototype)
        if matcher.real_quick_ratio() >= 0.85 and matcher.quick_ratio() >= 0.85 and matcher.ratio() >= 0.85:
            return i
times = []
for _ in range(3):
    start = time.perf_counter()
    clusters = [first(text) for text in seen]
    times.append(time.perf_counter() - start)
print(sorted(times)[1] * 1e3)
";

fn difflib() -> Result<f64> {
    let prototypes: Vec<String> = (0..CLUSTERS).map(|i| observation(i as u64)).collect();
    let mut child = Command::new("python3").args(["-c", PEER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no pipe")?.write_all(&serde_json::to_vec(&(prototypes, seen()))?)?;
    let output = child.wait_with_output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn main() -> Result<()> {
    let (words, ratio, peer) = (ours(Compare::Cosine)?, ours(Compare::Ratio)?, difflib()?);
    println!(
        "difflib, clusters alone: {peer:.1} ms: {:.0} times as long as by words, {:.0} times as by characters",
        peer / words,
        peer / ratio
    );
    Ok(())
}
