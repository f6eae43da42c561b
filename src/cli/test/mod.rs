//! `flow test`: runs the tests that pipelines bring along: rows fed to some nodes, rows expected from others. With
//! `--invariance` it runs the pipelines themselves, in every way that must not matter.

mod compare;
mod conduct;
mod invariance;
mod show;

pub use invariance::CaseAnswer;
pub use show::{TestEnd, TestRow};

use super::error::Error;
use super::output::{answer, paint, CommandResult, OutputFormat};
use crate::cli::candidates;
use crate::ops;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub struct TestArgs {
    /// Pipeline files, with `tests:` unless --invariance is given
    #[arg(required = true)]
    pipelines: Vec<PathBuf>,
    /// Runs only the tests of this name
    #[arg(long)]
    name: Option<String>,
    /// Overrides a value, as `nodes.advantage.with.baseline=none`
    #[arg(long = "set", value_name = "PATH=VALUE", add = candidates::paths())]
    sets: Vec<String>,
    /// Runs two iterations of the pipelines on other numbers of workers and processes, killed, replayed and in other
    /// micro-batches, and compares what the updates made
    #[arg(long, conflicts_with = "name")]
    invariance: bool,
    /// json: an object a line: one for each row, then one for its test
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

impl TestArgs {
    pub fn run(self) -> CommandResult {
        ops::run_code();
        if self.invariance {
            let mut good = true;
            for file in &self.pipelines {
                good &= invariance::invariance(file, &self.sets, self.format)?;
            }
            return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        let catalog = ops::catalog();
        let mut pipelines = Vec::new();
        for path in &self.pipelines {
            let loaded = flow_pipeline::load_with_tests(path, &self.sets, &catalog)?;
            pipelines.push((path.display().to_string(), loaded));
        }
        let (mut ran, mut failed) = (0, 0);
        for (file, pipeline) in &pipelines {
            for test in pipeline.tests.iter().filter(|t| self.name.as_ref().is_none_or(|name| name == &t.name)) {
                let outcome = conduct::conduct(pipeline, test, &catalog);
                let good = outcome.as_ref().is_ok_and(|rows| rows.iter().all(|r| r.agrees()));
                (ran, failed) = (ran + 1, failed + usize::from(!good));
                match self.format {
                    OutputFormat::Text => paint(&show::text(file, &test.name, &outcome)),
                    OutputFormat::Json => answer(&show::json(file, &test.name, &outcome)),
                }
            }
        }
        if ran == 0 {
            return Err(self.no_test(pipelines.iter().flat_map(|(_, p)| &p.tests).map(|t| t.name.as_str()).collect()));
        }
        if self.format == OutputFormat::Text {
            let plural = if ran == 1 { "" } else { "s" };
            answer(&format!("{ran} test{plural}, {failed} failed"));
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn no_test(&self, names: Vec<&str>) -> Error {
        match &self.name {
            Some(name) if !names.is_empty() => {
                let there: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
                Error::Request(format!("there is no test `{name}`")).help(format!("  = help: there are {}", there.join(", ")))
            }
            _ => Error::request("there are no tests").help(
                "  = help: write `tests:` and under it one `- { name: ..., feed: { node: rows.jsonl }, expect: { node: rows.jsonl } }` a test",
            ),
        }
    }
}
