//! The entries that are there.

use super::{Change, Entry};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A memory as it stands, by bucket. It is brought up to date from changes: new entries are put in, removed ones are
/// taken out, and a repeated change makes no difference.
#[derive(Clone, Debug, Default)]
pub struct Library {
    buckets: BTreeMap<u64, Bucket>,
    /// By iteration, the entries that came from its rows; some may have left since.
    ages: BTreeMap<u64, Vec<(u64, u64)>>,
}

/// Entries in no particular order: the caller sorts them for display.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    pub entries: Vec<Entry>,
    /// The points of the entries one after the other, as far as they have some: a search reads memory in a line.
    pub points: Vec<f32>,
    /// Numbers a point; 0 where keys are compared as they are.
    pub width: usize,
    /// The kinds that entries have had, and for each entry which of them is its own: numbers are compared faster than
    /// texts.
    kinds: Vec<String>,
    pub kind: Vec<usize>,
    at: FxHashMap<u64, usize>,
    /// How many entries have a text.
    texts: FxHashMap<String, usize>,
}

impl Bucket {
    /// Those of these entries that are here.
    pub fn of<'a, 'b>(&'a self, ids: &'b BTreeSet<u64>) -> impl Iterator<Item = &'a Entry> + use<'a, 'b> {
        ids.iter().filter_map(|id| self.at.get(id).map(|at| &self.entries[*at]))
    }

    /// Which kind this is, if an entry has had it.
    pub fn numbered(&self, kind: &str) -> Option<usize> {
        self.kinds.iter().position(|known| known == kind)
    }
}

impl Library {
    /// Nothing is there.
    pub fn new() -> Library {
        Library::default()
    }

    /// Makes these changes, in their order.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) {
        for Change { change, entry, .. } in changes {
            if change > 0 {
                self.insert(entry);
            } else {
                self.remove(entry.bucket, entry.id);
            }
        }
    }

    /// Puts an entry in, unless it is there.
    pub fn insert(&mut self, entry: Entry) {
        let bucket = self.buckets.entry(entry.bucket).or_default();
        if bucket.at.contains_key(&entry.id) {
            return;
        }
        bucket.at.insert(entry.id, bucket.entries.len());
        self.ages.entry(entry.source.iteration).or_default().push((entry.bucket, entry.id));
        *bucket.texts.entry(entry.text.clone()).or_default() += 1;
        let kind = bucket.numbered(&entry.kind).unwrap_or_else(|| {
            bucket.kinds.push(entry.kind.clone());
            bucket.kinds.len() - 1
        });
        bucket.kind.push(kind);
        bucket.width = entry.embedding.len();
        bucket.points.extend_from_slice(&entry.embedding);
        bucket.entries.push(entry);
    }

    /// Takes an entry out, if it is there.
    pub fn remove(&mut self, bucket: u64, id: u64) -> Option<Entry> {
        let own = self.buckets.get_mut(&bucket)?;
        let at = own.at.remove(&id)?;
        let entry = own.entries.swap_remove(at);
        own.kind.swap_remove(at);
        // The last one has taken its place.
        let (width, end) = (own.width, own.points.len());
        own.points.copy_within(end - width.., at * width);
        own.points.truncate(end - width);
        if let Some(moved) = own.entries.get(at) {
            own.at.insert(moved.id, at);
        }
        if let Some(count) = own.texts.get_mut(&entry.text) {
            *count -= 1;
            if *count == 0 {
                own.texts.remove(&entry.text);
            }
        }
        if own.entries.is_empty() {
            self.buckets.remove(&bucket);
        }
        Some(entry)
    }

    /// Takes out the entries from rows of before `iteration`.
    pub fn forget(&mut self, iteration: u64) -> Vec<Entry> {
        let younger = self.ages.split_off(&iteration);
        let old = std::mem::replace(&mut self.ages, younger);
        old.into_values().flatten().filter_map(|(bucket, id)| self.remove(bucket, id)).collect()
    }

    /// The entry, if it is there.
    pub fn get(&self, bucket: u64, id: u64) -> Option<&Entry> {
        let own = self.buckets.get(&bucket)?;
        own.at.get(&id).map(|at| &own.entries[*at])
    }

    /// Whether the entry is there.
    pub fn contains(&self, bucket: u64, id: u64) -> bool {
        self.buckets.get(&bucket).is_some_and(|bucket| bucket.at.contains_key(&id))
    }

    /// Whether an entry of the bucket tells just this.
    pub fn tells(&self, bucket: u64, text: &str) -> bool {
        self.buckets.get(&bucket).is_some_and(|bucket| bucket.texts.contains_key(text))
    }

    /// The entries of a bucket that are of this kind.
    pub fn of_kind<'a>(&'a self, bucket: u64, kind: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.buckets.get(&bucket).into_iter().flat_map(|bucket| &bucket.entries).filter(move |entry| entry.kind == kind)
    }

    /// The next bucket after this one that has an entry, around and around; none where no other has one.
    pub fn after(&self, bucket: u64) -> Option<u64> {
        let (before, after) = (self.buckets.range(..bucket), self.buckets.range(bucket..));
        after.chain(before).map(|(other, _)| *other).find(|other| *other != bucket)
    }

    /// The buckets that have an entry, in order.
    pub fn buckets(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.keys().copied()
    }

    /// All entries, bucket by bucket.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.buckets.values().flat_map(|bucket| &bucket.entries)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.entries.len()).sum()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub(super) fn bucket(&self, bucket: u64) -> Option<&Bucket> {
        self.buckets.get(&bucket)
    }
}
