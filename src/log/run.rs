//! The folder of a run.

use super::head::{ManifestBody, FILE};
use super::{disk, readers, LogError, Manifest, RunInfo, Status};
use crate::seed;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A run's folder. Cheap to clone: it holds nothing open.
#[derive(Clone, Debug)]
pub struct Run {
    root: PathBuf,
    /// Files whose checksums were verified, where that is remembered.
    verified: Option<Arc<Verified>>,
}

/// Files as they were when their checksums were verified: length and time of the last change. What is committed never
/// changes.
type Verified = Mutex<HashMap<PathBuf, (u64, SystemTime)>>;

/// Whether there is anything in a folder but what a process leaves that is killed while it makes a run's folder: a
/// folder `log` with nothing in it, and then the pipeline.
fn taken(entries: &[PathBuf]) -> bool {
    let empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let unborn = |path: &PathBuf| match path.file_name().and_then(|name| name.to_str()) {
        Some("log") => empty(path),
        Some("readers") => path.metadata().is_ok_and(|file| file.len() == 0),
        Some(name) => ["pipeline.yaml", "pipeline.yaml.tmp", "manifest.json.tmp"].contains(&name),
        None => false,
    };
    let begun = entries.iter().any(|path| path.ends_with("log"));
    !entries.is_empty() && !(begun && entries.iter().all(unborn))
}

impl Run {
    /// Makes the folder of a new run, with its pipeline and an empty manifest. A folder with something in it is refused,
    /// unless that is what a process left which was killed here, before the manifest.
    pub fn create(root: &Path, pipeline_yaml: &str, info: &RunInfo) -> Result<Run, LogError> {
        if root.to_str().is_none() {
            return Err(LogError::Name(root.into()));
        }
        let taken = match fs::read_dir(root) {
            Ok(entries) => taken(&entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>()),
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            Err(e) => return Err(LogError::io(root)(e)),
        };
        if taken {
            return Err(LogError::Exists(root.into()));
        }
        let run = Run { root: root.into(), verified: None };
        fs::create_dir_all(run.log()).map_err(LogError::io(root))?;
        disk::replace(&run.pipeline(), &[pipeline_yaml.as_bytes()])?;
        readers::prepare(root).map_err(LogError::io(root))?;
        let folder = std::path::absolute(root).map_err(LogError::io(root))?.display().to_string();
        let info = RunInfo { pipeline: seed::text(pipeline_yaml), folder, ..info.clone() };
        let head = ManifestBody { info, start: Vec::new(), generation: 0, chain: 0, end: None, segments: Vec::new(), lost: None };
        head.write(root, &Status::Running)?;
        Ok(run)
    }

    /// The run in `root`, which must have a manifest.
    pub fn open(root: &Path) -> Result<Run, LogError> {
        let run = Run { root: root.into(), verified: None };
        match run.manifest_path().try_exists() {
            Ok(true) => Ok(run),
            Ok(false) => Err(LogError::NotARun(root.into())),
            Err(e) => Err(LogError::io(root)(e)),
        }
    }

    /// The same run, whose files are verified once and not for each question: for a program that asks many.
    pub fn remembering(self) -> Run {
        Run { verified: Some(Arc::default()), ..self }
    }

    /// The same run under its absolute path.
    pub(super) fn absolute(&self) -> Result<Run, LogError> {
        let root = self.root.canonicalize().map_err(LogError::io(&self.root))?;
        Ok(Run { root, verified: self.verified.clone() })
    }

    /// Calls `verify`, unless that is remembered of the file as it is now.
    pub(super) fn verified(&self, path: &Path, verify: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let Some(verified) = &self.verified else { return verify() };
        let data = fs::metadata(path).map_err(LogError::io(path))?;
        let state = (data.len(), data.modified().map_err(LogError::io(path))?);
        if verified.lock().get(path) != Some(&state) {
            verify()?;
            verified.lock().insert(path.into(), state);
        }
        Ok(())
    }

    /// Insists that the folder is still there: files that are written by its path would begin another one, beside the
    /// journal that moved along.
    ///
    /// # Errors
    /// [`LogError::Moved`] if it isn't.
    pub fn in_place(&self) -> Result<(), LogError> {
        if self.manifest_path().exists() {
            Ok(())
        } else {
            Err(LogError::Moved(self.root.clone()))
        }
    }

    /// What is committed so far. Asking again while the run goes on gives more.
    pub fn manifest(&self) -> Result<Manifest, LogError> {
        Manifest::read(&self.root)
    }

    /// Insists that `pipeline.yaml` is what the run began with: with other settings it would go on as another run,
    /// under one name.
    ///
    /// # Errors
    /// If it was changed, or can't be read.
    pub fn same_pipeline(&self, manifest: &Manifest) -> Result<(), LogError> {
        let path = self.pipeline();
        let bytes = fs::read(&path).map_err(LogError::io(&path))?;
        if seed::bytes(&bytes) == manifest.info.pipeline {
            Ok(())
        } else {
            Err(LogError::Changed(path))
        }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the vocabularies of its models lie, each in a folder of the model's name.
    pub fn vocabularies(&self) -> PathBuf {
        self.root.join("vocabularies")
    }

    /// Where the resolved pipeline lies.
    pub fn pipeline(&self) -> PathBuf {
        self.root.join("pipeline.yaml")
    }

    /// Where the parts lie.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Where the weights lie, one folder a version.
    pub fn weights(&self) -> PathBuf {
        self.root.join("weights")
    }

    /// Where adapters lie for as long as servers have them loaded.
    pub fn lent(&self) -> PathBuf {
        self.root.join("lent")
    }

    /// Where a version of a model's weights lies, relative to the run's folder.
    pub fn version(version: u64, model: &str) -> String {
        format!("weights/{version}/{model}")
    }

    pub(super) fn manifest_path(&self) -> PathBuf {
        self.root.join(FILE)
    }
}
