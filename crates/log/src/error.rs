//! What can go wrong with a log. Every message names the file and says what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{0} exists and isn't empty: choose another folder with --out, or remove it")]
    Exists(PathBuf),
    #[error("{0} exists already: choose another name, or remove it")]
    Exported(PathBuf),
    #[error("{0} isn't UTF-8, and such a run's folder can't be queried: choose another name")]
    Name(PathBuf),
    #[error("{0} is being written by another process: wait for it, or stop it")]
    Busy(PathBuf),
    #[error("{0} was moved or removed while the run was writing it: what is committed lies where it is now, and `flow resume` of that folder goes on")]
    Moved(PathBuf),
    #[error("{0} is a symbolic link, and flow writes only inside the run's folder: replace it by the folder or the file itself")]
    Linked(PathBuf),
    #[error("{0} isn't a run folder: it has no manifest.json")]
    NotARun(PathBuf),
    #[error("there is no {0}: name the folder of a run, such as runs/NAME")]
    NoFolder(PathBuf),
    #[error("{path} can't be read as a manifest ({why}): it was damaged after the run wrote it; restore it from a copy")]
    Manifest { path: PathBuf, why: String },
    #[error("{path} has format {format}, which a newer version of flow wrote: this one knows {known}, so read it with the newer one")]
    Newer { path: PathBuf, format: u32, known: u32 },
    #[error("{0} is missing though the manifest names it: restore it from a copy, or make the run again from its pipeline.yaml")]
    Missing(PathBuf),
    #[error("{path} is damaged ({why}): restore it from a copy, or make the run again from its pipeline.yaml")]
    Damaged { path: PathBuf, why: String },
    #[error("{0} is damaged (its bytes haven't the sum in its name): remove it, and `flow audit` plays its turns again")]
    DamagedAudit(PathBuf),
    #[error("{0} isn't what the run began with: restore it from a copy; to train on with other settings, begin a run that loads this one (`models: {{ actor: {{ load: RUN }} }}`)")]
    Changed(PathBuf),
    #[error("the log of `{node}` in {root} has rows of one name twice, which no run writes: restore it from a copy")]
    Twice { node: String, root: PathBuf },
    #[error("the disk is full: {0} could not be written; the iterations committed before are safe: free some space, then resume the run")]
    Full(PathBuf),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("`{node}` is no logged node of this run; logged are {known}")]
    Node { node: String, known: String },
    #[error("iteration {iteration} can't be committed after iteration {last}: they are committed in order")]
    Order { iteration: u64, last: u64 },
    #[error("only one SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN statement can be asked of a log: {0}")]
    Refused(String),
    /// What a person asked can't be answered, said in their terms.
    #[error("{0}")]
    Sql(String),
    #[error("{0}")]
    Database(#[from] duckdb::Error),
    #[error("an answer of the database: {0}")]
    Json(#[from] serde_json::Error),
    #[error("rows of the log: {0}")]
    Rows(#[from] flow_core::row::RowError),
    #[error("rows of the log: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    #[error("rows to Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error("the answer could not be written: {0}")]
    Output(#[from] io::Error),
}

impl LogError {
    /// What a folder without a manifest is: no folder at all, or no run's.
    pub(super) fn no_run(root: &Path) -> LogError {
        match root.try_exists() {
            Ok(false) => LogError::NoFolder(root.into()),
            _ => LogError::NotARun(root.into()),
        }
    }

    /// An input or output error on `path`; a full disk (or a quota, or a limit on files) gets a message of its own.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> LogError + '_ {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => LogError::Full(path.into()),
            _ => LogError::Io { path: path.into(), source },
        }
    }
}
