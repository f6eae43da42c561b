//! The command line: one file a verb. Answers go to standard output, everything about the work to standard error.

mod check;
mod diff;
mod episode;
mod eval;
mod follow;
mod graph;
mod models;
mod ops;
mod panel;
mod past;
mod progress;
mod query;
mod replay;
mod report;
mod resume;
mod run;
mod schema;
mod session;
mod show;
mod source;
mod tap;
mod test;
mod together;
mod top;

use crate::dataflow::cluster::end::end_process;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

/// Trains language agents by reinforcement learning. A training run is a YAML file.
#[derive(Parser)]
#[command(name = "flow", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Trains, with live progress
    Run(run::Run),
    /// Goes on with a run that was stopped, killed or cut off
    Resume(resume::Resume),
    /// Repeats a run's credit and updates from its logged rollouts, under its own pipeline or another one
    Replay(replay::Replay),
    /// Compares two runs row by row
    Diff(diff::Diff),
    /// Plays a frozen panel of tasks: success within 1, 2, ... attempts
    Eval(eval::Eval),
    /// Freezes a panel of tasks to be measured on
    Panel(panel::Panel),
    /// Says everything that is wrong with pipelines, before anything runs
    Check(check::Check),
    /// Runs the tests that pipelines bring along: rows fed to some nodes, rows expected from others
    Test(test::Test),
    /// Draws a pipeline
    Graph(graph::Graph),
    /// Lists the operators, or explains one
    Ops(ops::Ops),
    /// Prints the JSON Schema of the pipeline language
    Schema(schema::Schema),
    /// Asks a run's log in SQL
    Query(query::Query),
    /// Draws runs as one HTML file: curves, pass@k, exploration, time, trajectories
    Report(report::Report),
    /// Shows one trajectory in full, turn by turn, with its credit
    Show(show::Show),
    /// Prints a node's rows as they pass
    Tap(tap::Tap),
    /// Shows what a run does now and what it waits for
    Top(top::Top),
}

/// What a verb ends with: an exit code, or what to say on the way to exit code 1.
type Outcome = Result<ExitCode, String>;

/// Runs the command line and answers with the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted. A verb that fails
/// ends the process, whatever else is still at work in it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A closed standard error is nobody to tell.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let outcome = match arguments.verb {
        Verb::Run(verb) => verb.run(),
        Verb::Resume(verb) => verb.run(),
        Verb::Replay(verb) => verb.run(),
        Verb::Diff(verb) => verb.run(),
        Verb::Eval(verb) => verb.run(),
        Verb::Panel(verb) => verb.run(),
        Verb::Check(verb) => verb.run(),
        Verb::Test(verb) => verb.run(),
        Verb::Graph(verb) => verb.run(),
        Verb::Ops(verb) => verb.run(),
        Verb::Schema(verb) => verb.run(),
        Verb::Query(verb) => verb.run(),
        Verb::Report(verb) => verb.run(),
        Verb::Show(verb) => verb.run(),
        Verb::Tap(verb) => verb.run(),
        Verb::Top(verb) => verb.run(),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("{}", message.trim_end());
        end_process(1)
    })
}

/// Prints to standard output; a reader that went away (`| head`) is no error.
fn answer(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|_| out.write_all(end.as_bytes()));
}

type Printing = Result<(), Box<dyn std::error::Error>>;

/// Lets `print` write to standard output as much as it wants; a reader that goes away (`| head`) ends it quietly.
fn printed(print: impl FnOnce(&mut dyn Write) -> Printing) -> Outcome {
    let mut out = BufWriter::new(Pipe { gone: false });
    let wrote = print(&mut out).and_then(|()| Ok(out.flush()?));
    match wrote {
        Err(error) if !out.into_parts().0.gone => Err(format!("error: {error}")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Standard output, and whether its reader is gone: that can't be told from the errors of everything between.
struct Pipe {
    gone: bool,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).inspect_err(|e| self.gone |= e.kind() == ErrorKind::BrokenPipe)
    }
    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().inspect_err(|e| self.gone |= e.kind() == ErrorKind::BrokenPipe)
    }
}
