//! `flow plan`: what other programs, such as `flow study`, ask about pipelines and runs. Each line of standard input is
//! a question, and a line of standard output answers it.

use super::begun;
use super::error::{Error, Result};
use super::output::{raw, CommandResult};
use super::session::info;
use crate::ops;
use clap::Args;
use flow_env::process::Programs;
use flow_env::Panel;
use serde::Deserialize;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct PlanArgs {}

#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// What a run of this pipeline would be, as its manifest says it.
    Describe { pipeline: PathBuf, sets: Vec<String> },
    /// How far a run of this pipeline has come on its way to `iterations`, or to as many as the pipeline has.
    Progress { pipeline: PathBuf, sets: Vec<String>, run: PathBuf, iterations: Option<u64> },
    /// Whether a frozen panel is whole, and its environment plays it. Programs of described pipelines are known.
    Panel { panel: PathBuf },
}

impl PlanArgs {
    pub fn run(self) -> CommandResult {
        let programs = Programs::default();
        for line in std::io::stdin().lines() {
            let answer = serde_json::from_str(&line?).map_err(Error::from).and_then(|question| answer(question, &programs));
            raw(&answer.map_or_else(|error| refused(&error), |answer| json!({ "answer": answer })).to_string());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn answer(question: Question, programs: &Programs) -> Result<Value> {
    match question {
        Question::Describe { pipeline, sets } => {
            let pipeline = flow_pipeline::load(&pipeline, &sets, &ops::catalog())?;
            ops::programs(&pipeline).for_each(|(_, program)| programs.declare(program));
            Ok(json!(info(&pipeline, None)))
        }
        Question::Progress { pipeline, sets, run, iterations } => {
            // As a run keeps it: with the texts of the files that belong to it.
            let expected = flow_pipeline::load_to_run(&pipeline, &sets, &ops::catalog(), false, &|_| vec![])?;
            let target = iterations.unwrap_or(expected.iterations);
            Ok(json!(begun::progress(&run, &expected, target)?.word()))
        }
        Question::Panel { panel } => {
            Panel::load(&panel)?.verify(programs)?;
            Ok(Value::Null)
        }
    }
}

/// An error as an answer: `styled` where it has places in a file.
fn refused(error: &Error) -> Value {
    let styled = matches!(error, Error::Pipeline(_) | Error::Lines(_)).then(|| error.styled());
    json!({ "error": { "text": error.to_string(), "styled": styled, "request": matches!(error, Error::Request(_)) } })
}
