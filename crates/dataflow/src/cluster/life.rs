//! Heartbeats between processes. The first process ends a run without progress; it may itself be idle for good reason
//! while another process loads its models or is still playing.

use super::{Cluster, Purpose};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Heartbeats: what the first process's watchdog receives from the others, or another process sends to it.
pub(crate) struct Life {
    first: bool,
    sockets: Vec<TcpStream>,
    heard: u64,
    /// Whether the process behind each socket has begun: then it sent its first heartbeat.
    begun: Vec<bool>,
}

impl Life {
    /// Takes the cluster's connections for this purpose, and tells the first process that this one begins.
    pub fn new(cluster: &mut Cluster) -> io::Result<Life> {
        let first = cluster.place().0 == 0;
        let sockets: Vec<TcpStream> = match cluster.take(Purpose::Life) {
            all if first => all.into_iter().flatten().collect(),
            all => all.into_iter().next().flatten().into_iter().collect(),
        };
        sockets.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
        let mut life = Life { first, begun: vec![false; sockets.len()], sockets, heard: 0 };
        life.moved();
        Ok(life)
    }

    /// In the first process: another one that has not begun yet. It has joined, and loads its models.
    pub fn absent(&self) -> Option<usize> {
        self.begun.iter().position(|begun| self.first && !begun).map(|at| at + 1)
    }

    /// The number of heartbeats received so far.
    pub fn heard(&mut self) -> u64 {
        let mut signs = [0; 64];
        for (stream, begun) in self.sockets.iter_mut().zip(&mut self.begun).filter(|_| self.first) {
            // No data or a broken connection: broken connections are detected elsewhere.
            let signs = stream.read(&mut signs).unwrap_or(0) as u64;
            *begun |= signs > 0;
            self.heard += signs;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_process_is_absent_until_it_is_heard() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ends = (0..2).map(|_| (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0));
        let ((one, of_one), (two, of_two)) = (ends.next().unwrap(), ends.next().unwrap());
        let life = |first, sockets: Vec<TcpStream>| Life { first, begun: vec![false; sockets.len()], sockets, heard: 0 };
        let (mut first, mut one, mut two) = (life(true, vec![of_one, of_two]), life(false, vec![one]), life(false, vec![two]));
        // A read waits for what is on its way: these sockets block.
        one.moved();
        first.sockets[1].set_nonblocking(true).unwrap();
        assert_eq!((first.heard(), first.absent(), one.absent()), (1, Some(2), None));
        two.moved();
        first.sockets[0].set_nonblocking(true).unwrap();
        first.sockets[1].set_nonblocking(false).unwrap();
        assert_eq!((first.heard(), first.absent()), (2, None));
    }
}
