//! Files of rows before their commit. Other programs read `log/<node>/*/*.parquet`, so a file gets such a name only
//! once its iteration is committed. Until then it has a name that this pattern doesn't match, and that begins with a
//! dot for programs that read a whole folder. A kill between the commit and the rename leaves a committed file with its
//! first name: our readers know both, and a resumed run renames it.

use super::{Lock, LogError, Run};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often, and how long each time, a reader waits for the rename that follows a commit.
const WAITS: u32 = 40;
const WAIT: Duration = Duration::from_millis(5);

/// The name of the file at `path` before its commit.
pub(super) fn pending(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{stem}.pending"))
}

/// The name that the file gets by its commit; its own where it has that already.
pub(super) fn published(file: &Path) -> PathBuf {
    let name = file.file_name().and_then(|name| name.to_str());
    let stem = name.and_then(|name| name.strip_prefix('.')?.strip_suffix(".pending"));
    stem.map_or_else(|| file.to_owned(), |stem| file.with_file_name(format!("{stem}.parquet")))
}

/// Gives committed files their names; `paths` are relative to the run's folder. A file that has its name already is
/// left alone.
pub(super) fn publish<'a>(run: &Run, paths: impl Iterator<Item = &'a String>) -> Result<(), LogError> {
    for path in paths.map(|path| run.root().join(path)) {
        match fs::rename(pending(&path), &path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(LogError::io(&path)(e)),
            _ => (),
        }
    }
    Ok(())
}

/// Where the committed file `path`, relative to the run's folder, lies now.
pub(super) fn locate(run: &Run, path: &str) -> PathBuf {
    let path = run.root().join(path);
    let waits = pending(&path);
    for _ in 0..WAITS {
        if path.exists() || !waits.exists() {
            return path;
        }
        // Its writer is about to rename it, unless it was killed.
        if !Lock::held(run) {
            break;
        }
        std::thread::sleep(WAIT);
    }
    if path.exists() {
        path
    } else {
        waits
    }
}

/// Whether `name` is one that a run gives to files of rows, before or after their commit; also those of files that were
/// not completed.
pub(super) fn is_own(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let stem = name.strip_suffix(".parquet").or_else(|| name.strip_prefix('.')?.strip_suffix(".pending"));
    let number = stem.and_then(|stem| stem.strip_prefix("part-").or_else(|| stem.strip_prefix("rows-")));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_known() {
        for name in ["part-0.parquet", "rows-12.parquet", ".part-3.pending", ".rows-1.pending.tmp", "part-1.parquet.tmp"] {
            assert!(is_own(name), "{name}");
        }
        for name in ["b.txt", "part-x.parquet", "part-.parquet", "part-1.csv", "part-1.pending", "notes.parquet", "part-1"] {
            assert!(!is_own(name), "{name}");
        }
        assert_eq!(pending(Path::new("log/a/3/part-0.parquet")), Path::new("log/a/3/.part-0.pending"));
        assert_eq!(published(Path::new("log/a/3/.part-0.pending")), Path::new("log/a/3/part-0.parquet"));
    }
}
