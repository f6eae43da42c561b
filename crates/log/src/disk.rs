//! Files that are there whole or not at all.

use super::LogError;
use flow_core::files;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Puts `chunks`, one after the other, in place of the file at `path`: temporary name, sync, rename, sync of the
/// folder. A reader, or a machine that loses power, meets the old file or the new one.
pub(super) fn replace(path: &Path, chunks: &[&[u8]]) -> Result<(), LogError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = files::create(&temporary)?;
        chunks.iter().try_for_each(|chunk| file.write_all(chunk))?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&temporary); // it may never have come to be
        LogError::io(path)(e)
    })?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes the folder's entries durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), LogError> {
    File::open(path).and_then(|folder| folder.sync_all()).or_else(|e| match e.kind() {
        std::io::ErrorKind::InvalidInput => Ok(()), // some file systems have no such thing
        _ => Err(LogError::io(path)(e)),
    })
}

/// Whether `path` is a folder itself, and no symbolic link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Makes the folder `log/<node>/<iterations>`. Where a part of it is a symbolic link it is refused: what is written
/// there would lie outside the run's folder.
pub(super) fn own_folder(path: &Path) -> Result<(), LogError> {
    unlinked(path)?;
    fs::create_dir_all(path).map_err(LogError::io(path))
}

/// Refuses a folder `<part>/<..>/<..>` of a run that is, or lies in, a symbolic link.
pub(super) fn unlinked(path: &Path) -> Result<(), LogError> {
    let link = path.ancestors().take(3).find(|folder| folder.is_symlink());
    link.map_or(Ok(()), |link| Err(LogError::Linked(link.into())))
}
