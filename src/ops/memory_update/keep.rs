//! Who came into a memory and who left, from what contends and who has a place.

use crate::dataflow::relation::Placed;
use crate::dataflow::Failed;
use crate::memory::{Change, Entry};
use arrow::array::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};

/// Tells who came and who left.
#[derive(Default)]
pub struct Keep {
    /// What may have a place, by id.
    known: BTreeMap<u64, Entry>,
    /// What has one.
    placed: BTreeSet<u64>,
}

impl Keep {
    /// `rows` are contenders and changes of places.
    pub fn iteration(&mut self, iteration: u64, rows: &[Vec<RecordBatch>]) -> Result<Vec<Change>, Failed> {
        let mut candidates = BTreeSet::new();
        for batch in &rows[0] {
            for change in Change::read(batch)?.into_iter().filter(|change| change.change > 0 && change.iteration <= iteration) {
                candidates.insert(change.entry.id);
                self.known.entry(change.entry.id).or_insert(change.entry);
            }
        }
        let mut changes = Vec::new();
        for Placed { id, change, .. } in rows[1].iter().flat_map(Placed::read) {
            if let Some(entry) = self.known.get(&id).cloned() {
                changes.push(Change { iteration, change: change.signum() as i32, entry });
            }
            if change > 0 {
                self.placed.insert(id);
            } else {
                self.placed.remove(&id);
                self.known.remove(&id);
            }
        }
        for id in candidates.iter().filter(|id| !self.placed.contains(id)) {
            self.known.remove(id);
        }
        changes.sort_by(|a, b| (a.entry.place(), a.change).cmp(&(b.entry.place(), b.change)));
        Ok(changes)
    }
}
