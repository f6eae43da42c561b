//! Turns logged rows into examples that a model is trained on, or on which it is compared with its reference model.

pub mod reference;
pub mod select;
