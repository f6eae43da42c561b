//! Waits for the other processes: with a time limit, with messages to the person who started this one, and with a way
//! to cancel.

use super::greeting::{connect, say, Answer, Challenge, Greeting, LineReader, Proof, Welcome};
use super::guests::Guests;
use super::secret::{is_proved, proof, Side};
use super::{ClusterError, Hosts};
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long processes wait for one another to start.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// After this long the missing process is announced.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// The polling interval.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Callbacks while a process waits for the others.
pub struct Meanwhile<'a> {
    /// Whether a stop was requested.
    pub stopped: &'a dyn Fn() -> bool,
    /// Receives a message about the process that is missing.
    pub tell: &'a dyn Fn(&str),
}

impl Meanwhile<'_> {
    /// Waits silently, without a way to cancel.
    pub fn quiet() -> Meanwhile<'static> {
        Meanwhile { stopped: &|| false, tell: &|_| {} }
    }
}

/// The wait for all other processes.
pub(super) struct PeerWait<'a> {
    /// The addresses of all processes, and their secret.
    pub hosts: &'a Hosts,
    /// Those who connect meanwhile.
    pub guests: Guests,
    meanwhile: &'a Meanwhile<'a>,
    start: Instant,
    /// The process that was last announced as missing.
    announced: Option<usize>,
}

impl<'a> PeerWait<'a> {
    /// Begins now.
    pub(super) fn new(hosts: &'a Hosts, meanwhile: &'a Meanwhile<'a>, guests: Guests) -> PeerWait<'a> {
        PeerWait { hosts, guests, meanwhile, start: Instant::now(), announced: None }
    }

    /// Prints a message for the person who started this process.
    pub(super) fn tell(&self, text: &str) {
        (self.meanwhile.tell)(text);
    }

    /// Whether the time limit has passed.
    pub(super) fn over(&self) -> bool {
        self.start.elapsed() > PATIENCE
    }

    /// One polling step of the wait for `process`.
    pub(super) fn moment(&mut self, process: usize) -> Result<(), ClusterError> {
        if (self.meanwhile.stopped)() {
            return Err(ClusterError::Stopped);
        }
        if self.start.elapsed() > QUIET && self.announced != Some(process) {
            let left = PATIENCE.saturating_sub(self.start.elapsed()).as_secs();
            let (address, count) = (&self.hosts.addresses[process], self.hosts.addresses.len());
            (self.meanwhile.tell)(&format!(
                "waiting for process {process} of {count} at {address}: start it with the same arguments and --process {process} within {left} s"
            ));
            self.announced = Some(process);
        }
        std::thread::sleep(LOOK);
        Ok(self.guests.poll()?)
    }

    /// Connects with `process`, which may not be there yet.
    pub(super) fn connected(&mut self, process: usize) -> Result<TcpStream, ClusterError> {
        let address = &self.hosts.addresses[process];
        loop {
            match connect(address) {
                Ok(stream) => return Ok(stream),
                Err(source) if self.over() => return Err(ClusterError::Unreachable { process, address: address.clone(), source }),
                Err(_) => self.moment(process)?,
            }
        }
    }

    /// What `process` answers to a greeting. It may still be waiting for others before it looks at this one.
    pub(super) fn exchange(
        &mut self,
        stream: TcpStream,
        greeting: &Greeting,
        process: usize,
    ) -> Result<(Welcome, TcpStream), ClusterError> {
        let silent = |source: io::Error| ClusterError::NoAnswer { process, source };
        let unproven = || ClusterError::Unproven { process, address: self.hosts.addresses[process].clone() };
        let secret = &self.hosts.secret;
        say(&stream, greeting).map_err(silent)?;
        let (mut awaited, mut proved) = (LineReader::new(stream, Instant::now() + PATIENCE).map_err(silent)?, secret.is_empty());
        loop {
            match awaited.look().map_err(silent)? {
                Ok((Answer::Welcome(welcome), stream)) if proved => return Ok((welcome, stream)),
                Ok((Answer::Challenge(Challenge { nonce, proof: theirs }), stream)) if !proved => {
                    if !is_proved(secret, Side::Accepts, greeting, &nonce, &theirs) {
                        return Err(unproven());
                    }
                    say(&stream, &Proof { proof: proof(secret, Side::Connects, greeting, &nonce) }).map_err(silent)?;
                    (awaited, proved) = (LineReader::new(stream, Instant::now() + PATIENCE).map_err(silent)?, true);
                }
                Ok(_) => return Err(unproven()),
                Err(still) => awaited = still,
            }
            self.moment(process)?;
        }
    }
}
