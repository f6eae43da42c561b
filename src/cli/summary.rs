//! The summary of a training run, and suggested next commands.

use super::decline::percent;
use super::output::{answer, OutputFormat};
use super::progress::TrainingSummary;
use flow_core::printable::shell_word;
use serde_json::json;
use std::path::Path;

/// What the suggested commands refer to.
pub struct NextCommands<'a> {
    pub run: &'a Path,
    /// The run that this one replays.
    pub replays: Option<String>,
    /// Why it ended before its last iteration.
    pub stopped: Option<String>,
    /// A logged node whose rows are turns of episodes.
    pub played: Option<String>,
    /// A setting by which a replay could judge the same rows in another way, if the log allows a replay.
    pub replay_hint: Option<String>,
}

/// The end of a training run, a resumed one or a replay.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct RunAnswer<'a> {
    run: String,
    /// The run that this one replays.
    replays: Option<&'a str>,
    /// Why it ended before its last iteration: the budget that is used up.
    stopped: Option<&'a str>,
    #[serde(flatten)]
    summary: &'a TrainingSummary,
}

impl NextCommands<'_> {
    /// Prints the summary and the next commands.
    pub fn print(self, format: OutputFormat, summary: &TrainingSummary) {
        answer(&match format {
            OutputFormat::Json => self.json(summary),
            OutputFormat::Text => self.text(summary),
        });
    }

    fn json(&self, summary: &TrainingSummary) -> String {
        let answer =
            RunAnswer { run: self.run.display().to_string(), replays: self.replays.as_deref(), stopped: self.stopped.as_deref(), summary };
        json!(answer).to_string()
    }

    fn text(&self, summary: &TrainingSummary) -> String {
        let mut text = format!("{} iterations in {:.0} s -> {}\n", summary.iterations, summary.seconds, self.run.display());
        if let (Some(before), Some(after)) = (summary.success_before, summary.success_after) {
            text += &format!("success on the frozen panel: {} before training, {} after\n", percent(before), percent(after));
        }
        if let (Some((first, last)), None) = (summary.training_success, summary.success_before) {
            text += &format!("success in training: {} in the first tenth, {} in the last\n", percent(first), percent(last));
            for (node, (first, last)) in &summary.success_by_node {
                text += &format!("  {node}: {} in the first tenth, {} in the last\n", percent(*first), percent(*last));
            }
        }
        if summary.failed > 0 {
            text += &format!("{} episodes failed and were left out\n", summary.failed);
        }
        if let Some(time) = &summary.time {
            text += &format!("{time}\n");
        }
        for warning in &summary.warnings {
            text += &format!("warning: {warning}\n");
        }
        text += "\nTry next:\n";
        let run = shell_word(&self.run.display().to_string());
        if let Some(other) = &self.replays {
            return text + &format!("  flow diff {} {run}\n", shell_word(other));
        }
        if summary.failed > 0 {
            text += &format!(
                "  flow query {run} \"select cause, count(*) as episodes, any_value(error) as error from errors group by cause\"\n"
            );
        }
        text += &format!("  flow view {run}\n");
        text +=
            &format!("  flow query {run} \"select node, iteration, value as success from metrics where name = 'success' order by all\"\n");
        if let Some(node) = &self.played {
            // The name of a node may be a word of SQL.
            let table = if node.contains('-') || node == "group" { format!("\\\"{node}\\\"") } else { node.clone() };
            text += &format!("  flow query {run} \"select task, sample, turn, action, reward from {table} limit 20\"\n");
        }
        if let Some(setting) = &self.replay_hint {
            text += &format!("  flow replay {run} --set {setting}\n");
        }
        text
    }
}
