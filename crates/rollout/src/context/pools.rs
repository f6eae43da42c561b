//! Which entries of a memory belong to which cluster of observations (SLEA-RL, section 3.2: each cluster "stores
//! associated experience pools").
//!
//! An entry belongs to the cluster that its key is of, and to every cluster that it was linked to: where a cluster had
//! no entries, the entries that its turns were given by similarity.

use crate::clustering::{ClusterKey, ObservationClusters};
use crate::error::RolloutError;
use crate::exchange::NotesOwner;
use arrow::array::RecordBatch;
use flow_core::row;
use flow_credit::memory::Change;
use flow_model::PolicyError;
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};

/// The entries of each cluster.
#[derive(Clone)]
pub struct ClusterPools {
    clusters: ObservationClusters,
    /// Whether entries are linked to clusters that they were retrieved for.
    link: bool,
    pools: BTreeMap<u64, BTreeSet<u64>>,
    /// The clusters of each entry that is there.
    homes: BTreeMap<u64, BTreeSet<u64>>,
    /// The keys of entries that belong to no cluster by their key yet, with the tasks that they come from. As soon as
    /// there is one they belong to it for good, since later clusters stand behind it in the order of comparison.
    pending: BTreeMap<u64, (String, String)>,
}

impl ClusterPools {
    /// There are no entries yet.
    pub fn new(clusters: ObservationClusters, link: bool) -> ClusterPools {
        ClusterPools { clusters, link, pools: BTreeMap::new(), homes: BTreeMap::new(), pending: BTreeMap::new() }
    }

    /// Takes up the clusters that these rows founded, the memory's changes, and then the links that the rows made.
    /// `changes` are in their order.
    pub fn begin(&mut self, changes: &[Change], rows: &[RecordBatch]) -> Result<(), RolloutError> {
        self.clusters.take_up(rows)?;
        // What left and came at once has got another score, and stays where it is.
        let last: BTreeMap<u64, &Change> = changes.iter().map(|change| (change.entry.id, change)).collect();
        for (id, Change { change, entry, .. }) in last {
            if *change < 0 {
                self.pending.remove(&id);
                for home in self.homes.remove(&id).into_iter().flatten() {
                    self.pools.entry(home).or_default().remove(&id);
                }
            } else if let Slot::Vacant(homes) = self.homes.entry(id) {
                homes.insert(BTreeSet::new());
                self.pending.insert(id, (entry.source.task.clone(), entry.key.clone()));
            }
        }
        let keys: Vec<(&str, &str)> = self.pending.values().map(|(task, key)| (task.as_str(), key.as_str())).collect();
        let homes = self.homes_of(&keys)?;
        let placed: Vec<(u64, u64)> = self.pending.keys().zip(homes).filter_map(|(id, home)| Some((*id, home?))).collect();
        for (id, home) in placed {
            self.pending.remove(&id);
            self.put(id, home);
        }
        if self.link {
            self.take_links(rows)?;
        }
        Ok(())
    }

    fn take_links(&mut self, rows: &[RecordBatch]) -> Result<(), RolloutError> {
        for rows in rows {
            let (clusters, linked) = (row::u64s(rows, "cluster")?, row::lists(rows, "linked")?);
            for i in 0..rows.num_rows() {
                for id in row::u64_list(linked, i).iter().copied() {
                    self.put(id, clusters.value(i));
                }
            }
        }
        Ok(())
    }

    /// Puts an entry that is there into a pool.
    fn put(&mut self, id: u64, home: u64) {
        if let Some(homes) = self.homes.get_mut(&id) {
            homes.insert(home);
            self.pools.entry(home).or_default().insert(id);
        }
    }

    /// The pool of each of these observations, of a task each: that of its cluster, or of the next other one that has
    /// entries. Nothing where there is no such cluster, or its pool is empty.
    pub fn of(&self, observations: &[(&str, &str)], whose: NotesOwner) -> Result<Vec<Option<&BTreeSet<u64>>>, PolicyError> {
        let homes = self.homes_of(observations)?;
        let filled = |pool: &&BTreeSet<u64>| !pool.is_empty();
        let another = |own: u64| {
            let (before, after) = (self.pools.range(..own), self.pools.range(own..).filter(move |(id, _)| **id != own));
            after.chain(before).map(|(_, pool)| pool).find(filled)
        };
        let pool = |home: Option<u64>| match whose {
            NotesOwner::Own => self.pools.get(&home?).filter(filled),
            NotesOwner::Another => another(home.unwrap_or_default()),
        };
        Ok(homes.into_iter().map(pool).collect())
    }

    fn homes_of(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<u64>>, PolicyError> {
        let keys: Vec<ClusterKey> = keys.iter().map(|(task, text)| ClusterKey { task, id: 0, text }).collect();
        self.clusters.first(&keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::Compare;
    use crate::points::{Pointer, Points};
    use arrow::array::{ListBuilder, StringArray, UInt32Array, UInt64Array, UInt64Builder};
    use arrow::datatypes::{DataType, Field};
    use flow_core::row::Name;
    use flow_credit::memory::Entry;
    use std::sync::Arc;

    fn change(iteration: u64, change: i32, id: u64, key: &str, score: f32) -> Change {
        let source = Name { iteration: 0, task: "t".into(), sample: id as u32, attempt: 0, turn: 0, phase: "reflect".into() };
        let (key, text, embedding, kind, level) = (key.to_owned(), format!("entry {id}"), vec![], String::new(), String::new());
        Change { iteration, change, entry: Entry { id, bucket: 0, key, embedding, score, text, source, ordinal: 0, kind, level } }
    }

    /// A row of cluster 7, which it founded by this key, with these entries linked.
    fn row(founded: &str, ids: &[u64]) -> RecordBatch {
        let mut linked = ListBuilder::new(UInt64Builder::new()).with_field(Field::new("item", DataType::UInt64, false));
        linked.values().append_slice(ids);
        linked.append(true);
        let numbers = || Arc::new(UInt32Array::from(vec![0]));
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0]))),
            ("task", Arc::new(StringArray::from(vec!["t"]))),
            ("sample", numbers()),
            ("attempt", numbers()),
            ("turn", numbers()),
            ("phase", Arc::new(StringArray::from(vec!["play"]))),
            ("cluster", Arc::new(UInt64Array::from(vec![7]))),
            ("prototype", Arc::new(StringArray::from(vec![founded]))),
            ("linked", Arc::new(linked.finish())),
        ])
        .unwrap()
    }

    fn pools(link: bool) -> ClusterPools {
        let clusters = ObservationClusters::new(Compare::Cosine, 0.85, Pointer::new(Points::None, None, None), false);
        ClusterPools::new(clusters, link)
    }

    fn of(pools: &ClusterPools, seen: &str) -> Vec<u64> {
        pools.of(&[("t", seen)], NotesOwner::Own).unwrap()[0].into_iter().flatten().copied().collect()
    }

    #[test]
    fn what_was_retrieved_for_a_cluster_belongs_to_it_from_then_on() {
        for (link, expected) in [(true, vec![1]), (false, vec![])] {
            let mut pools = pools(link);
            pools.begin(&[change(0, 1, 1, "salt", 1.0)], &[]).unwrap();
            assert!(of(&pools, "a door").is_empty(), "there is no such cluster");
            pools.begin(&[], &[row("a door", &[1, 99])]).unwrap();
            assert_eq!(of(&pools, "a door"), expected, "99 isn't there");
            pools.begin(&[change(1, 1, 2, "a door", 1.0)], &[]).unwrap();
            assert_eq!(of(&pools, "a door"), [expected, vec![2]].concat(), "2 is the cluster's own");
        }
    }

    #[test]
    fn a_link_outlives_a_new_score_and_ends_with_its_entry() {
        let mut pools = pools(true);
        pools.begin(&[change(0, 1, 1, "salt", 1.0)], &[row("a door", &[1])]).unwrap();
        pools.begin(&[change(1, -1, 1, "salt", 1.0), change(1, 1, 1, "salt", 0.5)], &[]).unwrap();
        assert_eq!(of(&pools, "a door"), [1]);
        pools.begin(&[change(2, -1, 1, "salt", 0.5)], &[]).unwrap();
        assert!(of(&pools, "a door").is_empty());
        pools.begin(&[], &[row("", &[1])]).unwrap();
        assert!(of(&pools, "a door").is_empty(), "what has left isn't linked again");
    }

    /// A resumed run takes up all changes and all rows at once.
    #[test]
    fn all_at_once_is_the_same_as_one_after_the_other() {
        let mut pools = pools(true);
        let changes = [change(0, 1, 1, "salt", 1.0), change(0, 1, 2, "salt", 1.0), change(3, -1, 2, "salt", 1.0)];
        pools.begin(&changes, &[row("a door", &[1, 2])]).unwrap();
        assert_eq!(of(&pools, "a door"), [1]);
    }
}
