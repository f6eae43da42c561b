//! Compaction: whole blocks of the journal become segments in the background, and the files that they replace are
//! removed once they have no reader.

use super::fold::{fold, superseded};
use super::head::ManifestBody;
use super::segment::Segment;
use super::{journal, pending, readers, Iteration, LogError, Run, Status};
use std::fs;
use std::sync::Arc;

/// A block of the journal.
#[derive(Clone)]
pub(super) struct JournalBlock {
    pub number: u64,
    pub iterations: Vec<Iteration>,
    /// The checksum of its last line.
    pub chain: u64,
}

/// What a compaction has put into the manifest.
pub(super) struct Compacted {
    pub segments: Vec<Segment>,
    pub chain: u64,
    /// How many blocks are in segments now.
    pub blocks: usize,
    /// Files that the manifest no longer names.
    pub obsolete: Vec<String>,
}

/// Lets this thread yield to all others: training doesn't wait for compaction. Where a priority is one of the whole
/// process, it stays.
pub(super) fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

/// Puts whole blocks into segments, and names these in the manifest in place of the files that they replace. No other
/// writer of the manifest may run meanwhile.
pub(super) fn compact(
    run: &Run,
    mut head: ManifestBody,
    status: &Status,
    blocks: &[Arc<JournalBlock>],
    obsolete: Vec<String>,
) -> Result<Compacted, LogError> {
    run.in_place()?;
    let iterations: Vec<&[Iteration]> = blocks.iter().map(|block| block.iterations.as_slice()).collect();
    let segments = fold(run, head.generation, head.segments.clone(), &iterations)?;
    let before = std::mem::replace(&mut head.segments, segments);
    head.chain = blocks.last().map_or(head.chain, |block| block.chain);
    head.write(run.root(), status)?;
    let own = |block: &Arc<JournalBlock>| {
        let first = block.iterations.first().map_or(0, |committed| committed.iteration);
        let into = head.segments.iter().find(|segment| segment.meets(&(first..=first)));
        let apart = |node: &String| into.is_some_and(|segment| segment.apart.contains(node));
        let parts = block.iterations.iter().flat_map(|committed| &committed.parts).filter(|part| !apart(&part.node));
        let parts = parts.map(|part| part.path.clone());
        parts.chain([journal::path(head.generation, block.number)]).collect::<Vec<_>>()
    };
    let replaced = superseded(&before, &head).into_iter().chain(blocks.iter().flat_map(own));
    let obsolete = swap_unless_read(run, &head.segments, obsolete.into_iter().chain(replaced).collect());
    Ok(Compacted { chain: head.chain, segments: head.segments, blocks: blocks.len(), obsolete })
}

/// Removes obsolete files, and gives the segments' files, which replace them, their names: together, so that other
/// programs read each row once. Where somebody may be reading the obsolete ones, it returns them, for the next time;
/// the segments' files wait as well.
fn swap_unless_read(run: &Run, segments: &[Segment], obsolete: Vec<String>) -> Vec<String> {
    let done = readers::unless_read(run, || {
        for path in obsolete.iter().map(|path| run.root().join(path)) {
            // What stays is swept when the run ends, or is resumed.
            let _ = fs::remove_file(&path);
            let _ = path.parent().map(fs::remove_dir);
        }
        let _ = pending::publish(run, segments.iter().flat_map(|segment| segment.files.values()).map(|file| &file.path));
    });
    if done {
        Vec::new()
    } else {
        obsolete
    }
}
