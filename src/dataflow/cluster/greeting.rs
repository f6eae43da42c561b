//! What two processes say to one another first: each one line of JSON, so that even another version of this program can say why it
//! doesn't take part.

use super::{Purpose, Same};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a process may take to say its line once it is connected.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// A line is short.
const LONGEST: usize = 64 * 1024;

/// What the process says that has come.
#[derive(Serialize, Deserialize)]
pub(super) struct Greeting {
    pub process: usize,
    pub purpose: Purpose,
    pub same: Same,
}

/// What the process answers that it has come to.
#[derive(Serialize, Deserialize)]
pub(super) struct Welcome {
    pub refused: Option<String>,
    pub news: Value,
}

/// A connection from which a line is awaited. Nobody waits for a single one of them: it is looked at now and then, so that one that
/// says nothing, or says it slowly, keeps nobody from anything.
pub(super) struct Awaited {
    stream: TcpStream,
    until: Instant,
    text: Vec<u8>,
}

impl Awaited {
    /// Gives up at `until`.
    pub fn new(stream: TcpStream, until: Instant) -> io::Result<Awaited> {
        stream.set_nonblocking(true)?;
        Ok(Awaited { stream, until, text: Vec::new() })
    }

    /// The line's value and the connection, once all of it has come; the same again while it hasn't. Takes not a byte more than the
    /// line: what follows belongs to timely.
    pub fn look<T: DeserializeOwned>(mut self) -> io::Result<Result<(T, TcpStream), Awaited>> {
        let mut seen = [0; 4096];
        let here = match self.stream.peek(&mut seen) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(here) => here,
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < self.until => return Ok(Err(self)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        };
        let end = seen[..here].iter().position(|byte| *byte == b'\n');
        let line = &mut seen[..end.map_or(here, |end| end + 1)];
        self.stream.read_exact(line)?; // it is there, so this doesn't wait
        self.text.extend_from_slice(line);
        match end {
            _ if self.text.len() > LONGEST => Err(io::Error::new(ErrorKind::InvalidData, "its line is too long")),
            None if Instant::now() > self.until => Err(ErrorKind::TimedOut.into()),
            None => Ok(Err(self)),
            Some(_) => {
                self.stream.set_nonblocking(false)?;
                Ok(Ok((serde_json::from_slice(&self.text)?, self.stream)))
            }
        }
    }
}

/// Says a line.
pub(super) fn say(mut stream: &TcpStream, what: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    stream.set_write_timeout(Some(ANSWER))?;
    stream.write_all(&text)?;
    stream.set_write_timeout(None)
}
