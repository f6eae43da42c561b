//! Connects all processes with one another: each connects to those with a lower number and accepts those with a higher
//! one.

use super::greeting::{say, Answer, Greeting, Welcome};
use super::guests::{Greeted, Guests};
use super::waiting::{Meanwhile, PeerWait, PATIENCE};
use super::{keepalive, Cluster, ClusterError, Hosts, Purpose, RunIdentity};
use flow_core::files;
use serde_json::Value;
use std::net::TcpListener;

impl Cluster {
    /// Connects with all other processes; fails if one is missing or belongs to another run. `news` is a message from
    /// the first process to the others.
    pub fn join(hosts: &Hosts, same: &RunIdentity, news: Value, meanwhile: &Meanwhile) -> Result<Cluster, ClusterError> {
        let here = hosts.process;
        let own = &hosts.addresses[here];
        let listener = TcpListener::bind(own).map_err(|source| ClusterError::Listen { process: here, address: own.clone(), source })?;
        let mut waiting = PeerWait::new(hosts, meanwhile, Guests::new(listener, &hosts.secret)?);
        let sockets = [(); 3].map(|()| hosts.addresses.iter().map(|_| None).collect());
        let mut cluster = Cluster { process: here, workers: same.workers, sockets, news };
        for process in 0..here {
            for purpose in Purpose::ALL {
                let stream = waiting.connected(process)?;
                let nonce = if hosts.secret.is_empty() { String::new() } else { files::random()? };
                let greeting = Greeting { process: here, purpose, same: same.clone(), nonce, token: waiting.guests.token()? };
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
        cluster.accept(same, &mut waiting)?;
        cluster.sockets.iter().flatten().flatten().try_for_each(keepalive::keep)?;
        Ok(cluster)
    }

    /// The first of the processes with higher numbers that isn't connected for every purpose.
    fn unconnected(&self) -> Option<usize> {
        let [rows, ..] = &self.sockets;
        (self.process + 1..rows.len()).find(|&p| self.sockets.iter().any(|sockets| sockets[p].is_none()))
    }

    /// Waits for the processes with higher numbers. Any other connection is refused with a reason, and the wait goes
    /// on.
    fn accept(&mut self, same: &RunIdentity, waiting: &mut PeerWait) -> Result<(), ClusterError> {
        let mut refused = None;
        while let Some(next) = self.unconnected() {
            if waiting.over() {
                return Err(ClusterError::Missing { process: next, seconds: PATIENCE.as_secs(), refused });
            }
            waiting.moment(next)?;
            for guest in waiting.guests.greeted() {
                let named = guest.greeting.process;
                match self.refusal(&guest, same, &waiting.hosts.addresses) {
                    None if guest.proved.is_none() => waiting.guests.ask(guest, &waiting.hosts.addresses[named]),
                    None => self.welcome(guest),
                    Some(why) => {
                        let text = format!("a process that says it is process {named}: {why}");
                        waiting.tell(&format!("refused {text}"));
                        // Where that fails it is gone.
                        let _ = say(&guest.stream, &Answer::Welcome(Welcome { refused: Some(why), news: Value::Null }));
                        refused = Some(text);
                    }
                }
            }
        }
        Ok(())
    }

    /// Why a guest can't take part, as far as that is known.
    fn refusal(&self, guest: &Greeted, same: &RunIdentity, addresses: &[String]) -> Option<String> {
        let (process, own, secret) = (guest.greeting.process, self.process, guest.greeting.token.is_empty());
        let place = self.sockets[guest.greeting.purpose as usize].get(process).filter(|_| process > own);
        match (place, guest.proved) {
            (Some(_), Some(false)) if !secret => Some(format!(
                "no process at {} says that it has greeted this one: a process listens at its address of the hosts file, and the others have \
                 to reach it there, unless the file has a line `secret: TEXT`",
                addresses[process]
            )),
            (_, Some(false)) => Some("it doesn't prove that it knows the secret of the hosts file".into()),
            (None, _) => Some(format!("process {own} waits for none of this number")),
            (Some(place), _) => {
                let taken = || place.is_some().then(|| format!("process {process} is connected already"));
                same.differs(&guest.greeting.same).or_else(taken)
            }
        }
    }

    /// Gives a guest its place.
    fn welcome(&mut self, Greeted { greeting, stream, .. }: Greeted) {
        let welcomed = say(&stream, &Answer::Welcome(Welcome { refused: None, news: self.news.clone() })).is_ok();
        // Otherwise it is gone, and is waited for again.
        if welcomed {
            self.sockets[greeting.purpose as usize][greeting.process] = Some(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::greeting::connect;
    use super::super::greeting::{Challenge, Proof, Question, ANSWER};
    use super::super::guests::SILENT;
    use super::super::secret::{is_proved, Side};
    use super::super::waiting::{LOOK, QUIET};
    use super::*;
    use std::io::{BufRead, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Mutex;
    use std::thread;
    use std::time::Instant;

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
                let welcomed = Mutex::new(Vec::new());
                let meanwhile = Meanwhile { stopped: &|| false, tell: &|text| welcomed.lock().unwrap().push(text.to_string()) };
                Cluster::join(&first, &same(), Value::Null, &meanwhile).map(drop).unwrap();
                welcomed.into_inner().unwrap()
            });
            let other = joined(&second, &RunIdentity { pipeline: "b".into(), ..same() }, Value::Null).err().unwrap().to_string();
            assert!(other.contains("another pipeline"), "{other}");
            for process in [0, 99, usize::MAX] {
                let greeting = Greeting { process, purpose: Purpose::Rows, same: same(), nonce: String::new(), token: String::new() };
                let stream = reached(&address);
                say(&stream, &greeting).unwrap();
                let mut answer = String::new();
                std::io::BufReader::new(stream).read_line(&mut answer).unwrap();
                let expected = if secret.is_empty() { "waits for none of this number" } else { "proof" };
                assert!(answer.contains(expected), "{answer}");
            }
            joined(&second, &same(), Value::Null).unwrap();
            let welcomed = here.join().unwrap();
            assert!(welcomed.iter().any(|text| text.contains("another pipeline")), "{welcomed:?}");
        }
    }

    /// Anybody who has the pipeline can say the true greeting. Without a secret the process that it names is asked.
    #[test]
    fn a_true_greeting_of_a_stranger_takes_nobodys_place() {
        // One place, all three, more than there is room for; before the true process comes.
        for strangers in [1, 3, 2 * SILENT] {
            let [first, second] = two_hosts();
            let address = first.addresses[0].clone();
            let here = thread::spawn(move || joined(&first, &same(), Value::Null).map(drop));
            let greeted = |i: usize| {
                let (purpose, token) = (Purpose::ALL[i % 3], format!("{i}"));
                let stream = reached(&address);
                let _ = say(&stream, &Greeting { process: 1, purpose, same: same(), nonce: String::new(), token }); // or closed already
                stream
            };
            let mut streams: Vec<TcpStream> = (0..strangers).map(greeted).collect();
            let mut answer = String::new();
            let last = streams.pop().unwrap();
            last.set_read_timeout(Some(ANSWER)).unwrap();
            std::io::BufReader::new(&last).read_line(&mut answer).unwrap();
            assert!(answer.contains("no process at 127.0.0.1:") && answer.contains("secret: TEXT"), "{answer}");
            // A place that is asked for meanwhile is given to the true process alone.
            let start = Instant::now();
            let meanwhile = greeted(1);
            joined(&second, &same(), Value::Null).unwrap();
            here.join().unwrap().unwrap();
            assert!(start.elapsed() < ANSWER / 2, "it took {:?}", start.elapsed());
            drop((streams, last, meanwhile));
        }
    }

    /// A process says of its own greetings alone that they are its own.
    #[test]
    fn nobody_else_learns_a_token() {
        let [first, _] = two_hosts();
        let address = first.addresses[0].clone();
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let here = {
            let over = over.clone();
            thread::spawn(move || {
                let meanwhile = Meanwhile { stopped: &|| over.load(Ordering::SeqCst), tell: &|_| {} };
                Cluster::join(&first, &same(), Value::Null, &meanwhile).map(drop)
            })
        };
        for sent in ["", "0", "a token"] {
            let stream = reached(&address);
            say(&stream, &Question { sent: sent.into() }).unwrap();
            let mut answer = String::new();
            std::io::BufReader::new(stream).read_line(&mut answer).unwrap();
            assert_eq!(answer, "{\"own\":false}\n", "{sent}");
        }
        over.store(true, Ordering::SeqCst);
        assert!(matches!(here.join().unwrap(), Err(ClusterError::Stopped)));
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
        let greeting = Greeting { process: 1, purpose: Purpose::Rows, same: same(), nonce: "00".into(), token: String::new() };
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
