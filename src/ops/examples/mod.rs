//! From logged rows to the examples that a model learns from or is compared with its reference on.

pub mod reference;
pub mod select;
