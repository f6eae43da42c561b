//! The command line: one file a verb. Answers go to standard output, everything about the work to standard error.

mod audit;
mod begun;
mod bottleneck;
mod budget;
mod bundle;
mod candidates;
mod check;
mod child;
mod colours;
mod completion;
mod decline;
mod diff;
mod doctor;
mod env;
mod episode;
mod error;
mod eval;
mod explain;
mod export;
mod external;
mod follow;
mod graph;
mod grid;
mod headroom;
mod import;
mod log_inputs;
mod machine;
mod memory_check;
mod missing_files;
mod model;
mod model_check;
mod models;
mod new;
mod ops;
mod output;
mod panel;
mod plan;
mod progress;
mod prompts;
mod python;
mod query;
mod query_limit;
mod reference;
mod replay;
mod report;
mod reproducibility;
mod resume;
mod run;
mod run_folder;
mod run_identity;
mod schema;
mod schema_text;
mod seeds;
mod series;
mod session;
mod show;
mod show_prompt;
mod skill;
mod source;
mod summary;
mod tap;
mod test;
mod tokens;
mod tool_notes;
mod top;
mod unpack;
mod verify;
mod view;
mod vocabularies;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use flow_dataflow::cluster::end::end_process;
use std::ffi::OsString;
use std::process::ExitCode;

/// Trains language agents by reinforcement learning: `flow new` writes a pipeline, `flow run` trains, `flow view` shows.
#[derive(Parser)]
#[command(name = "flow", version = env!("FLOW_VERSION"), max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

/// The enum of all verbs, and `run`, which runs the one that was named.
macro_rules! verbs {
    ($($(#[$about:meta])* $verb:ident($arguments:ty),)*) => {
        #[derive(Subcommand)]
        enum Verb {
            $($(#[$about])* $verb($arguments),)*
        }

        impl Verb {
            fn run(self) -> output::CommandResult {
                match self {
                    $(Verb::$verb(verb) => verb.run(),)*
                }
            }
        }
    };
}

verbs! {
    /// Writes a commented pipeline to begin with
    New(new::NewArgs),
    /// Trains, with live progress
    Run(run::RunArgs),
    /// Continues a run that was stopped or killed
    Resume(resume::ResumeArgs),
    /// Repeats a run's credit and updates from its logged rollouts, under its own pipeline or another one
    Replay(replay::ReplayArgs),
    /// Reads another trainer's rollouts into a run: verifiers' traces.jsonl, NeMo Gym's rollouts.jsonl, conversations with rewards
    Import(import::ImportArgs),
    /// Computes a run's credit and updates again from its logged rollouts, and compares them digit by digit
    Verify(verify::VerifyArgs),
    /// Packs a run into one file, for `flow verify` on another machine
    Bundle(bundle::BundleArgs),
    /// Compares two runs row by row
    Diff(diff::DiffArgs),
    /// Plays on from logged turns, and measures whether their credit points the right way
    Audit(audit::AuditArgs),
    /// Plays a frozen panel of tasks: success within 1, 2, ... attempts
    Eval(eval::EvalArgs),
    /// Makes a paper's tables from a file: trains missing runs, measures them, writes the page
    #[command(disable_help_flag = true)]
    Study(external::StudyArgs),
    /// Freezes a panel of tasks for evaluation
    Panel(panel::PanelArgs),
    /// Reports all mistakes in pipelines, before anything runs
    Check(check::CheckArgs),
    /// Explains a kind of mistakes in pipelines
    Explain(explain::ExplainArgs),
    /// Runs the tests in pipelines: rows fed to some nodes, rows expected from others
    Test(test::TestArgs),
    /// Draws a pipeline
    Graph(graph::GraphArgs),
    /// Fetches, converts, inspects or exports a model
    Model(model::ModelArgs),
    /// Lists the operators, or explains one
    Ops(ops::OpsArgs),
    /// Lists the environments, or installs one
    Env(env::EnvArgs),
    /// Reports what this machine has, and what would be slow or missing
    Doctor(doctor::DoctorArgs),
    /// Prints the JSON Schema of the pipeline language
    Schema(schema::SchemaArgs),
    /// Prints a page from which a coding agent can operate flow, in the form of a skill
    Skill(skill::SkillArgs),
    /// Queries a run's log in SQL
    Query(query::QueryArgs),
    /// Shows runs in the browser: graph, curves, episodes token by token, groups, memory, failures, SQL
    View(view::ViewArgs),
    /// Writes the pages of `view` as files: they need no server and no network
    Report(report::ReportArgs),
    /// Writes a run's figures for another program, such as TensorBoard
    Export(export::ExportArgs),
    /// Shows one trajectory in full, turn by turn, with its credit
    Show(show::ShowArgs),
    /// Prints a node's rows as they are logged
    Tap(tap::TapArgs),
    /// Shows what each node of a run does now, and what it waits for
    Top(top::TopArgs),
    /// Prints a script that lets a shell complete verbs and flags
    Completion(completion::CompletionArgs),
    /// Answers what other programs ask about pipelines and runs
    #[command(hide = true)]
    Plan(plan::PlanArgs),
}

/// Runs the command line and answers with the exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted. A verb that
/// fails ends the process, whatever else is still at work in it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    child::tie();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if completion::answered(Arguments::command, &arguments) {
        return ExitCode::SUCCESS;
    }
    if let Some(name) = arguments.get(1).and_then(|name| name.to_str()).filter(|name| other_program(name)) {
        return external::become_program(name, &arguments[2..]).unwrap_or_else(failed);
    }
    let arguments = match Arguments::try_parse_from(&arguments) {
        Ok(arguments) => arguments,
        Err(mut error) => {
            if let Some(tip) = nearest_verb(&error).or_else(|| key_as_flag(&error, &arguments)) {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
            // If standard error is closed, the message is lost.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    arguments.verb.run().unwrap_or_else(failed)
}

/// Whether `flow NAME` is no verb, but a program beside this one.
fn other_program(name: &str) -> bool {
    external::exists(name) && Arguments::command().find_subcommand(name).is_none()
}

fn failed(error: error::Error) -> ExitCode {
    anstream::eprintln!("{}", error.styled().trim_end());
    end_process(1)
}

/// The verbs that somebody means by a word of other trainers.
const OTHERS: [(&str, &str); 6] =
    [("train", "run"), ("evaluation", "eval"), ("lint", "check"), ("validate", "check"), ("init", "new"), ("sql", "query")];

/// The verb that an unknown one was probably meant as.
fn nearest_verb(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let command = Arguments::command();
    let own = command.get_subcommands().map(|verb| (verb.get_name().to_owned(), verb.get_name().to_owned()));
    let all = own.chain(OTHERS.map(|(other, own)| (other.to_owned(), own.to_owned())));
    let near = all.map(|(name, verb)| (strsim::damerau_levenshtein(word, &name), name, verb)).min()?;
    (near.0 <= 1 + near.1.len() / 4).then(|| format!("did you mean `flow {}`?", near.2))
}

/// What to write where a flag is a key of the pipeline, or where a verb takes no `--set`.
fn key_as_flag(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if flag.starts_with("--set") && arguments.get(1).is_some_and(|verb| verb == "resume") {
        return Some(
            "a run keeps its pipeline to its end, so that its rows are of one kind: begin another run with its weights \
             (`models: { actor: { load: runs/OLD } }`), or replay its rows (`flow replay RUN --set ...`)"
                .into(),
        );
    }
    let key = ["iterations", "seed"].into_iter().find(|key| flag.strip_prefix("--") == Some(key))?;
    let command = Arguments::command();
    let verb = command.find_subcommand(arguments.get(1)?)?;
    let sets = verb.get_arguments().any(|argument| argument.get_long() == Some("set"));
    (error.kind() == ErrorKind::UnknownArgument && sets).then(|| format!("`{key}` is a key of the pipeline: --set {key}=N"))
}
