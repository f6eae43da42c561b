//! Rollouts of another trainer in place of a run: imported into a folder that is removed when the pages end.

use super::runs::holds_runs;
use crate::cli::error::{Error, Result};
use crate::cli::import::ImportArgs;
use flow_core::files::{passing_prefix, remove_lost};
use flow_dataflow::cluster::end::end_process;
use flow_log::Run;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The runs that were named, each file or folder of rollouts as an imported run; and the folder of these.
///
/// # Errors
/// If a file can't be read.
pub fn imported(mut named: Vec<PathBuf>) -> Result<(Vec<PathBuf>, Option<TempDir>)> {
    let rollouts = |path: &Path| path.is_file() || path.is_dir() && Run::open(path).is_err() && !holds_runs(path);
    if !named.iter().any(|path| rollouts(path)) {
        return Ok((named, None));
    }
    remove_lost(&std::env::temp_dir(), "flow-view");
    let folder = tempfile::Builder::new().prefix(&passing_prefix("flow-view")).tempdir()?;
    remove_at_end(folder.path().to_owned())?;
    for (number, path) in named.iter_mut().enumerate().filter(|(_, path)| rollouts(path)) {
        let root = folder.path().join(number.to_string()).join(path.file_name().unwrap_or_default());
        *path = ImportArgs::readable(path.clone(), &root)?;
    }
    Ok((named, Some(folder)))
}

/// A signal ends the process without a drop of its values.
fn remove_at_end(folder: PathBuf) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(|error| Error::from(error).at("signals"))?;
    let remove = move || {
        if let Some(signal) = signals.forever().next() {
            let _ = std::fs::remove_dir_all(&folder);
            end_process(128 + signal);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(remove)?;
    Ok(())
}
