//! The journal: a line for each committed iteration that is in no segment yet, in files of [`BLOCK`] iterations each. A
//! commit appends a line and syncs it; it costs the same however long the run is.

use super::{chain, disk, Iteration, LogError, Run};
use flow_core::files;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// How many iterations share a file, and are put together into a segment.
pub(super) const BLOCK: u64 = 64;

/// The folder of these files, and of the segments' details.
pub(super) const FOLDER: &str = "journal";

/// Where the lines of a block lie, relative to the run's folder.
pub(super) fn path(generation: u64, block: u64) -> String {
    format!("{FOLDER}/{generation}-{block:020}.jsonl")
}

/// Whether a file belongs to the journal of `generation` and to a block from `first` on.
pub(super) fn counts(file: &Path, generation: u64, first: u64) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    let block = name.and_then(|name| name.strip_prefix(&format!("{generation}-"))?.strip_suffix(".jsonl")?.parse::<u64>().ok());
    block.is_some_and(|block| block >= first)
}

/// Whether `name` is one that a run gives to files of its journal; also those of files that were not completed.
pub(super) fn is_own(name: &str) -> bool {
    let name = name.strip_suffix(".tmp").unwrap_or(name);
    let stem = name.strip_suffix(".details.jsonl").or_else(|| name.strip_suffix(".jsonl"));
    stem.is_some_and(|stem| stem.contains('-') && stem.split('-').all(|number| number.parse::<u64>().is_ok()))
}

/// The files of the journal of `generation` from the block `first` on, in their order.
///
/// # Errors
/// If its folder can't be read.
pub(super) fn files(root: &Path, generation: u64, first: u64) -> Result<Vec<PathBuf>, LogError> {
    let folder = root.join(FOLDER);
    let own = |path: &PathBuf| counts(path, generation, first);
    let mut files: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(own).collect(),
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(LogError::io(&folder)(e)),
    };
    files.sort();
    Ok(files)
}

/// Reads the journal of `generation` from the block `first` on, which continues the checksum `chain`: the committed
/// iterations, and the checksum of the last line. The files of earlier blocks, which are in segments, may not have been
/// removed yet.
///
/// # Errors
/// A changed file.
pub(super) fn read(root: &Path, generation: u64, first: u64, mut chain: u64) -> Result<(Vec<Iteration>, u64), LogError> {
    let files = files(root, generation, first)?;
    let mut all = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let text = fs::read(file).map_err(LogError::io(file))?;
        let damaged = |why: String| LogError::Damaged { path: file.clone(), why };
        let (lines, last): (Vec<Iteration>, u64) = match chain::lines(&text, chain) {
            Ok(read) => read,
            Err(line) => return Err(damaged(format!("line {line} has changed since its commit, or one before it is gone"))),
        };
        if at + 1 < files.len() && !text.ends_with(b"\n") {
            return Err(damaged("it ends within a line".into()));
        }
        all.extend(lines);
        chain = last;
    }
    Ok((all, chain))
}

/// Writes a journal.
pub(super) struct JournalWriter {
    run: Run,
    generation: u64,
    open: Option<OpenBlock>,
    /// The checksum of the last line.
    pub chain: u64,
}

struct OpenBlock {
    block: u64,
    path: PathBuf,
    file: File,
    /// How long it is.
    bytes: u64,
}

impl JournalWriter {
    /// Begins an empty journal.
    ///
    /// # Errors
    /// If its folder can't be made.
    pub fn begin(run: &Run, generation: u64) -> Result<JournalWriter, LogError> {
        let folder = run.root().join(FOLDER);
        fs::create_dir_all(&folder).map_err(LogError::io(&folder))?;
        if !disk::is_folder(&folder) {
            return Err(LogError::Linked(folder));
        }
        disk::sync_folder(run.root())?;
        // A writer that was killed before a manifest named its journal may have left one of this generation.
        for entry in fs::read_dir(&folder).map_err(LogError::io(&folder))?.flatten().filter(|entry| counts(&entry.path(), generation, 0)) {
            fs::remove_file(entry.path()).map_err(LogError::io(&entry.path()))?;
        }
        Ok(JournalWriter { run: run.clone(), generation, open: None, chain: 0 })
    }

    /// Appends an iteration. Where that fails nothing has happened.
    pub fn append(&mut self, iteration: &Iteration) -> Result<(), LogError> {
        let block = iteration.iteration / BLOCK;
        let (line, sum) =
            chain::line(iteration, self.chain).map_err(|e| LogError::Manifest { path: self.run.manifest_path(), why: e.to_string() })?;
        if self.open.as_ref().is_none_or(|open| open.block != block) {
            let path = self.run.root().join(path(self.generation, block));
            let file = files::create(&path).map_err(LogError::io(&path))?;
            disk::sync_folder(&self.run.root().join(FOLDER))?;
            self.open = Some(OpenBlock { block, path, file, bytes: 0 });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let written = open.file.write_all(&line).and_then(|()| open.file.sync_data());
        if let Err(e) = written {
            // Half a line is removed again.
            let _ = open.file.set_len(open.bytes).and_then(|()| std::io::Seek::seek(&mut open.file, std::io::SeekFrom::Start(open.bytes)));
            return Err(LogError::io(&open.path)(e));
        }
        open.bytes += line.len() as u64;
        self.chain = sum;
        Ok(())
    }
}
