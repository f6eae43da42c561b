//! Rows to Parquet, made small: a run's log should be something one keeps.
//!
//! Three things make it small. Text and hashes repeat (the same board, the same task), so they go through a dictionary
//! that may grow large. A list of tokens repeats as a whole, which a dictionary of single tokens would hide from the
//! compressor, so tokens stay plain and each column is one page: compression works within a page. And a part may hold a
//! few rows only, so whatever grows with the number of columns instead of rows (statistics, page indexes, a second copy
//! of the schema) is left out.

use super::pending::pending;
use super::{disk, LogError, Part, Run};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use flow_core::seed;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::path::Path;

/// Room for a dictionary or a page. The default of 1 MiB makes the writer give up the dictionary of observations
/// half-way.
const PAGE: usize = 32 << 20;

/// Writes the rows that `worker` logged for `node` in `iteration`. Readers see them once a [`super::Committer`] has
/// committed them. A file that a killed run left under the same name is replaced.
pub fn write_part(run: &Run, node: &str, iteration: u64, worker: usize, rows: &RecordBatch) -> Result<Part, LogError> {
    let bytes = encoded(rows)?;
    let path = format!("log/{node}/{iteration}/part-{worker}.parquet");
    let file = run.root().join(&path);
    run.in_place()?;
    // If the run's folder was moved meanwhile, the error says that.
    write(&file, &bytes).map_err(|error| run.in_place().err().unwrap_or(error))?;
    let sum = seed::bytes(&bytes);
    Ok(Part { node: node.into(), iteration, worker, path, rows: rows.num_rows() as u64, bytes: bytes.len() as u64, sum, start: None })
}

/// Writes a file that waits for its commit, and the folder that it is in.
pub(super) fn write(file: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let Some(folder) = file.parent() else { return Ok(()) };
    disk::own_folder(folder)?;
    disk::replace(&pending(file), &[bytes])?;
    folder.parent().map_or(Ok(()), disk::sync_folder)
}

/// How many rows of many iterations share a group of rows, which a reader of one iteration must go through.
const GROUP: usize = 16 << 10;

/// A file with the rows of many iterations, in their order: the statistics of their column let a reader pass over what
/// it doesn't ask for.
///
/// # Errors
/// If the rows aren't all of the same columns.
pub(super) fn segment(rows: &[RecordBatch]) -> Result<Vec<u8>, LogError> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let properties = properties(first)?.into_builder().set_max_row_group_row_count(Some(GROUP));
    let properties = properties.set_column_statistics_enabled(ColumnPath::from("iteration"), EnabledStatistics::Chunk).build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), first.schema(), options)?;
    rows.iter().try_for_each(|rows| writer.write(rows))?;
    Ok(writer.into_inner()?)
}

/// A file with these rows.
pub(super) fn encoded(rows: &RecordBatch) -> Result<Vec<u8>, LogError> {
    encode(rows, properties(rows)?)
}

/// One Parquet file in memory: it is written to disk in one piece, and a full disk is then told from a bad row.
fn encode(rows: &RecordBatch, properties: WriterProperties) -> Result<Vec<u8>, LogError> {
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), rows.schema(), options)?;
    writer.write(rows)?;
    Ok(writer.into_inner()?)
}

fn properties(rows: &RecordBatch) -> Result<WriterProperties, LogError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(6)?))
        .set_max_row_group_row_count(None)
        .set_dictionary_page_size_limit(PAGE)
        .set_data_page_size_limit(PAGE)
        .set_data_page_row_count_limit(usize::MAX)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_created_by("flow".into());
    for field in rows.schema().fields() {
        let column = ColumnPath::from(field.name().as_str());
        properties = match field.data_type() {
            DataType::List(item) => {
                let leaf = ColumnPath::from(vec![field.name().clone(), "list".into(), item.name().clone()]);
                properties.set_column_dictionary_enabled(leaf, false)
            }
            // A seed is new in each row: a dictionary of it would be a second copy.
            DataType::UInt64 if field.name() == "seed" => {
                properties.set_column_dictionary_enabled(column.clone(), false).set_column_encoding(column, Encoding::PLAIN)
            }
            _ => properties,
        };
    }
    Ok(properties.build())
}
