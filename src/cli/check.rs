//! `flow check`: every mistake in one pass.

use super::candidates;
use super::colours::GREEN;
use super::error::Error;
use super::missing::missing;
use super::output::{answer, paint, CommandResult, OutputFormat};
use crate::env::process::{ProcessError, ProcessSettings};
use crate::env::EnvError;
use crate::pipeline::Pipeline;
use crate::printable::printable;
use crate::{ops, pipeline};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The summary of a pipeline without mistakes: its size, how far delayed edges let iterations overlap, and the notes of its operators.
fn summary(path: &Path, pipeline: &Pipeline) -> String {
    let (nodes, iterations) = (pipeline.all().count(), pipeline.iterations);
    let mut text = format!(
        "{}: {} is {GREEN}fine{GREEN:#}: {nodes} nodes, {iterations} iterations\n",
        printable(&path.display().to_string()),
        pipeline.name
    );
    for o in pipeline::overlaps(pipeline).iter().filter(|o| o.staleness > 0) {
        let edge = format!("  {} -> {}.{}: staleness {}", o.from, o.to, o.port, o.staleness);
        text.push_str(&match o.effective {
            0 => format!("{edge}, but another way through the graph makes `{}` wait for the newest: nothing overlaps\n", o.to),
            n if n < o.staleness => format!("{edge}, of which another way through the graph leaves {n}\n"),
            n => format!("{edge}: `{}` may run {n} iteration{} ahead\n", o.to, if n == 1 { "" } else { "s" }),
        });
    }
    for (node, note) in ops::notes(pipeline) {
        text.push_str(&format!("  {}: {}\n", printable(&node), printable(&note)));
    }
    text
}

/// What the program of a `tasks` node reports about itself once it has been started.
fn program_summary(program: &ProcessSettings) -> Result<String, ProcessError> {
    let hello = program.greet()?;
    let (split, items) = program.items(&hello)?;
    let plural = |count: u64, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    let mut text = format!("  the process `{}` says hello", program.name);
    if !hello.world.is_empty() {
        text += &format!(": {}", hello.world);
    }
    let splits: Vec<String> = hello.splits.iter().map(|(name, items)| format!("{name} {}", items.len())).collect();
    text += &format!("; {} of `{split}` are drawn from (splits: {})", plural(items.len(), "task"), splits.join(", "));
    if let Some(live) = hello.live {
        text += &format!("; a process holds {}", plural(live as u64, "episode"));
    }
    text += match (hello.actions, hello.expert) {
        (true, true) => "; it lists actions and has an expert\n",
        (true, false) => "; it lists actions and has no expert\n",
        (false, true) => "; it lists no actions and has an expert\n",
        (false, false) => "; it lists no actions and has no expert\n",
    };
    Ok(text)
}

#[derive(Args)]
pub struct CheckArgs {
    /// Pipeline files
    #[arg(required = true)]
    pipelines: Vec<PathBuf>,
    /// Overrides a value, as `nodes.update.with.lr=1e-4`
    #[arg(long = "set", value_name = "PATH=VALUE", add = candidates::paths())]
    sets: Vec<String>,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

impl CheckArgs {
    pub fn run(self) -> CommandResult {
        let catalog = ops::catalog();
        let (mut wrong, mut mute) = (Vec::new(), Vec::new());
        for path in &self.pipelines {
            match pipeline::load_to_run(path, &self.sets, &catalog, true, &|p| missing(p, path, &catalog)) {
                Ok(pipeline) => match ops::programs(&pipeline).map(|(_, program)| program_summary(&program)).collect::<Result<String, _>>()
                {
                    Ok(worlds) if self.format == OutputFormat::Text => {
                        paint(&summary(path, &pipeline));
                        if !worlds.is_empty() {
                            answer(&worlds);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => mute.push(Error::from(EnvError::from(error)).at(path.display())),
                },
                Err(diagnostics) => {
                    if self.format == OutputFormat::Text {
                        anstream::eprint!("{}", diagnostics.styled());
                    }
                    wrong.extend(diagnostics.0);
                }
            }
        }
        if self.format == OutputFormat::Json {
            answer(&serde_json::to_string_pretty(&wrong)?);
        }
        mute.iter().for_each(|error| anstream::eprintln!("{}", error.styled()));
        Ok(if wrong.is_empty() && mute.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
