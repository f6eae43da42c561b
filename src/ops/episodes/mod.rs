//! Shared by the operators that play episodes or reflect on them: attempts in a loop, their inputs, and their metrics.

pub mod attempts;
pub mod by_name;
pub mod figures;
pub mod inputs;
pub mod reward_chain;
pub mod tokens;
