//! Panics of libtorch as errors.

use flow_model::{first_line, PolicyError, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The message of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    first_line(text.unwrap_or("panic"))
}

/// A panic of libtorch's as an error.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(PolicyError::Torch(panic_text(panic.as_ref()))))
}
