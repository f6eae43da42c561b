//! Heartbeats between processes. The first process ends a run without progress; it may itself be idle for good reason
//! while another process is still playing.

use super::{Cluster, Purpose};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Heartbeats: what the first process's watchdog receives from the others, or another process sends to it.
pub(in crate::dataflow) struct Life {
    first: bool,
    sockets: Vec<TcpStream>,
    heard: u64,
}

impl Life {
    /// Takes the cluster's connections for this purpose.
    pub fn new(cluster: &mut Cluster) -> io::Result<Life> {
        let first = cluster.place().0 == 0;
        let sockets: Vec<TcpStream> = match cluster.take(Purpose::Life) {
            all if first => all.into_iter().flatten().collect(),
            all => all.into_iter().next().flatten().into_iter().collect(),
        };
        sockets.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
        Ok(Life { first, sockets, heard: 0 })
    }

    /// The number of heartbeats received so far.
    pub fn heard(&mut self) -> u64 {
        let mut signs = [0; 64];
        for stream in self.sockets.iter_mut().filter(|_| self.first) {
            // No data or a broken connection: broken connections are detected elsewhere.
            self.heard += stream.read(&mut signs).unwrap_or(0) as u64;
        }
        self.heard
    }

    /// Sends a heartbeat: this process made progress.
    pub fn moved(&mut self) {
        for stream in self.sockets.iter_mut().filter(|_| !self.first) {
            let _ = stream.write(&[1]); // full or closed: the first process is busy, or gone
        }
    }
}
