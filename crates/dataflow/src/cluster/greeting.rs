//! The handshake between two processes: one line of JSON from each, so that even another version of this program can
//! explain why it refuses to take part.

use super::{Purpose, RunIdentity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a process may take to send its line once it is connected.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// How long an address may take to accept a connection.
const CONNECTION: Duration = Duration::from_secs(1);
/// The longest line that is accepted, in bytes.
const LONGEST: usize = 64 * 1024;

/// The message of the process that connects.
#[derive(Serialize, Deserialize)]
pub(super) struct Greeting {
    pub process: usize,
    pub purpose: Purpose,
    pub same: RunIdentity,
    /// What the other side's proof must answer; empty where the hosts file has no secret.
    #[serde(default)]
    pub nonce: String,
    /// By which this process knows its own greetings again when it is asked; empty where the hosts file has a secret.
    #[serde(default)]
    pub token: String,
}

/// What a connection begins with.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Opening {
    Question(Question),
    Greeting(Greeting),
}

/// Asks the process that a greeting names whether the greeting is its own.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub sent: String,
}

/// Whether it is.
#[derive(Serialize, Deserialize)]
pub(super) struct Reply {
    pub own: bool,
}

/// The answer of the process that accepts: at once, or with a secret once the other side has proved that it knows it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Challenge(Challenge),
    Welcome(Welcome),
}

/// Proves that the accepting process knows the secret, and asks for the same.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Challenge {
    pub nonce: String,
    pub proof: String,
}

/// The connecting process's proof.
#[derive(Serialize, Deserialize)]
pub(super) struct Proof {
    pub proof: String,
}

/// Whether this process takes part.
#[derive(Serialize, Deserialize)]
pub(super) struct Welcome {
    pub refused: Option<String>,
    pub news: Value,
}

/// A connection whose first line is still being received. It is polled, so that a silent or slow peer doesn't block
/// others.
pub(super) struct LineReader {
    stream: TcpStream,
    until: Instant,
    text: Vec<u8>,
}

impl LineReader {
    /// Gives up at `until`.
    pub fn new(stream: TcpStream, until: Instant) -> io::Result<LineReader> {
        stream.set_nonblocking(true)?;
        Ok(LineReader { stream, until, text: Vec::new() })
    }

    /// The line's value and the connection once the line is complete; itself while it isn't. Reads not a byte more than
    /// the line: later bytes belong to timely.
    pub fn look<T: DeserializeOwned>(mut self) -> io::Result<Result<(T, TcpStream), LineReader>> {
        let mut buffer = [0; 4096];
        let here = match self.stream.peek(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(here) => here,
            Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < self.until => return Ok(Err(self)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        };
        let end = buffer[..here].iter().position(|byte| *byte == b'\n');
        let line = &mut buffer[..end.map_or(here, |end| end + 1)];
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

/// Sends a line.
pub(super) fn say(mut stream: &TcpStream, what: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    stream.set_write_timeout(Some(ANSWER))?;
    stream.write_all(&text)?;
    stream.set_write_timeout(None)
}

/// A connection with the process at `address`.
pub(super) fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTION) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}
