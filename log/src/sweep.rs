//! Clean-up of rows and weights that a kill left behind uncommitted. They are removed when a run is resumed and when it
//! ends, unless somebody reads the run: then the next time. A run's folder may come from elsewhere, so only names that
//! a run writes are removed, and no symbolic link is followed.

use super::index::LogIndex;
use super::{disk, journal, keep, pending, readers};
use super::{LogError, Run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Gives the committed files their names, and removes the files under `log/` and of the journal that no commit names,
/// and folders that are empty then.
pub(super) fn sweep(run: &Run, index: &LogIndex) -> Result<(), LogError> {
    let mut done = Ok(());
    readers::unless_read(run, || done = remove(run, index));
    done?;
    let newest = |committed: &super::Iteration| committed.weights.iter().map(|w| w.version).max();
    let committed = index.committed(run.root(), 0..=u64::MAX)?;
    keep::drop_uncommitted(run, committed.iter().filter_map(newest).max().unwrap_or(0))
}

fn remove(run: &Run, index: &LogIndex) -> Result<(), LogError> {
    let paths = index.paths(run.root())?;
    let committed: BTreeSet<PathBuf> = paths.iter().map(|path| run.root().join(path)).collect();
    for node in entries(&run.log())? {
        for folder in entries(&node)? {
            let files = entries(&folder)?;
            for file in files.iter().filter(|file| named(file, pending::is_own)) {
                let path = pending::published(file);
                match committed.contains(&path) {
                    true => fs::rename(file, &path),
                    false => fs::remove_file(file),
                }
                .map_err(LogError::io(file))?;
            }
            if named(&folder, is_iterations) && disk::is_folder(&folder) {
                let _ = fs::remove_dir(&folder); // refused where something is left
            }
        }
    }
    // A journal that counts is of the generation that the manifest names, and of blocks that are in no segment.
    let first = index.head.segments.last().map_or(0, |segment| segment.last / journal::BLOCK + 1);
    let is_kept = |file: &Path| committed.contains(file) || journal::counts(file, index.head.generation, first);
    for file in entries(&run.root().join(journal::FOLDER))?.iter().filter(|file| !is_kept(file) && named(file, journal::is_own)) {
        fs::remove_file(file).map_err(LogError::io(file))?;
    }
    Ok(())
}

/// Whether the last part of `path` is such a name.
fn named(path: &Path, is_own: impl Fn(&str) -> bool) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_own)
}

/// Whether `name` is that of a folder with the rows of an iteration (`7`), or of several (`0-63`).
fn is_iterations(name: &str) -> bool {
    name.split('-').count() <= 2 && name.split('-').all(|number| number.parse::<u64>().is_ok())
}

/// The entries of `folder`; none where it is no folder of this run, but a symbolic link to one.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, LogError> {
    if !disk::is_folder(folder) {
        return Ok(Vec::new());
    }
    let read = || fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>();
    read().map_err(LogError::io(folder))
}
