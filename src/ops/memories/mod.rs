//! Shared by the operators that fill or read memories: the keys that are compared, the buckets of entries, and reading.

pub mod buckets;
pub mod keys;
pub mod reading;
