//! The connection to rank 0 of a trainer: a request and its answer at a time, each a line of JSON and, where it says
//! `bytes`, so many bytes behind it (docs/protocol.md, "Trainers").

use crate::trainer::process::{Processes, SECRET};
use flow_core::files;
use flow_model::{ModelFault, PolicyError, Result, TrainSettings};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The protocol that is spoken.
const PROTOCOL: u64 = 1;
/// How often a wait looks at whether the trainer still runs.
const LOOK: Duration = Duration::from_millis(200);
/// The longest line of an answer.
const LONGEST: usize = 1 << 20;

/// A trainer, and the connection to it.
pub struct Connection {
    model: String,
    stream: BufReader<TcpStream>,
    processes: Option<Processes>,
    timeout: Duration,
    /// Requests whose answers, which have nothing in them, aren't read yet.
    pending: Vec<String>,
    /// What it says of itself, such as its versions and how many ranks it has.
    pub hello: Value,
    /// Whether it ended while a request was waiting for its answer.
    pub ended: bool,
}

/// Why there is no answer.
enum Silence {
    /// It took too long.
    Late,
    /// The connection has ended, or the trainer.
    Ended,
    /// The message is invalid.
    Malformed(String),
    /// What the trainer says of it.
    Reported(String),
}

impl Connection {
    /// Starts the trainer of `model`, or connects to one that runs.
    ///
    /// # Errors
    /// [`ModelFault::Trainer`] if there is none.
    pub fn open(model: &str, settings: &TrainSettings, cpu: bool) -> Result<Connection> {
        let fault = |what: String| PolicyError::model(model, ModelFault::Trainer { what });
        let timeout = Duration::from_secs_f64(settings.timeout);
        let (stream, processes) = match &settings.address {
            Some(address) => (connected(address).map_err(fault)?, None),
            None => {
                let (stream, processes) = started(settings, timeout, cpu).map_err(fault)?;
                (stream, Some(processes))
            }
        };
        let set = || {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(LOOK))?;
            stream.set_write_timeout(Some(timeout))
        };
        set().map_err(|e| fault(e.to_string()))?;
        let mut own = Connection {
            model: model.into(),
            stream: BufReader::new(stream),
            processes,
            timeout,
            pending: vec![],
            hello: Value::Null,
            ended: false,
        };
        own.hello = own.ask(json!({ "request": "hello", "protocol": PROTOCOL }), &[], 0)?.0;
        match own.hello["protocol"].as_u64() {
            Some(PROTOCOL) => Ok(own),
            other => Err(fault(format!("it speaks protocol {other:?} and flow speaks {PROTOCOL}"))),
        }
    }

    /// The answer to a request that has a `payload`; the answer has one of `bytes`.
    ///
    /// # Errors
    /// [`ModelFault::Trainer`] with the cause and the last lines of the trainer.
    pub fn ask(&mut self, request: Value, payload: &[u8], bytes: usize) -> Result<(Value, Vec<u8>)> {
        let name = name_of(&request);
        let sent = self.send(request, payload);
        // An answer to an earlier request may say why nothing more can be sent.
        self.settle()?;
        sent.and_then(|()| self.receive(bytes)).map_err(|silence| self.failed(&name, silence))
    }

    /// Sends a request whose answer has nothing in it, without waiting: the next [`Connection::ask`] reads that first.
    ///
    /// # Errors
    /// As of [`Connection::ask`].
    pub fn tell(&mut self, request: Value, payload: &[u8]) -> Result<()> {
        self.pending.push(name_of(&request));
        self.send(request, payload).or_else(|_| self.settle())
    }

    /// Reads the answers that were not waited for.
    fn settle(&mut self) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending).into_iter();
        pending.try_for_each(|earlier| self.receive(0).map(drop).map_err(|silence| self.failed(&earlier, silence)))
    }

    fn send(&mut self, mut request: Value, payload: &[u8]) -> Result<(), Silence> {
        request["bytes"] = payload.len().into();
        let stream = self.stream.get_mut();
        let sent = writeln!(stream, "{request}").and_then(|()| stream.write_all(payload)).and_then(|()| stream.flush());
        sent.map_err(|error| if is_late(&error) { Silence::Late } else { Silence::Ended })
    }

    fn receive(&mut self, bytes: usize) -> Result<(Value, Vec<u8>), Silence> {
        let end = Instant::now() + self.timeout;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let room = LONGEST.saturating_sub(line.len()) as u64;
            if room == 0 {
                return Err(Silence::Malformed("a line without an end".into()));
            }
            match self.stream.by_ref().take(room).read_until(b'\n', &mut line) {
                Ok(0) => return Err(Silence::Ended),
                Ok(_) => {}
                Err(error) => self.wait(&error, end)?,
            }
        }
        let head: Value = serde_json::from_slice(&line).map_err(|e| Silence::Malformed(format!("an answer that isn't JSON: {e}")))?;
        if let Some(what) = head["error"].as_str() {
            return Err(Silence::Reported(what.into()));
        }
        let announced = head["bytes"].as_u64().unwrap_or(0);
        if announced != bytes as u64 {
            return Err(Silence::Malformed(format!("an answer with {announced} bytes where {bytes} were asked for")));
        }
        let (mut payload, mut filled) = (vec![0; bytes], 0);
        while filled < bytes {
            match self.stream.read(&mut payload[filled..]) {
                Ok(0) => return Err(Silence::Ended),
                Ok(read) => filled += read,
                Err(error) => self.wait(&error, end)?,
            }
        }
        Ok((head, payload))
    }

    /// Why nothing more can be asked of the trainer, if it has ended since the last answer.
    pub fn lost(&mut self) -> Option<PolicyError> {
        let stream = self.stream.get_ref();
        let closed = stream.set_nonblocking(true).is_err()
            || match stream.peek(&mut [0]) {
                Ok(bytes) => bytes == 0,
                Err(error) => !is_late(&error) && error.kind() != ErrorKind::Interrupted,
            };
        let broken = stream.set_nonblocking(false).is_err() || closed;
        let ended = self.processes.as_mut().is_some_and(|processes| processes.ended().is_some());
        (broken || ended).then(|| self.failed("", Silence::Ended))
    }

    /// Whether there is still something to wait for.
    fn wait(&mut self, error: &std::io::Error, end: Instant) -> Result<(), Silence> {
        let ended = self.processes.as_mut().is_some_and(|processes| processes.ended().is_some());
        match () {
            () if error.kind() == ErrorKind::Interrupted => Ok(()),
            () if !is_late(error) || ended => Err(Silence::Ended),
            () if Instant::now() > end => Err(Silence::Late),
            () => Ok(()),
        }
    }

    /// The error of a request that has no answer. Nothing more is asked of this trainer, and what is left of it ends.
    fn failed(&mut self, request: &str, silence: Silence) -> PolicyError {
        let _ = self.stream.get_mut().shutdown(std::net::Shutdown::Both);
        self.ended = matches!(silence, Silence::Ended);
        let mut what = match &silence {
            Silence::Late => format!("it did not answer `{request}` in {} seconds (`timeout` of `train`)", self.timeout.as_secs_f64()),
            Silence::Ended if request.is_empty() => "it ended while it was asked nothing".into(),
            Silence::Ended => format!("it ended while it was asked to `{request}`"),
            Silence::Malformed(what) => format!("its answer to `{request}` is {what}"),
            Silence::Reported(what) => format!("{what} (asked to `{request}`)"),
        };
        match &mut self.processes {
            None => what += "; its own output says why",
            Some(processes) => {
                match silence {
                    Silence::Late => processes.kill(),
                    _ => processes.end(),
                }
                let lines = processes.last_lines();
                if !lines.is_empty() {
                    what += &format!(". Its last lines:\n  {lines}");
                }
            }
        }
        PolicyError::model(&self.model, ModelFault::Trainer { what })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // At the end of its input a trainer ends.
        let _ = self.stream.get_mut().shutdown(std::net::Shutdown::Both);
    }
}

fn name_of(request: &Value) -> String {
    request["request"].as_str().unwrap_or_default().into()
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A trainer that flow starts here, which connects.
fn started(settings: &TrainSettings, timeout: Duration, cpu: bool) -> Result<(TcpStream, Processes), String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let address = listener.local_addr().map_err(|e| e.to_string())?.to_string();
    let secret = files::random().map_err(|e| format!("no random numbers: {e}"))?;
    let mut processes = Processes::start(settings, &address, &secret, cpu)?;
    let end = Instant::now() + timeout;
    loop {
        match listener.accept() {
            Ok((stream, _)) if is_own(&stream, &secret) => return Ok((stream, processes)),
            // A stranger.
            Ok(_) => {}
            Err(error) if is_late(&error) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.to_string()),
        }
        if let Some(status) = processes.ended() {
            // What it printed last may still be on its way.
            std::thread::sleep(LOOK);
            return Err(format!("it ended before it was ready ({status}). Its last lines:\n  {}", processes.last_lines()));
        }
        if Instant::now() > end {
            processes.kill();
            let seconds = timeout.as_secs_f64();
            return Err(format!(
                "it was not ready in {seconds} seconds (`timeout` of `train`). Its last lines:\n  {}",
                processes.last_lines()
            ));
        }
    }
}

/// Whether the first line is the secret. It is read to its last byte and no further.
fn is_own(stream: &TcpStream, secret: &str) -> bool {
    let expected = format!("{}\n", json!({ "secret": secret }));
    let mut line = vec![0; expected.len() + 16];
    let mut stream = stream;
    if stream.set_nonblocking(false).is_err() || stream.set_read_timeout(Some(Duration::from_secs(10))).is_err() {
        return false;
    }
    let mut filled = 0;
    while filled < line.len() && (filled == 0 || line[filled - 1] != b'\n') {
        match stream.read(&mut line[filled..filled + 1]) {
            Ok(1) => filled += 1,
            _ => return false,
        }
    }
    serde_json::from_slice::<Value>(&line[..filled]).is_ok_and(|first| first["secret"] == secret)
}

/// A trainer that runs already.
fn connected(address: &str) -> Result<TcpStream, String> {
    let gone = |why: String| format!("there is none at {address} ({why}): start one by `torchrun ... -m flow_train --listen {address}`");
    let addresses = address.to_socket_addrs().map_err(|e| gone(e.to_string()))?;
    let mut why = "no such host".to_string();
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(30)) {
            Ok(mut stream) => {
                let secret = std::env::var(SECRET).unwrap_or_default();
                writeln!(stream, "{}", json!({ "secret": secret })).map_err(|e| gone(e.to_string()))?;
                return Ok(stream);
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(gone(why))
}
