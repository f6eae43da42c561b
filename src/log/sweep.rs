//! Clean-up. Our readers ignore the uncommitted rows and weights that a kill leaves behind, but another program that reads
//! `log/<node>/*/*.parquet` would see them. So they are removed when a run is resumed and when it ends, unless somebody reads the run: then
//! the next time.

use super::index::LogIndex;
use super::{journal, keep, readers};
use super::{LogError, Run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Removes the files under `log/` and of the journal that no commit names, and folders that are empty then.
pub(super) fn sweep(run: &Run, index: &LogIndex) -> Result<(), LogError> {
    let mut done = Ok(());
    readers::unless_read(run, || done = remove(run, index));
    done?;
    let newest = |committed: &super::Iteration| committed.weights.iter().map(|w| w.version).max();
    let committed = index.committed(run.root(), 0..=u64::MAX)?;
    keep::drop_uncommitted(run, committed.iter().filter_map(newest).max().unwrap_or(0))
}

fn remove(run: &Run, index: &LogIndex) -> Result<(), LogError> {
    let committed: BTreeSet<PathBuf> = index.paths(run.root())?.into_iter().map(|path| run.root().join(path)).collect();
    for node in entries(&run.log())? {
        for folder in entries(&node)? {
            for file in entries(&folder)?.iter().filter(|f| !committed.contains(*f)) {
                fs::remove_file(file).map_err(LogError::io(file))?;
            }
            let _ = fs::remove_dir(&folder); // refused where something is left
        }
    }
    // A journal that counts is of the generation that the manifest names, and of blocks that are in no segment.
    let first = index.segments.last().map_or(0, |segment| segment.last / journal::BLOCK + 1);
    let is_named = |file: &Path| committed.contains(file) || journal::counts(file, index.generation, first);
    for file in entries(&run.root().join(journal::FOLDER))?.iter().filter(|file| !is_named(file)) {
        fs::remove_file(file).map_err(LogError::io(file))?;
    }
    Ok(())
}

/// What lies in `folder`; nothing where it is no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, LogError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let read = || fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>();
    read().map_err(LogError::io(folder))
}
