//! Credit on rows as they flow: which columns are read, what is made of them by the pure functions beside this folder,
//! and what columns are added. Operators call these and so do the benchmarks: the measured code is the running code.
//!
//! Every function takes the batches that a stage got and gives them back, as they came, with further columns: nothing
//! else is copied.

mod advantage;
mod combine;
mod episodes;
pub mod estimates;
mod group;
mod join;
mod last;
mod tokens;

pub use advantage::{columns_made, compare, compared, equal_groups, groups_below_zero, samples, value, RunningMeans};
pub use combine::{combine, Over};
pub use episodes::{episodes, reflections};
pub use group::{mark, measure, split, EarlyTurns, PLACE};
pub use join::{rejoin, JoinError};
pub use last::LastValues;
