//! Connections between the policies of several processes: what [`Peers`] asks for, over TCP.
//!
//! A message is its length in eight bytes, the least significant first, and its bytes. Whose turn it is comes as a
//! message of the first process with the model's name. An update's messages follow on the same connections, so the two
//! can't get mixed up.

use super::end::gone;
use super::{Cluster, Purpose};
use flow_model::Peers;
use flow_model::PolicyError;
use parking_lot::{Condvar, Mutex};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// One connection with each other process.
pub struct Connections {
    process: usize,
    sockets: Vec<Option<TcpStream>>,
    turn: Mutex<UpdateTurn>,
    over: Condvar,
}

/// The model whose update is next.
#[derive(Default)]
struct UpdateTurn {
    /// The model last named by the first process, until its update is over.
    model: Option<String>,
    /// Whether a thread of this process is running its update.
    taken: bool,
}

impl Connections {
    /// Takes the cluster's connections for this purpose.
    pub(crate) fn new(cluster: &mut Cluster) -> io::Result<Connections> {
        let (process, sockets) = (cluster.place().0, cluster.take(Purpose::Learning));
        for stream in sockets.iter().flatten() {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(None)?;
        }
        Ok(Connections { process, sockets, turn: Mutex::default(), over: Condvar::new() })
    }

    fn with(&self, process: usize) -> io::Result<&TcpStream> {
        self.sockets[process].as_ref().ok_or_else(|| io::Error::new(ErrorKind::NotConnected, "this process itself"))
    }

    fn give(&self, process: usize, message: &[u8]) -> io::Result<()> {
        let mut stream = self.with(process)?;
        stream.write_all(&(message.len() as u64).to_le_bytes())?;
        stream.write_all(message)
    }

    fn take(&self, process: usize) -> io::Result<Vec<u8>> {
        let mut stream = self.with(process)?;
        let mut length = [0; 8];
        stream.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let mut message = Vec::new();
        // The buffer grows with the data: a wrong length is an error, not a huge allocation.
        stream.take(length).read_to_end(&mut message)?;
        if message.len() as u64 == length {
            Ok(message)
        } else {
            Err(ErrorKind::UnexpectedEof.into())
        }
    }
}

/// The result of using a connection. A broken one ends this process, as it does where timely notices it: no process
/// waits for one that is gone.
fn came<T>(process: usize, result: io::Result<T>) -> T {
    result.unwrap_or_else(|_| gone(&process.to_string()))
}

impl Peers for Connections {
    fn place(&self) -> (usize, usize) {
        (self.process, self.sockets.len())
    }

    fn begin(&self, model: &str) -> Result<(), PolicyError> {
        let mut turn = self.turn.lock();
        loop {
            match &turn.model {
                None if self.process == 0 => {
                    (1..self.sockets.len()).for_each(|process| came(process, self.give(process, model.as_bytes())));
                    *turn = UpdateTurn { model: Some(model.into()), taken: true };
                    return Ok(());
                }
                // All threads waiting here wait for the same message.
                None => {
                    let named = came(0, self.take(0));
                    turn.model = Some(String::from_utf8(named).map_err(|_| PolicyError::Peer("the first process names no model".into()))?);
                    self.over.notify_all();
                }
                Some(named) if named == model && !turn.taken => {
                    turn.taken = true;
                    return Ok(());
                }
                Some(_) => self.over.wait(&mut turn),
            }
        }
    }

    fn end(&self) {
        *self.turn.lock() = UpdateTurn::default();
        self.over.notify_all();
    }

    /// Pairs of processes exchange data in the order of their numbers, the lower one first, which rules out deadlock.
    fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, PolicyError> {
        let talk = |other: usize| {
            if other == self.process {
                return Vec::new();
            }
            if self.process < other {
                came(other, self.give(other, own));
            }
            let theirs = came(other, self.take(other));
            if other < self.process {
                came(other, self.give(other, own));
            }
            theirs
        };
        Ok((0..self.sockets.len()).map(talk).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Hosts, Meanwhile, RunIdentity};
    use super::*;
    use flow_model::UpdateReport;
    use flow_model::{Example, Head, ModelSettings, NewModel, Objective, TokenKind, UpdateSettings};
    use flow_policy::Policy;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// So many connected processes, all in this one.
    fn processes(count: usize) -> Vec<Connections> {
        let listeners: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<String> = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
        drop(listeners);
        let join = |process| {
            let hosts = Hosts { addresses: addresses.clone(), process, secret: String::new() };
            let same = RunIdentity { program: "1".into(), pipeline: "a".into(), workers: 1, processes: count };
            std::thread::spawn(move || {
                Connections::new(&mut Cluster::join(&hosts, &same, serde_json::Value::Null, &Meanwhile::quiet()).unwrap()).unwrap()
            })
        };
        let joined: Vec<_> = (0..count).map(join).collect();
        joined.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[test]
    fn everybody_hears_everybody() {
        // Longer than what a socket holds: nobody may wait until all has been read.
        let message = |process: usize| vec![process as u8; 5 << 20];
        let threads: Vec<_> = processes(3)
            .into_iter()
            .map(|peers| std::thread::spawn(move || (peers.process, peers.exchange(&message(peers.process)).unwrap(), peers)))
            .collect();
        for (process, heard, _) in threads.into_iter().map(|thread| thread.join().unwrap()) {
            for (other, heard) in heard.iter().enumerate() {
                assert!(*heard == if other == process { vec![] } else { message(other) }, "{process} hears {other}");
            }
        }
    }

    fn policy() -> Policy {
        let new = |head| NewModel { tokens: TokenKind::Bytes, layers: 1, width: 32, heads: 2, kv_heads: 1, head, ..Default::default() };
        let models = [("actor", new(Head::Language)), ("critic", new(Head::Value))];
        let models: BTreeMap<_, _> = models.map(|(name, model)| (name.to_string(), ModelSettings::New(model))).into();
        Policy::start(&models, &[], 3, 1).unwrap()
    }

    fn rows() -> Vec<Example> {
        let row = |i: u32| Example {
            prompt: (0..5 + i % 40).map(|j| 20 + (i + j) % 60).collect(),
            response: vec![50 + i % 16, 90, 91],
            logprobs: vec![-2.0; 3],
            advantage: i as f32 / 10.0 - 2.0,
            values: vec![0.0; 3],
            targets: vec![i as f32 / 40.0; 3],
            ..Default::default()
        };
        (0..41).map(row).collect()
    }

    fn settings(objective: Objective) -> UpdateSettings {
        // The log-probabilities at the start are asked for, too, and shared.
        let mask_below = (objective == Objective::PolicyGradient).then_some(1e-4);
        UpdateSettings { objective, lr: 1e-2, minibatch: 16, micro_batch: 4, epochs: 2, mask_below, ..Default::default() }
    }

    /// Three updates of a model, one after the other.
    fn learn(policy: &Policy, model: &str) -> Vec<UpdateReport> {
        let objective = if model == "critic" { Objective::Value } else { Objective::PolicyGradient };
        (0..3).map(|_| policy.update(model, rows(), &settings(objective)).unwrap()).collect()
    }

    fn weights(policy: &Policy, model: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        policy.save(model, &folder.path().join("saved")).unwrap();
        ["model.safetensors", "optimizer.safetensors"].map(|file| std::fs::read(folder.path().join("saved").join(file)).unwrap()).concat()
    }

    #[test]
    fn two_models_learn_on_three_processes_what_they_learn_on_one() {
        let alone = policy();
        let expected = ["actor", "critic"].map(|model| (learn(&alone, model), weights(&alone, model)));
        let each = |peers: Connections| {
            let policy = policy().among(Arc::new(peers));
            // On each process both at once, and not in one order: the first process says whose turn it is.
            let side_by_side = ["actor", "critic"].map(|model| {
                let policy = policy.clone();
                std::thread::spawn(move || (learn(&policy, model), weights(&policy, model)))
            });
            side_by_side.map(|thread| thread.join().unwrap())
        };
        let threads: Vec<_> = processes(3).into_iter().map(|peers| std::thread::spawn(move || each(peers))).collect();
        for (process, thread) in threads.into_iter().enumerate() {
            for ((model, learned), expected) in ["actor", "critic"].iter().zip(thread.join().unwrap()).zip(&expected) {
                assert!(learned.0 == expected.0, "the report on {model} of process {process}");
                assert!(learned.1 == expected.1, "the weights of {model} of process {process}");
            }
        }
    }

    #[test]
    fn what_one_process_finds_wrong_all_are_told() {
        let refusal = |policy: Policy| {
            let bad = UpdateSettings { lr: 1e30, ..settings(Objective::Sft) };
            let twice = policy.update("actor", rows(), &bad).and_then(|_| policy.update("actor", rows(), &bad));
            twice.unwrap_err().to_string()
        };
        let alone = refusal(policy());
        assert!(alone.contains("isn't a number"), "{alone}");
        let threads = processes(2).into_iter().map(|peers| std::thread::spawn(move || refusal(policy().among(Arc::new(peers)))));
        for thread in threads.collect::<Vec<_>>() {
            assert_eq!(thread.join().unwrap(), alone);
        }
    }

    #[test]
    fn processes_that_drift_apart_are_told() {
        // Each has made a step of its own, from rows in another order.
        let apart = |peers: Connections| {
            let (policy, mut own) = (policy(), rows());
            own.rotate_left(peers.process);
            policy.update("actor", own, &settings(Objective::Sft)).unwrap();
            policy.among(Arc::new(peers)).update("actor", rows(), &settings(Objective::Sft)).unwrap_err().to_string()
        };
        let threads: Vec<_> = processes(2).into_iter().map(|peers| std::thread::spawn(move || apart(peers))).collect();
        for thread in threads {
            let error = thread.join().unwrap();
            assert!(error.contains("has come to other weights"), "{error}");
        }
    }
}
