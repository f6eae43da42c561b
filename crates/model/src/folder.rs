//! Folders that appear whole or not at all, and the files in them.

use crate::{PolicyError, Result};
use flow_core::files;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Lets `write` fill a folder, which then takes the place of `folder`.
///
/// # Errors
/// [`PolicyError::File`] if something can't be written; then `folder` is as it was.
pub fn write_atomically(folder: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let unfinished = sibling(folder, "unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir_all(&unfinished).map_err(|e| PolicyError::file(&unfinished, e))?;
    let sync = || File::open(&unfinished).and_then(|file| file.sync_all()).map_err(|e| PolicyError::file(&unfinished, e));
    let written = write(&unfinished).and_then(|()| sync()).and_then(|()| replace(&unfinished, folder));
    if written.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    written
}

fn sibling(folder: &Path, tail: &str) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    folder.with_file_name(format!(".{name}.{tail}-{}", std::process::id()))
}

/// Writes a value as JSON.
pub fn json(path: &Path, value: &impl Serialize) -> Result<()> {
    let contents = serde_json::to_string_pretty(value).map_err(|e| PolicyError::file(path, e))?;
    text(path, &(contents + "\n"))
}

/// Writes a text.
pub fn text(path: &Path, contents: &str) -> Result<()> {
    fs::write(path, contents).and_then(|()| File::open(path)?.sync_all()).map_err(|e| PolicyError::file(path, e))
}

fn replace(from: &Path, to: &Path) -> Result<()> {
    let old = sibling(to, "old");
    let there = to.exists();
    if there {
        let _ = fs::remove_dir_all(&old);
        fs::rename(to, &old).map_err(|e| PolicyError::file(to, e))?;
    }
    fs::rename(from, to).map_err(|e| PolicyError::file(to, e))?;
    if there {
        fs::remove_dir_all(&old).map_err(|e| PolicyError::file(&old, e))?;
    }
    Ok(())
}

/// How a pointer of Git LFS begins, which stands for a large file until that is fetched.
pub const POINTER: &str = "version https://git-lfs";
/// What is wrong with a file that is one.
pub const NOT_FETCHED: &str = "this is a Git LFS pointer in place of the file: `git lfs pull` fetches it";

/// What a model's folder must have, for error messages.
pub const EXPECTED_FILES: &str = "a model's folder has `config.json`, `tokenizer.json`, and `model.safetensors` or the shards that \
    `model.safetensors.index.json` names";

/// The names of the files in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A configuration, a vocabulary or a tokenizer is no longer, in bytes.
pub const LONGEST: u64 = 256 << 20;

/// Reads a value from JSON.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = files::text(path, LONGEST).map_err(|e| PolicyError::file(path, e))?;
    parse(&text).map_err(|what| PolicyError::file(path, what))
}

/// A value of JSON text, which may begin with a byte order mark.
///
/// # Errors
/// The fault and its line.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.starts_with(POINTER) {
        return Err(NOT_FETCHED.into());
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|e| {
        let place = |line: &str| line.get(e.column().saturating_sub(1)..).unwrap_or_default().trim_start_matches('-').to_owned();
        let rest = text.lines().nth(e.line().saturating_sub(1)).map(place).unwrap_or_default();
        match ["NaN", "Infinity", "nfinity"].into_iter().find(|word| rest.starts_with(word)) {
            Some(_) => {
                format!("JSON has no NaN and no Infinity, which Python writes: line {} has one; give it a number, or null", e.line())
            }
            None => e.to_string(),
        }
    })
}
