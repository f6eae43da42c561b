//! What a kill leaves behind (rows, weights) is nothing to our readers, but a person who points another program at `log/<node>/*/*.parquet` would
//! see it. So it goes when a run starts again and when it ends.

use super::keep;
use super::{LogError, Manifest, Run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Removes the files under `log/` that no commit names, and folders of iterations that are empty then.
pub(super) fn sweep(run: &Run, manifest: &Manifest) -> Result<(), LogError> {
    let committed: BTreeSet<PathBuf> = manifest.committed.iter().flat_map(|i| &i.parts).map(|p| run.root().join(&p.path)).collect();
    for node in entries(&run.log())? {
        for iteration in entries(&node)? {
            for file in entries(&iteration)?.iter().filter(|f| !committed.contains(*f)) {
                fs::remove_file(file).map_err(LogError::io(file))?;
            }
            let _ = fs::remove_dir(&iteration); // refused where something is left
        }
    }
    keep::drop_uncommitted(run, manifest.newest())
}

/// What lies in `folder`; nothing where it is no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, LogError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let read = || fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>();
    read().map_err(LogError::io(folder))
}
