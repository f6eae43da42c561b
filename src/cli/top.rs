//! `flow top`: what a run does now and what it waits for; of a run that has ended, where its time went.

use super::error::Result;
use super::output::{finish, raw, CommandResult, OutputFormat};
use super::tokens::TokenCounts;
use clap::Args;
use flow_core::printable::printable;
use flow_dataflow::status::{Activity, NodeActivity, NodeState, PolicyActivity, STATUS};
use flow_log::{Lock, Manifest, Status};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args)]
pub struct TopArgs {
    /// The run's folder
    run: PathBuf,
    /// At a terminal the text is drawn anew each second until the run ends; JSON is written once
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// The state of a run at one moment.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct RunSnapshot {
    run: String,
    /// `running`, `finished`, `stopped`, `failed`, or `cut off`.
    pub state: &'static str,
    /// By node, of the iterations that are committed: tokens computed, and different ones among them.
    tokens: TokenCounts,
    #[serde(flatten)]
    activity: Activity,
}

impl TopArgs {
    pub fn run(self) -> CommandResult {
        let run = flow_log::Run::open(&self.run)?;
        let live = self.format == OutputFormat::Text && std::io::stdout().is_terminal();
        loop {
            let picture = RunSnapshot::of(&run, &self.run.display().to_string())?;
            if self.format == OutputFormat::Json {
                return finish(&serde_json::to_string(&picture)?);
            }
            let text = drawn(&picture);
            if !live {
                return finish(&text);
            }
            // From the upper left corner over the old text: nothing flickers.
            raw(&format!("\x1b[H{}\x1b[J", printable(&text).replace('\n', "\x1b[K\n")));
            if picture.state != "running" {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

impl RunSnapshot {
    /// How the run in `folder` stands.
    pub fn of(run: &flow_log::Run, folder: &str) -> Result<RunSnapshot> {
        // Check the lock first: what the writer committed before it released the lock is then in the manifest.
        let held = Lock::held(run);
        Ok(RunSnapshot::with(run, folder, held, &run.manifest()?))
    }

    /// The same of a manifest that was read; `held` says whether a process holds the run's lock.
    pub fn with(run: &flow_log::Run, folder: &str, held: bool, manifest: &Manifest) -> RunSnapshot {
        let state = match manifest.status {
            Status::Running if held => "running",
            Status::Running => "cut off",
            Status::Finished => "finished",
            Status::Stopped => "stopped",
            Status::Failed(_) => "failed",
        };
        // A run that has only just begun says nothing yet.
        let now = std::fs::read(run.root().join(STATUS)).ok().filter(|_| state == "running");
        let activity = now.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_else(|| logged(manifest));
        RunSnapshot { run: folder.to_owned(), state, tokens: TokenCounts::of([manifest]), activity }
    }
}

/// Where the time went according to the log, the busiest node first.
fn logged(manifest: &Manifest) -> Activity {
    let mut nodes: BTreeMap<&str, NodeActivity> = BTreeMap::new();
    let mut policy: Option<f64> = None;
    for (node, figures) in manifest.committed.iter().flat_map(|i| &i.metrics) {
        if let Some(busy) = figures.get("busy_seconds") {
            let sum = nodes.entry(node).or_insert_with(|| NodeActivity { node: node.clone(), ..NodeActivity::default() });
            sum.busy_seconds += busy;
            sum.rows += figures.get("rows_out").copied().unwrap_or(0.0) as u64;
        }
        if let Some(busy) = figures.get("policy_busy_seconds").filter(|_| node == "engine") {
            *policy.get_or_insert(0.0) += busy;
        }
    }
    let mut nodes: Vec<NodeActivity> = nodes.into_values().collect();
    nodes.sort_by(|a, b| b.busy_seconds.total_cmp(&a.busy_seconds));
    // An empty sum of floats is -0.
    let seconds: f64 = manifest.committed.iter().map(|i| i.seconds).sum::<f64>() + 0.0;
    let policy =
        policy.map(|busy| PolicyActivity { busy_seconds: busy, busy_share: busy / seconds.max(1e-9), ..PolicyActivity::default() });
    Activity { seconds, iterations: manifest.info.iterations, next: manifest.next(), nodes, policy, ..Activity::default() }
}

fn drawn(picture: &RunSnapshot) -> String {
    let RunSnapshot { run, state, activity, tokens } = picture;
    let running = *state == "running";
    let mut text = format!(
        "{run}: {state}, {} of {} iterations in {:.0} s",
        activity.next.min(activity.iterations),
        activity.iterations,
        activity.seconds
    );
    if let Some(oldest) = &activity.oldest {
        text += &format!("; the oldest held is {} by {}", oldest.iteration, oldest.node);
    }
    if activity.nodes.is_empty() {
        return text + "\n\nnothing is known of its nodes: it has only just begun\n";
    }
    let width = activity.nodes.iter().map(|n| n.node.chars().count()).max().unwrap_or(0).max("policy thread".len());
    text += &format!("\n\n{:<width$}  {:>10}  {:>9}  {:>6}{}\n", "node", "rows", "busy s", "share", if running { "  now" } else { "" });
    let share = |busy: f64| format!("{:.1}%", 100.0 * busy / activity.seconds.max(1e-9));
    for node in &activity.nodes {
        let now = if running { format!("  {}", now(node)) } else { String::new() };
        let rows = if node.engine { String::new() } else { node.rows.to_string() };
        text += &format!("{:<width$}  {rows:>10}  {:>9.2}  {:>6}{now}\n", node.node, node.busy_seconds, share(node.busy_seconds));
    }
    if let Some(policy) = &activity.policy {
        let now = match policy.running_seconds {
            Some(seconds) if running => format!("  works, {seconds:.1} s so far; {} more wait", policy.queue),
            None if running => "  idle".into(),
            _ => String::new(),
        };
        text += &format!("{:<width$}  {:>10}  {:>9.2}  {:>6}{now}\n", "policy thread", "", policy.busy_seconds, share(policy.busy_seconds));
    }
    tokens.line().iter().for_each(|line| text += &format!("\n{line}\n"));
    activity.warnings.iter().for_each(|warning| text += &format!("\nwarning: {warning}\n"));
    text
}

fn now(node: &NodeActivity) -> String {
    let iteration = node.iteration.unwrap_or_default();
    match node.state {
        NodeState::Running => format!("runs {iteration}, {:.1} s so far", node.running_seconds.unwrap_or_default()),
        NodeState::Waiting if node.waits_for.is_empty() => format!("has {iteration} ready"),
        NodeState::Waiting => match node.waits_for.as_slice() {
            [first, second, third, more @ ..] if !more.is_empty() => {
                format!("holds {iteration}, waits for {first}, {second}, {third} and {} more", more.len())
            }
            few => format!("holds {iteration}, waits for {}", few.join(", ")),
        },
        NodeState::Idle => "idle".into(),
    }
}
