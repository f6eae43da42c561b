//! `flow`: reinforcement learning of language agents as a dataflow graph.
pub mod cli;
pub mod credit;
pub mod dataflow;
pub mod env;
pub mod log;
pub mod ops;
pub mod pipeline;
pub mod policy;
pub mod row;
pub mod seed;
