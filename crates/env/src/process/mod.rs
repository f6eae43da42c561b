//! Environments outside this process: any program that reads lines and writes lines, as `docs/protocol.md` says.
//!
//! A [`Pool`] holds several processes of one program. What is asked and answered stands in `request` and `answer`; a
//! `place` keeps requests and answers together and ends a process that breaks the protocol; [`Programs`] starts
//! programs and sees to it that none outlives the run.

mod actions;
mod answer;
mod child;
mod descendants;
pub(super) mod draw;
mod error;
mod hello;
mod malformed;
mod orphans;
mod pool;
mod programs;
mod request;
mod settings;
mod slot;
mod variables;

pub(super) use child::{Child, ChildOutput};
pub use error::{ProcessError, StartError};
pub use hello::{Hello, Items};
pub use pool::{wait, EpisodeAnswer, Pool};
pub use programs::{Pipes, Programs};
pub use request::{EpisodeRequest, Listing};
pub use settings::ProcessSettings;
