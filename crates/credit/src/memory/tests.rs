//! EMPO2's memory as worked by hand, and the library held against lists.

use super::*;
use flow_core::row::Name;
use proptest::prelude::*;

fn entry(iteration: u64, sample: u32, text: &str, score: f32) -> Entry {
    let source = Name { iteration, task: "t".into(), sample, attempt: 0, turn: 3, phase: "reflect".into() };
    let (key, embedding) = (text.to_owned(), vec![]);
    let (ordinal, kind, level) = Default::default();
    Entry { id: Entry::id_of(&source, 0), bucket: 0, key, embedding, score, text: text.into(), source, ordinal, kind, level }
}

fn library(entries: impl IntoIterator<Item = Entry>) -> Library {
    let mut library = Library::new();
    entries.into_iter().for_each(|entry| library.insert(entry));
    library
}

fn texts<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<&'a str> {
    entries.into_iter().map(|entry| entry.text.as_str()).collect()
}

#[test]
fn a_text_that_is_there_is_no_candidate() {
    let held = library([entry(0, 0, "look first", 1.0)]);
    let came = || vec![entry(1, 0, "look first", 5.0), entry(1, 1, "open it", 2.0), entry(1, 2, "open it", 3.0)];
    assert_eq!(texts(&Admission::default().contenders(&held, came())), ["open it"], "the first one stands, whatever the scores");
    let keep = Admission { duplicates: Duplicates::Keep, ..Default::default() };
    assert_eq!(keep.contenders(&held, came()).len(), 3);
}

#[test]
fn what_resembles_an_entry_is_no_candidate() {
    let at = |sample, degrees: f32| {
        let angle = degrees.to_radians();
        Entry { embedding: vec![angle.cos(), angle.sin()], ..entry(1, sample, &format!("{degrees}"), 0.0) }
    };
    // Cosines: 20 degrees 0.94, 40 degrees 0.77, 60 degrees 0.5.
    let admission = Admission { novelty: Some(0.85), ..Default::default() };
    let came = vec![at(1, 20.0), at(2, 40.0), at(3, 60.0), at(4, 80.0)];
    assert_eq!(texts(&admission.contenders(&library([at(0, 0.0)]), came)), ["40", "80"], "20 is like 0, and 60 like 40");
}

/// Section 3 of the released rules: above 0.5, by score, the earlier of equals first, at most ten.
#[test]
fn tips_are_found_above_a_threshold_and_shown_by_score() {
    let at = |sample, cosine: f32, score| {
        let embedding = vec![cosine, (1.0 - cosine * cosine).sqrt()];
        Entry { embedding, ..entry(0, sample, &format!("tip {sample}"), score) }
    };
    let held = library([at(0, 0.9, 10.0), at(1, 0.5, 90.0), at(2, 0.51, 40.0), at(3, 1.0, 10.0), at(4, -0.9, 99.0)]);
    let lookup = Lookup { buckets: &[0], key: "", point: &[1.0, 0.0], among: None };
    let found = |how: Retrieval| how.find(&held, &lookup).into_iter().map(|(entry, _)| entry.text.clone()).collect::<Vec<_>>();
    assert_eq!(found(Retrieval::default()), ["tip 2", "tip 0", "tip 3"], "0.5 is not above 0.5");
    assert_eq!(found(Retrieval { order: Order::Similarity, ..Default::default() }), ["tip 3", "tip 0", "tip 2"]);
    assert_eq!(found(Retrieval { most: 1, ..Default::default() }), ["tip 2"]);
    assert_eq!(found(Retrieval { by: By::All, order: Order::Newest, most: 2, ..Default::default() }), ["tip 4", "tip 3"]);
    assert_eq!(Retrieval::default().find(&held, &Lookup { buckets: &[1], ..lookup }), []);
    let key = Lookup { key: "tip 3", point: &[], ..lookup };
    assert_eq!(texts(Retrieval { by: By::Key, ..Default::default() }.find(&held, &key).into_iter().map(|(e, _)| e)), ["tip 3"]);
}

#[test]
fn changes_come_back_from_their_rows() {
    let mut one = entry(3, 7, "tip \"a\"", -0.5);
    one.embedding = words("a key");
    let changes = vec![
        Change { iteration: 4, change: 1, entry: one.clone() },
        Change { iteration: 9, change: -1, entry: Entry { embedding: vec![], ..one } },
    ];
    let rows = table(&changes).unwrap();
    assert_eq!(Change::read(&rows).unwrap(), changes);
    assert_eq!(rows.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), COLUMNS);
    assert_eq!(Change::read(&table(&[]).unwrap()).unwrap(), []);
}

#[test]
fn an_id_is_the_name_of_its_row() {
    let ids = [entry(0, 0, "a", 0.0), entry(0, 1, "a", 0.0), entry(1, 0, "a", 0.0)].map(|e| e.id);
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    assert_eq!(entry(0, 0, "b", 9.0).id, ids[0], "nothing else takes part");
}

/// What is done to a library.
#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32, u64),
    Remove(usize),
    Forget(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6u64, 0..6u32, 0..3u64).prop_map(|(i, s, b)| Step::Insert(i, s, b)),
        3 => (0..40usize).prop_map(Step::Remove),
        1 => (0..6u64).prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// A library is a list without repetitions: in its entries, its answers, and its nearest neighbours.
    #[test]
    fn a_library_is_what_a_list_would_be(steps in steps()) {
        let made = |iteration, sample, bucket| {
            let text = format!("text {}", (iteration + u64::from(sample)) % 4);
            Entry { bucket, embedding: words(&format!("{iteration} {sample}")), ..entry(iteration, sample, &text, 0.0) }
        };
        let (mut library, mut list) = (Library::new(), Vec::<Entry>::new());
        for step in steps {
            match step {
                Step::Insert(iteration, sample, bucket) => {
                    let entry = made(iteration, sample, bucket);
                    if !list.iter().any(|e| (e.bucket, e.id) == (entry.bucket, entry.id)) {
                        list.push(entry.clone());
                    }
                    library.insert(entry);
                }
                Step::Remove(at) if at < list.len() => {
                    let entry = list.remove(at);
                    prop_assert_eq!(library.remove(entry.bucket, entry.id), Some(entry));
                }
                Step::Remove(_) => prop_assert_eq!(library.remove(0, 12345), None),
                Step::Forget(before) => {
                    list.retain(|e| e.source.iteration >= before);
                    library.forget(before);
                }
            }
            let sorted = |mut entries: Vec<Entry>| {
                entries.sort_by_key(|e| (e.bucket, e.id));
                entries
            };
            prop_assert_eq!(sorted(library.entries().cloned().collect()), sorted(list.clone()));
            for bucket in 0..3 {
                let own = || list.iter().filter(|e| e.bucket == bucket);
                prop_assert_eq!(library.tells(bucket, "text 1"), own().any(|e| e.text == "text 1"));
                prop_assert_eq!(library.of_kind(bucket, "").count(), own().count());
            }
        }
    }
}
