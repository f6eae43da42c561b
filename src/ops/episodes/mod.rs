//! What the operators that play episodes or reflect on them have in common: attempts in a loop, their inputs, and the figures they note.

pub mod attempts;
pub mod figures;
pub mod inputs;
pub mod reward_chain;
pub mod tokens;
