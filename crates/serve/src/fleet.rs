//! The servers of a model. The episodes of a group begin at one of them, which follows from the group and the servers
//! that take part (rendezvous hashing), so that its prefix cache is met; where that has more than its share, at another
//! one (consistent hashing with bounded loads, Mirrokni et al. 2018). An episode stays where it began. A server that
//! fails is left out, and its calls are asked elsewhere; it takes part again once it has proved the adapters.

use super::api::{self, Call, ServingApi};
use super::exported::{Exported, ExportedWeights, Weights};
use super::job::{Job, Question};
use super::pool::Pool;
use super::receiver::Receiver;
use super::replica::{Adapter, Proof, Replica};
use super::rest::Rest;
use super::server::{Server, ServerError};
use super::wait::{Patience, Wait};
use flow_core::pulse::Pulse;
use flow_core::seed::{mix, text};
use flow_model::sequence::check;
use flow_model::{ModelFault, PolicyError, Reply, Request, Result, RowFault, Sampling, ServeSettings, Unanswered};
use flow_model::{Session, Sizes};
use flow_text::Tokenizer;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the servers prove an adapter with. Any text does, since the learner computes the same tokens.
const PROBE: &str =
    "A server proves that it computes what the learner computes: 1, 2, 3. Which of the two doors leads to the garden, and why?";
/// Tokens of it, at most.
const PROBE_TOKENS: usize = 48;
/// Between two looks at servers while none takes part.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a request may find a server gone, beyond its tries, where it waits for servers.
const WAITS: u32 = 3;
/// Between two looks at a server that another call proves.
const LOOK: Duration = Duration::from_millis(50);
/// How many times the mean load a server may have before it is passed over.
const MOST_LOAD: f64 = 1.25;

/// The servers of a model.
pub struct Fleet {
    name: String,
    api: &'static dyn ServingApi,
    pub replicas: Vec<Replica>,
    /// The requests that are in flight.
    pool: Pool,
    pub tokenizer: Arc<Tokenizer>,
    sizes: Sizes,
    proof: Proof,
    tries: u32,
    patience: Patience,
    pub adapters: Mutex<Adapters>,
    /// Where the episodes began that the newest version plays, by [`Session::member`].
    homes: Mutex<Homes>,
    /// Whether they sleep, so that a trainer has their memory.
    pub rest: Rest,
    /// What ended the run, so that whatever waits ends at once.
    ended: Mutex<Option<PolicyError>>,
}

/// The versions of the model that servers load.
pub struct Adapters {
    /// Where they lie.
    pub root: PathBuf,
    /// Whether that is a temporary folder, which is removed at the end.
    pub passing: bool,
    /// Adapters that may still be requested, by version.
    pub known: BTreeMap<u64, Arc<Adapter>>,
    /// How long it took to write the newest one, and until the servers had it.
    pub seconds: Option<f64>,
}

impl Adapters {
    /// None yet, in the folder `root`.
    pub fn new(root: PathBuf, passing: bool) -> Adapters {
        Adapters { root, passing, known: BTreeMap::new(), seconds: None }
    }
}

/// The addresses that an environment variable names in place of the pipeline's, separated by commas: a scheduler says
/// where servers run after the pipeline was written, and again when a run is resumed.
///
/// # Errors
/// [`PolicyError::Environment`] if something in it is no address.
fn named(variable: &str) -> Result<Option<Vec<String>>> {
    let Some(named) = std::env::var(variable).ok().filter(|named| !named.trim().is_empty()) else { return Ok(None) };
    let addresses: Vec<String> = named.split(',').map(|address| address.trim().to_owned()).collect();
    match addresses.iter().find(|address| address.strip_prefix("http://").is_none_or(str::is_empty)) {
        Some(address) => Err(PolicyError::Environment(format!("{variable}: `{address}` is no address such as http://10.0.0.1:8000"))),
        None => Ok(Some(addresses)),
    }
}

impl Fleet {
    /// The servers of the model called `name`, which reads these tokens and has those sizes. No request is sent yet.
    ///
    /// # Errors
    /// If no servers are named, or the environment has no key for them.
    pub fn new(name: &str, settings: &ServeSettings, tokenizer: Arc<Tokenizer>, sizes: Sizes, pulse: Arc<Pulse>) -> Result<Fleet> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = format!("flow-exported-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let (addresses, sglang) = settings.addresses().ok_or_else(|| PolicyError::model(name, ModelFault::NoServers))?;
        let addresses = named("FLOW_SERVERS")?.unwrap_or(addresses);
        let api = api::of(sglang);
        let receivers = named("FLOW_RECEIVERS")?.unwrap_or_else(|| settings.receivers.clone());
        if !receivers.is_empty() && receivers.len() != addresses.len() {
            return Err(PolicyError::model(name, ModelFault::Receivers { servers: addresses.len(), receivers: receivers.len() }));
        }
        let replica = |(i, address): (usize, &String)| {
            let receiver = receivers.get(i).map(|address| Receiver::new(address));
            Ok(Replica::new(Server::new(name, &api.base(address), &settings.server)?, receiver, settings.wait > 0.0))
        };
        let mut probe = tokenizer.encode(PROBE);
        probe.truncate(PROBE_TOKENS.min(sizes.context.saturating_sub(1)));
        Ok(Fleet {
            name: name.into(),
            api,
            pool: Pool::new(addresses.len(), settings.server.parallel),
            replicas: addresses.iter().enumerate().map(replica).collect::<Result<_>>()?,
            tokenizer,
            sizes,
            proof: Proof { probe, max_gap: settings.max_gap, beyond: (sizes.rows > sizes.vocab).then_some((sizes.rows, sizes.vocab)) },
            tries: settings.server.tries,
            patience: Patience::new(Duration::from_secs_f64(settings.wait), pulse),
            adapters: Mutex::new(Adapters::new(std::env::temp_dir().join(folder), true)),
            homes: Mutex::default(),
            rest: Rest::default(),
            ended: Mutex::default(),
        })
    }

    /// Whether the model can read a request.
    pub fn check(&self, request: &Request, sampling: &Sampling) -> Result<(), RowFault> {
        check(&request.prompt, &request.choices, request.longest(sampling), &self.sizes)
    }

    /// The weights of `version`, once every server that takes part has proved them.
    pub fn ready(self: &Arc<Fleet>, version: u64, export: impl FnOnce(&Path, &[u32]) -> Result<Exported>) -> Result<Arc<Adapter>> {
        *self.ended.lock() = None;
        let mut adapters = self.adapters.lock();
        if let Some(adapter) = adapters.known.get(&version) {
            return Ok(adapter.clone());
        }
        let start = Instant::now();
        let (ExportedWeights { name, versions, kind }, expected) = export(&adapters.root, &self.proof.probe)?;
        self.take_back(&mut adapters, &versions, kind);
        let folder = adapters.root.join(&name);
        let folder = std::path::absolute(&folder).map_err(|error| PolicyError::file(&folder, error))?;
        let adapter = Arc::new(Adapter { name, folder, kind, expected });
        self.prove_present(&adapter);
        let waits = Wait::new(&self.patience, &self.replicas);
        while !self.replicas.iter().any(|replica| replica.fit(&adapter)) {
            if !waits.on() {
                return Err(self.none_left());
            }
            std::thread::sleep(PAUSE);
            self.prove_present(&adapter);
        }
        self.homes.lock().0.clear();
        adapters.known.insert(version, adapter.clone());
        adapters.seconds = Some(start.elapsed().as_secs_f64());
        Ok(adapter)
    }

    /// Has every server that takes part, or is due to be asked again, prove an adapter.
    fn prove_present(&self, adapter: &Adapter) {
        let _awake = self.rest.awake(&self.replicas);
        let proving: Vec<&Replica> = self.replicas.iter().filter(|replica| replica.present() || replica.claim()).collect();
        std::thread::scope(|scope| {
            for replica in &proving {
                let prove = || replica.prove(self.api, &[adapter], &self.proof);
                // Where no thread can be started, this one does it.
                if std::thread::Builder::new().name("policy-server".into()).spawn_scoped(scope, prove).is_err() {
                    replica.prove(self.api, &[adapter], &self.proof);
                }
            }
        });
    }

    /// Removes weights that won't be requested any more, also those of a process that was killed; servers unload
    /// adapters.
    fn take_back(self: &Arc<Fleet>, adapters: &mut Adapters, versions: &[u64], kind: Weights) {
        adapters.known.retain(|version, _| versions.contains(version));
        for folder in std::fs::read_dir(&adapters.root).into_iter().flatten().flatten() {
            let Ok(name) = folder.file_name().into_string() else { continue };
            if self.version(&name).is_some_and(|version| !versions.contains(&version)) {
                for i in 0..self.replicas.len() {
                    let (fleet, name) = (self.clone(), name.clone());
                    self.pool.push(i, &[], move |_| {
                        let _awake = fleet.rest.awake(&fleet.replicas);
                        fleet.replicas[i].unload(fleet.api, &name, kind);
                        true
                    });
                }
                drop(std::fs::remove_dir_all(folder.path()));
            }
        }
    }

    /// The version in the name of an adapter of this model.
    fn version(&self, adapter: &str) -> Option<u64> {
        let (rest, _) = adapter.rsplit_once('-')?;
        let (model, version) = rest.rsplit_once('-')?;
        version.parse().ok().filter(|_| model == self.name)
    }

    /// Which server answers a request: see [`chosen`], of the servers with the adapter, and another than `late` where
    /// there is one.
    fn place(&self, job: &Job, loads: &[usize]) -> Option<usize> {
        let has = |i: &usize| self.replicas[*i].fit(&job.adapter);
        let places: Vec<usize> = (0..self.replicas.len()).filter(has).collect();
        let others: Vec<usize> = places.iter().copied().filter(|i| Some(*i) != job.late).collect();
        chosen(&others, |i| self.replicas[i].server.host(), loads, job.session).or_else(|| places.first().copied())
    }

    /// The server that would answer it, whatever the others have to do.
    fn own_place(&self, job: &Job) -> Option<usize> {
        self.place(job, &vec![0; self.replicas.len()])
    }

    /// The server that a job is sent to first: where its episode began, or where it begins by the loads there are now.
    fn first_place(&self, job: &Job) -> Option<usize> {
        if job.attempt > 0 || job.late.is_some() {
            return self.own_place(job);
        }
        let fits = |home: usize| self.replicas[home].fit(&job.adapter);
        self.homes.lock().of(job.session.member, fits, || self.place(job, &self.pool.loads()))
    }

    /// Hands a job to a server.
    pub fn send(self: &Arc<Fleet>, job: Job) {
        self.ask_back();
        // Where none has the adapter, requests without a deadline wait for one.
        let at = self.first_place(&job).unwrap_or(0);
        let can = |i: &usize| *i != at && Some(*i) != job.late && self.replicas[*i].fit(&job.adapter);
        let others: Vec<usize> = (0..self.replicas.len()).filter(can).collect();
        let fleet = self.clone();
        self.pool.push(at, &others, move |at| fleet.work(at, job));
    }

    /// Does a job at a server that had time for it; where that takes no part any more, or fails, elsewhere. Whether it
    /// was for that server.
    fn work(self: &Arc<Fleet>, at: usize, job: Job) -> bool {
        let replica = &self.replicas[at];
        let had_its_time = job.late == Some(at) && self.own_place(&job) != Some(at);
        if !replica.fit(&job.adapter) || had_its_time {
            let own = self.own_place(&job).is_none_or(|place| place == at);
            match self.wait_for_one(&job) {
                Ok(()) if self.own_place(&job) != Some(at) => self.send(job),
                Ok(()) => return self.work(at, job),
                Err(error) => job.ticket.answer(Err(error)),
            }
            return own;
        }
        self.ask(at, job);
        true
    }

    fn call(&self, question: &Question, adapter: Option<&str>) -> Call {
        match question {
            Question::Write(request, sampling) => self.api.write(adapter, request, sampling, self.tokenizer.ends()),
            Question::Weigh(prompt, _) => self.api.weigh(adapter, prompt),
        }
    }

    /// The answer in a response; of tokens that were weighed the log-probabilities alone.
    fn read(&self, question: &Question, response: &Value) -> Result<Reply, ServerError> {
        match question {
            Question::Write(..) => self.api.written(response)?.reply(self.sizes.vocab, self.tokenizer.ends()),
            Question::Weigh(prompt, from) => Ok(Reply { tokens: vec![], logprobs: self.api.weighed(response, prompt, *from)? }),
        }
    }

    /// Asks a server, and goes on elsewhere where it fails.
    fn ask(self: &Arc<Fleet>, at: usize, mut job: Job) {
        let replica = &self.replicas[at];
        let call = self.call(&job.question, job.adapter.model());
        let awake = self.rest.awake(&self.replicas);
        let Some(held) = replica.hold(self.api, &job.adapter, &self.proof) else {
            drop(awake);
            return self.send(job);
        };
        let sent = Instant::now();
        let answer = replica.call(&call, |response| self.read(&job.question, response));
        drop((held, awake));
        let failure = match answer {
            Ok(reply) => return job.ticket.answer(Ok(Ok(reply))),
            Err(failure) => failure,
        };
        let pause = failure.pause(job.attempt);
        job.attempt += 1;
        replica.failed(&failure, sent);
        if failure.lost() {
            job.late = Some(at);
        }
        // A server that refused may have proved itself since.
        let retried = failure.again || matches!(failure.trouble, ServerError::Refused(_));
        // Going elsewhere is no further try.
        let further = job.attempt < self.tries + self.replicas.len() as u32 - 1;
        let elsewhere = self.own_place(&job).is_some_and(|place| place != at);
        // Nor is waiting for the only one: it is gone, or has begun again and knows no adapter. It may be so a few times.
        // Another call may have met it gone and proved it since.
        let away = matches!(failure.trouble, ServerError::Gone(_)) || !replica.present() || replica.proved_since(sent);
        let waits = !self.patience.most.is_zero() && retried && away && job.attempt < self.tries + WAITS;
        match failure.trouble {
            _ if waits => {
                // What broke off may do so again at once.
                if replica.present() && !elsewhere {
                    std::thread::sleep(pause);
                }
                self.send(job);
            }
            _ if retried && further && (job.attempt < self.tries || elsewhere || !replica.present()) => {
                if replica.present() && !elsewhere {
                    std::thread::sleep(pause);
                }
                self.send(job);
            }
            ServerError::Row(fault) => job.ticket.answer(Ok(Err(fault))),
            ServerError::Gone(what) if elsewhere => job.ticket.answer(Ok(Err(RowFault::Unanswered { cause: Unanswered::Refused, what }))),
            ServerError::Refused(what) | ServerError::Gone(what) => job.ticket.answer(Err(replica.fault(ModelFault::Server { what }))),
        }
    }

    /// Waits until a server has the adapter of a job: `tries` looks, as long as another call proves a server that is
    /// away, and as long as `wait` says.
    fn wait_for_one(&self, job: &Job) -> Result<()> {
        let (mut looks, waits) = (0, Wait::new(&self.patience, &self.replicas));
        loop {
            if let Some(error) = self.ended.lock().clone() {
                return Err(error);
            }
            let lacks = |replica: &&Replica| replica.claim() || replica.present() && !replica.fit(&job.adapter);
            self.replicas.iter().filter(lacks).for_each(|replica| self.prove_all(replica, Some(&job.adapter)));
            if self.own_place(job).is_some() {
                return Ok(());
            }
            if self.replicas.iter().any(Replica::probed) {
                std::thread::sleep(LOOK);
                continue;
            }
            looks += 1;
            if !waits.on() && looks >= self.tries {
                break;
            }
            std::thread::sleep(PAUSE * 2u32.saturating_pow(looks - 1).min(16));
        }
        let error = self.none_left();
        *self.ended.lock() = Some(error.clone());
        Err(error)
    }

    /// Has servers that are due prove themselves, beside what else is done.
    fn ask_back(self: &Arc<Fleet>) {
        for i in (0..self.replicas.len()).filter(|&i| self.replicas[i].claim()) {
            let fleet = self.clone();
            let prove = move || fleet.prove_all(&fleet.replicas[i], None);
            drop(std::thread::Builder::new().name("policy-server".into()).spawn(prove));
        }
    }

    /// Has a server prove all adapters that may be requested, and that of a job.
    fn prove_all(&self, replica: &Replica, own: Option<&Arc<Adapter>>) {
        let known: Vec<Arc<Adapter>> = self.adapters.lock().known.values().cloned().collect();
        let _awake = self.rest.awake(&self.replicas);
        let adapters: Vec<&Adapter> = known.iter().chain(own).map(|adapter| &**adapter).collect();
        if replica.server.healthy() {
            replica.prove(self.api, &adapters, &self.proof);
        } else if let Some(why) = replica.why() {
            replica.leave_out(why);
        }
    }

    /// That no server takes part: what is wrong with each.
    fn none_left(&self) -> PolicyError {
        let mut faults: Vec<ModelFault> = self.replicas.iter().filter_map(Replica::why).collect();
        faults.dedup();
        let fault = match faults.len() {
            1 => faults.remove(0),
            _ => {
                let named = self.replicas.iter().filter_map(|replica| Some(format!("{}: {}", replica.server.host(), replica.why()?)));
                ModelFault::Server { what: format!("none of {} takes part; {}", self.replicas.len(), named.collect::<Vec<_>>().join("; ")) }
            }
        };
        PolicyError::model(&self.name, fault)
    }
}

/// The server that each episode began at.
#[derive(Default)]
struct Homes(BTreeMap<u64, usize>);

impl Homes {
    /// That of `member` while it `fits`, else the chosen one from now on. What is no episode's has none.
    fn of(&mut self, member: u64, fits: impl Fn(usize) -> bool, choose: impl FnOnce() -> Option<usize>) -> Option<usize> {
        let home = self.0.get(&member).copied().filter(|home| fits(*home));
        let at = home.or_else(choose)?;
        if member != 0 {
            self.0.insert(member, at);
        }
        Some(at)
    }
}

/// Which of `servers` a session's request goes to: that of its group while it has less than its share of the `loads`,
/// then the first one by the member with room. None where there are no servers.
fn chosen<'h>(servers: &[usize], host: impl Fn(usize) -> &'h str, loads: &[usize], session: Session) -> Option<usize> {
    let score = |i: usize, key: u64| mix(text(host(i)), key);
    let all: usize = servers.iter().map(|&i| loads[i]).sum();
    let most = (MOST_LOAD * (all + 1) as f64 / servers.len().max(1) as f64).ceil() as usize;
    let room = |i: &usize| loads[*i] < most;
    let own = servers.iter().copied().max_by_key(|&i| score(i, session.group))?;
    let others = || servers.iter().copied().filter(room).max_by_key(|&i| score(i, session.member));
    Some(own).filter(room).or_else(others).or(Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight groups of sixteen at four servers, all at once: no server has more than a quarter over the mean, and the
    /// groups are at 20 places together or fewer, of 32. By their members alone they would be at 30 or more.
    #[test]
    fn a_group_is_at_few_servers_and_none_is_overloaded() {
        let hosts = ["a:1", "b:1", "c:1", "d:1"];
        let placed = |by_group: bool| {
            let (mut loads, mut places) = ([0; 4], vec![std::collections::BTreeSet::new(); 8]);
            for member in 0..128 {
                let group = member % 8;
                let session = Session { group: if by_group { group } else { mix(group, member) }, member: mix(group, member) };
                let at = chosen(&[0, 1, 2, 3], |i| hosts[i], &loads, session).unwrap();
                loads[at] += 1;
                places[group as usize].insert(at);
            }
            assert!(loads.iter().all(|load| *load <= 40), "{loads:?}");
            places.iter().map(std::collections::BTreeSet::len).sum::<usize>()
        };
        let (together, apart) = (placed(true), placed(false));
        assert!(together <= 20 && apart >= 30, "{together} places of groups, {apart} without");
    }

    /// Its later turns go where an episode began, whatever the loads are then; where that server has gone, to another
    /// one from then on.
    #[test]
    fn an_episode_stays_where_it_began() {
        let mut homes = Homes::default();
        assert_eq!(homes.of(7, |_| true, || Some(1)), Some(1));
        assert_eq!(homes.of(7, |_| true, || Some(0)), Some(1));
        assert_eq!(homes.of(7, |home| home != 1, || Some(0)), Some(0));
        assert_eq!(homes.of(7, |_| true, || Some(1)), Some(0));
        assert_eq!((homes.of(0, |_| true, || Some(1)), homes.of(0, |_| true, || Some(0))), (Some(1), Some(0)));
        assert_eq!(homes.of(8, |_| true, || None), None);
    }

    /// Two requests at one server and none at the other: the third goes to that one. With one server there is nothing to
    /// choose.
    #[test]
    fn a_busy_server_is_passed_over() {
        let session = Session { group: 3, member: 4 };
        let own = chosen(&[0, 1], |i| ["a:1", "b:1"][i], &[0, 0], session).unwrap();
        let mut loads = [0, 0];
        loads[own] = 2;
        assert_eq!(chosen(&[0, 1], |i| ["a:1", "b:1"][i], &loads, session), Some(1 - own));
        assert_eq!(chosen(&[1], |_| "b:1", &[0, 9], session), Some(1));
        assert_eq!(chosen(&[], |_| "", &[], session), None);
    }
}
