//! All tables of a run as files of other programs. Views over several tables, such as `trajectories`, become tables,
//! too.

use super::query::{explained, open_whole, stream_to, OpenDatabase};
use super::sql::{literal, quoted};
use super::{views, AnswerFormat, LogError, Run};
use duckdb::Connection;
use flow_core::files;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes `<table>.parquet` into `folder` for each table that a query can name, all of the same committed iterations;
/// files of these names are replaced. Returns the tables.
///
/// # Errors
/// If the log is damaged, or a file can't be written.
pub fn export_parquet(run: &Run, folder: &Path) -> Result<Vec<String>, LogError> {
    fs::create_dir_all(folder).map_err(LogError::io(folder))?;
    let OpenDatabase { db, _reading } = open_whole(run)?;
    let tables: Vec<String> = views::tables(&db)?.into_iter().map(|table| table.name).collect();
    for table in &tables {
        let (path, sql) = (parquet(folder, table), format!("FROM {}", quoted(table)));
        let mut out = BufWriter::new(files::create(&path).map_err(LogError::io(&path))?);
        stream_to(&db, &sql, AnswerFormat::Parquet, &mut out).map_err(|e| match e {
            LogError::Database(e) => explained(&db, &sql, &e.to_string()),
            LogError::Output(e) => LogError::io(&path)(e),
            e => e,
        })?;
        out.flush().map_err(LogError::io(&path))?;
    }
    Ok(tables)
}

/// Makes the DuckDB database `file` with a table for each that a query can name. Returns the tables.
///
/// # Errors
/// If there is such a file already, if the log is damaged, or the file can't be written.
pub fn export_duckdb(run: &Run, file: &Path) -> Result<Vec<String>, LogError> {
    if file.symlink_metadata().is_ok() {
        return Err(LogError::Exported(file.into()));
    }
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(".parts");
    let parts = file.with_file_name(name);
    let copy = |tables: &[String]| -> Result<(), duckdb::Error> {
        let db = Connection::open(file)?;
        for table in tables {
            let source = literal(&parquet(&parts, table).display().to_string());
            db.execute_batch(&format!("CREATE TABLE {} AS FROM read_parquet({source})", quoted(table)))?;
        }
        db.close().map_err(|(_, e)| e)
    };
    let written = export_parquet(run, &parts).and_then(|tables| copy(&tables).map(|()| tables).map_err(LogError::from));
    let removed = fs::remove_dir_all(&parts);
    let tables = written.inspect_err(|_| {
        let _ = fs::remove_file(file); // it may never have been made
    })?;
    removed.map_err(LogError::io(&parts))?;
    Ok(tables)
}

fn parquet(folder: &Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.parquet"))
}
