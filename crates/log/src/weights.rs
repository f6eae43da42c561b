//! Saved weights: which files they are, and that these are still the ones that were saved.

use super::{disk, LogError, Run};
use flow_core::files;
use flow_core::seed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Weights that a node made in an iteration, or that a model began with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWeights {
    /// The node that made them; empty for a model's initial weights.
    pub node: String,
    pub model: String,
    pub version: u64,
    /// The folder, relative to the run's.
    pub path: String,
    /// The files in it, sorted by name.
    pub files: Vec<FileChecksum>,
}

/// A file as it was when it was noted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChecksum {
    pub name: String,
    pub bytes: u64,
    /// [`seed::bytes`] of it.
    pub sum: u64,
}

impl Run {
    /// The folder for `version` of `model`.
    ///
    /// # Errors
    /// Where a part of it is a symbolic link: what is written there would lie outside the run's folder.
    pub fn to_save(&self, version: u64, model: &str) -> Result<PathBuf, LogError> {
        let folder = self.root().join(Run::version(version, model));
        disk::unlinked(&folder)?;
        Ok(folder)
    }

    /// Notes the weights that lie in the folder of `version` of `model`, with the sums of their files. `node` has made
    /// them.
    pub fn weights_at(&self, node: &str, model: &str, version: u64) -> Result<SavedWeights, LogError> {
        let path = Run::version(version, model);
        let folder = self.root().join(&path);
        let mut files = Vec::new();
        note(&folder, "", &mut files)?;
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(SavedWeights { node: node.into(), model: model.into(), version, path, files })
    }

    /// The folder of these weights, once each of their files is known to be there and to be what it was when it was
    /// noted.
    pub fn whole_weights(&self, weights: &SavedWeights) -> Result<PathBuf, LogError> {
        let folder = self.root().join(&weights.path);
        match fs::metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(LogError::io(&folder)(e)),
            _ => return Err(LogError::Missing(folder)),
        }
        for file in &weights.files {
            let path = folder.join(&file.name);
            let (bytes, sum) = summed(&path)?;
            let damaged = |why: String| LogError::Damaged { path: path.clone(), why };
            if bytes != file.bytes {
                return Err(damaged(format!("it holds {bytes} bytes, saved were {}", file.bytes)));
            }
            if sum != file.sum {
                return Err(damaged("its bytes have changed since it was saved".into()));
            }
        }
        Ok(folder)
    }
}

/// Notes the files in `folder` and in the folders in it, with `prefix` before their names.
fn note(folder: &Path, prefix: &str, files: &mut Vec<FileChecksum>) -> Result<(), LogError> {
    for entry in fs::read_dir(folder).map_err(LogError::io(folder))? {
        let entry = entry.map_err(LogError::io(folder))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type().map_err(LogError::io(folder))?.is_dir() {
            note(&entry.path(), &format!("{prefix}{name}/"), files)?;
            continue;
        }
        let (bytes, sum) = summed(&entry.path())?;
        files.push(FileChecksum { name: format!("{prefix}{name}"), bytes, sum });
    }
    Ok(())
}

/// Length and sum of a file.
fn summed(path: &Path) -> Result<(u64, u64), LogError> {
    let read = || {
        let file = files::open(path)?;
        let bytes = file.metadata()?.len();
        Ok((bytes, seed::stream(bytes, file)?))
    };
    read().map_err(|e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => LogError::Missing(path.into()),
        _ => LogError::io(path)(e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunInfo;

    #[test]
    fn weights_that_are_not_what_they_were_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::create(&folder.path().join("run"), "flow: x\n", &RunInfo::default()).unwrap();
        let lies = run.root().join(Run::version(3, "actor"));
        fs::create_dir_all(&lies).unwrap();
        fs::write(lies.join("model.safetensors"), [7; 1000]).unwrap();
        fs::write(lies.join("config.json"), "{}").unwrap();
        fs::create_dir(lies.join("optimizer")).unwrap();
        fs::write(lies.join("optimizer/shard"), "0").unwrap();
        let weights = run.weights_at("update", "actor", 3).unwrap();
        assert_eq!(
            weights.files.iter().map(|f| (f.name.as_str(), f.bytes)).collect::<Vec<_>>(),
            [("config.json", 2), ("model.safetensors", 1000), ("optimizer/shard", 1)]
        );
        assert_eq!(run.whole_weights(&weights).unwrap(), lies);
        let error = || run.whole_weights(&weights).unwrap_err().to_string();
        let mut flipped = vec![7; 1000];
        flipped[500] ^= 1;
        fs::write(lies.join("model.safetensors"), flipped).unwrap();
        assert!(error().contains("model.safetensors is damaged (its bytes have changed since it was saved)"), "{}", error());
        fs::write(lies.join("model.safetensors"), [7; 999]).unwrap();
        assert!(error().contains("model.safetensors is damaged (it holds 999 bytes, saved were 1000)"), "{}", error());
        fs::remove_file(lies.join("model.safetensors")).unwrap();
        assert!(error().contains("model.safetensors is missing"), "{}", error());
        fs::remove_dir_all(&lies).unwrap();
        assert!(error().contains("weights/3/actor is missing"), "{}", error());
    }
}
