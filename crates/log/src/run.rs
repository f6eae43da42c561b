//! The folder of a run.

use super::head::{ManifestBody, FILE};
use super::{disk, readers, sweep, Lock, LogError, Manifest, RunInfo, Status};
use flow_core::seed;
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

impl Run {
    /// Makes the folder of a new run, with its pipeline and an empty manifest. A folder with something in it is refused.
    /// One that isn't there yet comes to be whole, so that a process which is killed meanwhile leaves none.
    pub fn create(root: &Path, pipeline_yaml: &str, info: &RunInfo) -> Result<Run, LogError> {
        if root.to_str().is_none() {
            return Err(LogError::Name(root.into()));
        }
        let there = match fs::read_dir(root).map(|mut entries| entries.next()) {
            Ok(Some(_)) => return Err(LogError::Exists(root.into())),
            Ok(None) => true,
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            Err(e) => return Err(LogError::io(root)(e)),
        };
        let parent = sweep::parent(root);
        fs::create_dir_all(parent).map_err(LogError::io(root))?;
        let place = match root.file_name() {
            Some(name) if !there => parent.join(format!(".{}.{}.tmp", name.display(), std::process::id())),
            _ => root.to_owned(),
        };
        let result = Run::begin(&place, root, pipeline_yaml, info).and_then(|_lock| match place == root {
            true => Ok(()),
            // It fails if another process has made the folder meanwhile.
            false => fs::rename(&place, root).map_err(|e| match e.kind() {
                ErrorKind::DirectoryNotEmpty => LogError::Exists(root.into()),
                _ => LogError::io(root)(e),
            }),
        });
        if place != root && result.is_err() {
            let _ = fs::remove_dir_all(&place); // it may never have come to be
        }
        result?;
        disk::sync_folder(parent)?;
        Ok(Run { root: root.into(), verified: None })
    }

    /// Writes what a run begins with into `place`, where it is called `root` later. Until then the lock of `place` says
    /// that somebody is at it.
    fn begin(place: &Path, root: &Path, pipeline_yaml: &str, info: &RunInfo) -> Result<Lock, LogError> {
        let run = Run { root: place.into(), verified: None };
        fs::create_dir_all(run.log()).map_err(LogError::io(root))?;
        let lock = Lock::of(place)?;
        disk::replace(&run.pipeline(), &[pipeline_yaml.as_bytes()])?;
        readers::prepare(place).map_err(LogError::io(root))?;
        let folder = std::path::absolute(root).map_err(LogError::io(root))?.display().to_string();
        let info = RunInfo { pipeline: seed::text(pipeline_yaml), folder, ..info.clone() };
        let head = ManifestBody { info, start: Vec::new(), generation: 0, chain: 0, end: None, segments: Vec::new(), lost: None };
        head.write(place, &Status::Running)?;
        Ok(lock)
    }

    /// The run in `root`, which must have a manifest.
    pub fn open(root: &Path) -> Result<Run, LogError> {
        let run = Run { root: root.into(), verified: None };
        match run.manifest_path().try_exists() {
            Ok(true) => Ok(run),
            Ok(false) => Err(LogError::no_run(root)),
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
    pub fn exported_adapters(&self) -> PathBuf {
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
