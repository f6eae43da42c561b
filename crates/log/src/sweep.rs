//! Clean-up of rows and weights that a kill left behind uncommitted. They are removed when a run is resumed and when it
//! ends, unless somebody reads the run: then the next time. A run's folder may come from elsewhere, so only names that
//! a run writes are removed, and no symbolic link is followed. Where a run begins, what was begun there and never came
//! to be whole is removed.

use super::index::LogIndex;
use super::{disk, journal, keep, pending, readers};
use super::{Lock, LogError, Run};
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
    let committed: BTreeSet<PathBuf> = paths.keys().map(|path| run.root().join(path)).collect();
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
    let is_kept = |file: &Path| committed.contains(file) || journal::counts(file, index.head.generation, index.head.first_block());
    for file in entries(&run.root().join(journal::FOLDER))?.iter().filter(|file| !is_kept(file) && named(file, journal::is_own)) {
        fs::remove_file(file).map_err(LogError::io(file))?;
    }
    Ok(())
}

/// The folder that holds `root`.
pub(super) fn parent(root: &Path) -> &Path {
    root.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes unfinished folders of this run beside `root`: their processes were killed before the run was whole, so their
/// locks are free.
pub(super) fn unfinished(root: &Path) {
    let Some(name) = root.file_name().and_then(|name| name.to_str()) else { return };
    let process = |own: &str| own.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".tmp")?.parse::<u32>().ok();
    let Ok(siblings) = parent(root).canonicalize().map_err(LogError::io(root)).and_then(|parent| entries(&parent)) else { return };
    for folder in siblings.iter().filter(|path| named(path, |own| process(own).is_some()) && disk::is_folder(path)) {
        // A process that has just made the folder is about to lock it.
        if let Some(Ok(_lock)) = folder.join("lock").exists().then(|| Lock::of(folder)) {
            let _ = fs::remove_dir_all(folder); // the next time
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunInfo;

    #[test]
    fn what_killed_processes_began_in_its_place_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let begun = |name: &str, lock: bool| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.join("log")).unwrap();
            lock.then(|| Lock::of(&path).unwrap())
        };
        drop(begun(".x.4711.tmp", true));
        let alive = begun(".x.4712.tmp", true);
        for (name, lock) in [(".x.4713.tmp", false), (".x.y.4711.tmp", true), (".y.4711.tmp", true), (".x.tmp", true), ("x.4711.tmp", true)]
        {
            drop(begun(name, lock));
        }
        let run = Run::create(&folder.path().join("x"), "flow: x\n", &RunInfo::default()).unwrap();
        assert!(run.root().join("lock").exists(), "it was locked before it was whole");
        let _lock = Lock::take(&run).unwrap();
        let mut left: Vec<String> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, [".x.4712.tmp", ".x.4713.tmp", ".x.tmp", ".x.y.4711.tmp", ".y.4711.tmp", "x", "x.4711.tmp"]);
        drop(alive);
        unfinished(run.root());
        assert!(!folder.path().join(".x.4712.tmp").exists());
    }
}
