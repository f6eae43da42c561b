//! Connects all processes with one another: each connects to those with a lower number and accepts those with a higher one.

use super::greeting::{say, Greeting, LineReader, Welcome, ANSWER};
use super::waiting::{Meanwhile, PeerWait, PATIENCE};
use super::{keepalive, Cluster, ClusterError, Hosts, Purpose, RunIdentity};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// The number of connections that may be open before their first line; beyond that the oldest is closed.
const SILENT: usize = 256;

impl Cluster {
    /// Connects with all other processes; fails if one is missing or belongs to another run. `news` is a message from the first process to
    /// the others.
    pub fn join(hosts: &Hosts, same: &RunIdentity, news: Value, meanwhile: &Meanwhile) -> Result<Cluster, ClusterError> {
        let mut waiting = PeerWait::new(hosts, meanwhile);
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
        cluster.sockets.iter().flatten().flatten().try_for_each(keepalive::keep)?;
        Ok(cluster)
    }

    /// The first of the processes with higher numbers that isn't connected for every purpose.
    fn missing(&self) -> Option<usize> {
        let [rows, ..] = &self.sockets;
        (self.process + 1..rows.len()).find(|&p| self.sockets.iter().any(|sockets| sockets[p].is_none()))
    }

    /// Waits for the processes with higher numbers.
    fn accept(&mut self, listener: &TcpListener, same: &RunIdentity, waiting: &mut PeerWait) -> Result<(), ClusterError> {
        listener.set_nonblocking(true)?;
        let mut knocking: VecDeque<LineReader> = VecDeque::new();
        while let Some(next) = self.missing() {
            match listener.accept() {
                // A connection that can't be polled is already gone.
                Ok((stream, _)) => knocking.extend(LineReader::new(stream, Instant::now() + ANSWER).ok()),
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
                    // Any other program that connects to the port is rejected.
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Accepts a process of the same run.
    fn greet(&mut self, greeting: Greeting, stream: TcpStream, same: &RunIdentity) -> Result<(), ClusterError> {
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
    use super::super::waiting::{connect, LOOK, QUIET};
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Mutex;
    use std::thread;

    fn same() -> RunIdentity {
        RunIdentity { program: "1".into(), pipeline: "a".into(), workers: 1, processes: 2 }
    }

    fn two_hosts() -> [Hosts; 2] {
        let port = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap().to_string();
        let addresses = vec![port(), port()];
        [0, 1].map(|process| Hosts { addresses: addresses.clone(), process })
    }

    fn joined(hosts: &Hosts, same: &RunIdentity, news: Value) -> Result<Cluster, ClusterError> {
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
        let [first, second] = two_hosts();
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
        let [first, second] = two_hosts();
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
        for (hosts, awaited) in two_hosts().iter().zip([1, 0]) {
            let messages = Mutex::new(Vec::new());
            let meanwhile = Meanwhile {
                stopped: &|| !messages.lock().unwrap().is_empty(),
                tell: &|text| messages.lock().unwrap().push(text.to_string()),
            };
            let start = Instant::now();
            assert!(matches!(Cluster::join(hosts, &same(), Value::Null, &meanwhile), Err(ClusterError::Stopped)));
            assert!(start.elapsed() < 4 * QUIET, "it took {:?}", start.elapsed());
            let messages = messages.into_inner().unwrap();
            assert!(
                messages.len() == 1 && messages[0].starts_with(&format!("waiting for process {awaited} of 2 at 127.0.0.1:")),
                "{messages:?}"
            );
        }
    }

    #[test]
    fn who_means_another_run_is_refused() {
        let [first, second] = two_hosts();
        let other = thread::spawn(move || joined(&second, &RunIdentity { pipeline: "b".into(), ..same() }, Value::Null).err());
        let here = joined(&first, &same(), Value::Null).err().unwrap().to_string();
        assert!(here.contains("another pipeline"), "{here}");
        assert!(other.join().unwrap().unwrap().to_string().contains("another pipeline"));
    }
}
