//! Tables beside the log: later findings about a run, such as an audit of its credit. `RUN/audit/<name>/<part>.parquet`
//! are rows of the table `audit`, which `flow query` reads beside those of the log. No manifest names them: what is
//! there whole is read. The end of a file's name is the sum of its bytes, which is verified as those of the log are.

use super::{disk, writer, LogError, Run, RunInfo};
use arrow::array::RecordBatch;
use flow_core::seed;
use std::path::{Path, PathBuf};

/// The tables that may stand beside a log. Those of logged nodes of the same name come first.
pub(super) const TABLES: [&str; 1] = ["audit"];

/// The columns of the table `audit`, with DuckDB's types, for questions that are held against a run before it is
/// audited.
pub const AUDIT: [(&str, &str); 18] = [
    ("audit", "VARCHAR"),
    ("iteration", "UBIGINT"),
    ("task", "VARCHAR"),
    ("sample", "UINTEGER"),
    ("attempt", "UINTEGER"),
    ("turn", "UINTEGER"),
    ("phase", "VARCHAR"),
    ("state", "UBIGINT"),
    ("weights", "UBIGINT"),
    ("role", "VARCHAR"),
    ("answer", "VARCHAR"),
    ("plays", "UINTEGER"),
    ("worth", "DOUBLE"),
    ("worth_error", "DOUBLE"),
    ("audited", "DOUBLE"),
    ("audited_error", "DOUBLE"),
    ("credit", "DOUBLE"),
    ("refused", "VARCHAR"),
];

impl Run {
    /// The folder of the audit `name`, for the table `audit`.
    pub fn audit(&self, name: &str) -> PathBuf {
        self.root().join(TABLES[0]).join(name)
    }
}

/// Writes rows of the table `audit` into the folder of `name`, as one file that is there whole or not at all.
///
/// # Errors
/// If the file can't be written, or a folder on its way is a symbolic link.
pub fn write_audit(run: &Run, name: &str, part: &str, rows: &RecordBatch) -> Result<(), LogError> {
    run.in_place()?;
    let folder = audit_folder(run, name)?;
    let bytes = writer::encoded(rows)?;
    disk::replace(&folder.join(format!("{part}-{:016x}.parquet", seed::lanes(&bytes))), &[&bytes])
}

/// Verifies the sum of a file of such a table. A file of a version that put none into names passes.
///
/// # Errors
/// If the file can't be read, or its bytes have another sum.
pub(super) fn verify(path: &Path) -> Result<(), LogError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let sum = stem.rsplit_once('-').filter(|(_, sum)| sum.len() == 16).and_then(|(_, sum)| u64::from_str_radix(sum, 16).ok());
    let Some(sum) = sum else { return Ok(()) };
    if seed::lanes(&std::fs::read(path).map_err(LogError::io(path))?) == sum {
        return Ok(());
    }
    Err(LogError::DamagedAudit(path.into()))
}

/// The folder of `name`, which is made where there is none.
///
/// # Errors
/// If it can't be made, or a folder on its way is a symbolic link.
pub fn audit_folder(run: &Run, name: &str) -> Result<PathBuf, LogError> {
    let folder = run.audit(name);
    if let Some(link) = [run.root().join(TABLES[0]), folder.clone()].into_iter().find(|folder| folder.is_symlink()) {
        return Err(LogError::Linked(link));
    }
    std::fs::create_dir_all(&folder).map_err(LogError::io(&folder))?;
    Ok(folder)
}

/// The names of the audits with rows in the table `audit`. None where a logged node has that name.
pub fn audits(run: &Run, info: &RunInfo) -> Vec<String> {
    if info.nodes.iter().any(|node| node.id == TABLES[0]) {
        return Vec::new();
    }
    let name = |file: &PathBuf| Some(file.parent()?.file_name()?.to_string_lossy().into_owned());
    let mut names: Vec<String> = files(run, TABLES[0]).iter().filter_map(name).collect();
    names.dedup();
    names
}

/// The files of a table, in the order of their names.
pub(super) fn files(run: &Run, table: &str) -> Vec<PathBuf> {
    let inside = |folder: PathBuf| {
        let entries = disk::is_folder(&folder).then(|| std::fs::read_dir(&folder).ok()).flatten();
        entries.into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let folders = inside(run.root().join(table));
    let mut files: Vec<PathBuf> =
        folders.flat_map(inside).filter(|path| path.extension().is_some_and(|end| end == "parquet") && !path.is_symlink()).collect();
    files.sort();
    files
}
