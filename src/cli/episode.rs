//! Rows as a person reads them: turn by turn the observation, response, action and reward, and the credit.

use super::error::Result;
use flow_core::printable::shortened;
use flow_core::row::NAME;
use flow_log::QueryResult;
use serde_json::{Map, Value};

/// One row: its columns in the table's order.
pub type JsonRow = Map<String, Value>;

/// A key that `flow show` adds to a turn's row: the prompt as text, with retrieved entries in marks.
pub const PROMPT: &str = "prompt";

/// Columns that each playing node logs: where several nodes play the same task, only the last one's are printed.
const ONCE: [&str; 16] = [
    "observation",
    "state",
    "response",
    "response_cut",
    "temperature",
    "action",
    "valid",
    "done",
    "won",
    "mode",
    "weights",
    "seed",
    "call",
    "parent",
    "fork",
    "left_out",
];

/// Columns of a turn with the value that nearly every turn has, which is not printed.
const USUAL: [(&str, &str); 5] = [("response_cut", "false"), ("mode", "plain"), ("call", "0"), ("parent", "0"), ("left_out", "0")];

/// Columns of hashes: which rows have the same is for SQL to say.
const HASHES: [&str; 4] = ["state", "group", "cluster", "like"];

/// The rows of an answer.
pub fn rows(answer: &QueryResult) -> Result<Vec<JsonRow>> {
    let mut json = Vec::new();
    flow_log::print(answer, flow_log::AnswerFormat::Json, &mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Prints rows one by one, with a heading where another episode begins.
pub struct EpisodePrinter {
    /// The logged nodes: where several logged a column, all but one call it `node_column`.
    nodes: Vec<String>,
    heading: Option<String>,
    /// Whether hashes and usual values are printed, too.
    all: bool,
}

impl EpisodePrinter {
    pub fn new(nodes: Vec<String>) -> Self {
        EpisodePrinter { nodes, heading: None, all: false }
    }

    /// Prints all columns: also usual values, and hashes, which come last and in hex.
    pub fn all(self, all: bool) -> Self {
        EpisodePrinter { all, ..self }
    }

    pub fn render(&mut self, mut row: JsonRow) -> String {
        let heading = heading(&row);
        let mut text = String::new();
        if !heading.is_empty() && self.heading.as_ref() != Some(&heading) {
            text = format!("{}{heading}\n", if self.heading.is_some() { "\n" } else { "" });
            self.heading = Some(heading);
        }
        let mut turn = row.get("turn").map(|turn| format!("turn {turn}")).unwrap_or_default();
        if let Some(phase) = row.get("phase").and_then(Value::as_str).filter(|phase| *phase != "play") {
            turn += &format!(" ({phase})");
        }
        let likelihood = self.likelihood(&row);
        let (sections, advantages) = (self.take_sections(&mut row), self.take_advantages(&mut row));
        let twice = |name: &str| self.nodes.iter().filter_map(|n| name.strip_prefix(n)?.strip_prefix('_')).any(|c| ONCE.contains(&c));
        row.retain(|name, value| {
            let empty = value.as_str().is_some_and(str::is_empty);
            let usual = !self.all && USUAL.contains(&(name.as_str(), plain(value).as_str()));
            let hidden = usual || NAME.contains(&name.as_str()) || ["seed", "temperature"].contains(&name.as_str()) || twice(name);
            !hidden && !empty && !value.is_array() && !value.is_null()
        });
        let hash = |(name, value): (&String, &Value)| Some(format!("{name} 0x{:016x}", value.as_u64().filter(|_| self.is_hash(name))?));
        let hashes: Vec<String> = row.iter().filter(|_| self.all).filter_map(hash).collect();
        row.retain(|name, _| !self.is_hash(name));
        let columns = row.iter().map(|(name, value)| format!("{name} {}", shortened(&plain(value), LONGEST)));
        let rest: Vec<String> = likelihood.into_iter().chain(columns).chain(hashes).collect();
        if sections.is_empty() {
            let figures = [advantages, rest].concat().join(", ");
            let parts: Vec<String> = [turn, figures].into_iter().filter(|part| !part.is_empty()).collect();
            return if parts.is_empty() { text } else { format!("{text}{}\n", parts.join("  ")) };
        }
        text += &format!("\n{turn}\n");
        sections.iter().for_each(|(label, value)| text += &labelled(label, value));
        for (label, lines) in [("credit", advantages.join("\n")), ("logged", wrapped(&rest))] {
            if !lines.is_empty() {
                text += &labelled(label, &lines);
            }
        }
        text
    }

    /// The observation, response, action and reward, taken out of the row.
    fn take_sections(&self, row: &mut JsonRow) -> Vec<(&'static str, String)> {
        let mut sections = Vec::new();
        let (observation, prompt) = (self.take(row, "observation"), self.take(row, PROMPT));
        // The observation isn't repeated if the prompt contains it.
        let within = |observation: &String| prompt.as_ref().is_some_and(|prompt| prompt.contains(observation.as_str()));
        sections.extend(observation.filter(|observation| !within(observation)).map(|observation| ("seen", observation)));
        sections.extend(prompt.clone().map(|prompt| ("read", prompt)));
        sections.extend(self.take(row, "told").map(|tips| ("told", tips)));
        sections.extend(self.take(row, "response").map(|response| ("said", response)));
        if let Some(action) = self.take(row, "action") {
            let valid = self.take(row, "valid").is_none_or(|valid| valid == "true");
            sections.extend(
                (!action.is_empty() || !valid)
                    .then(|| ("done", if valid { action } else { format!("{action} (not valid)").trim_start().to_owned() })),
            );
        }
        // Of a row that has none of these the rest is a line of figures.
        if !sections.is_empty() {
            let mut earned: Vec<String> = self.take(row, "reward").into_iter().collect();
            earned.extend(self.take(row, "score").map(|score| format!("score {score}")));
            earned.extend(self.take(row, "done").filter(|done| done == "true").map(|_| "the episode is over".into()));
            earned.extend(self.take(row, "won").filter(|won| won == "true").map(|_| "won".into()));
            sections.extend((!earned.is_empty()).then(|| ("earned", earned.join(", "))));
        }
        sections.retain(|(_, text)| !text.is_empty());
        sections
    }

    /// A row's advantages with their arithmetic, taken out of the row.
    fn take_advantages(&self, row: &mut JsonRow) -> Vec<String> {
        let mut advantages = Vec::new();
        for prefix in self.prefixes() {
            let number = |column: &str| row.get(&format!("{prefix}{column}")).and_then(Value::as_f64);
            let Some(advantage) = number("advantage") else { continue };
            let mut text = format!("{prefix}advantage {}{}", if advantage < 0.0 { "" } else { "+" }, plain(&advantage.into()));
            let mut read = vec!["advantage"];
            if let (Some(value), Some(baseline), Some(scale)) = (number("return"), number("baseline"), number("scale")) {
                // Columns of another node than the advantage's own come to something else.
                if ((value - baseline) / scale - advantage).abs() <= 1e-3 * (1.0 + advantage.abs()) {
                    let [value, baseline, scale] = [value, baseline, scale].map(|number| plain(&number.into()));
                    text += &format!(" = (return {value} - baseline {baseline}) / {scale}");
                    read.extend(["return", "baseline", "scale"]);
                }
            }
            if let Some(size) = number("group_size") {
                text += &format!(", group of {size} row{}", if size == 1.0 { "" } else { "s" });
                read.push("group_size");
            }
            read.iter().for_each(|column| drop(row.shift_remove(&format!("{prefix}{column}"))));
            advantages.push(text);
        }
        advantages
    }

    /// The probability of the response, among the allowed answers if decoding was constrained.
    fn likelihood(&self, row: &JsonRow) -> Option<String> {
        let list = |column: &str| self.prefixes().find_map(|prefix| row.get(&format!("{prefix}{column}"))?.as_array());
        let logprob: f64 = list("logprobs")?.iter().filter_map(Value::as_f64).sum();
        // Each choice is closed by the end token, the last of all.
        let choices = list("choices")
            .and_then(|tokens| Some(tokens.iter().filter(|token| *token == tokens.last().unwrap_or(token)).count()).filter(|n| *n > 0));
        let of = choices.map_or(String::new(), |choices| format!(" of {choices}"));
        // An expert draws nothing: its tokens have 0.
        (logprob < 0.0).then(|| format!("p {}{of}", plain(&logprob.exp().into())))
    }

    /// What may stand before a column's name: nothing, or the node that logged it.
    fn prefixes(&self) -> impl Iterator<Item = String> + '_ {
        std::iter::once(String::new()).chain(self.nodes.iter().map(|node| format!("{node}_")))
    }

    /// Whether a column holds hashes, which say nothing to a reader.
    fn is_hash(&self, name: &str) -> bool {
        let own = |name: &str| HASHES.contains(&name);
        own(name) || self.nodes.iter().filter_map(|node| name.strip_prefix(node)?.strip_prefix('_')).any(own)
    }

    /// The value of a column, wherever it was logged.
    fn take(&self, row: &mut JsonRow, column: &str) -> Option<String> {
        let name = std::iter::once(column.to_owned()).chain(self.nodes.iter().map(|node| format!("{node}_{column}")));
        let value = name.filter_map(|name| row.get(&name).filter(|v| !v.is_null()).cloned().map(|v| (name, v))).next();
        value.map(|(name, value)| {
            row.insert(name, Value::Null);
            plain(&value)
        })
    }
}

/// The episode of a row: the row's name without the turn.
fn heading(row: &JsonRow) -> String {
    let part = |name: &&str| row.get(*name).map(|value| if *name == "task" { plain(value) } else { format!("{name} {}", plain(value)) });
    ["iteration", "task", "sample", "attempt"].iter().filter_map(part).collect::<Vec<_>>().join(", ")
}

/// A value as one writes it by hand: no quotes, and no more digits than anyone reads.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let x = number.as_f64().unwrap_or(f64::NAN);
            if x != 0.0 && x.abs() < 1e-3 {
                return format!("{x:.2e}");
            }
            let text = format!("{x:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        other => other.to_string(),
    }
}

/// A longer text is cut at a terminal; `--format json` has it whole.
const LONGEST: usize = 4000;

fn labelled(label: &str, value: &str) -> String {
    let value = &shortened(value, LONGEST);
    let lines =
        value.lines().enumerate().map(|(i, line)| format!("  {:<7} {line}", if i == 0 { label } else { "" }).trim_end().to_owned() + "\n");
    lines.collect()
}

/// Items on lines of at most 100 characters.
fn wrapped(items: &[String]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for item in items {
        if width > 0 {
            let fits = width + item.chars().count() + 2 <= 100;
            text += if fits { ", " } else { ",\n" };
            width = if fits { width + 2 } else { 0 };
        }
        text += item;
        width += item.chars().count();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(value: Value) -> JsonRow {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_turn_reads_as_seen_said_done_earned() {
        let mut printer = EpisodePrinter::new(vec!["rollout".into()]);
        let turn = json!({
            "iteration": 2, "task": "room", "sample": 1, "attempt": 0, "turn": 0, "phase": "play", "observation": "# #\n#P#", "state": 18446744073709551615u64,
            "prompt_tokens": [1, 2], "response": "<action>fly</action>", "action": "fly", "valid": false, "reward": -0.1f32 as f64, "rollout_reward": 0.5,
            "done": true, "won": false, "score": -0.25, "advantage": -0.8660254, "used": "yes", "ratio": null,
        });
        let text = printer.render(row(turn.clone()));
        let expected = "iteration 2, room, sample 1, attempt 0\n\nturn 0\n  seen    # #\n          #P#\n  said    <action>fly</action>\n  done    fly (not valid)\n  earned  -0.1, score -0.25, the episode is over\n  \
            credit  advantage -0.866\n  logged  rollout_reward 0.5, used yes\n";
        assert_eq!(text, expected);
        let all = EpisodePrinter::new(vec![]).all(true).render(row(turn.clone()));
        assert!(all.ends_with("used yes, state 0xffffffffffffffff\n"), "{all}");
        assert!(printer.render(row(turn)).starts_with("\nturn 0\n"), "the heading is not repeated");
    }

    #[test]
    fn an_advantage_is_told_with_its_arithmetic() {
        let mut printer = EpisodePrinter::new(vec!["step".into(), "sum".into()]);
        let turn = json!({
            "turn": 0, "observation": "a", "mode": "plain", "group": 7, "return": -0.06, "baseline": -0.17, "scale": 0.22, "advantage": 0.5, "group_size": 20,
            "logprobs": [-0.5, -0.234], "choices": [5, 1, 6, 1, 7, 8, 1], "used": "yes",
        });
        let expected = "\nturn 0\n  seen    a\n  credit  advantage +0.5 = (return -0.06 - baseline -0.17) / 0.22, group of 20 rows\n  logged  p 0.48 of 3, used yes\n";
        assert_eq!(printer.render(row(turn)), expected);
        let sum = json!({ "turn": 0, "observation": "a", "return": 1, "baseline": 0, "scale": 1, "step_advantage": 1, "advantage": 3, "logprobs": [0, 0] });
        let expected =
            "\nturn 0\n  seen    a\n  credit  advantage +3\n          step_advantage +1\n  logged  return 1, baseline 0, scale 1\n";
        assert_eq!(printer.render(row(sum)), expected, "a sum of two is told without the arithmetic of one");
    }

    #[test]
    fn rows_that_only_one_of_several_players_logged_are_told_too() {
        let mut printer = EpisodePrinter::new(vec!["demos".into(), "rollout".into()]);
        let text = printer
            .render(row(json!({ "turn": 3, "observation": null, "demos_observation": "a board", "demos_score": 1e-5, "used": "yes" })));
        assert_eq!(text, "\nturn 3\n  seen    a board\n  earned  score 1.00e-5\n  logged  used yes\n");
    }

    #[test]
    fn a_row_that_two_players_share_is_told_once() {
        let mut printer = EpisodePrinter::new(vec!["demos".into(), "rollout".into()]);
        let shared = json!({ "turn": 0, "observation": "mine", "demos_observation": "its", "demos_seed": 1, "seed": 2, "demos_score": 1, "score": 3, "weights": 4 });
        assert_eq!(printer.render(row(shared)), "\nturn 0\n  seen    mine\n  earned  score 3\n  logged  demos_score 1, weights 4\n");
    }

    #[test]
    fn rows_without_a_board_take_a_line_each() {
        let mut printer = EpisodePrinter::new(vec![]);
        assert_eq!(
            printer.render(row(json!({ "iteration": 0, "task": "a", "turn": 1, "reward": 2, "used": "yes" }))),
            "iteration 0, a\nturn 1  reward 2, used yes\n"
        );
        assert_eq!(printer.render(row(json!({ "iteration": 0, "task": "b" }))), "\niteration 0, b\n");
        assert_eq!(printer.render(row(json!({ "name": "loss", "value": 0.5 }))), "name loss, value 0.5\n");
    }
}
