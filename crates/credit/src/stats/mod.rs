//! Statistics: what a number that was measured says, and how sure one can be of it. Pure functions on slices; nothing
//! here knows what a row, a policy or a graph is.

pub mod agreement;
mod diversity;
mod groups;
mod interval;
mod pass;
mod sums;

pub use diversity::{courses, diversity, exploration_degree, revisits};
pub use groups::{sizes, Groups};
pub use interval::{bootstrap, over_seeds, wilson, Interval};
pub use pass::{pass_at, pass_interval, Trial};
pub use sums::{equal, Sums};
