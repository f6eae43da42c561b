//! Finding entries for a turn. Exact search: one matrix times a vector.

use super::{Entry, Library};
use crate::prototypes::dots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Which entries are found, and their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retrieval {
    /// How entries are looked up.
    #[serde(default)]
    pub by: By,
    /// By similarity: entries whose key has a cosine above this with the query; no entry has one above 1.
    #[serde(default = "above")]
    #[schemars(range(min = -1.0, max = 1.0))]
    pub above: f32,
    /// Which come first.
    #[serde(default)]
    pub order: Order,
    /// Only entries of this kind, in a memory that has kinds; of all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Entries, at most.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 1000))]
    pub most: usize,
}

/// How entries are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Those whose keys are like the turn's.
    #[default]
    Similarity,
    /// Those whose keys equal the turn's.
    Key,
    /// All of the bucket.
    All,
}

/// Which entries come first. Of equals the older one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Those with the highest score (EMPO2, by its released code).
    #[default]
    Score,
    /// Those whose keys are most like the turn's.
    Similarity,
    /// Those from the latest rows.
    Newest,
}

/// What entries are looked up by.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// The buckets that are searched.
    pub buckets: &'a [u64],
    /// The query that keys of entries are compared with.
    pub key: &'a str,
    /// The same as a point; empty unless entries are found by similarity.
    pub point: &'a [f32],
    /// Only these entries count; all of the buckets where there is nothing.
    pub among: Option<&'a BTreeSet<u64>>,
}

fn above() -> f32 {
    0.5
}
fn most() -> usize {
    10
}

impl Default for Retrieval {
    fn default() -> Self {
        Retrieval { by: By::default(), above: above(), order: Order::default(), kind: None, most: most() }
    }
}

impl Retrieval {
    /// The entries of `library` that are retrieved, each with its cosine (0 unless by similarity), the first ones
    /// first.
    pub fn find<'a>(&self, library: &'a Library, lookup: &Lookup) -> Vec<(&'a Entry, f32)> {
        let mut entries: Vec<(&Entry, f32)> = Vec::new();
        let among = |entry: &Entry| lookup.among.is_none_or(|among| among.contains(&entry.id));
        let eligible = |entry: &Entry| self.kind.as_ref().is_none_or(|kind| *kind == entry.kind) && among(entry);
        for bucket in lookup.buckets.iter().filter_map(|bucket| library.bucket(*bucket)) {
            let all = bucket.entries.iter();
            match self.by {
                By::All => match lookup.among {
                    Some(among) => entries.extend(bucket.of(among).filter(|entry| eligible(entry)).map(|entry| (entry, 0.0))),
                    None => entries.extend(all.filter(|entry| eligible(entry)).map(|entry| (entry, 0.0))),
                },
                By::Key => entries.extend(all.filter(|entry| entry.key == lookup.key && eligible(entry)).map(|entry| (entry, 0.0))),
                By::Similarity if bucket.width != lookup.point.len() || lookup.point.is_empty() => {}
                By::Similarity => {
                    // A comparison costs more than all else, so only what is asked for is compared.
                    let kind = self.kind.as_ref().map(|kind| bucket.numbered(kind));
                    let (mut compared, mut points) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
                    for ((entry, own), point) in all.zip(&bucket.kind).zip(bucket.points.chunks_exact(bucket.width)) {
                        if kind.is_none_or(|kind| kind == Some(*own)) && among(entry) {
                            compared.push(entry);
                            points.push(point);
                        }
                    }
                    // f32 rounds: a point's product with itself may be a little more than 1.
                    let cosines = dots(lookup.point, &points).into_iter().map(|cosine| cosine.min(1.0));
                    entries.extend(compared.into_iter().zip(cosines).filter(|(_, cosine)| *cosine > self.above));
                }
            }
        }
        let before = |a: &(&Entry, f32), b: &(&Entry, f32)| {
            let first = match self.order {
                Order::Score => b.0.score.total_cmp(&a.0.score),
                Order::Similarity => b.1.total_cmp(&a.1),
                Order::Newest => b.0.place().cmp(&a.0.place()),
            };
            first.then_with(|| a.0.place().cmp(&b.0.place()))
        };
        if entries.len() > self.most {
            entries.select_nth_unstable_by(self.most, before);
            entries.truncate(self.most);
        }
        entries.sort_unstable_by(|a, b| match before(a, b) {
            Ordering::Equal => a.0.id.cmp(&b.0.id),
            order => order,
        });
        entries
    }
}
