//! The statistics of a page: intervals over seeds and tasks, comparisons, and how many of them a page makes. Pure
//! functions on slices.

#[cfg(test)]
mod coverage;
mod crossed;
mod holm;
mod kinds;
mod student;

pub use crossed::{pseudo_values, Estimate};
pub use holm::holm;
pub use kinds::{around_zero, difference_p, sign_test, two_kinds};
