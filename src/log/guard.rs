//! Which statements may be asked.
