//! All processes find one another: each connects with those before it, and waits for those behind it.

use super::greeting::{say, Awaited, Greeting, Welcome, ANSWER};
use super::{Cluster, ClusterError, Hosts, Purpose, Same};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long processes wait for one another to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// After this long it is said for whom one waits.
const QUIET: Duration = Duration::from_secs(1);
/// How often one looks whether something has come.
const LOOK: Duration = Duration::from_millis(10);
/// So many connections may be open that have said nothing yet; of more, the one that has been silent longest goes.
const SILENT: usize = 256;

/// What there is to do while a process waits for the others.
pub struct Meanwhile<'a> {
    /// Whether somebody has asked for a stop.
    pub stopped: &'a dyn Fn() -> bool,
    /// Hears for whom one waits.
    pub tell: &'a dyn Fn(&str),
}

impl Meanwhile<'_> {
    /// Waits without a word, to the end.
    pub fn quiet() -> Meanwhile<'static> {
        Meanwhile { stopped: &|| false, tell: &|_| {} }
    }
}

/// One wait for all.
struct Waiting<'a> {
    hosts: &'a Hosts,
    meanwhile: &'a Meanwhile<'a>,
    start: Instant,
    /// For which process it was last said that one waits.
    told: Option<usize>,
}

impl Waiting<'_> {
    fn over(&self) -> bool {
        self.start.elapsed() > PATIENCE
    }

    /// A moment of waiting for `process`.
    fn moment(&mut self, process: usize) -> Result<(), ClusterError> {
        if (self.meanwhile.stopped)() {
            return Err(ClusterError::Stopped);
        }
        if self.start.elapsed() > QUIET && self.told != Some(process) {
            let left = PATIENCE.saturating_sub(self.start.elapsed()).as_secs();
            let (address, of) = (&self.hosts.addresses[process], self.hosts.addresses.len());
            (self.meanwhile.tell)(&format!(
                "waiting for process {process} of {of} at {address}: start it with the same arguments and --process {process} within {left} s"
            ));
            self.told = Some(process);
        }
        std::thread::sleep(LOOK);
        Ok(())
    }

    /// Connects with `process`, which may not be there yet.
    fn connected(&mut self, process: usize) -> Result<TcpStream, ClusterError> {
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
    fn exchange(&mut self, stream: TcpStream, greeting: &Greeting, process: usize) -> Result<(Welcome, TcpStream), ClusterError> {
        let silent = |source: io::Error| ClusterError::NoAnswer { process, source };
        say(&stream, greeting).map_err(silent)?;
        let mut awaited = Awaited::new(stream, Instant::now() + PATIENCE).map_err(silent)?;
        loop {
            match awaited.look().map_err(silent)? {
                Ok(answer) => return Ok(answer),
                Err(still) => awaited = still,
            }
            self.moment(process)?;
        }
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, QUIET) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

impl Cluster {
    /// Connects with all other processes, or says who isn't there or means another run. `news` is what the first process tells the
    /// others.
    pub fn join(hosts: &Hosts, same: &Same, news: Value, meanwhile: &Meanwhile) -> Result<Cluster, ClusterError> {
        let mut waiting = Waiting { hosts, meanwhile, start: Instant::now(), told: None };
        let here = hosts.process;
        let own = &hosts.addresses[here];
        let listener = TcpListener::bind(own).map_err(|source| ClusterError::Listen { process: here, address: own.clone(), source })?;
        let sockets = [(); 3].map(|()| hosts.addresses.iter().map(|_| None).collect());
        let mut cluster = Cluster { process: here, workers: same.workers, sockets, news };
        for process in 0..here {
            for purpose in Purpose::ALL {
                let stream = waiting.connected(process)?;
                let greeting = Greeting { process: here, purpose, same: same.clone() };
                let (welcome, stream) = waiting.exchange(stream, &greeting, process)?;
                if let Some(why) = welcome.refused {
                    return Err(ClusterError::Refused { process, why });
                }
                if process == 0 {
                    cluster.news = welcome.news;
                }
                cluster.sockets[purpose as usize][process] = Some(stream);
            }
        }
        cluster.accept(&listener, same, &mut waiting)?;
        Ok(cluster)
    }

    /// The first of the processes with higher numbers that isn't connected for every purpose.
    fn missing(&self) -> Option<usize> {
        let [rows, ..] = &self.sockets;
        (self.process + 1..rows.len()).find(|&p| self.sockets.iter().any(|of| of[p].is_none()))
    }

    /// Waits for the processes with higher numbers.
    fn accept(&mut self, listener: &TcpListener, same: &Same, waiting: &mut Waiting) -> Result<(), ClusterError> {
        listener.set_nonblocking(true)?;
        let mut knocking: VecDeque<Awaited> = VecDeque::new();
        while let Some(next) = self.missing() {
            match listener.accept() {
                // One that can't be looked at is gone already.
                Ok((stream, _)) => knocking.extend(Awaited::new(stream, Instant::now() + ANSWER).ok()),
                Err(e) if e.kind() == ErrorKind::WouldBlock && waiting.over() => {
                    return Err(ClusterError::Missing { process: next, seconds: PATIENCE.as_secs() })
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => waiting.moment(next)?,
                Err(e) if [ErrorKind::ConnectionAborted, ErrorKind::Interrupted].contains(&e.kind()) => {}
                Err(e) => return Err(e.into()),
            }
            if knocking.len() > SILENT {
                knocking.pop_front();
            }
            for awaited in std::mem::take(&mut knocking) {
                match awaited.look() {
                    Ok(Ok((greeting, stream))) => self.greet(greeting, stream, same)?,
                    Ok(Err(still)) => knocking.push_back(still),
                    // A stranger on the port is turned away and doesn't matter.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Lets in who means the same run.
    fn greet(&mut self, greeting: Greeting, stream: TcpStream, same: &Same) -> Result<(), ClusterError> {
        let process = greeting.process;
        let place = &mut self.sockets[greeting.purpose as usize];
        let free = place.get(process).is_some_and(Option::is_none) && process > self.process;
        let taken = || (!free).then(|| format!("there is a process {process} already"));
        let refused = same.differs(&greeting.same).or_else(taken);
        let welcome = Welcome { refused: refused.clone(), news: self.news.clone() };
        say(&stream, &welcome).map_err(|source| ClusterError::NoAnswer { process, source })?;
        match refused {
            Some(why) => Err(ClusterError::Stranger { process, why }),
            None => {
                place[process] = Some(stream);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Mutex;
    use std::thread;

    fn same() -> Same {
        Same { program: "1".into(), pipeline: "a".into(), workers: 1, processes: 2 }
    }

    fn two() -> [Hosts; 2] {
        let port = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap().to_string();
        let addresses = vec![port(), port()];
        [0, 1].map(|process| Hosts { addresses: addresses.clone(), process })
    }

    fn joined(hosts: &Hosts, same: &Same, news: Value) -> Result<Cluster, ClusterError> {
        Cluster::join(hosts, same, news, &Meanwhile::quiet())
    }

    fn reached(address: &str) -> TcpStream {
        let start = Instant::now();
        loop {
            match connect(address) {
                Ok(stream) => return stream,
                Err(e) => assert!(start.elapsed() < ANSWER, "{e}"),
            }
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn processes_meet_and_hear_the_news() {
        let [first, second] = two();
        let other = thread::spawn(move || joined(&second, &same(), Value::Null).map(|c| c.news));
        // A stranger at the door changes nothing.
        let address = first.addresses[0].clone();
        thread::spawn(move || reached(&address).write_all(b"GET / HTTP/1.1\n"));
        let news = serde_json::json!({ "run": "here" });
        joined(&first, &same(), news.clone()).unwrap();
        assert_eq!(other.join().unwrap().unwrap(), news);
    }

    #[test]
    fn connections_that_say_nothing_or_say_it_slowly_keep_nobody_waiting() {
        let [first, second] = two();
        let (address, news) = (first.addresses[0].clone(), serde_json::json!(1));
        let here = {
            let news = news.clone();
            thread::spawn(move || joined(&first, &same(), news).map(drop))
        };
        let silent: Vec<TcpStream> = (0..2 * SILENT).map(|_| reached(&address)).collect();
        let mut slow = reached(&address);
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let dripping = {
            let over = over.clone();
            thread::spawn(move || {
                while !over.load(Ordering::SeqCst) && slow.write_all(b" ").is_ok() {
                    thread::sleep(LOOK);
                }
            })
        };
        let start = Instant::now();
        assert_eq!(joined(&second, &same(), Value::Null).unwrap().news, news);
        here.join().unwrap().unwrap();
        assert!(start.elapsed() < ANSWER / 2, "it took {:?}", start.elapsed());
        over.store(true, Ordering::SeqCst);
        dripping.join().unwrap();
        drop(silent);
    }

    #[test]
    fn it_is_said_for_whom_one_waits_and_a_stop_is_obeyed() {
        for (hosts, awaited) in two().iter().zip([1, 0]) {
            let said = Mutex::new(Vec::new());
            let meanwhile =
                Meanwhile { stopped: &|| !said.lock().unwrap().is_empty(), tell: &|text| said.lock().unwrap().push(text.to_string()) };
            let start = Instant::now();
            assert!(matches!(Cluster::join(hosts, &same(), Value::Null, &meanwhile), Err(ClusterError::Stopped)));
            assert!(start.elapsed() < 4 * QUIET, "it took {:?}", start.elapsed());
            let said = said.into_inner().unwrap();
            assert!(said.len() == 1 && said[0].starts_with(&format!("waiting for process {awaited} of 2 at 127.0.0.1:")), "{said:?}");
        }
    }

    #[test]
    fn who_means_another_run_is_refused() {
        let [first, second] = two();
        let other = thread::spawn(move || joined(&second, &Same { pipeline: "b".into(), ..same() }, Value::Null).err());
        let here = joined(&first, &same(), Value::Null).err().unwrap().to_string();
        assert!(here.contains("another pipeline"), "{here}");
        assert!(other.join().unwrap().unwrap().to_string().contains("another pipeline"));
    }
}
