//! The runs that are served, each by its number, and what is committed of them, read anew when it has changed.

use super::study::ShownStudy;
use crate::cli::error::{Error, Result};
use crate::cli::top::RunSnapshot;
use crate::cli::vocabularies::Vocabularies;
use flow_log::{Lock, Manifest, Run, Status, Table};
use flow_pipeline::contents;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::process::{Child, ChildStdout};

/// The runs that are served.
pub struct ServedRuns {
    named: Vec<PathBuf>,
    folder: PathBuf,
    study: Option<ShownStudy>,
    /// By their numbers, in order of discovery: an address stays what it was when runs come.
    found: Mutex<Vec<Arc<ServedRun>>>,
}

/// A run, with the data that has been read of it.
pub struct ServedRun {
    pub run: Run,
    pub folder: String,
    data: RunData,
    /// A process that waits for a question.
    pub waiting: Mutex<Option<(Child, ChildStdout)>>,
}

/// The data of a run that has been read.
#[derive(Default)]
struct RunData {
    manifest: Mutex<Option<(Stamp, Arc<Manifest>)>>,
    tables: Mutex<Option<AuditedTables>>,
    pipeline: OnceLock<Option<Arc<Value>>>,
    graph: OnceLock<std::result::Result<Value, String>>,
    overview: Mutex<Option<(Arc<Manifest>, Value)>>,
    kept: Mutex<VecDeque<KeptAnswer>>,
    vocabularies: OnceLock<Vocabularies>,
}

/// Names, lengths and times of the files that say what is committed, and of the folders of audits.
type Stamp = BTreeMap<String, (u64, Option<SystemTime>)>;

/// The tables, and the audits that there were when they were listed.
type AuditedTables = (Vec<String>, Arc<Vec<Table>>);

/// The manifest at that time, a question that reads much, and its answer.
type KeptAnswer = (Arc<Manifest>, String, Value);

/// How many answers that read much are kept of a run.
const KEPT: usize = 8;

/// How deep a folder of runs is searched.
const DEPTH: usize = 3;

impl ServedRuns {
    /// Those named, or those of a folder.
    ///
    /// # Errors
    /// If one that was named is no run, or there is no such folder.
    pub fn new(named: Vec<PathBuf>, folder: PathBuf) -> Result<ServedRuns> {
        // A folder of runs in place of a run.
        let (named, folder) = match named.as_slice() {
            [one] if Run::open(one).is_err() && holds_runs(one) => (Vec::new(), one.clone()),
            _ => (named, folder),
        };
        for run in &named {
            Run::open(run)?;
        }
        if named.is_empty() && !folder.is_dir() {
            return Err(Error::Request(format!("there is no folder `{}`: name runs, or their folder by --folder", folder.display())));
        }
        Ok(ServedRuns { named, folder, study: None, found: Mutex::new(Vec::new()) })
    }

    /// The same with the tables of a study of these runs.
    pub fn with(self, study: Option<ShownStudy>) -> ServedRuns {
        ServedRuns { study, ..self }
    }

    /// The study whose runs they are.
    ///
    /// # Errors
    /// If there is none.
    pub fn study(&self) -> Result<&ShownStudy> {
        self.study.as_ref().ok_or_else(|| Error::request("no study was named: `flow view --study FILE` shows one"))
    }

    /// All runs there are now, by their numbers.
    pub fn list(&self) -> Vec<Arc<ServedRun>> {
        let mut there = Vec::new();
        match self.named.is_empty() {
            true => search(&self.folder, DEPTH, &mut there),
            false => there.clone_from(&self.named),
        }
        let mut found = self.found.lock();
        let known: BTreeSet<PathBuf> = found.iter().map(|served| served.run.root().to_path_buf()).collect();
        let new = there.into_iter().filter(|root| !known.contains(root)).filter_map(|root| Some(Run::open(&root).ok()?.remembering()));
        found.extend(new.map(|run| Arc::new(ServedRun::new(run))));
        found.clone()
    }

    /// The run with that number.
    pub fn get(&self, number: usize) -> Result<Arc<ServedRun>> {
        let known = self.found.lock().get(number).cloned();
        known.or_else(|| self.list().get(number).cloned()).ok_or_else(|| Error::Request(format!("there is no run {number}")))
    }
}

/// Whether there is a run in a folder.
pub fn holds_runs(folder: &Path) -> bool {
    let mut runs = Vec::new();
    search(folder, DEPTH, &mut runs);
    !runs.is_empty()
}

/// The runs in a folder, in the order of their names.
fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir() && !path.is_symlink());
    folders.sort();
    for path in folders {
        if Run::open(&path).is_ok() {
            found.push(path);
        } else if depth > 1 {
            search(&path, depth - 1, found);
        }
    }
}

impl ServedRun {
    fn new(run: Run) -> ServedRun {
        let folder = run.root().display().to_string();
        ServedRun { run, folder, data: RunData::default(), waiting: Mutex::default() }
    }

    /// What is committed now.
    ///
    /// # Errors
    /// If the manifest can't be read, as where it is damaged.
    pub fn manifest(&self) -> Result<Arc<Manifest>> {
        let stamp = stamp(self.run.root());
        let mut kept = self.data.manifest.lock();
        if let Some((_, manifest)) = kept.as_ref().filter(|(of, _)| *of == stamp) {
            return Ok(manifest.clone());
        }
        let manifest = Arc::new(self.run.manifest()?);
        *kept = Some((stamp, manifest.clone()));
        Ok(manifest)
    }

    /// The names of its audits.
    ///
    /// # Errors
    /// If the manifest can't be read.
    pub fn audits(&self) -> Result<Vec<String>> {
        Ok(flow_log::audits(&self.run, &self.manifest()?.info))
    }

    /// The tables that can be asked, with their columns: they stay what they are once an iteration is committed, until
    /// the run is audited.
    ///
    /// # Errors
    /// If the log can't be read.
    pub fn tables(&self) -> Result<Arc<Vec<Table>>> {
        let audits = self.audits()?;
        let mut kept = self.data.tables.lock();
        if let Some((_, tables)) = kept.as_ref().filter(|(of, _)| *of == audits) {
            return Ok(tables.clone());
        }
        let tables = Arc::new(flow_log::tables(&self.run)?);
        if !self.manifest()?.committed.is_empty() {
            *kept = Some((audits, tables.clone()));
        }
        Ok(tables)
    }

    /// How it stands now, and what is committed.
    ///
    /// # Errors
    /// If the manifest can't be read.
    pub fn snapshot(&self) -> Result<(RunSnapshot, Arc<Manifest>)> {
        // Check the lock first: what the writer committed before it released the lock is then in the manifest.
        let held = Lock::held(&self.run);
        let manifest = self.manifest()?;
        Ok((RunSnapshot::with(&self.run, &self.folder, held, &manifest), manifest))
    }

    /// The contents of its pipeline; none where they can't be read.
    pub fn pipeline(&self) -> Option<Arc<Value>> {
        self.data.pipeline.get_or_init(|| contents(&self.run.pipeline()).ok().map(Arc::new)).clone()
    }

    /// What is said of it at a glance, made anew when more is committed; of a run that goes on each time.
    ///
    /// # Errors
    /// If the manifest can't be read, or `make` fails.
    pub fn overview(&self, make: impl FnOnce() -> Result<Value>) -> Result<Value> {
        let manifest = self.manifest()?;
        let mut kept = self.data.overview.lock();
        if let Some((_, overview)) = kept.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &manifest)) {
            return Ok(overview.clone());
        }
        let overview = make()?;
        *kept = (manifest.status != Status::Running).then(|| (manifest, overview.clone()));
        Ok(overview)
    }

    /// The answer to a question that reads much: kept while nothing more is committed, and with it the last few others.
    ///
    /// # Errors
    /// If the manifest can't be read, or `make` fails.
    pub fn kept(&self, question: String, make: impl FnOnce() -> Result<Value>) -> Result<Value> {
        let manifest = self.manifest()?;
        let same = |(of, other, _): &&KeptAnswer| Arc::ptr_eq(of, &manifest) && *other == question;
        if let Some((.., answer)) = self.data.kept.lock().iter().find(same) {
            return Ok(answer.clone());
        }
        let answer = make()?;
        let mut kept = self.data.kept.lock();
        kept.retain(|(of, ..)| Arc::ptr_eq(of, &manifest));
        kept.truncate(KEPT - 1);
        kept.push_front((manifest, question, answer.clone()));
        Ok(answer)
    }

    /// Its pipeline as a graph, drawn once, since a pipeline never changes.
    pub fn graph(&self, draw: impl FnOnce() -> Result<Value>) -> &std::result::Result<Value, String> {
        self.data.graph.get_or_init(|| draw().map_err(|error| error.to_string()))
    }

    /// The vocabularies of its models.
    pub fn vocabularies(&self) -> &Vocabularies {
        self.data.vocabularies.get_or_init(|| Vocabularies::of(&self.run))
    }
}

/// What the files that say what is committed look like from outside, and the folders of audits.
fn stamp(root: &Path) -> Stamp {
    let inside = |folder: &str| std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = inside("journal")
        .chain(inside("audit"))
        .chain([root.join("manifest.json")])
        .filter_map(|path| Some((path.display().to_string(), path.metadata().ok()?)));
    files.map(|(name, data)| (name, (data.len(), data.modified().ok()))).collect()
}
