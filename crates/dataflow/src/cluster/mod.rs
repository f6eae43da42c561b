//! Several processes as one: who they are, that they mean the same run, and the connections that timely then uses.
//!
//! timely's protocol has neither authentication nor encryption. A secret in the hosts file keeps strangers from taking
//! part. Without one, a program that listens at a process's address before that process can take its place; use loopback or
//! a private network. A process listens at its own
//! address of the hosts file and nowhere else.
//!
//! - `hosts`: the processes of a run, and what all of them must agree on
//! - `greeting`: what two processes say to one another first
//! - `guests`: those who connect, and whether they are who they say
//! - `secret`: proof that both know the secret of the hosts file
//! - `join`: all processes find one another, and `waiting` for processes that haven't started yet
//! - [`peers`]: the connections over which their policies learn together
//! - `keepalive`: connections to a host that is cut off break
//! - `life`: signs of life between them
//! - [`end`]: how a process ends before its run does

pub mod end;
mod error;
mod greeting;
mod guests;
mod hosts;
mod join;
mod keepalive;
pub(super) mod life;
pub mod peers;
mod secret;
mod waiting;

pub use error::ClusterError;
pub use hosts::{Hosts, RunIdentity};
pub use waiting::Meanwhile;

use super::failure::Failed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::Any;
use std::net::TcpStream;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::Hooks;

/// The purpose of a connection: each pair of processes has one of each kind.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// timely's messages.
    Rows,
    /// Gradients of updates.
    Learning,
    /// Heartbeats.
    Life,
}

impl Purpose {
    const ALL: [Purpose; 3] = [Purpose::Rows, Purpose::Learning, Purpose::Life];
}

/// This process, connected with all others.
pub struct Cluster {
    process: usize,
    workers: usize,
    /// By purpose, one for each process; none with this one itself.
    sockets: [Vec<Option<TcpStream>>; 3],
    /// The first process's message to the others.
    pub news: Value,
}

impl Cluster {
    /// Which process this is, and how many there are. The first one commits and reports.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.process, self.sockets[Purpose::Rows as usize].len())
    }

    /// The connections for a purpose, by process, taken out.
    pub(super) fn take(&mut self, purpose: Purpose) -> Vec<Option<TcpStream>> {
        std::mem::take(&mut self.sockets[purpose as usize])
    }

    /// The allocators that timely builds its workers on.
    pub(super) fn build(mut self) -> Result<(Vec<AllocatorBuilder>, Box<dyn Any + Send>), Failed> {
        let sockets = self.take(Purpose::Rows);
        for stream in sockets.iter().flatten() {
            stream.set_nodelay(true)?;
        }
        let hooks = Hooks::default();
        let within = ProcessBuilder::new_typed_vector(self.workers, hooks.refill.clone(), None);
        let (builders, guard) = initialize_networking_from_sockets(within, sockets, self.process, self.workers, hooks)?;
        Ok((builders.into_iter().map(AllocatorBuilder::Tcp).collect(), Box::new(guard)))
    }
}
