//! Where the committed iterations are told: in the manifest, in segments, and in the journal.

use super::head::{Head, FILE, FORMAT};
use super::journal;
use super::manifest::{Manifest, Status};
use super::run_info::RunInfo;
use super::segment::{FileAt, Segment};
use super::{Iteration, LogError, WeightsAt};
use crate::{files, seed};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;

/// What is committed, without what only a look into the segments tells: it takes no longer to read for a long run.
pub(super) struct Index {
    pub info: RunInfo,
    pub status: Status,
    pub start: Vec<WeightsAt>,
    pub generation: u64,
    pub segments: Vec<Segment>,
    /// The iterations that are in no segment.
    pub tail: Vec<Iteration>,
}

/// How often a reader looks again whose manifest was replaced while it read.
const AGAIN: usize = 20;

impl Index {
    /// Of the run in the folder `root`. Fails where there is none, and where it can't be what a run wrote.
    pub fn read(root: &Path) -> Result<Index, LogError> {
        let mut tries = 0;
        loop {
            let text = text(root)?;
            match Index::of(root, &text) {
                // The journal that it names may have gone into a segment meanwhile.
                Err(_) if tries < AGAIN && self::text(root)? != text => tries += 1,
                read => return read,
            }
        }
    }

    fn of(root: &Path, text: &str) -> Result<Index, LogError> {
        let path = root.join(FILE);
        let damaged = |why: String| LogError::Manifest { path: path.clone(), why };
        /// Of another format this much can be read.
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
        }
        let probe = serde_json::from_str::<Probe>(text).map_err(|e| damaged(e.to_string()))?;
        if probe.format > FORMAT {
            return Err(LogError::Newer { path, format: probe.format, known: FORMAT });
        }
        let (head, status) = Head::read(text).map_err(damaged)?;
        let Head { info, start, generation, chain, end, segments } = head;
        let first = segments.last().map_or(0, |segment| segment.last / journal::BLOCK + 1);
        let (tail, last) = journal::read(root, generation, first, chain)?;
        if end.is_some_and(|end| end != last) {
            return Err(damaged("the last of its iterations are gone from the journal".into()));
        }
        let index = Index { info, status, start, generation, segments, tail };
        index.sound().map_err(damaged)?;
        Ok(index)
    }

    /// What no run could have written: files outside its folder, iterations out of order.
    fn sound(&self) -> Result<(), String> {
        let ends = self.segments.iter().map(|s| (s.first, s.last)).chain(self.tail.iter().map(|i| (i.iteration, i.iteration)));
        let mut before: Option<u64> = None;
        for (first, last) in ends {
            if let Some(before) = before.filter(|before| *before >= first || first > last) {
                return Err(format!("iteration {first} comes after iteration {before}"));
            }
            before = Some(last);
        }
        let named = self.segments.iter().flat_map(|s| s.files.values().chain([&s.details])).map(|file| &file.path);
        let parts = self.tail.iter().flat_map(|i| &i.parts).map(|part| &part.path);
        let weights = self.start.iter().chain(self.tail.iter().flat_map(|i| &i.weights)).map(|w| &w.path);
        inside(named.chain(parts).chain(weights))
    }

    /// The iterations of `within`, each in full.
    ///
    /// # Errors
    /// If the details of a segment aren't what was written.
    pub fn committed(&self, root: &Path, within: RangeInclusive<u64>) -> Result<Vec<Iteration>, LogError> {
        let mut all = Vec::new();
        for segment in self.segments.iter().filter(|s| s.meets(&within)) {
            all.extend(segment.iterations(root)?);
        }
        all.extend(self.tail.iter().cloned());
        all.retain(|made| within.contains(&made.iteration));
        Ok(all)
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`Index::committed`], and where a segment holds what no run wrote.
    pub fn manifest(self, root: &Path) -> Result<Manifest, LogError> {
        let committed = self.committed(root, 0..=u64::MAX)?;
        let manifest = Manifest { info: self.info, status: self.status, start: self.start, committed };
        manifest.sound().map_err(|why| LogError::Manifest { path: root.join(FILE), why })?;
        Ok(manifest)
    }

    /// The files with rows of `node` in some iteration of `within`; those of segments have rows of others, too.
    ///
    /// # Errors
    /// As [`Index::committed`].
    pub fn files(&self, root: &Path, node: &str, within: &RangeInclusive<u64>) -> Result<Vec<Piece>, LogError> {
        let mut pieces = Vec::new();
        for segment in self.segments.iter().filter(|s| s.meets(within)) {
            pieces.extend(segment.files.get(node).map(|file| Piece {
                path: file.path.clone(),
                bytes: file.bytes,
                sum: Sum::Lanes(file.sum),
            }));
            if segment.apart.iter().any(|apart| apart == node) {
                pieces.extend(own(&segment.iterations(root)?, node, within));
            }
        }
        pieces.extend(own(&self.tail, node, within));
        Ok(pieces)
    }

    /// The paths of all files that it names, relative to the run's folder.
    ///
    /// # Errors
    /// As [`Index::committed`].
    pub fn paths(&self, root: &Path) -> Result<BTreeSet<String>, LogError> {
        let mut all: BTreeSet<String> = self.tail.iter().flat_map(|i| &i.parts).map(|part| part.path.clone()).collect();
        for segment in &self.segments {
            all.extend(segment.files.values().chain([&segment.details]).map(|file| file.path.clone()));
            if !segment.apart.is_empty() {
                all.extend(segment.iterations(root)?.into_iter().flat_map(|i| i.parts).map(|part| part.path));
            }
        }
        Ok(all)
    }
}

/// The files of a node in these iterations: a file that many of them share once.
fn own(made: &[Iteration], node: &str, within: &RangeInclusive<u64>) -> Vec<Piece> {
    let mut seen = BTreeSet::new();
    let parts = made.iter().filter(|i| within.contains(&i.iteration)).flat_map(|i| &i.parts).filter(|part| part.node == node);
    let first = parts.filter(|part| seen.insert(&part.path));
    first.map(|part| Piece { path: part.path.clone(), bytes: part.bytes, sum: Sum::of(part) }).collect()
}

/// A file with rows, as it was committed.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Relative to the run's folder.
    pub path: String,
    pub bytes: u64,
    pub sum: Sum,
}

/// What is known of a file's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sum {
    /// [`seed::bytes`] of them.
    Words(u64),
    /// [`seed::lanes`] of them, in a segment's files.
    Lanes(u64),
}

impl Sum {
    /// Of the file that `part` is in.
    pub fn of(part: &super::Part) -> Sum {
        match part.start {
            Some(_) => Sum::Lanes(part.sum),
            None => Sum::Words(part.sum),
        }
    }

    /// Whether these can be the bytes.
    pub fn fits(self, bytes: &[u8]) -> bool {
        match self {
            Sum::Words(sum) => sum == seed::bytes(bytes),
            Sum::Lanes(sum) => sum == seed::lanes(bytes),
        }
    }
}

/// The manifest's text.
fn text(root: &Path) -> Result<String, LogError> {
    let path = root.join(FILE);
    files::text(&path, u64::MAX - 1).map_err(|e| match e.kind() {
        ErrorKind::NotFound => LogError::NotARun(root.into()),
        ErrorKind::InvalidData => LogError::Manifest { path: path.clone(), why: e.to_string() },
        _ => LogError::io(&path)(e),
    })
}

/// Says which of these paths leads out of the run's folder, if one does.
pub(super) fn inside<'a>(mut paths: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let out = |path: &&String| !Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    paths.find(out).map_or(Ok(()), |path| Err(format!("{path} lies outside the run's folder")))
}

/// The bytes of a file of a segment, once they are known to be those that were written.
pub(super) fn read_file(root: &Path, file: &FileAt) -> Result<Vec<u8>, LogError> {
    let path = root.join(&file.path);
    let bytes = fs::read(&path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => LogError::Missing(path.clone()),
        _ => LogError::io(&path)(e),
    })?;
    if bytes.len() as u64 != file.bytes || seed::lanes(&bytes) != file.sum {
        return Err(LogError::Damaged { path, why: "its bytes are not those that were committed".into() });
    }
    Ok(bytes)
}
