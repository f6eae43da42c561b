//! The files of another trainer. `flow_runs.imports`, in Python, reads their formats, and writes an episode a line.

use super::super::error::{Error, Result};
use super::super::python;
use super::episode::Episode;
use clap::ValueEnum;
use serde::Deserialize;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The module that reads.
const MODULE: &str = "flow_runs.imports";

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

impl Format {
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A line of the module's output.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    Format(String),
    Episode(Box<Episode>),
    Tally(Tally),
    /// Why a file can't be read, and what to do about it.
    Refused(Vec<String>),
}

/// How the lines were read.
#[derive(Default, Deserialize)]
pub struct Tally {
    pub lines: usize,
    pub bad: usize,
    /// The first line that can't be read.
    pub first: Option<String>,
    /// Traces of agents that are not trained.
    pub frozen: usize,
    /// Fields that aren't read, and may say something.
    pub unread: Vec<String>,
}

/// What the first line of a file is.
pub fn detect(path: &Path) -> Result<Format> {
    let mut found = None;
    listen(&[OsStr::new("detect"), OsStr::new("--"), path.as_os_str()], &mut |message| {
        found = if let Message::Format(name) = message { Format::from_str(&name, false).ok() } else { None };
        Ok(())
    })?;
    found.ok_or_else(|| Error::Request(format!("{MODULE} names no format that this program knows")))
}

pub struct Source<'a> {
    pub files: &'a [PathBuf],
    pub format: Format,
    /// Whether to go on after a line that can't be read.
    pub skip: bool,
}

impl Source<'_> {
    /// Reads all files; the same episodes in the same order each time.
    pub fn each(&self, take: &mut dyn FnMut(Episode) -> Result<()>) -> Result<Tally> {
        let (format, mut tally) = (self.format.name(), None);
        let skip = self.skip.then_some("--skip-bad");
        let before = [format.as_str()].into_iter().chain(skip).chain(["--"]).map(OsStr::new);
        let arguments: Vec<&OsStr> = before.chain(self.files.iter().map(|file| file.as_os_str())).collect();
        listen(&arguments, &mut |message| match message {
            Message::Episode(episode) => take(*episode),
            Message::Tally(message) => {
                tally = Some(message);
                Ok(())
            }
            Message::Format(_) | Message::Refused(_) => Ok(()),
        })?;
        tally.ok_or_else(|| Error::Request(format!("{MODULE} ended before it had read all")))
    }
}

/// A process that ends with its reader.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the module, and gives each line that it writes to `hear`.
fn listen(arguments: &[&OsStr], hear: &mut dyn FnMut(Message) -> Result<()>) -> Result<()> {
    let mut child = Ended(python::command(MODULE)?.args(arguments).stdout(Stdio::piped()).spawn().map_err(python::start_error)?);
    let Some(output) = child.0.stdout.take() else { return Ok(()) };
    for line in BufReader::new(output).lines() {
        match serde_json::from_str(&line?)? {
            Message::Refused(why) => {
                let mut why = why.into_iter();
                let error = Error::Request(why.next().unwrap_or_default());
                return Err(if let Some(help) = why.next() { error.help(help) } else { error });
            }
            message => hear(message)?,
        }
    }
    Ok(())
}
