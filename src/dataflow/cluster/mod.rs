//! Several processes as one: who they are, that they mean the same run, and the connections that timely then uses.
//!
//! timely's protocol has neither authentication nor encryption: whoever can reach a port can take part. Use loopback or a
//! private network. A process listens at its own address of the hosts file and nowhere else.

pub mod end;
pub(super) mod life;
pub mod peers;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::Any;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::Hooks;

/// How long processes wait for one another to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one waits for an answer of a process that is there.
const ANSWER: Duration = Duration::from_secs(10);
/// A greeting is a short line.
const LONGEST: u64 = 64 * 1024;

/// All processes of a run, and which of them this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    pub addresses: Vec<String>,
    pub process: usize,
}

impl Hosts {
    /// Reads `address:port` a line; lines that are empty or begin with `#` don't count.
    ///
    /// ```
    /// use flow::dataflow::cluster::Hosts;
    /// let hosts = Hosts::parse("# two on this machine\n127.0.0.1:2101\n127.0.0.1:2102\n", 1).unwrap();
    /// assert_eq!(hosts.addresses.len(), 2);
    /// assert!(Hosts::parse("127.0.0.1:2101\n", 1).is_err());
    /// ```
    pub fn parse(text: &str, process: usize) -> Result<Hosts, String> {
        let addresses: Vec<String> =
            text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).map(String::from).collect();
        if let Some(bad) =
            addresses.iter().find(|a| a.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err()))
        {
            return Err(format!("`{bad}` is no address: write one `address:port` a line"));
        }
        if process >= addresses.len() {
            return Err(format!("there is no process {process}: the hosts file has {} addresses, counted from 0", addresses.len()));
        }
        Ok(Hosts { addresses, process })
    }
}

/// What a process says of itself: all must mean the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Same {
    pub program: String,
    /// Digest of the resolved pipeline.
    pub pipeline: String,
    pub workers: usize,
    pub processes: usize,
}

#[derive(Serialize, Deserialize)]
struct Greeting {
    process: usize,
    purpose: Purpose,
    same: Same,
}

/// What a connection is for: each two processes have one of each kind.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// timely's own.
    Rows,
    /// The updates' gradients.
    Learning,
    /// Signs that something moves.
    Life,
}

#[derive(Serialize, Deserialize)]
struct Welcome {
    refused: Option<String>,
    news: Value,
}

/// A process that is connected with all others.
pub struct Cluster {
    process: usize,
    workers: usize,
    /// By purpose, one a process; none with this one itself.
    sockets: [Vec<Option<TcpStream>>; 3],
    /// What the first process has to say to the others.
    pub news: Value,
}

impl Cluster {
    /// Connects with all other processes, or says who isn't there or means another run. `news` is what the first process tells.
    pub fn join(hosts: &Hosts, same: &Same, news: Value) -> Result<Cluster, String> {
        let end = Instant::now() + PATIENCE;
        let here = hosts.process;
        let own = &hosts.addresses[here];
        let listener = TcpListener::bind(own).map_err(|e| format!("process {here} can't listen at {own}: {e}"))?;
        let sockets = [(); 3].map(|()| hosts.addresses.iter().map(|_| None).collect());
        let mut cluster = Cluster { process: here, workers: same.workers, sockets, news };
        for (process, address) in hosts.addresses.iter().enumerate().take(here) {
            for purpose in [Purpose::Rows, Purpose::Learning, Purpose::Life] {
                let stream = connected(process, address, end)?;
                let welcome: Welcome = exchange(&stream, &Greeting { process: here, purpose, same: same.clone() }, process)?;
                if let Some(why) = welcome.refused {
                    return Err(format!("process {process} refuses this one: {why}"));
                }
                if process == 0 {
                    cluster.news = welcome.news;
                }
                cluster.sockets[purpose as usize][process] = Some(stream);
            }
        }
        cluster.accept(&listener, same, end)?;
        Ok(cluster)
    }

    /// Which process this is, and how many there are. The first one commits and reports.
    pub(in crate::dataflow) fn place(&self) -> (usize, usize) {
        (self.process, self.sockets[Purpose::Rows as usize].len())
    }

    /// The connections for a purpose, by process, taken out.
    pub(super) fn take(&mut self, purpose: Purpose) -> Vec<Option<TcpStream>> {
        std::mem::take(&mut self.sockets[purpose as usize])
    }

    /// The first of the processes with higher numbers that isn't connected for every purpose.
    fn missing(&self) -> Option<usize> {
        let [rows, ..] = &self.sockets;
        (self.process + 1..rows.len()).find(|&p| self.sockets.iter().any(|of| of[p].is_none()))
    }

    /// Waits for the processes with higher numbers.
    fn accept(&mut self, listener: &TcpListener, same: &Same, end: Instant) -> Result<(), String> {
        listener.set_nonblocking(true).map_err(|e| e.to_string())?;
        while let Some(next) = self.missing() {
            match listener.accept() {
                Ok((stream, _)) => self.greet(stream, same)?,
                Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return Err(format!("process {next} hasn't come within {} s", PATIENCE.as_secs()))
                }
                Err(e) => return Err(format!("waiting for process {next}: {e}")),
            }
        }
        Ok(())
    }

    /// Lets in who means the same run. A stranger on the port is turned away and doesn't matter.
    fn greet(&mut self, stream: TcpStream, same: &Same) -> Result<(), String> {
        let _ = stream.set_nonblocking(false);
        let Ok(greeting) = hear::<Greeting>(&stream) else { return Ok(()) };
        let place = &mut self.sockets[greeting.purpose as usize];
        let free = place.get(greeting.process).is_some_and(Option::is_none) && greeting.process > self.process;
        let refused = match () {
            _ if greeting.same != *same => Some(differs(same, &greeting.same)),
            _ if !free => Some(format!("there is a process {} already", greeting.process)),
            _ => None,
        };
        say(&stream, &Welcome { refused: refused.clone(), news: self.news.clone() })
            .map_err(|e| format!("process {}: {e}", greeting.process))?;
        match refused {
            Some(why) => Err(format!("process {} can't take part: {why}", greeting.process)),
            None => {
                place[greeting.process] = Some(stream);
                Ok(())
            }
        }
    }

    /// What timely builds its workers on.
    pub(in crate::dataflow) fn build(mut self) -> Result<(Vec<AllocatorBuilder>, Box<dyn Any + Send>), String> {
        let sockets = self.take(Purpose::Rows);
        for stream in sockets.iter().flatten() {
            stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(None)).map_err(|e| e.to_string())?;
        }
        let hooks = Hooks::default();
        let within = ProcessBuilder::new_typed_vector(self.workers, hooks.refill.clone(), None);
        let (builders, guard) =
            initialize_networking_from_sockets(within, sockets, self.process, self.workers, hooks).map_err(|e| e.to_string())?;
        Ok((builders.into_iter().map(AllocatorBuilder::Tcp).collect(), Box::new(guard)))
    }
}

fn differs(ours: &Same, theirs: &Same) -> String {
    let what = match () {
        _ if ours.program != theirs.program => "another version of flow",
        _ if ours.processes != theirs.processes => "another hosts file",
        _ if ours.workers != theirs.workers => "another number of --workers",
        _ => "another pipeline (or other --set values)",
    };
    format!("it was started with {what}")
}

fn connected(process: usize, address: &str, end: Instant) -> Result<TcpStream, String> {
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Ok(stream),
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            Err(e) => return Err(format!("process {process} at {address} can't be reached: {e}")),
        }
    }
}

fn exchange(stream: &TcpStream, greeting: &Greeting, process: usize) -> Result<Welcome, String> {
    let wrong = |e: std::io::Error| format!("process {process} gives no answer: {e}");
    say(stream, greeting).map_err(wrong)?;
    // The first process may still be waiting for others to knock before it looks at this one.
    stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
    line(stream).map_err(wrong)
}

fn hear<T: serde::de::DeserializeOwned>(stream: &TcpStream) -> std::io::Result<T> {
    stream.set_read_timeout(Some(ANSWER))?;
    line(stream)
}

/// One line, and not a byte more: what follows belongs to timely.
fn line<T: serde::de::DeserializeOwned>(stream: &TcpStream) -> std::io::Result<T> {
    let mut text = Vec::new();
    BufReader::with_capacity(1, stream).take(LONGEST).read_until(b'\n', &mut text)?;
    serde_json::from_slice(&text).map_err(std::io::Error::from)
}

fn say(mut stream: &TcpStream, what: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    stream.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same() -> Same {
        Same { program: "1".into(), pipeline: "a".into(), workers: 1, processes: 2 }
    }

    fn two() -> [Hosts; 2] {
        let port = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap().to_string();
        let addresses = vec![port(), port()];
        [0, 1].map(|process| Hosts { addresses: addresses.clone(), process })
    }

    #[test]
    fn processes_meet_and_hear_the_news() {
        let [first, second] = two();
        let other = std::thread::spawn(move || Cluster::join(&second, &same(), Value::Null).map(|c| c.news));
        // A stranger at the door changes nothing.
        let address = first.addresses[0].clone();
        std::thread::spawn(move || connected(0, &address, Instant::now() + ANSWER).map(|mut s| s.write_all(b"GET / HTTP/1.1\n")));
        let news = serde_json::json!({ "run": "here" });
        Cluster::join(&first, &same(), news.clone()).unwrap();
        assert_eq!(other.join().unwrap().unwrap(), news);
    }

    #[test]
    fn who_means_another_run_is_refused() {
        let [first, second] = two();
        let other = std::thread::spawn(move || Cluster::join(&second, &Same { pipeline: "b".into(), ..same() }, Value::Null).err());
        let here = Cluster::join(&first, &same(), Value::Null).err().unwrap();
        assert!(here.contains("another pipeline"), "{here}");
        assert!(other.join().unwrap().unwrap().contains("another pipeline"));
    }

    #[test]
    fn a_bad_hosts_file_is_explained() {
        assert!(Hosts::parse("nonsense\n", 0).unwrap_err().contains("address:port"));
        assert!(Hosts::parse("a:1\n", 3).unwrap_err().contains("no process 3"));
    }
}
