//! `flow show`: one trajectory in full.

use super::decline::percent;
use super::episode::{plain, rows, EpisodePrinter, JsonRow};
use super::error::{Error, Result};
use super::output::{printed, CommandResult, OutputFormat};
use super::progress::successes_by_node;
use super::prompts;
use clap::Args;
use flow_log::sql::{literal, quoted};
use flow_log::Manifest;
use flow_pipeline::Role;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Args)]
pub struct ShowArgs {
    /// The run's folder
    run: PathBuf,
    /// Any part of the task's name that no other task has
    #[arg(long)]
    task: Option<String>,
    /// Which of the task's trajectories
    #[arg(long)]
    sample: Option<u32>,
    /// The newest iteration that has such a trajectory unless given
    #[arg(long)]
    iteration: Option<u64>,
    /// All attempts of the trajectory unless given
    #[arg(long)]
    attempt: Option<u32>,
    /// The trajectory with the highest score
    #[arg(long, conflicts_with = "worst")]
    best: bool,
    /// The trajectory with the lowest score
    #[arg(long)]
    worst: bool,
    /// The trajectory with the row of the largest gradient (`logit_grad`)
    #[arg(long, conflicts_with_all = ["best", "worst"])]
    moved: bool,
    /// Rows of this node alone, such as those of an evaluation; all nodes of the training joined unless given
    #[arg(long)]
    node: Option<String>,
    /// All columns: also usual values, such as `mode plain`, and hashes that identify groups, such as `state` and `group`
    #[arg(long)]
    all: bool,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// A trajectory.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct ShowAnswer {
    run: String,
    iteration: Option<u64>,
    task: Option<String>,
    sample: Option<u64>,
    /// Success in its iteration by node, where several play, as in several environments.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    success: BTreeMap<String, f64>,
    /// Its rows with all columns, which `flow ops --columns` explains.
    turns: Vec<JsonRow>,
}

/// A trajectory, and what there is besides.
struct Found {
    turns: Vec<JsonRow>,
    /// How many trajectories it was chosen from.
    others: usize,
    /// Samples of its task that have rows, and that have none since they failed.
    compared: usize,
    failed: usize,
}

/// How many names an error lists.
const NAMES: usize = 5;

impl ShowArgs {
    pub fn run(self) -> CommandResult {
        let run = flow_log::Run::open(&self.run)?;
        let Manifest { info, committed, .. } = run.manifest()?;
        let panels: Vec<String> = info.nodes.iter().filter(|n| n.role == Some(Role::Measures)).map(|n| n.id.clone()).collect();
        let nodes: Vec<String> = info.nodes.into_iter().map(|n| n.id).collect();
        let Found { mut turns, others, compared, failed } = self.find(&run)?;
        remembered(&run, &mut turns)?;
        let number = turns.first().and_then(|t| t.get("iteration")?.as_u64());
        let figures = committed.into_iter().find(|one| Some(one.iteration) == number).map(|one| one.metrics).unwrap_or_default();
        let success: BTreeMap<String, f64> = successes_by_node(&figures, &panels).map(|(node, value)| (node.clone(), value)).collect();
        let success = if success.len() > 1 { success } else { BTreeMap::new() };
        if self.format == OutputFormat::Json {
            let first = |name: &str| turns.first().and_then(|t| t.get(name)).cloned().unwrap_or_default();
            let (iteration, sample) = (number, first("sample").as_u64());
            let task = first("task").as_str().map(String::from);
            let answer = json!(ShowAnswer { run: self.run.display().to_string(), iteration, task, sample, success, turns });
            return printed(|out| Ok(writeln!(out, "{answer}")?));
        }
        prompts::read(&run, &mut turns);
        let iteration = turns.first().and_then(|t| t.get("iteration")).cloned().unwrap_or_default();
        let mut printer = EpisodePrinter::new(nodes).all(self.all);
        printed(|out| {
            turns.into_iter().try_for_each(|turn| out.write_all(printer.render(turn).as_bytes()))?;
            if failed > 0 {
                let wanted = compared + failed;
                writeln!(out, "\n{compared} of {wanted} samples of the task are compared: {failed} failed (table `errors`)")?;
            }
            if !info.promise.is_empty() {
                writeln!(out, "\n{}", info.promise)?;
            }
            for (model, act) in &info.acting {
                writeln!(out, "`{model}` acts as `act: {act}` says")?;
            }
            if !success.is_empty() {
                let each: Vec<String> = success.iter().map(|(node, value)| format!("{node} {}", percent(*value))).collect();
                writeln!(out, "\nsuccess in iteration {iteration}: {}", each.join(", "))?;
            }
            if others > 1 {
                writeln!(
                    out,
                    "\none of {others} trajectories of iteration {iteration}: --task, --sample, --iteration, --best, --worst and --moved choose"
                )?;
            }
            Ok(())
        })
    }

    /// The trajectory asked for.
    fn find(&self, run: &flow_log::Run) -> Result<Found> {
        let [table, score, gradient, acted] = self.table(run)?;
        let query = |sql: &str| flow_log::query(run, sql).map_err(Error::from).and_then(|a| rows(&a));
        let task = match &self.task {
            Some(part) => Some(self.task(&table, part, query)?),
            None => None,
        };
        let mut condition = task.as_ref().map_or("true".into(), |t| format!("task = {}", literal(t)));
        let iteration = match self.iteration {
            Some(iteration) => iteration,
            None => {
                let newest = query(&format!("SELECT max(iteration) AS iteration FROM {table} WHERE {condition}"))?;
                newest
                    .first()
                    .and_then(|r| r["iteration"].as_u64())
                    .ok_or_else(|| Error::request("nothing is committed yet: look again once an iteration is"))?
            }
        };
        // From here on one iteration is all that is read.
        let query = |sql: &str| flow_log::query_within(run, iteration..=iteration, sql).map_err(Error::from).and_then(|a| rows(&a));
        // An expert's episode is no measure of the policy.
        let order = match (self.best, self.worst, self.moved) {
            (true, ..) => "acted DESC, score DESC NULLS LAST, ",
            (_, true, _) => "acted DESC, score ASC NULLS LAST, ",
            (.., true) => "gradient DESC NULLS LAST, ",
            _ => "",
        };
        let trajectories = query(&format!(
            "SELECT task, sample, last({score} ORDER BY attempt, turn, phase) AS score, bool_or({acted}) AS acted, max({gradient}) AS gradient FROM {table} WHERE {condition} GROUP BY task, sample ORDER BY {order}task, sample"
        ))?;
        if trajectories.is_empty() {
            let there = self.iterations(&table, run)?;
            return Err(Error::Request(format!("iteration {iteration} has no trajectories{there}")));
        }
        if self.moved && trajectories.iter().all(|trajectory| trajectory["gradient"].is_null()) {
            return Err(Error::Request(format!(
                "no gradient of a row is known in iteration {iteration}: a trainer that has log-probabilities alone doesn't tell them"
            )));
        }
        let chosen = trajectories.iter().find(|t| self.sample.is_none_or(|s| t["sample"] == s)).ok_or_else(|| {
            let mut samples: Vec<u64> = trajectories.iter().filter_map(|t| t["sample"].as_u64()).collect();
            samples.sort();
            samples.dedup();
            let there = listed(samples.iter().map(u64::to_string));
            Error::Request(format!("there is no such sample in iteration {iteration}; there are {there}"))
        })?;
        condition = format!("task = {} AND sample = {}", literal(chosen["task"].as_str().unwrap_or_default()), chosen["sample"]);
        if let Some(attempt) = self.attempt {
            condition += &format!(" AND attempt = {attempt}");
        }
        let turns = query(&format!("SELECT * FROM {table} WHERE {condition} ORDER BY attempt, turn, phase"))?;
        if turns.is_empty() {
            return Err(Error::request("the trajectory has no such attempt: leave --attempt out to see all"));
        }
        let compared = trajectories.iter().filter(|other| other["task"] == chosen["task"]).count();
        let task = literal(chosen["task"].as_str().unwrap_or_default());
        let failed = query(&format!(
            "SELECT count(DISTINCT sample) AS n FROM errors WHERE task = {task} AND sample NOT IN (SELECT sample FROM {table} WHERE task = {task})"
        ))?;
        let failed = failed.first().and_then(|row| row["n"].as_u64()).unwrap_or(0) as usize;
        Ok(Found { turns, others: trajectories.len(), compared, failed })
    }

    /// The table to read, how a row's score and its gradient are found, and the condition that the policy drew a row's
    /// response itself: it has log-probabilities that aren't all 0.
    fn table(&self, run: &flow_log::Run) -> Result<[String; 4]> {
        let tables = flow_log::tables(run)?;
        let name = self.node.as_deref().unwrap_or("trajectories");
        let episodes =
            |t: &&flow_log::Table| ["task", "sample", "attempt", "turn"].iter().all(|c| t.columns.iter().any(|(name, _)| name == c));
        let Some(table) = tables.iter().filter(episodes).find(|t| t.name == name) else {
            let there: Vec<String> = tables.iter().filter(episodes).map(|t| t.name.clone()).collect();
            let help = match there.is_empty() {
                true => "this run logged no turns: name its rollout in `log`".into(),
                false => format!("--node can be {}", listed(there.into_iter())),
            };
            return Err(Error::Request(format!("there are no trajectories in `{name}`; {help}")));
        };
        // Where several nodes logged a column, all but one call it `node_column`.
        let named = |column: &str| {
            let behind = format!("_{column}");
            let all = table.columns.iter().map(|(name, _)| name).filter(|name| *name == column || name.ends_with(&behind));
            all.map(|name| quoted(name)).collect::<Vec<_>>()
        };
        let (scores, gradients) = (named("score"), named("logit_grad"));
        for (there, wanted, what) in [(&scores, self.best || self.worst, "score"), (&gradients, self.moved, "`logit_grad`")] {
            if there.is_empty() && wanted {
                return Err(Error::Request(format!("`{name}` has no {what} to choose by")));
            }
        }
        let any = |columns: &[String], how: &str| if columns.is_empty() { "NULL".into() } else { format!("{how}({})", columns.join(", ")) };
        let drawn: Vec<String> = named("logprobs").iter().map(|c| format!("coalesce(list_min({c}) < 0, false)")).collect();
        let acted = if drawn.is_empty() { "true".into() } else { drawn.join(" OR ") };
        Ok([quoted(name), any(&scores, "coalesce"), any(&gradients, "greatest"), acted])
    }

    /// The task whose name is `part`, or the only one that has it in its name.
    fn task(&self, table: &str, part: &str, query: impl Fn(&str) -> Result<Vec<JsonRow>>) -> Result<String> {
        let within = self.iteration.map_or("true".into(), |i| format!("iteration = {i}"));
        let names = |condition: &str| {
            let rows = query(&format!(
                "SELECT task FROM {table} WHERE {within} AND {condition} GROUP BY task ORDER BY max(iteration) DESC, task"
            ))?;
            Ok::<_, Error>(rows.iter().filter_map(|r| r["task"].as_str().map(String::from)).collect::<Vec<_>>())
        };
        let mut tasks = names(&format!("contains(task, {})", literal(part)))?;
        if let Some(exact) = tasks.iter().position(|t| t == part) {
            return Ok(tasks.swap_remove(exact));
        }
        let place = self.iteration.map_or("this run".into(), |i| format!("iteration {i}"));
        match tasks.as_slice() {
            [only] => Ok(only.clone()),
            [] => {
                let all = names("true")?;
                let there = if all.is_empty() { " none".into() } else { lines(all) };
                Err(Error::Request(format!(
                    "no task of {place} has `{part}` in its name; there are:{there}\nany part of a name that no other has will do"
                )))
            }
            many => {
                let all = lines(many.to_vec());
                let count = many.len();
                Err(Error::Request(format!(
                    "{count} tasks of {place} have `{part}` in their names:{all}\ngive a part that only one of them has"
                )))
            }
        }
    }

    /// What to say about the iterations that do have trajectories.
    fn iterations(&self, table: &str, run: &flow_log::Run) -> Result<String> {
        let answer = flow_log::query(run, &format!("SELECT DISTINCT iteration FROM {table} ORDER BY iteration"))?;
        let all: Vec<u64> = rows(&answer)?.iter().filter_map(|r| r["iteration"].as_u64()).collect();
        Ok(match all.as_slice() {
            [] => ": none has any yet".into(),
            [only] => format!("; iteration {only} has"),
            [first, .., last] if last - first + 1 == all.len() as u64 => format!("; iterations {first} to {last} have"),
            many => format!("; iterations {} have", listed(many.iter().map(u64::to_string))),
        })
    }
}

/// Puts in words, as `told`, which entries of a memory a turn was given, whose they are and what the episodes earned
/// that they came from.
fn remembered(run: &flow_log::Run, turns: &mut [JsonRow]) -> Result<()> {
    let manifest = run.manifest()?;
    let memories: Vec<&str> = manifest.info.nodes.iter().filter(|n| n.role == Some(Role::Remembers)).map(|n| n.id.as_str()).collect();
    let retrieved = |turn: &JsonRow| {
        turn.iter().find(|(name, _)| *name == "retrieved" || name.ends_with("_retrieved")).and_then(|(_, ids)| ids.as_array().cloned())
    };
    let all: BTreeSet<u64> = turns.iter().filter_map(retrieved).flatten().filter_map(|id| id.as_u64()).collect();
    if memories.is_empty() || all.is_empty() {
        return Ok(());
    }
    let ids = all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let entries = memories.iter().map(|memory| {
        format!("SELECT id, source, sample, attempt, score, text FROM {} WHERE change > 0 AND id IN ({ids})", quoted(memory))
    });
    let entries = rows(&flow_log::query(run, &entries.collect::<Vec<_>>().join(" UNION ALL "))?)?;
    let by_id: BTreeMap<u64, String> = entries
        .iter()
        .filter_map(|entry| {
            let value_of = |column: &str| plain(&entry[column]);
            let attempt = if entry["attempt"] == 0 { String::new() } else { format!(", attempt {}", value_of("attempt")) };
            let origin = format!(
                "from iteration {}, sample {}{attempt}, which came to {}",
                value_of("source"),
                value_of("sample"),
                value_of("score")
            );
            Some((entry["id"].as_u64()?, format!("{} ({origin})", value_of("text"))))
        })
        .collect();
    for turn in turns {
        let ids: Vec<u64> = retrieved(turn).unwrap_or_default().iter().filter_map(|id| id.as_u64()).collect();
        let lines: Vec<&str> = ids.iter().filter_map(|id| by_id.get(id).map(String::as_str)).collect();
        if !lines.is_empty() {
            turn.insert("told".into(), lines.join("\n").into());
        }
    }
    Ok(())
}

/// The first few, and how many more there are.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMES);
    let shown = names.take(NAMES).collect::<Vec<_>>().join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}

/// The first few, one a line.
fn lines(names: Vec<String>) -> String {
    format!("\n  {}", listed(names.into_iter()).replace(", ", "\n  ").replace(" and ", "\n  and "))
}
