//! `flow check`: every mistake in one pass.

use super::candidates;
use super::colours::GREEN;
use super::explain::hint;
use super::headroom::{self, Headroom};
use super::missing_files::missing;
use super::models::newest;
use super::output::{answer, paint, CommandResult, OutputFormat};
use super::reproducibility::Promise;
use super::show_prompt::prompts;
use super::tool_notes;
use crate::ops;
use clap::Args;
use flow_core::printable::printable;
use flow_env::process::{ProcessError, ProcessSettings};
use flow_model::on_disk::is_adapter_folder;
use flow_pipeline::{Catalog, Diagnostic, Mistake, Node, Pipeline, Role};
use flow_policy::{libtorch, DeviceChoice, FoundDevice};
use flow_rollout::action::Decode;
use serde_json::Value;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The summary of a pipeline without mistakes: its size, where its models are computed and what is promised of its
/// rows, how far delayed edges let iterations overlap, and the notes of its operators.
fn summary(path: &Path, pipeline: &Pipeline, device: &FoundDevice) -> String {
    let (nodes, iterations) = (pipeline.all().count(), pipeline.iterations);
    let mut text = format!(
        "{}: {} is {GREEN}fine{GREEN:#}: {nodes} nodes, {iterations} iterations\n",
        printable(&path.display().to_string()),
        pipeline.name
    );
    if let Some(promise) = Promise::of(pipeline) {
        let place = device.to_string();
        // What a server runs is computed there, and what a trainer learns.
        let trained = |model: &Value| !cfg!(feature = "learn") && model["train"].is_object() && model["serve"].is_object();
        let remote = pipeline.models.values().all(|model| ops::remote(model) || trained(model));
        let usable = if remote || cfg!(feature = "learn") && libtorch_exists() { Ok(()) } else { libtorch().map(|_| ()) };
        match usable {
            Ok(()) => {
                let by = if remote { "by servers".into() } else { format!("on {}", printable(&place)) };
                text.push_str(&format!("  models are computed {by}\n  {}\n", promise.text(&place)));
            }
            // The file is right, and a run would end at once.
            Err(error) => text.push_str(&format!("  it can't run on this machine yet: {}\n", printable(&error.to_string()))),
        }
    }
    for o in flow_pipeline::overlaps(pipeline).iter().filter(|o| o.staleness > 0) {
        let edge = format!("  {} -> {}.{}: staleness {}", o.from, o.to, o.port, o.staleness);
        text.push_str(&match o.effective {
            0 => format!("{edge}, but another way through the graph makes `{}` wait for the newest: nothing overlaps\n", o.to),
            n if n < o.staleness => format!("{edge}, reduced to {n} by another path through the graph\n"),
            n => format!("{edge}: `{}` may run {n} iteration{} ahead\n", o.to, if n == 1 { "" } else { "s" }),
        });
    }
    for node in ops::unlogged(pipeline) {
        text.push_str(&format!("  {node}: its rows aren't in `log`, so a run can't be replayed or verified\n"));
    }
    for (model, note) in merged(pipeline) {
        text.push_str(&format!("  {}: {note}\n", printable(&model)));
    }
    for (node, note) in ops::notes(pipeline).into_iter().chain(tool_notes::notes(pipeline)) {
        text.push_str(&format!("  {}: {}\n", printable(&node), printable(&note)));
    }
    text
}

/// Whether libtorch is in one of its usual folders. To load it takes a quarter of a second, so that is done elsewhere only.
fn libtorch_exists() -> bool {
    let sibling = || Some(std::env::current_exe().ok()?.canonicalize().ok()?.parent()?.join("../../torch/lib"));
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let built = option_env!("LIBTORCH").map(|folder| Path::new(folder).join("lib"));
    std::env::split_paths(&named).chain(sibling()).chain(built).any(|folder| folder.join("libtorch_cpu.so").exists())
}

/// Models that learn all their weights though they begin with an adapter: seldom intended, and many times as slow.
fn merged(pipeline: &Pipeline) -> Vec<(String, &'static str)> {
    let whole = |model: &serde_json::Value| {
        ["lora", "adapter"].iter().all(|key| model[key].is_null()) && model["base"].as_str().is_none_or(|base| base == "own")
    };
    let learns = |name: &str| pipeline.all().any(|node| ops::is(node, Role::Learns) && node.model() == Some(name));
    let lies = |name: &str, model: &serde_json::Value| {
        let load = model["load"].as_str()?;
        newest(Path::new(load), model["of"].as_str().unwrap_or(name)).ok().map(|folder| is_adapter_folder(&folder))
    };
    let note =
        "the adapter that lies there becomes a part of its base, and all weights learn; `lora: { rank: 16 }` lets a new adapter learn, \
                `adapter` in place of it one that was learnt";
    let models = pipeline.models.iter().filter(|(name, model)| whole(model) && learns(name) && lies(name, model) == Some(true));
    models.map(|(name, _)| (name.clone(), note)).collect()
}

/// Files that are missing; where none is, programs that can't be played with. The others' reports go to `reports`.
fn look(pipeline: &Pipeline, path: &Path, catalog: &Catalog, reports: &RefCell<String>) -> Vec<Mistake> {
    let mut mistakes = missing(pipeline, path, catalog);
    for (node, program) in ops::programs(pipeline).filter(|_| mistakes.is_empty()).collect::<Vec<_>>() {
        match program_summary(pipeline, node, &program) {
            Ok(text) => *reports.borrow_mut() += &text,
            Err(error) => mistakes.push(unplayable(node, &program, &error)),
        }
    }
    mistakes
}

/// A program that can't be played with, at the setting that its message names.
fn unplayable(node: &Node, program: &ProcessSettings, error: &ProcessError) -> Mistake {
    let why = error.to_string().replace(&format!(" ({})", program.command.join(" ")), "");
    let named = why.split('`').skip(1).step_by(2).find(|word| node.with.raw().get(word).is_some());
    Mistake::in_node(node, &["with", named.unwrap_or("env")], why.clone())
}

/// What the program of the node `tasks` reports about itself once it has been started.
fn program_summary(pipeline: &Pipeline, tasks: &Node, program: &ProcessSettings) -> Result<String, ProcessError> {
    let hello = program.greet()?;
    let (split, items) = program.items(&hello)?;
    let fed = |node: &&Node| node.inputs.iter().any(|input| input.from == tasks.id);
    let chooses = |node: &&Node| ops::play(node).is_some_and(|play| play.agent.decode == Decode::Constrained);
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
    // A process may ask the policy by calls, which it doesn't say beforehand.
    if let Some(node) = pipeline.all().filter(fed).find(chooses).filter(|_| !hello.actions && !program.calls) {
        text += &format!(
            "  {}: it chooses among listed actions, and none are listed: unless the process asks by calls, give its agent\n",
            node.id
        );
        text += "    `decode: free`, with `answer: []` where the whole response is the action\n";
    }
    Ok(text)
}

#[derive(Args)]
pub struct CheckArgs {
    /// Pipeline files
    #[arg(required_unless_present = "headroom")]
    pipelines: Vec<PathBuf>,
    /// Says as well how many tasks of this run had something to learn from before it trained
    #[arg(long, value_name = "RUN")]
    headroom: Option<PathBuf>,
    /// Overrides a value, as `nodes.update.with.lr=1e-4`; a map is merged into the one that is there, and null removes a key
    #[arg(long = "set", value_name = "PATH=VALUE", add = candidates::paths())]
    sets: Vec<String>,
    /// Prints each playing node's first prompt, at a real task
    #[arg(long)]
    show_prompt: bool,
    /// The device for models, as in `flow run`
    #[arg(long, value_name = "auto|cpu|cuda")]
    device: Option<DeviceChoice>,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// The mistakes of all files, and the headroom of the run that `--headroom` names.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct CheckAnswer {
    mistakes: Vec<Diagnostic>,
    headroom: Headroom,
}

impl CheckArgs {
    pub fn run(self) -> CommandResult {
        ops::run_code();
        let headroom = self.headroom.as_deref().map(headroom::of).transpose()?;
        let catalog = ops::catalog();
        let mut mistakes = Vec::new();
        let device = FoundDevice::look(self.device.map_or_else(DeviceChoice::named, Ok)?)?;
        for path in &self.pipelines {
            let reports = RefCell::default();
            match flow_pipeline::load_to_run(path, &self.sets, &catalog, true, &|p| look(p, path, &catalog, &reports)) {
                Ok(pipeline) if self.format == OutputFormat::Text => {
                    paint(&summary(path, &pipeline, &device));
                    if !reports.borrow().is_empty() {
                        answer(&reports.borrow());
                    }
                    if self.show_prompt {
                        answer(&prompts(&pipeline)?);
                    }
                }
                Ok(_) => {}
                Err(diagnostics) => {
                    if self.format == OutputFormat::Text {
                        anstream::eprint!("{}\nfor more: {}\n", diagnostics.styled(), hint(&diagnostics.0));
                    }
                    mistakes.extend(diagnostics.0);
                }
            }
        }
        match (headroom, self.format) {
            (Some(figures), OutputFormat::Text) => answer(&headroom::text(&figures)),
            (Some(figures), OutputFormat::Json) => {
                answer(&serde_json::to_string_pretty(&CheckAnswer { mistakes: mistakes.clone(), headroom: figures })?)
            }
            (None, OutputFormat::Json) => answer(&serde_json::to_string_pretty(&mistakes)?),
            (None, OutputFormat::Text) => {}
        }
        Ok(if mistakes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
