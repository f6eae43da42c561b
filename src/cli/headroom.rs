//! `flow check --headroom RUN`: how many tasks have something to learn from, as a run's first episodes say.

use super::error::{Error, Result};
use crate::ops;
use flow_log::sql::quoted;
use flow_log::Run;
use flow_pipeline::Node;
use std::path::Path;

/// Of the first iteration with episodes, which the same weights played; a column each that [`of`] asks for.
const TASKS: &str = "first AS (SELECT * FROM turns WHERE iteration = (SELECT min(iteration) FROM turns)),
  episodes AS (SELECT iteration, task, sample, sum(reward) AS earned, bool_or(won) AS won FROM first GROUP BY ALL),
  tasks AS (SELECT any_value(iteration) AS iteration, count(*) AS n, count(DISTINCT earned) > 1 AS differ, bool_or(won) AS any_won,
    bool_and(won) AS all_won, sum(won::INT) AS wins, count(won) AS told FROM episodes GROUP BY task)";

/// The figures of the tasks, each as a question.
const FIGURES: [&str; 8] = [
    "count(*)",
    "coalesce(min(iteration), -1)",
    "coalesce(min(n), -1)",
    "coalesce(max(n), -1)",
    "coalesce(avg(differ::DOUBLE), -1)",
    "coalesce(sum(wins) / nullif(sum(told), 0), -1)",
    "coalesce(avg(any_won::DOUBLE), -1)",
    "coalesce(avg(all_won::DOUBLE), -1)",
];

/// The figures of a run's first iteration with episodes, in the order of [`FIGURES`]. Those of wins are null where the
/// environment doesn't know them.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Headroom {
    run: String,
    task_count: Option<f64>,
    iteration: Option<f64>,
    /// The smallest number of episodes of a task.
    least: Option<f64>,
    most: Option<f64>,
    /// The share of tasks with episodes of different returns.
    differ: Option<f64>,
    /// The share of episodes that win.
    won: Option<f64>,
    /// The share of tasks with a win.
    any_won: Option<f64>,
    /// The share of tasks with wins alone.
    all_won: Option<f64>,
}

/// The figures of a run; those of wins are null where its environment tells none.
///
/// # Errors
/// If it is no run, or has no episodes.
pub fn of(folder: &Path) -> Result<Headroom> {
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
    let questions = FIGURES.map(|sql| format!("WITH turns AS ({turns}), {TASKS} SELECT ({sql})::DOUBLE FROM tasks"));
    let answers = flow_log::numbers(&run, &questions.each_ref().map(String::as_str))?;
    let answers = answers.into_iter().map(|answer| Ok(Some(answer?).filter(|number| *number >= 0.0))).collect::<Result<Vec<_>>>()?;
    match answers[..] {
        [task_count @ Some(1.0..), iteration, least, most, differ, won, any_won, all_won] => {
            let run = folder.display().to_string();
            Ok(Headroom { run, task_count, iteration, least, most, differ, won, any_won, all_won })
        }
        _ => Err(Error::Request(format!("{} has no episode of training yet", folder.display()))),
    }
}

/// The same for people.
pub fn text(figures: &Headroom) -> String {
    let number = |figure: Option<f64>| figure.unwrap_or(f64::NAN);
    let share = |figure: Option<f64>| 100.0 * number(figure);
    let (least, most) = (number(figures.least), number(figures.most));
    let samples = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let mut out = format!(
        "headroom of {}, iteration {}: {} tasks, {samples} episodes each\n",
        figures.run,
        number(figures.iteration),
        number(figures.task_count)
    );
    if figures.won.is_some() {
        out += &format!(
            "  {:.1}% of episodes win; of the tasks {:.1}% have a win among theirs, {:.1}% win all\n",
            share(figures.won),
            share(figures.any_won),
            share(figures.all_won)
        );
    }
    out += &format!(
        "  {:.1}% of the tasks have episodes of different returns: a baseline of the task has a gradient in these alone\n",
        share(figures.differ)
    );
    out += "  tasks without a win may win later, as weights are shared: papers/verdicts/headroom\n";
    out
}
