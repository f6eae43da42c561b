//! Tests that run the engine within the test's own process. They are a program of their own because the engine ends its
//! process when a thread panics, and would take every other test with it.

mod fails;
mod loops;
mod memory;
mod stall;
