//! Connections between the policies of several processes: what [`Peers`] asks for, over TCP.
//!
//! A message is its length in eight bytes, the least significant first, and its bytes. Whose turn it is comes as a message of the
//! first process with the model's name. An update's messages follow on the same connections, so the two can't get mixed up.

use super::cluster::Cluster;
use super::run::gone;
use super::watch::lock;
use crate::policy::Peers;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, PoisonError};

/// One connection with each other process.
pub struct Connections {
    process: usize,
    sockets: Vec<Option<TcpStream>>,
    turn: Mutex<Turn>,
    over: Condvar,
}

/// Whose turn it is.
#[derive(Default)]
struct Turn {
    /// The model that the first process has named last, until its update is over.
    model: Option<String>,
    /// Its update is being made here.
    taken: bool,
}

impl Connections {
    /// Over the connections that the cluster has made for this.
    pub(super) fn new(cluster: &mut Cluster) -> io::Result<Connections> {
        let (process, sockets) = (cluster.place().0, std::mem::take(&mut cluster.learning));
        for stream in sockets.iter().flatten() {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(None)?;
        }
        Ok(Connections { process, sockets, turn: Mutex::default(), over: Condvar::new() })
    }

    fn with(&self, process: usize) -> io::Result<&TcpStream> {
        self.sockets[process].as_ref().ok_or_else(|| io::Error::new(ErrorKind::NotConnected, "this process itself"))
    }

    fn give(&self, process: usize, message: &[u8]) -> io::Result<()> {
        let mut stream = self.with(process)?;
        stream.write_all(&(message.len() as u64).to_le_bytes())?;
        stream.write_all(message)
    }

    fn take(&self, process: usize) -> io::Result<Vec<u8>> {
        let mut stream = self.with(process)?;
        let mut length = [0; 8];
        stream.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let mut message = Vec::new();
        // It grows with what comes: a wrong length is an error, not an allocation.
        stream.take(length).read_to_end(&mut message)?;
        if message.len() as u64 == length {
            Ok(message)
        } else {
            Err(ErrorKind::UnexpectedEof.into())
        }
    }
}

/// What came over a connection. One that is broken ends this process, as it does where timely notices it: half a cluster never
/// waits for the other half.
fn came<T>(process: usize, result: io::Result<T>) -> T {
    result.unwrap_or_else(|_| gone(&process.to_string()))
}

impl Peers for Connections {
    fn place(&self) -> (usize, usize) {
        (self.process, self.sockets.len())
    }

    fn begin(&self, model: &str) -> Result<(), String> {
        let mut turn = lock(&self.turn);
        loop {
            match &turn.model {
                None if self.process == 0 => {
                    (1..self.sockets.len()).for_each(|process| came(process, self.give(process, model.as_bytes())));
                    *turn = Turn { model: Some(model.into()), taken: true };
                    return Ok(());
                }
                // Whoever waits here, waits for the same message.
                None => {
                    let named = came(0, self.take(0));
                    turn.model = Some(String::from_utf8(named).map_err(|_| "the first process names no model".to_string())?);
                    self.over.notify_all();
                }
                Some(named) if named == model && !turn.taken => {
                    turn.taken = true;
                    return Ok(());
                }
                Some(_) => turn = self.over.wait(turn).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn end(&self) {
        *lock(&self.turn) = Turn::default();
        self.over.notify_all();
    }

    /// The pairs of processes talk in the order of their numbers, the lower one first: so no two wait for each other.
    fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let talk = |other: usize| {
            if other == self.process {
                return Vec::new();
            }
            if self.process < other {
                came(other, self.give(other, own));
            }
            let theirs = came(other, self.take(other));
            if other < self.process {
                came(other, self.give(other, own));
            }
            theirs
        };
        Ok((0..self.sockets.len()).map(talk).collect())
    }
}
