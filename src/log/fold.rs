//! Small files become large ones: the rows of a block of iterations one file a node, and such files again a larger one. What was written
//! before stays until the manifest names what takes its place.

use super::head::Head;
use super::journal::BLOCK;
use super::segment::{FileAt, Folded, Segment};
use super::{chain, disk, journal, reader, writer, Iteration, LogError, Part, Run};
use crate::{row, seed};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use std::collections::{BTreeMap, BTreeSet};

/// Files that are as large as this on average stay as they are: opening them costs little beside reading them.
const LARGE: u64 = 512 << 10;

/// So many segments of about one length are put together.
const FAN: usize = 8;

/// As long as no file of a node gets larger than this.
const MOST: u64 = 32 << 20;

/// Where files of segments go, told apart from what another writer left by its generation.
pub(super) struct Folder<'a> {
    pub run: &'a Run,
    pub generation: u64,
}

impl Folder<'_> {
    /// The segment of these iterations, of one block, and what it takes the place of.
    ///
    /// # Errors
    /// If a file can't be read, or isn't what was committed; or can't be written.
    pub fn block(&self, made: &[Iteration]) -> Result<Option<Segment>, LogError> {
        let (Some(first), Some(last)) = (made.first(), made.last()) else { return Ok(None) };
        let (first, last) = (first.iteration, last.iteration);
        let nodes: BTreeSet<&String> = made.iter().flat_map(|i| &i.parts).map(|part| &part.node).collect();
        let (mut files, mut apart) = (BTreeMap::new(), Vec::new());
        for node in nodes {
            match self.rows(made, node)? {
                Some(rows) => {
                    files.insert(node.clone(), self.write(node, first, last, &[rows])?);
                }
                None => apart.push(node.clone()),
            }
        }
        let details: Vec<Folded> = made.iter().map(|made| Folded::of(made, &apart)).collect();
        Ok(Some(Segment { first, last, details: self.details(first, last, &details)?, files, apart }))
    }

    /// The rows of a node in these iterations; none where its files had better stay as they are.
    fn rows(&self, made: &[Iteration], node: &str) -> Result<Option<RecordBatch>, LogError> {
        let parts: Vec<&Part> = made.iter().flat_map(|i| &i.parts).filter(|part| part.node == node).collect();
        if parts.iter().map(|part| part.bytes).sum::<u64>() >= LARGE * parts.len() as u64 {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(made.len());
        for made in made {
            let mut batches = Vec::new();
            for part in made.parts.iter().filter(|part| part.node == node) {
                batches.extend(reader::part(self.run, part)?);
            }
            // A filter on the column must find what a look at the iteration finds.
            let Some(rows) = row::sorted(&batches)? else { continue };
            let named = row::u64s(&rows, "iteration").is_ok_and(|column| column.values().iter().all(|i| *i == made.iteration));
            if !named || all.first().is_some_and(|first: &RecordBatch| first.schema() != rows.schema()) {
                return Ok(None);
            }
            all.push(rows);
        }
        let Some(first) = all.first() else { return Ok(None) };
        Ok(Some(concat_batches(&first.schema(), &all)?))
    }

    fn write(&self, node: &str, first: u64, last: u64, rows: &[RecordBatch]) -> Result<FileAt, LogError> {
        let bytes = writer::segment(rows)?;
        let count = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        self.put(format!("log/{node}/{first}-{last}/rows-{}.parquet", self.generation), count, &bytes)
    }

    fn details(&self, first: u64, last: u64, details: &[Folded]) -> Result<FileAt, LogError> {
        let (mut text, mut sum) = (Vec::new(), 0);
        for folded in details {
            let (line, after) = chain::line(folded, sum)?;
            text.extend(line);
            sum = after;
        }
        self.put(format!("{}/{}-{first}-{last}.details.jsonl", journal::FOLDER, self.generation), details.len(), &text)
    }

    fn put(&self, path: String, rows: usize, bytes: &[u8]) -> Result<FileAt, LogError> {
        let file = self.run.root().join(&path);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(LogError::io(folder))?;
            disk::replace(&file, &[bytes])?;
            folder.parent().map_or(Ok(()), disk::sync_folder)?;
        }
        Ok(FileAt { path, rows: rows as u64, bytes: bytes.len() as u64, sum: seed::lanes(bytes) })
    }

    /// Puts the last [`FAN`] segments together where they are of about one length, and goes on with what comes of it.
    ///
    /// # Errors
    /// As [`Folder::block`].
    pub fn merge(&self, segments: &mut Vec<Segment>) -> Result<(), LogError> {
        while let Some(at) = due(segments) {
            let merged = self.merged(&segments[at..])?;
            segments.truncate(at);
            segments.push(merged);
        }
        Ok(())
    }

    fn merged(&self, segments: &[Segment]) -> Result<Segment, LogError> {
        let (first, last) = (segments[0].first, segments[segments.len() - 1].last);
        let nodes: BTreeSet<&String> = segments.iter().flat_map(|s| s.files.keys()).collect();
        let mut files = BTreeMap::new();
        for node in nodes {
            let mut rows = Vec::new();
            for file in segments.iter().filter_map(|s| s.files.get(node)) {
                rows.extend(reader::whole_file(self.run, file)?);
            }
            files.insert(node.clone(), self.write(node, first, last, &rows)?);
        }
        let mut details = Vec::new();
        for segment in segments {
            details.extend(segment.details(self.run.root())?);
        }
        Ok(Segment { first, last, details: self.details(first, last, &details)?, files, apart: segments[0].apart.clone() })
    }
}

/// Where the segments begin that are to be put together, if some are.
fn due(segments: &[Segment]) -> Option<usize> {
    let at = segments.len().checked_sub(FAN)?;
    let last = &segments[at..];
    // How often [`FAN`] goes into its blocks.
    let level = |s: &Segment| ((s.last / BLOCK - s.first / BLOCK + 1) as usize).ilog(FAN);
    let mut bytes: BTreeMap<&String, u64> = BTreeMap::new();
    last.iter().flat_map(|s| &s.files).for_each(|(node, file)| *bytes.entry(node).or_default() += file.bytes);
    let alike = last.iter().all(|s| level(s) == level(&last[0]) && s.apart == last[0].apart);
    (alike && bytes.values().all(|bytes| *bytes <= MOST)).then_some(at)
}

/// What the manifest names after blocks were folded.
pub(super) struct Done {
    pub segments: Vec<Segment>,
    /// How many blocks are in them now.
    pub blocks: usize,
    /// Files of before that could not be removed yet.
    pub left: Vec<String>,
}

/// Folds whole blocks, oldest first, into what comes after `segments`.
///
/// # Errors
/// As [`Folder::block`]: then nothing has changed that the manifest names.
pub(super) fn fold(run: &Run, generation: u64, mut segments: Vec<Segment>, blocks: &[Vec<Iteration>]) -> Result<Done, LogError> {
    let folder = Folder { run, generation };
    for made in blocks {
        segments.extend(folder.block(made)?);
        folder.merge(&mut segments)?;
    }
    Ok(Done { segments, blocks: blocks.len(), left: Vec::new() })
}

/// The paths that `before` names and `after` doesn't, of segments.
pub(super) fn superseded(before: &[Segment], after: &Head) -> Vec<String> {
    let of = |s: &Segment| s.files.values().chain([&s.details]).map(|file| file.path.clone()).collect::<Vec<_>>();
    let kept: BTreeSet<String> = after.segments.iter().flat_map(of).collect();
    before.iter().flat_map(of).filter(|path| !kept.contains(path)).collect()
}
