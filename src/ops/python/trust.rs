//! Which functions may run. Those of a run may be a stranger's, so looking at a run, replaying, resuming and verifying
//! it execute only functions that ran here before, or that the user allows (`--run-code`). A list of hashes in the user's
//! state folder says which ran.

use super::description::code;
use flow_core::files;
use flow_model::{FunctionSettings, Place};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user named the pipeline's own file (`run`, `check`, `graph`, `test`), or said `--run-code`.
static NAMED: AtomicBool = AtomicBool::new(false);

/// The longest list that is read, in bytes.
const LONGEST: u64 = 4 << 20;

/// Functions that pipelines name may run in this process: the user asked for it.
pub fn run_code() {
    NAMED.store(true, Ordering::Relaxed);
}

/// Fails where a function may not run here.
///
/// # Errors
/// In words, with the remedy.
pub fn allowed(with: &FunctionSettings) -> Result<(), String> {
    if NAMED.load(Ordering::Relaxed) || own_file(with) || known(&key(with)) {
        return Ok(());
    }
    Err("it came with a run and hasn't run here before: read it in the run's pipeline.yaml, then say `--run-code`".into())
}

/// Remembers that this function ran here. A list that can't be written forgets it: then `--run-code` is asked for.
pub fn remember(with: &FunctionSettings) {
    let (Some(list), key) = (list(), key(with)) else { return };
    if known(&key) {
        return;
    }
    let _ = list.parent().map(std::fs::create_dir_all);
    let file = std::fs::File::options().create(true).append(true).open(list);
    let _ = file.and_then(|mut file| writeln!(file, "{key}"));
}

/// Whether a pipeline names a file of the user's own: one that lies in no run, for the usual Python.
fn own_file(with: &FunctionSettings) -> bool {
    let file = match with.place() {
        // It names no function, which is said where it is read.
        Err(_) => return true,
        Ok(Place::File { file, .. }) => file,
        Ok(_) => return false,
    };
    let in_run = |path: PathBuf| path.ancestors().skip(1).any(|folder| folder.join("manifest.json").exists());
    // Likewise a file that isn't there.
    with.python == ["python3"] && file.canonicalize().map_or(true, |path| !in_run(path))
}

/// A hash of all that decides what runs.
fn key(with: &FunctionSettings) -> String {
    let files = match with.place() {
        Ok(Place::File { file, .. }) => code(file).unwrap_or_default(),
        Ok(Place::Code { files, .. }) => files.to_vec(),
        _ => Vec::new(),
    };
    let call = if files.is_empty() { with.call.as_str() } else { with.name() };
    format!("{:x}", Sha256::digest(json!([with.python, with.pass, call, files]).to_string()))
}

fn known(key: &str) -> bool {
    list().and_then(|list| files::text(&list, LONGEST).ok()).is_some_and(|text| text.lines().any(|line| line == key))
}

/// The file with the hashes.
fn list() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|state| state.is_absolute());
    let state = state.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("flow/functions"))
}
