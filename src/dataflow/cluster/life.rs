//! Signs of life between processes: the first one, which ends a run in which nothing moves, may rightly stand still while it waits
//! for what another one plays.

use super::{Cluster, Purpose};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// What the watchdog of one process hears of the others, or lets the first one know.
pub(in crate::dataflow) struct Life {
    first: bool,
    sockets: Vec<TcpStream>,
    heard: u64,
}

impl Life {
    /// Over the connections that the cluster has made for this.
    pub fn new(cluster: &mut Cluster) -> io::Result<Life> {
        let first = cluster.place().0 == 0;
        let sockets: Vec<TcpStream> = match cluster.take(Purpose::Life) {
            all if first => all.into_iter().flatten().collect(),
            all => all.into_iter().next().flatten().into_iter().collect(),
        };
        sockets.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
        Ok(Life { first, sockets, heard: 0 })
    }

    /// How many signs the other processes have given.
    pub fn heard(&mut self) -> u64 {
        let mut signs = [0; 64];
        for stream in self.sockets.iter_mut().filter(|_| self.first) {
            // Nothing there, or nobody: whether it is still connected is for others to notice.
            self.heard += stream.read(&mut signs).unwrap_or(0) as u64;
        }
        self.heard
    }

    /// Something has moved here.
    pub fn moved(&mut self) {
        for stream in self.sockets.iter_mut().filter(|_| !self.first) {
            let _ = stream.write(&[1]); // full or closed: the first process is busy, or gone
        }
    }
}
