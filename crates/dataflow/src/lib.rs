//! The engine: with the files of the operators (`ops`), which are written in timely's terms, the only code that knows
//! timely; the only code that knows differential. It knows no operator; operators meet it in [`Render`].
//!
//! - [`edge`]: Arrow record batches as timely's container, and how they are routed between workers; `columns`: the
//!   schema of an edge
//! - [`stage`]: the one operator shape: wait for the frontier, run, emit
//! - [`mod@streaming`]: the operator shape inside a loop: rows are worked on as they come
//! - `stage_thread`: the thread of a stage, or of an operator in a loop
//! - [`source`]: opens iterations
//! - [`feed`]: rows that no operator of this run made: a log's, a test's
//! - `contract`: what an operator is to the engine
//! - [`relation`]: what is maintained as it changes, by differential dataflow
//! - [`render`]: pipeline -> timely; `attempts`: a loop in it; `graph_builder`: what of it is built
//! - [`figures`]: what nodes measure, and how the figures of several processes become one
//! - [`journal`]: rows -> Parquet parts -> committed iterations
//! - [`cluster`]: several processes as one; in it the connections over which their policies learn together (`peers`),
//!   signs of life between them (`life`), and how a process ends before its run does (`end`)
//! - `monitor`, [`watch`], [`status`], [`watchdog`], `judge`: where a stage says what it does, all stages, what
//!   `flow top` shows of them, and the end of a run without progress
//! - `failure`: how a node fails
//! - [`lost`]: episodes that failed, on their way to the table `errors`
//! - [`sink`]: rows kept in memory
//! - [`run`]: starts workers, stops them, reports

mod attempts;
pub mod cluster;
mod columns;
pub mod context;
mod contract;
pub mod edge;
mod failure;
pub mod feed;
pub mod figures;
mod graph_builder;
pub mod journal;
mod judge;
pub mod lost;
mod monitor;
pub mod relation;
pub mod render;
pub mod run;
pub mod sink;
pub mod source;
pub mod stage;
mod stage_thread;
pub mod status;
pub mod streaming;
pub mod watch;
pub mod watchdog;

pub use context::Context;
pub use contract::{InnerPorts, Ports, Render, RenderInside, RenderOutside};
pub use edge::{Attempt, Edge, Inner, Route};
pub use failure::{Failed, Failure, Panicked, ThreadGone};
pub use feed::Feed;
pub use figures::Figure;
pub use lost::Lost;
pub use monitor::Owner;
pub use sink::Sink;
pub use stage::Place;
