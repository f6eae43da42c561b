//! Checks that span several nodes: how operators, models and agents fit together in one pipeline. `flow check` reports
//! what they find.

pub mod acting;
pub mod agents;
pub mod branches;
pub mod by_name;
pub mod critics;
pub mod distil;
pub mod foreign_weights;
pub mod heads;
pub mod idle_clip;
pub mod negative_returns;
pub mod no_spread;
pub mod placement;
pub mod programs;
pub mod remote;
pub mod served;
pub mod shared;
pub mod small_rewards;
pub mod templates;
pub mod tinker;
pub mod trees;
pub mod unused;
pub mod update_order;
pub mod upstream;
