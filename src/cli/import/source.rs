//! The files of another trainer, a line at a time.

use super::super::error::{Error, Result};
use super::episode::Episode;
use super::nemo_gym::Key;
use super::{conversation, nemo_gym, verifiers};
use clap::ValueEnum;
use flow_core::files;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The longest line that is read, in bytes.
const LONGEST: u64 = 512 << 20;

/// A format of rollouts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `traces.jsonl`, version 1
    Verifiers,
    /// `rollouts.jsonl`; its materialized inputs and failures are read if they lie beside it
    NemoGym,
    /// Conversations with rewards, one a line: OpenAI's `messages`, ShareGPT's `conversations`, `prompt` with `completion`
    Messages,
}

/// The lines of a file, with their places.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    number: u64,
    offset: u64,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Lines<'a>> {
        Ok(Lines { path, reader: BufReader::new(files::open(path).map_err(Error::file(path))?), number: 0, offset: 0 })
    }

    /// The next line that isn't blank, and the byte where it begins.
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        loop {
            let (mut line, begin) = (Vec::new(), self.offset);
            let read = self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(Error::file(self.path))?;
            self.number += 1;
            self.offset += read as u64;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LONGEST {
                return Err(Error::Request(format!("{} is longer than {LONGEST} bytes", self.place())));
            }
            line.truncate(line.trim_ascii_end().len());
            if !line.is_empty() {
                return Ok(Some((begin, line)));
            }
        }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.number)
    }
}

/// What the first line of a file is.
pub fn detect(path: &Path) -> Result<Format> {
    let mut lines = Lines::open(path)?;
    let text = lines.next()?.map(|(_, line)| line).unwrap_or_default();
    let first = serde_json::from_slice::<Value>(&text).unwrap_or_default();
    if first.get("traces").is_some() {
        Ok(Format::Verifiers)
    } else if first.get("_ng_task_index").is_some() || first.get("responses_create_params").is_some() {
        Ok(Format::NemoGym)
    } else if conversation::is_one(&first) {
        Ok(Format::Messages)
    } else {
        Err(Error::Request(format!("{}:1 {}", path.display(), unknown(&text, &first))))
    }
}

/// What a first line is that no format has, and what to do about it.
fn unknown(text: &[u8], first: &Value) -> &'static str {
    let has = |key: &str| first.get(key).is_some();
    if text.starts_with(b"PAR1") {
        "is Parquet, as TRL writes completions: write it as JSON Lines first, as by `duckdb -c \"copy 'x.parquet' to 'x.jsonl' (format json)\"`"
    } else if first["schema_version"].as_str().is_some_and(|version| version.starts_with("ATIF")) {
        "is a trajectory of ATIF, which isn't read: write its steps as `messages` with a `reward`, a conversation a line"
    } else if has("span_id") || has("spanId") || has("resourceSpans") {
        "is a span, as Agent Lightning stores them, which isn't read: write each rollout as `messages` with a `reward`, a conversation a line"
    } else if first.is_array() || text == b"[" || text == b"{" {
        "is no JSON Lines: write one JSON object a line, as by `jq -c '.[]'`"
    } else {
        "is neither an episode of verifiers' traces.jsonl, nor a rollout of NeMo Gym, nor a conversation (`messages`, `conversations`, or `prompt` \
         with `completion`): name its format with --from"
    }
}

/// Reads the episodes of a line.
type Read<'a> = dyn FnMut(&[u8], &mut Tally) -> std::result::Result<Vec<Episode>, String> + 'a;

/// How the lines were read.
#[derive(Default)]
pub struct Tally {
    pub lines: usize,
    pub bad: usize,
    /// The first line that can't be read.
    pub first: Option<String>,
    /// Traces of agents that are not trained.
    pub frozen: usize,
    /// Fields that aren't read, and may say something.
    pub unread: BTreeSet<String>,
}

pub struct Source<'a> {
    pub files: &'a [PathBuf],
    pub format: Format,
    /// Whether to go on after a line that can't be read.
    pub skip: bool,
}

/// A file that NeMo Gym writes beside `path`.
fn beside(path: &Path, what: &str) -> PathBuf {
    path.with_file_name(format!("{}_{what}.jsonl", path.file_stem().unwrap_or_default().to_string_lossy()))
}

impl Source<'_> {
    /// Reads all files; the same episodes in the same order each time.
    pub fn each(&self, take: &mut dyn FnMut(Episode) -> Result<()>) -> Result<Tally> {
        let mut tally = Tally::default();
        // Files that are read with the one that they lie beside.
        let sides: Vec<PathBuf> =
            self.files.iter().flat_map(|file| ["materialized_inputs", "failures"].map(|what| beside(file, what))).collect();
        for file in self.files.iter().filter(|file| self.format != Format::NemoGym || !sides.contains(file)) {
            match self.format {
                Format::Verifiers => self.lines(
                    file,
                    &mut tally,
                    &mut |line, tally| {
                        let (episodes, frozen) = verifiers::read(line, &mut tally.unread)?;
                        tally.frozen += frozen;
                        Ok(episodes)
                    },
                    take,
                )?,
                Format::Messages => {
                    self.lines(file, &mut tally, &mut |line, tally| Ok(vec![conversation::read(line, &mut tally.unread)?]), take)?
                }
                Format::NemoGym => self.rollouts(file, &mut tally, take)?,
            }
        }
        Ok(tally)
    }

    /// Failures are attempts: an attempt that a later one made good isn't.
    fn rollouts(&self, file: &Path, tally: &mut Tally, take: &mut dyn FnMut(Episode) -> Result<()>) -> Result<()> {
        let mut inputs = Inputs::open(&beside(file, "materialized_inputs"))?;
        let (mut done, mut failed) = (BTreeSet::<Key>::new(), BTreeMap::<Key, Episode>::new());
        let mut sides = vec![file.to_owned(), beside(file, "failures")];
        sides.retain(|path| path == file || path.exists());
        for path in &sides {
            let mut read = |line: &[u8], tally: &mut Tally| {
                let (key, mut episode) = nemo_gym::read(line, &mut |key| inputs.line(key), &mut tally.unread)?;
                if episode.failure.is_none() {
                    done.insert(key);
                    return Ok(vec![episode]);
                }
                if let (Some(failure), Some(before)) = (&mut episode.failure, failed.get(&key)) {
                    failure.tries += before.failure.as_ref().map_or(0, |failure| failure.tries);
                }
                failed.insert(key, episode);
                Ok(vec![])
            };
            self.lines(path, tally, &mut read, take)?;
        }
        failed.into_iter().filter(|(key, _)| !done.contains(key)).try_for_each(|(_, episode)| take(episode))
    }

    fn lines(&self, path: &Path, tally: &mut Tally, read: &mut Read<'_>, take: &mut dyn FnMut(Episode) -> Result<()>) -> Result<()> {
        let mut lines = Lines::open(path)?;
        while let Some((_, line)) = lines.next()? {
            tally.lines += 1;
            match read(&line, tally) {
                Ok(episodes) => episodes.into_iter().try_for_each(&mut *take)?,
                Err(why) => {
                    // Each line is a text of its own: the place in it is a column.
                    let message = format!("{}: {}", lines.place(), why.replace(" at line 1 column", ", in column"));
                    if !self.skip {
                        return Err(Error::request(message).help("--skip-bad leaves such lines out and counts them"));
                    }
                    tally.bad += 1;
                    tally.first.get_or_insert(message);
                }
            }
        }
        Ok(())
    }
}

/// Where each line of the materialized inputs begins: the lines themselves are many, and few are asked for.
struct Inputs {
    file: Option<File>,
    offsets: BTreeMap<Key, u64>,
}

impl Inputs {
    fn open(path: &Path) -> Result<Inputs> {
        let (mut file, mut offsets) = (None, BTreeMap::new());
        if path.exists() {
            let mut lines = Lines::open(path)?;
            while let Some((offset, line)) = lines.next()? {
                offsets.extend(nemo_gym::key(&line).map(|key| (key, offset)));
            }
            file = Some(files::open(path).map_err(Error::file(path))?);
        }
        Ok(Inputs { file, offsets })
    }

    fn line(&mut self, key: Key) -> Option<Vec<u8>> {
        let (file, mut line) = (self.file.as_mut()?, Vec::new());
        file.seek(SeekFrom::Start(*self.offsets.get(&key)?)).ok()?;
        BufReader::new(file).take(LONGEST).read_until(b'\n', &mut line).ok()?;
        Some(line)
    }
}
