//! The log: what a run leaves on disk, and the questions one can ask it. The only code that knows Parquet and DuckDB.
//!
//! ```text
//! RUN/pipeline.yaml                                    the resolved pipeline
//! RUN/manifest.json                                    how the run stands, and its segments: replaced atomically, what readers trust
//! RUN/journal/<generation>-<block>.jsonl               a line for each iteration that was committed after those
//! RUN/log/<node>/<i>/part-<worker>.parquet   the rows of such an iteration
//! RUN/log/<node>/<first>-<last>/rows-<generation>.parquet   the rows of a segment's iterations
//! ```
//!
//! A commit appends a line. Behind the run's back whole blocks of iterations become segments, of one file a node, and
//! these become larger ones, so that the number of files stays small; nothing is removed that somebody reads. A kill in
//! between loses nothing: what no manifest names yet is swept, and what it names is there.
//!
//! A worker writes a part ([`write_part`]); one thread commits an iteration once all its parts are written
//! ([`Committer`]). What no commit names doesn't exist for [`read`] and [`query()`], so a kill at any moment loses only
//! iterations in hand. Until then a part has a name of its own (`pending`), so other programs don't read it either.
//! [`diff()`] joins two runs by the names of their rows.

mod chain;
mod commit;
mod compaction;
mod diff;
mod disk;
mod error;
mod export;
mod expression;
mod findings;
mod fold;
mod guard;
mod head;
mod index;
mod iteration;
mod joined;
mod journal;
mod keep;
mod lock;
mod manifest;
mod pending;
mod print;
mod query;
mod reader;
mod readers;
mod run;
mod run_info;
mod scalar;
mod scope;
mod segment;
mod shares;
pub mod sql;
mod status;
mod sweep;
mod texts;
mod types;
mod views;
mod weights;
mod writer;

pub use commit::Committer;
pub use diff::{
    diff, metrics, nodes, versions, weights, CreditDiff, Diff, MetricsDiff, NodeDiff, RowCounts, UsedDiff, VersionsDiff, WeightsDiff,
};
pub use error::LogError;
pub use export::{export_duckdb, export_parquet};
pub use expression::Expressions;
pub use findings::{audit_folder, audits, write_audit, AUDIT};
pub use index::{committed_files, journal_files, locate};
pub use iteration::{Iteration, Metrics, Part};
pub use lock::Lock;
pub use manifest::Manifest;
pub use print::{print, AnswerFormat};
pub use query::{engine_version, query, query_to, query_within, tables, verify, QueryResult, Table};
pub use reader::{columns, read, read_iteration, RowReader};
pub use run::Run;
pub use run_info::{NodeInfo, Replays, RunInfo};
pub use scalar::{numbers, parses, value_of, values_of};
pub use shares::{TimePart, TimeShares};
pub use status::Status;
pub use texts::Decoder;
pub use weights::{FileChecksum, SavedWeights};
pub use writer::write_part;
