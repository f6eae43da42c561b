//! The command line: one file a verb. Answers go to standard output, everything about the work to standard error.

mod check;
mod follow;
mod graph;
mod models;
mod ops;
mod progress;
mod query;
mod resume;
mod run;
mod schema;
mod session;
mod test;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
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
}

/// What a verb ends with: an exit code, or what to say on the way to exit code 1.
type Outcome = Result<ExitCode, String>;

/// Runs the command line and answers with the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
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
        Verb::Check(verb) => verb.run(),
        Verb::Test(verb) => verb.run(),
        Verb::Graph(verb) => verb.run(),
        Verb::Ops(verb) => verb.run(),
        Verb::Schema(verb) => verb.run(),
        Verb::Query(verb) => verb.run(),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("{}", message.trim_end());
        ExitCode::FAILURE
    })
}

/// Prints to standard output; a reader that went away (`| head`) is no error.
fn answer(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|_| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
}
