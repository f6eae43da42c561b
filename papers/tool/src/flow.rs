//! The program `flow` beside this one: it trains and measures, and it answers what it alone knows of a pipeline.

use crate::error::{Error, Result};
use flow_log::RunInfo;
use serde::Deserialize;
use serde_json::{json, Value};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunProgress {
    Absent,
    Partial,
    Finished,
}

/// The program `flow`.
pub struct Flow {
    program: PathBuf,
    /// A process of `flow plan`, once something was asked.
    planner: RefCell<Option<Planner>>,
}

/// A process that answers a line with a line, until its input ends.
struct Planner {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The answer to a question, or why there is none.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Answer(Value),
    Error { text: String, styled: Option<String>, request: bool },
}

impl Flow {
    /// The program that lies beside this one.
    ///
    /// # Errors
    /// If there is none.
    pub fn find() -> Result<Flow> {
        let program = std::env::current_exe()?.with_file_name("flow");
        match program.is_file() {
            true => Ok(Flow { program, planner: RefCell::default() }),
            false => Err(Error::request(format!("a study is made by the program `flow`, and there is no {}", program.display()))),
        }
    }

    /// A command of `flow`, whose process ends with this one.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("FLOW_PARENT", std::process::id().to_string());
        command
    }

    /// What a run of this pipeline would be. The programs that it declares are known to [`Flow::panel`] from now on.
    ///
    /// # Errors
    /// If it has mistakes.
    pub fn describe(&self, pipeline: &Path, sets: &[String]) -> Result<RunInfo> {
        let answer = self.ask(json!({ "ask": "describe", "pipeline": pipeline, "sets": sets }))?;
        Ok(serde_json::from_value(answer)?)
    }

    /// How far the run in `folder` has come on its way to `iterations`, or to as many as the pipeline has.
    ///
    /// # Errors
    /// If another pipeline made it, or the pipeline has mistakes.
    pub fn progress(&self, folder: &Path, pipeline: &Path, sets: &[String], iterations: Option<u64>) -> Result<RunProgress> {
        let question = json!({ "ask": "progress", "pipeline": pipeline, "sets": sets, "run": folder, "iterations": iterations });
        Ok(serde_json::from_value(self.ask(question)?)?)
    }

    /// Checks that a frozen panel is whole, and that its environment plays it.
    ///
    /// # Errors
    /// If not.
    pub fn panel(&self, panel: &Path) -> Result<()> {
        self.ask(json!({ "ask": "panel", "panel": panel })).map(drop)
    }

    fn ask(&self, question: Value) -> Result<Value> {
        let mut planner = self.planner.borrow_mut();
        let planner = match &mut *planner {
            Some(planner) => planner,
            none => none.insert(self.start()?),
        };
        writeln!(planner.questions, "{question}")?;
        let mut line = String::new();
        planner.answers.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Answer(answer)) => Ok(answer),
            Ok(Answer::Error { text, styled: Some(styled), .. }) => Err(Error::located(text, styled)),
            Ok(Answer::Error { text, request: true, .. }) => {
                Err(Error::request(text).help("move it away, or give the study another `home`, and it is made anew"))
            }
            Ok(Answer::Error { text, .. }) => Err(Error::request(text)),
            Err(_) => Err(Error::request(format!("{} is of another version than this program", self.program.display()))),
        }
    }

    fn start(&self) -> Result<Planner> {
        let mut command = self.command();
        // Ctrl-C in a terminal is for the jobs and for this program, which may have questions until it ends.
        command.arg("plan").process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::file(&self.program))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) = pipes.ok_or_else(|| Error::request("`flow plan` has no pipes"))?;
        Ok(Planner { questions, answers: BufReader::new(answers) })
    }
}
