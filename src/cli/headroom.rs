//! `flow check --headroom RUN`: how many tasks have something to learn from, as a run's first episodes say.

use super::error::{Error, Result};
use crate::ops;
use flow_log::sql::quoted;
use flow_log::Run;
use flow_pipeline::Node;
use serde_json::{json, Value};
use std::path::Path;

/// Of the first iteration with episodes, which the same weights played; a column each that [`of`] asks for.
const TASKS: &str = "first AS (SELECT * FROM turns WHERE iteration = (SELECT min(iteration) FROM turns)),
  episodes AS (SELECT iteration, task, sample, sum(reward) AS earned, bool_or(won) AS won FROM first GROUP BY ALL),
  tasks AS (SELECT any_value(iteration) AS iteration, count(*) AS n, count(DISTINCT earned) > 1 AS differ, bool_or(won) AS any_won,
    bool_and(won) AS all_won, sum(won::INT) AS wins, count(won) AS told FROM episodes GROUP BY task)";

/// The figures and how each follows from the tasks.
const FIGURES: [(&str, &str); 8] = [
    ("task_count", "count(*)"),
    ("iteration", "coalesce(min(iteration), -1)"),
    ("least", "coalesce(min(n), -1)"),
    ("most", "coalesce(max(n), -1)"),
    ("differ", "coalesce(avg(differ::DOUBLE), -1)"),
    ("won", "coalesce(sum(wins) / nullif(sum(told), 0), -1)"),
    ("any_won", "coalesce(avg(any_won::DOUBLE), -1)"),
    ("all_won", "coalesce(avg(all_won::DOUBLE), -1)"),
];

/// The figures of a run; those of wins are null where its environment tells none.
///
/// # Errors
/// If it is no run, or has no episodes.
pub fn of(folder: &Path) -> Result<Value> {
    let run = Run::open(folder)?;
    let pipeline = flow_pipeline::load(&run.pipeline(), &[], &ops::replayed(Default::default()))?;
    // A policy learns from its own episodes, not from an expert's.
    let played = pipeline.nodes.iter().filter(|node| pipeline.log.contains(&node.id) && node.all().any(ops::acts));
    let turns =
        |node: &Node| format!("SELECT iteration, task, sample, reward, won FROM {} WHERE phase = 'play' AND attempt = 0", quoted(&node.id));
    let turns = played.map(turns).collect::<Vec<_>>().join(" UNION ALL ");
    if turns.is_empty() {
        return Err(Error::Request(format!("{} has no logged node that plays with a model", folder.display())));
    }
    let questions = FIGURES.map(|(_, sql)| format!("WITH turns AS ({turns}), {TASKS} SELECT ({sql})::DOUBLE FROM tasks"));
    let answers = flow_log::numbers(&run, &questions.each_ref().map(String::as_str))?;
    let mut figures = json!({ "run": folder.display().to_string() });
    for ((name, _), answer) in FIGURES.into_iter().zip(answers) {
        figures[name] = Some(answer?).filter(|number| *number >= 0.0).map_or(Value::Null, |number| json!(number));
    }
    match figures["task_count"].as_f64().is_some_and(|tasks| tasks > 0.0) {
        true => Ok(figures),
        false => Err(Error::Request(format!("{} has no episode of training yet", folder.display()))),
    }
}

/// The same for people.
pub fn text(figures: &Value) -> String {
    let (number, share) =
        (|name: &str| figures[name].as_f64().unwrap_or(f64::NAN), |name: &str| 100.0 * figures[name].as_f64().unwrap_or(f64::NAN));
    let (least, most) = (number("least"), number("most"));
    let samples = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let mut out = format!(
        "headroom of {}, iteration {}: {} tasks, {samples} episodes each\n",
        figures["run"].as_str().unwrap_or_default(),
        number("iteration"),
        number("task_count")
    );
    if figures["won"].is_number() {
        out += &format!(
            "  {:.1}% of episodes win; of the tasks {:.1}% have a win among theirs, {:.1}% win all\n",
            share("won"),
            share("any_won"),
            share("all_won")
        );
    }
    out += &format!(
        "  {:.1}% of the tasks have episodes of different returns: a baseline of the task has a gradient in these alone\n",
        share("differ")
    );
    out += "  tasks without a win may win later, as weights are shared: papers/verdicts/headroom\n";
    out
}
