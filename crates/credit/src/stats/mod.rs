//! Statistics: what a number that was measured says, and how sure one can be of it. Pure functions on slices; nothing
//! here knows what a row, a policy or a graph is.

pub mod agreement;
#[cfg(test)]
mod coverage;
mod crossed;
mod diversity;
mod groups;
mod holm;
mod interval;
mod kinds;
mod pass;
mod student;
mod sums;

pub use crossed::{pseudo_values, Estimate};
pub use diversity::{courses, diversity, exploration_degree, revisits};
pub use groups::{sizes, Groups};
pub use holm::holm;
pub use interval::{bootstrap, over_seeds, wilson, Interval};
pub use kinds::{around_zero, difference_p, sign_test, two_kinds};
pub use pass::{pass_at, pass_interval, Trial};
pub use sums::{equal, Sums};
