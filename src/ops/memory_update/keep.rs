//! Who came into a memory, who left and who got another score, from the candidates and the entries with a place.

use arrow::array::RecordBatch;
use flow_credit::memory::{Change, Entry};
use flow_dataflow::relation::Placed;
use flow_dataflow::Failed;
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
    /// How many entries there are, and how many of each kind where there are kinds: the names of metrics with their
    /// values.
    pub fn sizes(&self) -> BTreeMap<String, usize> {
        let mut sizes = BTreeMap::from([("entries".to_owned(), self.placed.len())]);
        for entry in self.placed.iter().filter_map(|id| self.known.get(id)).filter(|entry| !entry.kind.is_empty()) {
            *sizes.entry(format!("entries_{}", entry.kind)).or_default() += 1;
        }
        sizes
    }

    /// `rows` are contenders and changes of places.
    pub fn iteration(&mut self, iteration: u64, rows: &[Vec<RecordBatch>]) -> Result<Vec<Change>, Failed> {
        let mut candidates = BTreeSet::new();
        // As they were before.
        let mut rescored: BTreeMap<u64, Entry> = BTreeMap::new();
        for batch in &rows[0] {
            for change in Change::read(batch)?.into_iter().filter(|change| change.change > 0 && change.iteration <= iteration) {
                let id = change.entry.id;
                candidates.insert(id);
                let known = self.known.entry(id).or_insert_with(|| change.entry.clone());
                if known.score != change.entry.score {
                    rescored.insert(id, std::mem::replace(known, change.entry));
                }
            }
        }
        let mut changes = Vec::new();
        for Placed { id, change, .. } in rows[1].iter().flat_map(Placed::read) {
            // What leaves goes as it came.
            let before = rescored.remove(&id).filter(|_| change < 0);
            if let Some(entry) = before.or_else(|| self.known.get(&id).cloned()) {
                changes.push(Change { iteration, change: change.signum() as i32, entry });
            }
            if change > 0 {
                self.placed.insert(id);
            } else {
                self.placed.remove(&id);
                self.known.remove(&id);
            }
        }
        for (id, before) in rescored {
            let after = self.known.get(&id).filter(|_| self.placed.contains(&id)).cloned();
            let both = after.into_iter().flat_map(|after| [(-1, before.clone()), (1, after)]);
            changes.extend(both.map(|(change, entry)| Change { iteration, change, entry }));
        }
        for id in candidates.iter().filter(|id| !self.placed.contains(id)) {
            self.known.remove(id);
        }
        changes.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok(changes)
    }
}
