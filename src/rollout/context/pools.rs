//! Which entries of a memory belong to which cluster of observations (SLEA-RL, section 3.2: each cluster "stores associated experience pools").

use crate::memory::Change;
use crate::policy::PolicyError;
use crate::rollout::clustering::{ClusterKey, ObservationClusters};
use crate::rollout::error::RolloutError;
use crate::rollout::exchange::NotesOwner;
use arrow::array::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};

/// The entries of each cluster. An entry belongs to the cluster that its key is of: as soon as there is one, and then for good, since later
/// clusters stand behind it in the order of comparison.
#[derive(Clone)]
pub struct ClusterPools {
    clusters: ObservationClusters,
    pools: BTreeMap<u64, BTreeSet<u64>>,
    /// The cluster of each entry.
    homes: BTreeMap<u64, u64>,
    /// The keys of entries that belong to no cluster yet, with the tasks that they come from.
    pending: BTreeMap<u64, (String, String)>,
}

impl ClusterPools {
    /// There are no entries yet.
    pub fn new(clusters: ObservationClusters) -> ClusterPools {
        ClusterPools { clusters, pools: BTreeMap::new(), homes: BTreeMap::new(), pending: BTreeMap::new() }
    }

    /// Takes up the clusters that these rows founded, and then what came into the memory and what left it.
    pub fn begin(&mut self, changes: &[Change], rows: &[RecordBatch]) -> Result<(), RolloutError> {
        self.clusters.take_up(rows)?;
        for Change { change, entry, .. } in changes {
            if *change > 0 {
                if !self.homes.contains_key(&entry.id) {
                    self.pending.insert(entry.id, (entry.source.task.clone(), entry.key.clone()));
                }
                continue;
            }
            self.pending.remove(&entry.id);
            if let Some(pool) = self.homes.remove(&entry.id).and_then(|home| self.pools.get_mut(&home)) {
                pool.remove(&entry.id);
            }
        }
        let keys: Vec<(&str, &str)> = self.pending.values().map(|(task, key)| (task.as_str(), key.as_str())).collect();
        let homes = self.homes_of(&keys)?;
        let placed: Vec<(u64, u64)> = self.pending.keys().zip(homes).filter_map(|(id, home)| Some((*id, home?))).collect();
        for (id, home) in placed {
            self.pending.remove(&id);
            self.homes.insert(id, home);
            self.pools.entry(home).or_default().insert(id);
        }
        Ok(())
    }

    /// The pool of each of these observations, of a task each: that of its cluster, or of the next other one that has entries. Nothing where
    /// there is no such cluster, or its pool is empty.
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
