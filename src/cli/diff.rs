//! `flow diff`: two runs side by side, row by row.

use super::output::{finish, CommandResult, OutputFormat};
use crate::ops;
use clap::Args;
use flow_core::columns::cut;
use flow_log::{CreditDiff, Diff, NodeDiff, RowCounts, Run, UsedDiff, WeightsDiff};
use flow_pipeline::{contents, differences, Difference, Role};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Args)]
pub struct DiffArgs {
    /// The folder of a run
    a: PathBuf,
    /// The folder of the run that is compared with it
    b: PathBuf,
    /// The node whose advantages are compared; the last one that has them in both runs unless given
    #[arg(long)]
    node: Option<String>,
    /// How many of the largest changes are shown, in each direction
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    top: u32,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// All that differs.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Comparison {
    #[serde(skip)]
    names: [String; 2],
    settings: Vec<Difference>,
    /// The differing settings that decide which tasks are played.
    #[serde(skip)]
    tasks: Vec<Difference>,
    weights: Vec<WeightsDiff>,
    #[serde(flatten)]
    rows: Diff,
}

/// The differences of two runs.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct DiffAnswer<'a> {
    a: &'a str,
    b: &'a str,
    /// Whether nothing differs that both runs have.
    equal: bool,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl DiffArgs {
    pub fn run(self) -> CommandResult {
        let (a, b) = (Run::open(&self.a)?, Run::open(&self.b)?);
        let pipelines = [contents(&a.pipeline())?, contents(&b.pipeline())?];
        let settings = differences(&pipelines[0], &pipelines[1]);
        let opens = |op| ops::role(op) == Some(Role::Opens);
        let makes_tasks = |path: &str| {
            let id = path.split('.').nth(1).unwrap_or_default();
            path == "seed" || path.starts_with("nodes.") && pipelines.iter().filter_map(|p| p["nodes"][id]["op"].as_str()).any(opens)
        };
        let comparison = Comparison {
            names: [self.a.display().to_string(), self.b.display().to_string()],
            tasks: settings.iter().filter(|d| makes_tasks(&d.path)).cloned().collect(),
            settings,
            weights: flow_log::weights(&a, &b)?,
            rows: flow_log::diff(&a, &b, self.node.as_deref(), self.top as usize)?,
        };
        let text = match self.format {
            OutputFormat::Json => serde_json::to_string_pretty(&comparison.answer())?,
            OutputFormat::Text if comparison.rows.rows.both == 0 => comparison.no_common_rows(),
            OutputFormat::Text if comparison.equal() => comparison.equal_text(),
            OutputFormat::Text => comparison.text(),
        };
        finish(&text)
    }
}

impl Comparison {
    /// Whether nothing that both runs have differs: rows, columns of the nodes that both logged, failed episodes, final
    /// weights.
    fn equal(&self) -> bool {
        let alike = |shared: &RowCounts| shared.only_a + shared.only_b == 0;
        let whole = |n: &NodeDiff| n.columns_only_a.is_empty() && n.columns_only_b.is_empty();
        let nodes = self.rows.nodes.iter().all(|n| alike(&n.rows) && n.differ.is_empty() && whole(n));
        let errors = self.rows.errors.as_ref().is_none_or(alike);
        self.rows.rows.both > 0 && alike(&self.rows.rows) && nodes && errors && self.weights.iter().all(|w| w.equal == Some(true))
    }

    fn answer(&self) -> DiffAnswer<'_> {
        let [a, b] = &self.names;
        DiffAnswer { a, b, equal: self.equal(), comparison: self }
    }

    fn equal_text(&self) -> String {
        let nodes: Vec<String> = self.rows.nodes.iter().map(|n| format!("`{}`", n.node)).collect();
        let weights = if self.weights.is_empty() { "" } else { ", and so are the final weights" };
        let [a, b] = &self.names;
        let mut text =
            format!("{a} and {b} are equal: {} rows, the same in every column of {}{weights}\n", self.rows.rows.both, nodes.join(", "));
        if !self.settings.is_empty() {
            text += &format!("\ntheir settings differ\n{}", setting_lines(&self.settings));
        }
        text
    }

    fn no_common_rows(&self) -> String {
        let ([a, b], rows) = (&self.names, &self.rows.rows);
        let mut text = format!("{a} and {b} have no row in common: {} and {} rows are logged\n", rows.only_a, rows.only_b);
        text += "rows are joined by iteration, task, sample, attempt, turn and phase; a task's name comes from its game and its seed\n\n";
        text += &match self.tasks.is_empty() {
            false => format!("check that both play the same tasks; these settings differ\n{}", setting_lines(&self.tasks)),
            true => {
                "check that both logged a rollout, and in the same iterations: `seed` and the settings of their tasks are the same\n".into()
            }
        };
        text
    }

    fn text(&self) -> String {
        let ([a, b], rows) = (&self.names, &self.rows.rows);
        let mut text = format!("a: {a}\nb: {b}\n\n");
        text += &match self.settings.is_empty() {
            true => "the settings are the same\n".to_string(),
            false => format!("settings that differ\n{}", setting_lines(&self.settings)),
        };
        self.weights.iter().for_each(|w| text += &weights(w));
        text += &format!("\nrows: {} in both, {} only in a, {} only in b\n", rows.both, rows.only_a, rows.only_b);
        if let Some(other) = self.rows.other_turns.filter(|n| *n > 0) {
            text +=
                &format!("{other} of those in both are other turns of the same name: another state was met or another response given\n");
        }
        for node in &self.rows.nodes {
            let counts: Vec<String> = node.differ.iter().map(|(column, n)| format!("{column} in {n}")).collect();
            let verdict = match counts.is_empty() {
                _ if node.rows.both == 0 => "no row in both".into(),
                true => "the same".into(),
                false => format!("differ: {}", counts.join(", ")),
            };
            text += &format!("  {:<18} {}\n", node.node, verdict);
            for (side, columns) in [("a", &node.columns_only_a), ("b", &node.columns_only_b)] {
                if !columns.is_empty() {
                    text += &format!("  {:<18} only {side} logged {}\n", "", columns.join(", "));
                }
            }
        }
        if let Some(RowCounts { both, only_a, only_b }) = self.rows.errors.as_ref().filter(|errors| errors.only_a + errors.only_b > 0) {
            text += &format!("failed episodes (table `errors`): {both} in both, {only_a} only in a, {only_b} only in b\n");
        }
        match &self.rows.credit {
            Some(credit_diff) => text += &credit(credit_diff),
            None => text += "\nno node has advantages in both\n",
        }
        self.rows.used.iter().for_each(|used_diff| text += &used(used_diff));
        text
    }
}

/// A value on one line.
fn short(value: &Option<Value>) -> String {
    let text = match value {
        None => return "(not given)".into(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    cut(&text, 60)
}

fn setting_lines(settings: &[Difference]) -> String {
    settings.iter().map(|d| format!("  {}: {} -> {}\n", d.path, short(&d.a), short(&d.b))).collect()
}

fn weights(diff: &WeightsDiff) -> String {
    let version = |v: Option<u64>| v.map_or("never trained".into(), |v| format!("version {v}"));
    let verdict = match diff.equal {
        Some(true) => "the same, bit for bit",
        Some(false) => "differ",
        None => "can't be compared",
    };
    format!("final weights of `{}`: {verdict} ({} and {})\n", diff.model, version(diff.a), version(diff.b))
}

fn both(a: &str, b: &str) -> String {
    if a == b {
        format!("`{a}`")
    } else {
        format!("`{a}` and `{b}`")
    }
}

fn credit(diff: &CreditDiff) -> String {
    let mut text = format!("\nadvantages of {}: ", both(&diff.node_a, &diff.node_b));
    if diff.moved == 0 {
        return text + &format!("the same in all {} rows\n", diff.rows);
    }
    text += &format!("{} of {} rows moved", diff.moved, diff.rows);
    if let (Some(mean), Some(most)) = (diff.mean_move, diff.max_move) {
        text += &format!(", by {mean:.4} on average and {most:.4} at most");
    }
    text += &format!("\nsign changed: {}, became 0: {}, no longer 0: {}", diff.turned, diff.to_zero, diff.from_zero);
    if let Some(correlation) = diff.correlation {
        text += &format!("; correlation {correlation:.4}");
    }
    text.push('\n');
    for (rows, way) in [(&diff.up, "up"), (&diff.down, "down")] {
        if !rows.is_empty() {
            text += &match diff.by_gradient {
                true => format!("\nmoved {way}: the rows that moved the policy most\n"),
                false => format!("\nmoved farthest {way}\n"),
            };
        }
        rows.iter().for_each(|row| text += &moved(row));
    }
    text
}

/// The row's name and action.
fn row_label(row: &Value) -> String {
    let part = |key: &str| row[key].as_str().map_or_else(|| row[key].to_string(), String::from);
    let mut text = format!("iteration {}, {}, sample {}", part("iteration"), part("task"), part("sample"));
    if row["attempt"] != 0 {
        text += &format!(", attempt {}", part("attempt"));
    }
    text += &format!(", turn {}", part("turn"));
    let (action, response) = (row["action"].as_str(), row["response"].as_str());
    text += &action.map_or(String::new(), |action| format!(": {}", if action.is_empty() { "no action" } else { action }));
    text + &response
        .filter(|response| Some(*response) != action)
        .map_or(String::new(), |response| format!(", said {:?}", cut(response, 60)))
}

fn moved(row: &Value) -> String {
    let figure = |key: &str| row[key].as_f64().map_or("(not logged)".into(), |x| format!("{x:.4}"));
    let pair = |key: &str| format!("{} -> {}", figure(&format!("{key}_a")), figure(&format!("{key}_b")));
    let more: Vec<String> = [("return", "return"), ("baseline", "baseline"), ("logit_grad", "gradient")]
        .iter()
        .filter(|(key, _)| row[format!("{key}_a")].is_number() || row[format!("{key}_b")].is_number())
        .map(|(key, name)| format!("{name} {}", pair(key)))
        .collect();
    let indent = if more.is_empty() { String::new() } else { format!("    {}\n", more.join(", ")) };
    format!("  {}  {}\n{indent}", pair("advantage"), row_label(row))
}

fn used(diff: &UsedDiff) -> String {
    if diff.changed == 0 {
        return String::new();
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let mut output = format!("\nused by {}: changed in {} rows\n", both(&diff.node_a, &diff.node_b), diff.changed);
    diff.kinds.iter().for_each(|k| output += &format!("  {} -> {}: {} rows\n", text(&k["a"]), text(&k["b"]), k["rows"]));
    diff.rows.iter().for_each(|row| output += &format!("    {} -> {}  {}\n", text(&row["used_a"]), text(&row["used_b"]), row_label(row)));
    output
}
