//! What the operators that fill or read memories have in common: the keys that are compared, the buckets that entries lie in, and reading.

pub mod buckets;
pub mod keys;
pub mod reading;
