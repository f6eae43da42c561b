//! Incoming connections while the processes gather. Each is read without blocking, and has to show that it is the process
//! that it claims to be. With a secret it proves that it has the secret. Without one, the claimed process is asked at its
//! address of the hosts file: no other program can listen there at the same time.

use super::greeting::{connect, say, Answer, Challenge, Greeting, LineReader, Opening, Proof, Question, Reply, ANSWER};
use super::secret::{is_proved, proof, Side};
use flow_core::files;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{channel, Receiver, TryRecvError};
use std::time::Instant;

/// The number of connections that may be open before they have shown who they are; beyond that the oldest is closed.
pub(super) const SILENT: usize = 256;

/// The connections to this process.
pub(super) struct Guests {
    listener: TcpListener,
    secret: String,
    /// The tokens of the greetings that this process has sent.
    sent: Vec<String>,
    knocking: VecDeque<Guest>,
    greeted: Vec<Greeted>,
}

/// Somebody who has connected.
enum Guest {
    /// Before its greeting.
    Unknown(LineReader),
    /// After it: the nonce that it was given to prove itself.
    Challenged(Greeting, String, LineReader),
    /// The process that it names is asked.
    Asked(Greeting, TcpStream, Receiver<bool>),
}

/// A guest that has greeted.
pub(super) struct Greeted {
    pub greeting: Greeting,
    pub stream: TcpStream,
    /// Whether it is the process that it says it is; none before that process is asked.
    pub proved: Option<bool>,
}

impl Guests {
    pub fn new(listener: TcpListener, secret: &str) -> io::Result<Guests> {
        listener.set_nonblocking(true)?;
        Ok(Guests { listener, secret: secret.into(), sent: Vec::new(), knocking: VecDeque::new(), greeted: Vec::new() })
    }

    /// A token for a greeting of this process.
    pub fn token(&mut self) -> io::Result<String> {
        if !self.secret.is_empty() {
            return Ok(String::new());
        }
        let token = files::random()?;
        self.sent.push(token.clone());
        Ok(token)
    }

    /// Reads what has come, without waiting.
    ///
    /// # Errors
    /// If no further connection can be accepted.
    pub fn poll(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                // A connection that can't be polled is already gone.
                Ok((stream, _)) => self.knocking.extend(LineReader::new(stream, Instant::now() + ANSWER).ok().map(Guest::Unknown)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if [ErrorKind::ConnectionAborted, ErrorKind::Interrupted].contains(&e.kind()) => {}
                Err(e) => return Err(e),
            }
            if self.knocking.len() > SILENT {
                self.knocking.pop_front();
            }
        }
        for guest in std::mem::take(&mut self.knocking) {
            // Any other program that connects to the port is dropped.
            let _ = self.look(guest);
        }
        Ok(())
    }

    /// Those who have greeted since the last call.
    pub fn greeted(&mut self) -> Vec<Greeted> {
        std::mem::take(&mut self.greeted)
    }

    /// Asks the process at `address`, which this guest says it is, whether it has sent the greeting.
    pub fn ask(&mut self, Greeted { greeting, stream, .. }: Greeted, address: &str) {
        let (address, sent) = (address.to_owned(), greeting.token.clone());
        let (answer, answered) = channel();
        // A connection takes time, and others wait. The receiver may be gone by then.
        std::thread::spawn(move || answer.send(!sent.is_empty() && is_sender(&address, sent).unwrap_or(false)));
        self.knocking.push_back(Guest::Asked(greeting, stream, answered));
    }

    fn look(&mut self, guest: Guest) -> io::Result<()> {
        match guest {
            Guest::Unknown(reader) => match reader.look::<Opening>()? {
                Err(still) => self.knocking.push_back(Guest::Unknown(still)),
                Ok((Opening::Question(Question { sent }), stream)) => say(&stream, &Reply { own: self.sent.contains(&sent) })?,
                Ok((Opening::Greeting(greeting), stream)) if self.secret.is_empty() => {
                    // With a nonce it has a secret, and this side none.
                    let proved = (!greeting.nonce.is_empty()).then_some(false);
                    self.greeted.push(Greeted { greeting, stream, proved });
                }
                Ok((Opening::Greeting(greeting), stream)) => {
                    let nonce = files::random()?;
                    let proof = proof(&self.secret, Side::Accepts, &greeting, &nonce);
                    say(&stream, &Answer::Challenge(Challenge { nonce: nonce.clone(), proof }))?;
                    self.knocking.push_back(Guest::Challenged(greeting, nonce, LineReader::new(stream, Instant::now() + ANSWER)?));
                }
            },
            Guest::Challenged(greeting, nonce, reader) => match reader.look::<Proof>()? {
                Err(still) => self.knocking.push_back(Guest::Challenged(greeting, nonce, still)),
                Ok((Proof { proof }, stream)) => {
                    let proved = Some(is_proved(&self.secret, Side::Connects, &greeting, &nonce, &proof));
                    self.greeted.push(Greeted { greeting, stream, proved });
                }
            },
            Guest::Asked(greeting, stream, answered) => match answered.try_recv() {
                Err(TryRecvError::Empty) => self.knocking.push_back(Guest::Asked(greeting, stream, answered)),
                answer => self.greeted.push(Greeted { greeting, stream, proved: Some(answer.unwrap_or(false)) }),
            },
        }
        Ok(())
    }
}

/// Whether the process at `address` says that it has sent the greeting with this token.
fn is_sender(address: &str, sent: String) -> io::Result<bool> {
    let stream = connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    say(&stream, &Question { sent })?;
    let mut line = String::new();
    io::Read::take(BufReader::new(stream), 256).read_line(&mut line)?;
    Ok(serde_json::from_str::<Reply>(&line).is_ok_and(|reply| reply.own))
}
