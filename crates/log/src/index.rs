//! The index of committed iterations: read from the manifest, its segments and the journal.

use super::head::{ManifestBody, FILE, FORMAT};
use super::journal;
use super::manifest::{all_inside, Manifest};
use super::{pending, Iteration, LogError, Part, Run, Status};
use flow_core::files;
use flow_core::seed;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What is committed, without the details inside the segments: so reading it takes no longer for a long run.
pub(super) struct LogIndex {
    pub head: ManifestBody,
    pub status: Status,
    /// The iterations that are in no segment.
    pub tail: Vec<Iteration>,
}

/// How often reading is tried again when the manifest was replaced meanwhile.
const RETRIES: usize = 20;

impl LogIndex {
    /// Reads the index of the run in the folder `root`. Fails where there is none, and where it can't be what a run
    /// wrote.
    pub fn read(root: &Path) -> Result<LogIndex, LogError> {
        let mut tries = 0;
        loop {
            let text = text(root)?;
            match LogIndex::parse(root, &text) {
                // The journal that it names may have gone into a segment meanwhile.
                Err(_) if tries < RETRIES && self::text(root)? != text => tries += 1,
                read => return read,
            }
        }
    }

    fn parse(root: &Path, text: &str) -> Result<LogIndex, LogError> {
        let path = root.join(FILE);
        let damaged = |why: String| LogError::Manifest { path: path.clone(), why };
        /// The one field that every version of the format has.
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
        }
        let probe = serde_json::from_str::<Probe>(text).map_err(|e| damaged(e.to_string()))?;
        if probe.format > FORMAT {
            return Err(LogError::Newer { path, format: probe.format, known: FORMAT });
        }
        let (head, status) = ManifestBody::read(text).map_err(damaged)?;
        let (tail, last) = journal::read(root, head.generation, head.first_block(), head.chain)?;
        if head.end.is_some_and(|end| end != last) {
            return Err(damaged("the last of its iterations are gone from the journal".into()));
        }
        let index = LogIndex { head, status, tail };
        index.validate().map_err(damaged)?;
        Ok(index)
    }

    /// Refuses what no run could have written: files outside its folder, iterations out of order.
    fn validate(&self) -> Result<(), String> {
        let ends = self.head.segments.iter().map(|s| (s.first, s.last)).chain(self.tail.iter().map(|i| (i.iteration, i.iteration)));
        let mut before: Option<u64> = None;
        for (first, last) in ends {
            if let Some(before) = before.filter(|before| *before >= first || first > last) {
                return Err(format!("iteration {first} comes after iteration {before}"));
            }
            before = Some(last);
        }
        let named = self.head.segments.iter().flat_map(|s| s.files.values().chain([&s.details])).map(|file| &file.path);
        let parts = self.tail.iter().flat_map(|i| &i.parts).chain(&self.head.lost).map(|part| &part.path);
        let weights = self.head.start.iter().chain(self.tail.iter().flat_map(|i| &i.weights)).map(|w| &w.path);
        all_inside(named.chain(parts).chain(weights))
    }

    /// The iterations of `within`, each in full.
    ///
    /// # Errors
    /// If the details of a segment have changed.
    pub fn committed(&self, root: &Path, within: RangeInclusive<u64>) -> Result<Vec<Iteration>, LogError> {
        let mut all = Vec::new();
        for segment in self.head.segments.iter().filter(|s| s.meets(&within)) {
            all.extend(segment.iterations(root)?);
        }
        all.extend(self.tail.iter().cloned());
        all.retain(|committed| within.contains(&committed.iteration));
        Ok(all)
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`LogIndex::committed`], and where a segment holds what no run wrote.
    pub fn manifest(self, root: &Path) -> Result<Manifest, LogError> {
        let committed = self.committed(root, 0..=u64::MAX)?;
        let manifest = Manifest { info: self.head.info, status: self.status, start: self.head.start, committed };
        manifest.validate().map_err(|why| LogError::Manifest { path: root.join(FILE), why })?;
        Ok(manifest)
    }

    /// The files with rows of `node` in some iteration of `within`; those of segments have rows of others, too.
    ///
    /// # Errors
    /// As [`LogIndex::committed`].
    pub fn files(&self, root: &Path, node: &str, within: &RangeInclusive<u64>) -> Result<Vec<CommittedFile>, LogError> {
        let mut pieces = Vec::new();
        for segment in self.head.segments.iter().filter(|s| s.meets(within)) {
            pieces.extend(segment.files.get(node).map(|file| CommittedFile {
                path: file.path.clone(),
                bytes: file.bytes,
                sum: Checksum::Lanes(file.sum),
            }));
            if segment.apart.iter().any(|apart| apart == node) {
                pieces.extend(files_of_node(&segment.iterations(root)?, node, within));
            }
        }
        pieces.extend(files_of_node(&self.tail, node, within));
        let lost = self.head.lost.iter().filter(|part| part.node == node && within.contains(&part.iteration));
        pieces.extend(lost.map(CommittedFile::of));
        Ok(pieces)
    }

    /// All files that it names, by their paths relative to the run's folder, with their lengths.
    ///
    /// # Errors
    /// As [`LogIndex::committed`].
    pub fn paths(&self, root: &Path) -> Result<BTreeMap<String, u64>, LogError> {
        let length = |part: &Part| (part.path.clone(), part.bytes);
        let mut all: BTreeMap<String, u64> = self.tail.iter().flat_map(|i| &i.parts).chain(&self.head.lost).map(length).collect();
        for segment in &self.head.segments {
            all.extend(segment.files.values().chain([&segment.details]).map(|file| (file.path.clone(), file.bytes)));
            if !segment.apart.is_empty() {
                all.extend(segment.iterations(root)?.iter().flat_map(|i| &i.parts).map(length));
            }
        }
        Ok(all)
    }
}

/// The files that the run's manifest names, by their paths relative to its folder, with their lengths. The manifest, the
/// lines of the journal and weights aren't among them.
///
/// # Errors
/// Where the manifest can't be read.
pub fn committed_files(run: &Run) -> Result<BTreeMap<String, u64>, LogError> {
    LogIndex::read(run.root())?.paths(run.root())
}

/// Where the committed file `path`, relative to the run's folder, is now.
pub fn locate(run: &Run, path: &str) -> PathBuf {
    pending::locate(run, path)
}

/// The files of the journal that count, relative to the run's folder.
///
/// # Errors
/// Where the manifest or the folder can't be read.
pub fn journal_files(run: &Run) -> Result<Vec<String>, LogError> {
    let index = LogIndex::read(run.root())?;
    let files = journal::files(run.root(), index.head.generation, index.head.first_block())?;
    let name = |path: PathBuf| Some(path.strip_prefix(run.root()).ok()?.to_str()?.to_owned());
    Ok(files.into_iter().filter_map(name).collect())
}

impl Manifest {
    /// The manifest in the run's folder `root`. Fails where there is none, and where it can't be what a run wrote.
    pub(super) fn read(root: &Path) -> Result<Manifest, LogError> {
        LogIndex::read(root)?.manifest(root)
    }
}

/// The files of a node in these iterations; a file that several of them share is listed once.
fn files_of_node(iterations: &[Iteration], node: &str, within: &RangeInclusive<u64>) -> Vec<CommittedFile> {
    let mut listed = BTreeSet::new();
    let parts = iterations.iter().filter(|i| within.contains(&i.iteration)).flat_map(|i| &i.parts).filter(|part| part.node == node);
    let first = parts.filter(|part| listed.insert(&part.path));
    first.map(CommittedFile::of).collect()
}

/// A file with rows, as it was committed.
#[derive(Clone, Debug)]
pub(super) struct CommittedFile {
    /// Relative to the run's folder.
    pub path: String,
    pub bytes: u64,
    pub sum: Checksum,
}

impl CommittedFile {
    fn of(part: &Part) -> CommittedFile {
        CommittedFile { path: part.path.clone(), bytes: part.bytes, sum: Checksum::of(part) }
    }
}

/// The checksum of a file, by the function that computed it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Checksum {
    /// [`seed::bytes`] of them.
    Words(u64),
    /// [`seed::lanes`] of them, in a segment's files.
    Lanes(u64),
}

impl Checksum {
    /// The checksum of the file that `part` is in.
    pub fn of(part: &Part) -> Checksum {
        match part.start {
            Some(_) => Checksum::Lanes(part.sum),
            None => Checksum::Words(part.sum),
        }
    }

    /// Whether `bytes` have this checksum.
    pub fn fits(self, bytes: &[u8]) -> bool {
        match self {
            Checksum::Words(sum) => sum == seed::bytes(bytes),
            Checksum::Lanes(sum) => sum == seed::lanes(bytes),
        }
    }
}

/// The manifest's text.
fn text(root: &Path) -> Result<String, LogError> {
    let path = root.join(FILE);
    files::text(&path, u64::MAX - 1).map_err(|e| match e.kind() {
        ErrorKind::NotFound => LogError::no_run(root),
        ErrorKind::InvalidData => LogError::Manifest { path: path.clone(), why: e.to_string() },
        _ => LogError::io(&path)(e),
    })
}
