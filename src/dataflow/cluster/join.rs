//! Connects all processes with one another: each connects to those with a lower number and accepts those with a higher
//! one.

use super::greeting::{say, Answer, Challenge, Greeting, LineReader, Proof, Welcome, ANSWER};
use super::secret::{is_proved, proof, Side};
use super::waiting::{Meanwhile, PeerWait, PATIENCE};
use super::{keepalive, Cluster, ClusterError, Hosts, Purpose, RunIdentity};
use crate::files;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// The number of connections that may be open before their first line; beyond that the oldest is closed.
const SILENT: usize = 256;

impl Cluster {
    /// Connects with all other processes; fails if one is missing or belongs to another run. `news` is a message from
    /// the first process to the others.
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
                let nonce = if hosts.secret.is_empty() { String::new() } else { files::random()? };
                let greeting = Greeting { process: here, purpose, same: same.clone(), nonce };
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

    /// Waits for the processes with higher numbers. Any other connection is refused with a reason, and the wait goes
    /// on.
    fn accept(&mut self, listener: &TcpListener, same: &RunIdentity, waiting: &mut PeerWait) -> Result<(), ClusterError> {
        listener.set_nonblocking(true)?;
        let mut knocking: VecDeque<Guest> = VecDeque::new();
        let mut refused = None;
        while let Some(next) = self.missing() {
            match listener.accept() {
                // A connection that can't be polled is already gone.
                Ok((stream, _)) => knocking.extend(LineReader::new(stream, Instant::now() + ANSWER).ok().map(Guest::Unknown)),
                Err(e) if e.kind() == ErrorKind::WouldBlock && waiting.over() => {
                    return Err(ClusterError::Missing { process: next, seconds: PATIENCE.as_secs(), refused })
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => waiting.moment(next)?,
                Err(e) if [ErrorKind::ConnectionAborted, ErrorKind::Interrupted].contains(&e.kind()) => {}
                Err(e) => return Err(e.into()),
            }
            if knocking.len() > SILENT {
                knocking.pop_front();
            }
            for guest in std::mem::take(&mut knocking) {
                // Any other program that connects to the port is rejected.
                let Ok(looked) = guest.look(&waiting.hosts.secret) else { continue };
                match looked {
                    Looked::Waits(guest) => knocking.push_back(guest),
                    Looked::Greeted { greeting, stream, proved } => {
                        if let Some(why) = self.greet(&greeting, stream, same, proved) {
                            let text = format!("a process that says it is process {}: {why}", greeting.process);
                            waiting.tell(&format!("refused {text}"));
                            refused = Some(text);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Accepts a process of the same run, or says why not.
    fn greet(&mut self, greeting: &Greeting, stream: TcpStream, same: &RunIdentity, proved: bool) -> Option<String> {
        let (process, own) = (greeting.process, self.process);
        let place = self.sockets[greeting.purpose as usize].get_mut(process).filter(|_| process > own);
        let refused = match &place {
            _ if !proved => Some("it doesn't prove that it knows the secret of the hosts file".into()),
            None => Some(format!("process {own} waits for none of this number")),
            Some(place) => {
                same.differs(&greeting.same).or_else(|| place.is_some().then(|| format!("process {process} is connected already")))
            }
        };
        let news = if refused.is_none() { self.news.clone() } else { Value::Null };
        // Where that fails the other side is gone, and is waited for again.
        let told = say(&stream, &Answer::Welcome(Welcome { refused: refused.clone(), news })).is_ok();
        if let Some(place) = place.filter(|_| refused.is_none() && told) {
            *place = Some(stream);
        }
        refused
    }
}

/// Somebody who has connected.
enum Guest {
    /// Before its greeting.
    Unknown(LineReader),
    /// After it: the nonce that it was given to prove itself.
    Challenged(Greeting, String, LineReader),
}

/// What a look at a guest has found.
enum Looked {
    Waits(Guest),
    Greeted { greeting: Greeting, stream: TcpStream, proved: bool },
}

impl Guest {
    /// Reads what it has said, and challenges it where there is a `secret`.
    fn look(self, secret: &str) -> std::io::Result<Looked> {
        match self {
            Guest::Unknown(reader) => match reader.look::<Greeting>()? {
                Err(still) => Ok(Looked::Waits(Guest::Unknown(still))),
                Ok((greeting, stream)) if secret.is_empty() => {
                    let proved = greeting.nonce.is_empty(); // it has a secret, and this side none
                    Ok(Looked::Greeted { greeting, stream, proved })
                }
                Ok((greeting, stream)) => {
                    let nonce = files::random()?;
                    let proof = proof(secret, Side::Accepts, &greeting, &nonce);
                    say(&stream, &Answer::Challenge(Challenge { nonce: nonce.clone(), proof }))?;
                    Ok(Looked::Waits(Guest::Challenged(greeting, nonce, LineReader::new(stream, Instant::now() + ANSWER)?)))
                }
            },
            Guest::Challenged(greeting, nonce, reader) => match reader.look::<Proof>()? {
                Err(still) => Ok(Looked::Waits(Guest::Challenged(greeting, nonce, still))),
                Ok((Proof { proof }, stream)) => {
                    let proved = is_proved(secret, Side::Connects, &greeting, &nonce, &proof);
                    Ok(Looked::Greeted { greeting, stream, proved })
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::waiting::{connect, LOOK, QUIET};
    use super::*;
    use std::io::{BufRead, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Mutex;
    use std::thread;

    fn same() -> RunIdentity {
        RunIdentity { program: "1".into(), pipeline: "a".into(), workers: 1, processes: 2 }
    }

    fn two_hosts() -> [Hosts; 2] {
        let port = || TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap().to_string();
        let addresses = vec![port(), port()];
        [0, 1].map(|process| Hosts { addresses: addresses.clone(), process, secret: String::new() })
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

    /// Each is told why, and the processes of the run meet all the same.
    #[test]
    fn strangers_are_refused_and_end_nothing() {
        for secret in ["", "blue whale"] {
            let [first, second] = two_hosts().map(|hosts| Hosts { secret: secret.into(), ..hosts });
            let address = first.addresses[0].clone();
            let here = thread::spawn(move || {
                let told = Mutex::new(Vec::new());
                let meanwhile = Meanwhile { stopped: &|| false, tell: &|text| told.lock().unwrap().push(text.to_string()) };
                Cluster::join(&first, &same(), Value::Null, &meanwhile).map(drop).unwrap();
                told.into_inner().unwrap()
            });
            let other = joined(&second, &RunIdentity { pipeline: "b".into(), ..same() }, Value::Null).err().unwrap().to_string();
            assert!(other.contains("another pipeline"), "{other}");
            for process in [0, 99, usize::MAX] {
                let greeting = Greeting { process, purpose: Purpose::Rows, same: same(), nonce: String::new() };
                let stream = reached(&address);
                say(&stream, &greeting).unwrap();
                let mut answer = String::new();
                std::io::BufReader::new(stream).read_line(&mut answer).unwrap();
                let expected = if secret.is_empty() { "waits for none of this number" } else { "proof" };
                assert!(answer.contains(expected), "{answer}");
            }
            joined(&second, &same(), Value::Null).unwrap();
            let told = here.join().unwrap();
            assert!(told.iter().any(|text| text.contains("another pipeline")), "{told:?}");
        }
    }

    /// Who doesn't know the secret takes no part, on either side, and can't repeat what one has said who does.
    #[test]
    fn a_secret_keeps_others_out() {
        let [first, second] = two_hosts().map(|hosts| Hosts { secret: "blue whale".into(), ..hosts });
        let address = first.addresses[0].clone();
        let here = thread::spawn(move || joined(&first, &same(), Value::Null).map(drop));
        for secret in ["", "white whale"] {
            let error = joined(&Hosts { secret: secret.into(), ..second.clone() }, &same(), Value::Null).err().unwrap();
            assert!(matches!(error, ClusterError::Unproven { process: 0, .. }), "{error}");
        }
        let greeting = Greeting { process: 1, purpose: Purpose::Rows, same: same(), nonce: "00".into() };
        let stream = reached(&address);
        say(&stream, &greeting).unwrap();
        let mut lines = std::io::BufReader::new(stream.try_clone().unwrap()).lines();
        let challenge: Challenge = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(is_proved("blue whale", Side::Accepts, &greeting, &challenge.nonce, &challenge.proof));
        // The other side's own proof, sent back, is none.
        say(&stream, &Proof { proof: challenge.proof }).unwrap();
        assert!(lines.next().unwrap().unwrap().contains("doesn't prove"));
        joined(&second, &same(), Value::Null).unwrap();
        here.join().unwrap().unwrap();
    }
}
