//! One process at a time writes a run, or an audit of one. The lock is the operating system's: it ends with the
//! process, however that ends.

use super::{sweep, LogError, Run};
use std::fs::{File, TryLockError};
use std::path::Path;

/// Held for as long as the run is written.
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes the lock, or says that another process has it. Unfinished folders beside the run are removed.
    pub fn take(run: &Run) -> Result<Lock, LogError> {
        let lock = Lock::of(run.root())?;
        sweep::unfinished(run.root());
        Ok(lock)
    }

    /// Takes that of a folder, such as the one of an audit.
    pub fn of(folder: &Path) -> Result<Lock, LogError> {
        let path = folder.join("lock");
        if path.is_symlink() {
            return Err(LogError::Linked(path));
        }
        let file = File::options().create(true).append(true).open(&path).map_err(LogError::io(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(LogError::Busy(folder.into())),
            Err(TryLockError::Error(e)) => Err(LogError::io(&path)(e)),
        }
    }

    /// Whether some process has it: a run whose manifest says `running` and that no process holds was killed.
    pub fn held(run: &Run) -> bool {
        File::open(run.root().join("lock")).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}
