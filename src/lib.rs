pub mod credit;
pub mod env;
pub mod log;
pub mod pipeline;
pub mod policy;
pub mod row;
pub mod seed;
