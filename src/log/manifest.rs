//! The manifest: which iterations are committed, with which files, metrics and weights.

use super::keep::Keeper;
use super::{disk, sweep, LogError, Run};
use crate::files;
use crate::pipeline::{Keep, Role};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Instant;

/// Metrics of one iteration: node, name, value.
pub type Metrics = BTreeMap<String, BTreeMap<String, f64>>;

/// What a run is about to do: the part of the manifest that never changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    pub name: String,
    /// The logged nodes, in topological order.
    pub nodes: Vec<NodeInfo>,
    /// How many iterations are planned.
    pub iterations: u64,
    pub seed: u64,
    /// Which old weights are kept.
    #[serde(default)]
    pub keep: Keep,
    /// How many iterations back a delayed edge looks, at most: weights as old as that are needed to resume.
    #[serde(default)]
    pub delay: u64,
    /// The run whose rows this one repeats, if it plays none itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<Replays>,
}

/// Rows of another run in place of played ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replays {
    /// The folder of that run, as it was named.
    pub run: String,
    /// Node here -> the node there whose rows it has.
    pub nodes: BTreeMap<String, String>,
}

/// A logged node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    pub id: String,
    pub op: String,
    /// What its operator is there for; of a loop, what that of its output is. Unknown in runs of before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The columns it logs. They give a node without rows its empty table; may be left empty.
    #[serde(default)]
    pub columns: Vec<String>,
    /// The nodes that its rows came through, logged or not; unknown in runs of before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Vec<String>>,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Running,
    Finished,
    Stopped,
    Failed(String),
}

/// One file: the rows of a node that one worker logged in one iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub node: String,
    pub iteration: u64,
    pub worker: usize,
    /// Relative to the run's folder.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// [`crate::seed::bytes`] of the file; unknown in runs of before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
}

/// Weights that a node made in an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightsAt {
    pub node: String,
    pub model: String,
    pub version: u64,
    /// Relative to the run's folder.
    pub path: String,
}

/// A committed iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    pub iteration: u64,
    /// Sorted by node and worker.
    pub parts: Vec<Part>,
    #[serde(deserialize_with = "null_is_nan")]
    pub metrics: Metrics,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<WeightsAt>,
    /// Since the commit before.
    pub seconds: f64,
}

/// JSON has no NaN and no infinity: they are written as null, and null is read as NaN.
fn null_is_nan<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Metrics, D::Error> {
    let read = BTreeMap::<String, BTreeMap<String, Option<f64>>>::deserialize(from)?;
    Ok(read.into_iter().map(|(node, m)| (node, m.into_iter().map(|(k, v)| (k, v.unwrap_or(f64::NAN))).collect())).collect())
}

/// All that a reader may trust.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    #[serde(flatten)]
    pub info: RunInfo,
    pub status: Status,
    pub committed: Vec<Iteration>,
}

/// The version of the format that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;

impl RunInfo {
    /// Whether the node's rows stand apart from the training's: those of a frozen panel, or tasks.
    pub(super) fn apart(&self, node: &NodeInfo) -> bool {
        // In a run of before roles were noted: those that came from no other node, unless a replay put them there.
        let fed = self.replays.as_ref().is_some_and(|replays| replays.nodes.contains_key(&node.id));
        node.role.map_or(!fed && node.upstream.as_ref().is_some_and(Vec::is_empty), Role::apart)
    }
}

impl Manifest {
    pub(super) fn new(info: &RunInfo) -> Self {
        Manifest { format: FORMAT, info: info.clone(), status: Status::Running, committed: Vec::new() }
    }

    /// The iteration that a resumed run starts with.
    pub fn next(&self) -> u64 {
        self.committed.last().map_or(0, |i| i.iteration + 1)
    }

    /// How many iterations have been trained; a finished run may have committed a last evaluation after them.
    pub fn trained(&self) -> u64 {
        self.next().min(self.info.iterations)
    }

    /// The committed files of `node`, oldest iteration first.
    pub fn parts<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Part> {
        self.committed.iter().flat_map(|i| &i.parts).filter(move |p| p.node == node)
    }

    /// The logged node called `id`.
    pub fn node(&self, id: &str) -> Result<&NodeInfo, LogError> {
        self.info.nodes.iter().find(|n| n.id == id).ok_or_else(|| self.unknown(id))
    }

    /// The newest version of any model that is committed.
    pub(super) fn newest(&self) -> u64 {
        self.committed.iter().flat_map(|i| &i.weights).map(|w| w.version).max().unwrap_or(0)
    }

    fn unknown(&self, node: &str) -> LogError {
        let known: Vec<&str> = self.info.nodes.iter().map(|n| n.id.as_str()).collect();
        LogError::Node { node: node.into(), known: if known.is_empty() { "none".into() } else { known.join(", ") } }
    }
}

pub(super) fn load(run: &Run) -> Result<Manifest, LogError> {
    let path = run.manifest_path();
    let text = files::text(&path, u64::MAX - 1).map_err(|e| match e.kind() {
        ErrorKind::NotFound => LogError::NotARun(run.root().into()),
        ErrorKind::InvalidData => LogError::Manifest { path: path.clone(), why: e.to_string() },
        _ => LogError::io(&path)(e),
    })?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|e| LogError::Manifest { path: path.clone(), why: e.to_string() })?;
    if manifest.format > FORMAT {
        let why = format!("format {} is newer than this program, which knows {FORMAT}", manifest.format);
        return Err(LogError::Manifest { path, why });
    }
    Ok(manifest)
}

/// Takes back the commits from `first` on, and answers with what is left.
pub(super) fn rewind(run: &Run, first: u64) -> Result<Manifest, LogError> {
    let mut manifest = load(run)?;
    let before = manifest.committed.len();
    manifest.committed.retain(|i| i.iteration < first);
    if manifest.committed.len() < before {
        Committer::start(run.clone(), manifest.clone())?;
    }
    Ok(manifest)
}

/// Commits iterations. Owned by one thread of one process: two would overwrite each other's manifest.
pub struct Committer {
    run: Run,
    /// Everything but the iterations, which are kept below as JSON, ready to write: a commit costs what its iteration costs.
    head: Manifest,
    last: Option<u64>,
    body: Vec<u8>,
    keeper: Keeper,
    since: Instant,
}

impl Committer {
    /// Goes on from the run's manifest. Removes the parts that no commit names, so it comes before any part is written.
    pub fn new(run: Run) -> Result<Committer, LogError> {
        let manifest = run.manifest()?;
        sweep::sweep(&run, &manifest)?;
        Committer::start(run, manifest)
    }

    pub(super) fn start(run: Run, mut head: Manifest) -> Result<Committer, LogError> {
        let committed = std::mem::take(&mut head.committed);
        let last = committed.last().map(|i| i.iteration);
        let keeper = Keeper::new(&head.info);
        let mut committer = Committer { run, head, last, body: Vec::new(), keeper, since: Instant::now() };
        for iteration in &committed {
            committer.push(iteration)?;
            committer.keeper.saw(iteration);
        }
        committer.head.status = Status::Running;
        committer.save()?;
        Ok(committer)
    }

    /// Commits `iteration`: from now on readers see its parts. Iterations must grow; not each needs to be there.
    pub fn commit(&mut self, iteration: u64, mut parts: Vec<Part>, metrics: Metrics, weights: Vec<WeightsAt>) -> Result<(), LogError> {
        if let Some(last) = self.last.filter(|last| *last >= iteration) {
            return Err(LogError::Order { iteration, last });
        }
        parts.sort_by(|a, b| (&a.node, a.worker).cmp(&(&b.node, b.worker)));
        let seconds = self.since.elapsed().as_secs_f64();
        let before = self.body.len();
        let made = Iteration { iteration, parts, metrics, weights, seconds };
        self.push(&made)?;
        // An iteration that could not be saved must not slip in with the next one.
        self.save().inspect_err(|_| self.body.truncate(before))?;
        self.last = Some(iteration);
        self.since = Instant::now();
        self.keeper.saw(&made);
        self.keeper.tidy(&self.run)
    }

    /// Plans another number of iterations than before.
    pub fn plan(&mut self, iterations: u64) {
        self.head.info.iterations = iterations;
    }

    /// Says how the run ended, and removes the parts that were not committed.
    pub fn finish(&mut self, status: Status) -> Result<(), LogError> {
        self.head.status = status;
        self.save()?;
        sweep::sweep(&self.run, &self.run.manifest()?)
    }

    fn push(&mut self, iteration: &Iteration) -> Result<(), LogError> {
        let separator: &[u8] = if self.body.is_empty() { b"\n" } else { b",\n" };
        self.body.extend_from_slice(separator);
        serde_json::to_writer(&mut self.body, iteration).map_err(|e| self.unwritable(e))
    }

    /// Writes the head up to its empty list of iterations, the iterations, and the rest.
    fn save(&self) -> Result<(), LogError> {
        let head = serde_json::to_vec(&self.head).map_err(|e| self.unwritable(e))?;
        let open = head.len() - b"]}".len(); // `committed` is the last field, and empty
        disk::replace(&self.run.manifest_path(), &[&head[..open], &self.body, b"\n]}\n"])
    }

    fn unwritable(&self, e: serde_json::Error) -> LogError {
        LogError::Manifest { path: self.run.manifest_path(), why: e.to_string() }
    }
}
