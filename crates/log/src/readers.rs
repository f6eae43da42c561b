//! Files that compaction has replaced are removed only while there is no reader: a reader holds a shared file lock for
//! as long as it may open what an index names, and removing takes the exclusive lock, or is put off.

use super::Run;
use std::fs::File;
use std::path::Path;

/// The file that is locked.
const FILE: &str = "readers";

/// Held by a reader. It locks nothing where the file can't be opened or the file system has no locks.
pub(super) struct ReadLock(#[allow(dead_code)] Option<File>);

impl ReadLock {
    /// Takes the lock; waits while files are being removed.
    pub fn begin(run: &Run) -> ReadLock {
        ReadLock(File::open(run.root().join(FILE)).ok().filter(|file| file.lock_shared().is_ok()))
    }
}

/// Makes the file.
pub(super) fn prepare(root: &Path) -> std::io::Result<()> {
    File::options().create(true).append(true).open(root.join(FILE)).map(drop)
}

/// Calls `remove` if there is no reader, and returns whether.
pub(super) fn unless_read(run: &Run, remove: impl FnOnce()) -> bool {
    let Ok(file) = File::open(run.root().join(FILE)) else { return false };
    let free = file.try_lock().is_ok();
    if free {
        remove();
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunInfo;

    #[test]
    fn nothing_is_removed_under_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(&folder.path().join("run"), "", &RunInfo::default()).unwrap();
        let (first, second) = (ReadLock::begin(&run), ReadLock::begin(&run));
        assert!(!unless_read(&run, || unreachable!()));
        drop(first);
        assert!(!unless_read(&run, || unreachable!()));
        drop(second);
        assert!(unless_read(&run, || ()));
    }
}
