//! A memory is what a plain recomputation from all rows says, at every iteration, on any number of workers and after a
//! resumption.

use arrow::array::{ArrayRef, BooleanArray, Float32Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use flow::ops;
use flow_core::row;
use flow_core::row::Name;
use flow_credit::memory::{words, Change};
use flow_dataflow::feed::{Feed, Feeds};
use flow_dataflow::run::{run, Plan};
use flow_dataflow::Sink;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A reflection: task, text, key and score.
type Note = (u8, u8, u8, i8);

/// How the memory is kept.
#[derive(Clone, Debug)]
struct Settings {
    capacity: usize,
    lowest: bool,
    older: bool,
    keep: bool,
    novelty: Option<f32>,
    window: Option<u64>,
    home: Home,
}

/// Which entries share a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    Task,
    All,
    Cluster,
}

/// How alike the keys of a cluster are: "a door" is like "a red door", which is like "a red lamp", which isn't like "a
/// door".
const AT_LEAST: f32 = 0.4;

fn settings() -> impl Strategy<Value = Settings> {
    let novelty = prop_oneof![Just(None), Just(Some(0.4f32)), Just(Some(1.0))];
    let window = prop_oneof![Just(None), (1..5u64).prop_map(Some)];
    let home = prop_oneof![Just(Home::Task), Just(Home::All), Just(Home::Cluster)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), home);
    (1..6usize, flags, novelty, window).prop_map(|(capacity, (lowest, older, keep, home), novelty, window)| Settings {
        capacity,
        lowest,
        older,
        keep,
        novelty,
        window,
        home,
    })
}

fn iterations() -> impl Strategy<Value = Vec<Vec<Note>>> {
    prop::collection::vec(prop::collection::vec((0..3u8, 0..5u8, 0..4u8, -2..3i8), 0..6), 1..9)
}

impl Settings {
    fn pipeline(&self, iterations: usize) -> flow_pipeline::Pipeline {
        let mut with = serde_json::json!({ "capacity": self.capacity });
        match self.home {
            Home::Task => {}
            Home::All => with["per"] = "all".into(),
            Home::Cluster => (with["per"], with["at_least"]) = ("cluster".into(), AT_LEAST.into()),
        }
        with["duplicates"] = if self.keep { "keep" } else { "drop" }.into();
        if self.lowest {
            with["evict"] = "lowest".into();
            with["ties"] = if self.older { "older" } else { "newer" }.into();
        }
        if let Some(novelty) = self.novelty {
            with["novelty"] = novelty.into();
        }
        if let Some(window) = self.window {
            with["window"] = window.into();
        }
        let text = format!(
            "flow: remember\niterations: {iterations}\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 1 }} }}\n  \
             play: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 1 }} }} }}\n  \
             notes: {{ op: reflect, inputs: play, with: {{ agent: {{ model: actor }} }} }}\n  \
             memory: {{ op: memory-update, inputs: notes, with: {with} }}\nlog: [memory]\n"
        );
        let whole = flow_pipeline::parse("remember.yaml", &text, &[], &ops::catalog()).unwrap();
        whole.part(&BTreeSet::from(["memory".into()]), &BTreeSet::from(["notes".into()]))
    }

    /// Who is there after each iteration, with all that is known, computed anew from lists.
    fn plain(&self, notes: &[Vec<Note>]) -> Vec<BTreeMap<u64, Plain>> {
        let mut there: Vec<Plain> = Vec::new();
        let mut versions = Vec::new();
        // By cluster, the key of the first entry that got a place.
        let mut prototypes: Vec<(String, String)> = Vec::new();
        for (iteration, notes) in notes.iter().enumerate() {
            there.retain(|entry| self.window.is_none_or(|window| entry.name.iteration + window > iteration as u64));
            let mut known = prototypes.clone();
            for (i, note) in notes.iter().enumerate() {
                let mut candidate = Plain::new(iteration as u64, i as u32, note, self.home);
                if self.home == Home::Cluster {
                    let near =
                        known.iter().find(|(_, key)| cosine(key, &candidate.key) >= AT_LEAST - 1e-5).map(|(bucket, _)| bucket.clone());
                    candidate.bucket = near.unwrap_or_else(|| {
                        known.push((candidate.bucket.clone(), candidate.key.clone()));
                        candidate.bucket
                    });
                }
                let own = || there.iter().filter(|other| other.bucket == candidate.bucket);
                let repeats = !self.keep && own().any(|other| other.text == candidate.text);
                if !repeats && !self.novelty.is_some_and(|least| own().any(|other| cosine(&candidate.key, &other.key) >= least - 1e-5)) {
                    there.push(candidate);
                }
            }
            let better = |a: &Plain, b: &Plain| {
                let age = a.name.cmp(&b.name);
                match (self.lowest, self.older) {
                    (false, _) => age.reverse(),
                    (true, false) => b.score.total_cmp(&a.score).then(age),
                    (true, true) => b.score.total_cmp(&a.score).then(age.reverse()),
                }
            };
            let mut kept = Vec::new();
            for bucket in there.iter().map(|entry| entry.bucket.clone()).collect::<BTreeSet<_>>() {
                let mut own: Vec<Plain> = there.iter().filter(|entry| entry.bucket == bucket).cloned().collect();
                own.sort_by(better);
                kept.extend(own.into_iter().take(self.capacity));
            }
            there = kept;
            let mut came: Vec<&Plain> = there.iter().filter(|entry| entry.name.iteration == iteration as u64).collect();
            came.sort_by(|a, b| a.name.cmp(&b.name));
            for entry in came {
                if prototypes.iter().all(|(bucket, _)| *bucket != entry.bucket) {
                    prototypes.push((entry.bucket.clone(), entry.key.clone()));
                }
            }
            versions.push(there.iter().map(|entry| (flow_credit::memory::Entry::id_of(&entry.name, 0), entry.clone())).collect());
        }
        versions
    }
}

fn cosine(a: &str, b: &str) -> f32 {
    words(a).iter().zip(words(b)).map(|(a, b)| a * b).sum()
}

/// An entry as a list has it.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    name: Name,
    bucket: String,
    text: String,
    key: String,
    score: f32,
}

impl Plain {
    /// Its bucket is, by cluster, the one that it founds.
    fn new(iteration: u64, i: u32, note: &Note, home: Home) -> Plain {
        let name = Name { iteration, task: format!("task {}", note.0), sample: i, attempt: 0, turn: 1, phase: "reflect".into() };
        let bucket = match home {
            Home::Task => name.task.clone(),
            Home::All => String::new(),
            Home::Cluster => flow_credit::memory::Entry::id_of(&name, 0).to_string(),
        };
        // Keys share words, so that some are alike.
        let key = ["a door", "a red door", "a red lamp", "salt"][note.2 as usize].into();
        Plain { name, bucket, text: format!("tip {}", note.1), key, score: note.3.into() }
    }
}

/// The notes of an iteration as rows of a `reflect`, the last one first: their order must not matter. In tasks' order
/// samples grow.
fn rows(iteration: u64, notes: &[Note]) -> Vec<RecordBatch> {
    let all: Vec<Plain> = notes.iter().enumerate().rev().map(|(i, note)| Plain::new(iteration, i as u32, note, Home::All)).collect();
    let texts = |of: fn(&Plain) -> &str| Arc::new(StringArray::from_iter_values(all.iter().map(of))) as ArrayRef;
    let u32s = |of: fn(&Plain) -> u32| Arc::new(UInt32Array::from_iter_values(all.iter().map(of))) as ArrayRef;
    let rows = row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![iteration; all.len()])) as ArrayRef),
        ("task", texts(|e| &e.name.task)),
        ("sample", u32s(|e| e.name.sample)),
        ("attempt", u32s(|_| 0)),
        ("turn", u32s(|_| 1)),
        ("phase", texts(|_| "reflect")),
        ("action", texts(|e| &e.text)),
        ("observation", texts(|e| &e.key)),
        ("valid", Arc::new(BooleanArray::from(vec![true; all.len()]))),
        ("score", Arc::new(Float32Array::from_iter_values(all.iter().map(|e| e.score)))),
    ]);
    vec![rows.unwrap()]
}

/// The changes that the operator makes from `first` on, by iteration; what it had made before comes from `past`.
fn changes(settings: &Settings, notes: &[Vec<Note>], workers: usize, first: u64, past: &[Change]) -> Vec<Change> {
    let all = notes.to_vec();
    let feed: Feed = Arc::new(move |iteration| Ok(rows(iteration, &all[iteration as usize])));
    let past = flow_credit::memory::table(past).unwrap();
    let feeds = |node: &str, feed: Feed| Feeds::from([(node.to_string(), feed)]);
    let sink = Sink::of(BTreeSet::from(["memory".into()]));
    let plan = Plan::new(settings.pipeline(notes.len()), ops::find, ops::adds);
    let past = Arc::new(feeds("memory", Arc::new(move |_| Ok(vec![past.clone()]))));
    run(Plan { workers, first, past, feeds: feeds("notes", feed), sink: Some(sink.clone()), ..plan }).unwrap();
    let mut changes: Vec<Change> = sink.take("memory").iter().flat_map(|batch| Change::read(batch).unwrap()).collect();
    changes.sort_by(|a, b| (a.iteration, &a.entry.source, a.change).cmp(&(b.iteration, &b.entry.source, b.change)));
    changes
}

/// Capacity 2, by score, for three iterations. Scores 1 and 2 come at 0, 3 pushes 1 out at 2, and at 3, when both of
/// iteration 0 would be too old, there is room for 0.
#[test]
fn who_was_pushed_out_just_before_its_end_leaves_no_gap() {
    let settings = Settings { capacity: 2, lowest: true, older: false, keep: false, novelty: None, window: Some(3), home: Home::All };
    let notes = vec![vec![(0, 0, 0, 1), (0, 1, 1, 2)], vec![], vec![(0, 2, 2, 3)], vec![(0, 3, 3, 0)]];
    let made = changes(&settings, &notes, 1, 0, &[]);
    let told: Vec<(u64, i32, f32)> = made.iter().map(|change| (change.iteration, change.change, change.entry.score)).collect();
    assert_eq!(told, [(0, 1, 1.0), (0, 1, 2.0), (2, -1, 1.0), (2, 1, 3.0), (3, -1, 2.0), (3, 1, 0.0)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn a_memory_is_what_a_plain_recomputation_says(settings in settings(), notes in iterations(), cut in 0..9u64) {
        // Names sort by task first; a list that adds notes one by one needs them in that order.
        let notes: Vec<Vec<Note>> = notes.into_iter().map(|mut notes| { notes.sort(); notes }).collect();
        let plain = settings.plain(&notes);
        let made = changes(&settings, &notes, 1, 0, &[]);
        let mut there: BTreeMap<u64, Plain> = BTreeMap::new();
        for (iteration, wanted) in plain.iter().enumerate() {
            for change in made.iter().filter(|change| change.iteration == iteration as u64) {
                let entry = &change.entry;
                prop_assert_eq!(&entry.embedding, &words(&entry.key));
                if change.change > 0 {
                    let bucket = match settings.home {
                        Home::Task => entry.source.task.clone(),
                        Home::All => String::new(),
                        Home::Cluster => entry.bucket.to_string(),
                    };
                    let plain = Plain { name: entry.source.clone(), bucket, text: entry.text.clone(), key: entry.key.clone(), score: entry.score };
                    prop_assert!(there.insert(entry.id, plain).is_none(), "came twice");
                } else {
                    prop_assert!(there.remove(&entry.id).is_some(), "left without having been there");
                }
            }
            prop_assert_eq!(&there, wanted, "after iteration {}", iteration);
        }
        prop_assert!(made.iter().all(|change| change.iteration < notes.len() as u64), "after the end");
        for workers in [2, 4] {
            prop_assert_eq!(&changes(&settings, &notes, workers, 0, &[]), &made, "on {} workers", workers);
        }
        let cut = cut.min(notes.len() as u64 - 1);
        let (before, after): (Vec<Change>, Vec<Change>) = made.into_iter().partition(|change| change.iteration < cut);
        prop_assert_eq!(changes(&settings, &notes, 2, cut, &before), after, "resumed at {}", cut);
    }
}
