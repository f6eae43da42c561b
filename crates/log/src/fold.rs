//! Compaction: the small files of a block of iterations become a segment with one file a node, and several segments
//! become a larger one. The old files stay until the manifest names the new ones.

use super::head::ManifestBody;
use super::journal::BLOCK;
use super::segment::{FileRecord, IterationDetails, Segment};
use super::{chain, disk, journal, reader, writer, Iteration, LogError, Part, Run};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use flow_core::row;
use std::collections::{BTreeMap, BTreeSet};

/// Files that are as large as this on average stay as they are: opening them costs little beside reading them.
const LARGE: u64 = 512 << 10;

/// How many segments of about the same length are merged into one.
const FAN: usize = 8;

/// The largest file of a node that merging may make, in bytes.
const MOST: u64 = 32 << 20;

/// Writes the files of segments; their names hold the generation, so that files left by another writer are never mixed
/// in.
pub(super) struct SegmentWriter<'a> {
    pub run: &'a Run,
    pub generation: u64,
}

impl SegmentWriter<'_> {
    /// Makes one segment of these iterations.
    ///
    /// # Errors
    /// If a file can't be read, has changed since its commit, or can't be written.
    pub fn block(&self, iterations: &[Iteration]) -> Result<Option<Segment>, LogError> {
        let (Some(first), Some(last)) = (iterations.first(), iterations.last()) else { return Ok(None) };
        let (first, last) = (first.iteration, last.iteration);
        let nodes: BTreeSet<&String> = iterations.iter().flat_map(|i| &i.parts).map(|part| &part.node).collect();
        let (mut files, mut apart) = (BTreeMap::new(), Vec::new());
        for node in nodes {
            match self.rows(iterations, node)? {
                Some(rows) => {
                    files.insert(node.clone(), self.write(node, first, last, &[rows])?);
                }
                None => apart.push(node.clone()),
            }
        }
        let details: Vec<IterationDetails> = iterations.iter().map(|iteration| IterationDetails::of(iteration, &apart)).collect();
        Ok(Some(Segment { first, last, details: self.details(first, last, &details)?, files, apart }))
    }

    /// The rows of a node in these iterations; none where its files had better stay as they are.
    fn rows(&self, iterations: &[Iteration], node: &str) -> Result<Option<RecordBatch>, LogError> {
        let parts: Vec<&Part> = iterations.iter().flat_map(|i| &i.parts).filter(|part| part.node == node).collect();
        if parts.iter().map(|part| part.bytes).sum::<u64>() >= LARGE * parts.len() as u64 {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(iterations.len());
        for committed in iterations {
            let mut batches = Vec::new();
            for part in committed.parts.iter().filter(|part| part.node == node) {
                batches.extend(reader::part(self.run, part)?);
            }
            // A filter on the column must find what a look at the iteration finds.
            let Some(rows) = row::sorted(&batches)? else { continue };
            let named = row::u64s(&rows, "iteration").is_ok_and(|column| column.values().iter().all(|i| *i == committed.iteration));
            if !named || all.first().is_some_and(|first: &RecordBatch| first.schema() != rows.schema()) {
                return Ok(None);
            }
            all.push(rows);
        }
        let Some(first) = all.first() else { return Ok(None) };
        Ok(Some(concat_batches(&first.schema(), &all)?))
    }

    fn write(&self, node: &str, first: u64, last: u64, rows: &[RecordBatch]) -> Result<FileRecord, LogError> {
        let bytes = writer::segment(rows)?;
        let count = rows.iter().map(RecordBatch::num_rows).sum::<usize>();
        let path = format!("log/{node}/{first}-{last}/rows-{}.parquet", self.generation);
        writer::write(&self.run.root().join(&path), &bytes)?;
        Ok(FileRecord::of(path, count, &bytes))
    }

    fn details(&self, first: u64, last: u64, details: &[IterationDetails]) -> Result<FileRecord, LogError> {
        let (mut text, mut sum) = (Vec::new(), 0);
        for folded in details {
            let (line, after) = chain::line(folded, sum)?;
            text.extend(line);
            sum = after;
        }
        let path = format!("{}/{}-{first}-{last}.details.jsonl", journal::FOLDER, self.generation);
        disk::replace(&self.run.root().join(&path), &[&text])?;
        Ok(FileRecord::of(path, details.len(), &text))
    }

    /// Merges the last [`FAN`] segments if they are of about the same length, again and again while that holds.
    ///
    /// # Errors
    /// As [`SegmentWriter::block`].
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

/// The position of the first segment that is to be merged with all after it, if there is one.
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

/// Appends whole blocks, oldest first, to `segments`, and merges these.
///
/// # Errors
/// As [`SegmentWriter::block`]: then nothing has changed that the manifest names.
pub(super) fn fold(run: &Run, generation: u64, mut segments: Vec<Segment>, blocks: &[&[Iteration]]) -> Result<Vec<Segment>, LogError> {
    let writer = SegmentWriter { run, generation };
    for iterations in blocks {
        segments.extend(writer.block(iterations)?);
        writer.merge(&mut segments)?;
    }
    Ok(segments)
}

/// The paths that `before` names and `after` doesn't, of segments.
pub(super) fn superseded(before: &[Segment], after: &ManifestBody) -> Vec<String> {
    let paths_of = |s: &Segment| s.files.values().chain([&s.details]).map(|file| file.path.clone()).collect::<Vec<_>>();
    let still_named: BTreeSet<String> = after.segments.iter().flat_map(paths_of).collect();
    before.iter().flat_map(paths_of).filter(|path| !still_named.contains(path)).collect()
}
