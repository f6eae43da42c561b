//! What an agent remembers: entries, how they come and go, how they are found. Pure: no graph, no policy, no files.
//!
//! Rows become [`Entry`]s. [`Admission`] says which of an iteration's candidates a memory takes, and how entries rank
//! where there isn't room for all; a [`Library`] holds the current entries and is brought up to date by [`Change`]s;
//! [`Retrieval`] finds some of them for a turn. [`Clusters`] share out buckets by likeness, [`Distinct`] counts states
//! by it. [`Outcomes`] says which episodes entries are extracted from, a [`ListSettings`] reads several entries from
//! one text, [`Rescore`] moves scores. [`words`] makes a point of a text, [`table`] makes rows of changes and reads
//! them back.
//!
//! One iteration of a memory, as a definition: what is too old goes; of the candidates, in the order of their rows'
//! names, any that repeats or resembles an entry (or an earlier candidate of this iteration) is left out; of its old
//! entries and the candidates, each bucket keeps its best `capacity`. A removed entry doesn't come back.

mod admission;
mod clusters;
mod distinct;
mod entry;
mod library;
mod list;
mod outcomes;
mod rescore;
mod retrieval;
#[cfg(test)]
mod tests;
mod words;

pub use admission::{Admission, Duplicates, Evict, NoveltyOf, Rank, Ties};
pub use clusters::Clusters;
pub use distinct::{exactly, Distinct};
pub use entry::{keys, table, Change, Entry, COLUMNS};
pub use library::Library;
pub use list::{unmarked, Item, ListSettings};
pub use outcomes::{Outcomes, RankIn, Ranked};
pub use rescore::Rescore;
pub use retrieval::{By, Lookup, Order, Retrieval};
pub use words::{words, WIDTH};

/// The bucket of a task's entries; 0 is the one for all.
pub fn bucket(task: &str) -> u64 {
    flow_core::seed::text(task).max(1)
}
