//! Looking at a run: one trajectory in full, and rows as they pass.

use crate::common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn show(run: &Path, extra: &[&str]) -> Value {
    serde_json::from_str(&done(flow().arg("show").arg(run).args(extra).args(["--format", "json"]))).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Reads one line and goes away, as `head -1` does.
fn head(command: &mut Command) -> (String, String, Option<i32>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    (line, text(&output.stderr), output.status.code())
}

#[test]
fn one_trajectory_is_shown_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    // Without a choice: the first of the newest iteration.
    let first = &ask(&run, "select task, sample from trajectories where iteration = 2 order by task, sample limit 1")[0];
    let shown = show(&run, &[]);
    assert_eq!((&shown["iteration"], &shown["task"], &shown["sample"]), (&2.into(), &first["task"], &first["sample"]));
    // Best and worst by the score of the last turn.
    let score = |shown: &Value| shown["turns"].as_array().unwrap().last().unwrap()["score"].clone();
    let ends = &ask(&run, "select max(s) as best, min(s) as worst from (select last(score order by turn) as s from trajectories where iteration = 1 group by task, sample)")[0];
    assert_ne!(ends["best"], ends["worst"]);
    assert_eq!(score(&show(&run, &["--iteration", "1", "--best"])), ends["best"]);
    assert_eq!(score(&show(&run, &["--iteration", "1", "--worst"])), ends["worst"]);
    // By a part of the task's name; the rows are those of the view.
    let task = ask(&run, "select min(task) as task from rollout where iteration = 0")[0]["task"].as_str().unwrap().to_owned();
    let part = task.rsplit('-').next().unwrap();
    let shown = show(&run, &["--task", part, "--sample", "3", "--attempt", "0"]);
    let rows = ask(&run, &format!("select * from trajectories where task = '{task}' and sample = 3 order by turn"));
    assert_eq!((&shown["task"], &shown["iteration"]), (&Value::from(task.as_str()), &0.into()));
    assert_eq!(shown["turns"], Value::from(rows.clone()));
    // For a person: the board as it was, and the credit.
    let output = done(flow().arg("show").arg(&run).args(["--task", part, "--sample", "3"]));
    for row in &rows {
        let board = row["observation"].as_str().unwrap().lines().last().unwrap();
        let turn = output
            .split("\nturn ")
            .find(|t| t.starts_with(&format!("{}\n", row["turn"])))
            .unwrap_or_else(|| panic!("no turn in\n{output}"));
        assert!(turn.contains(board) && turn.contains(&format!("said    {}", row["response"].as_str().unwrap())), "{turn}");
        assert!(turn.contains("visitation_depth ") && turn.contains("advantage ") && turn.contains("used yes"), "{turn}");
    }
    assert_eq!(output.matches(&task).count(), 1, "{output}");
    assert!(output.contains("one of 4 trajectories of iteration 0"), "{output}");
    let acting = flow_log::Run::open(&run).unwrap().manifest().unwrap().info.acting;
    assert!(output.contains(&format!("`actor` acts as `act: {}` says", acting["actor"])), "{acting:?} {output}");
    // What isn't there.
    let message = |extra: &[&str]| fails(flow().arg("show").arg(&run).args(extra));
    let ambiguous = message(&["--task", "minesweeper"]);
    assert!(
        ambiguous.contains("18 tasks")
            && ambiguous.contains(&format!("\n  {}", first["task"].as_str().unwrap()))
            && ambiguous.contains("and 13 more"),
        "{ambiguous}"
    );
    assert!(message(&["--task", "chess"]).contains("there are:\n  minesweeper"), "{}", message(&["--task", "chess"]));
    assert!(message(&["--iteration", "7"]).contains("iterations 0 to 2 have"));
    assert!(message(&["--task", part, "--sample", "4"]).contains("there are 0, 1, 2, 3"));
    assert!(message(&["--task", part, "--attempt", "1"]).contains("no such attempt"));
    assert!(message(&["--node", "rolout"]).contains("--node can be rollout, states, advantage, update"));
    assert!(message(&["--node", "update", "--best"]).contains("`update` has no score"));
}

#[test]
fn committed_rows_are_tapped_and_filtered() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let tap = |extra: &[&str]| done(flow().arg("tap").arg(&run).args(extra));
    let order = "order by iteration, task, sample, attempt, turn, phase";
    assert_eq!(lines(&tap(&["rollout", "--format", "json"])), ask(&run, &format!("from rollout {order}")));
    assert_eq!(
        lines(&tap(&["trajectories", "--follow", "--format", "json"])),
        ask(&run, &format!("from trajectories {order}")),
        "a finished run is not waited for"
    );
    let some = lines(&tap(&["rollout", "--format", "json", "--where", "turn = 0 and reward > 0 -- the good ones"]));
    assert_eq!(some, ask(&run, &format!("from rollout where turn = 0 and reward > 0 {order}")));
    assert!(!some.is_empty());
    // For a person: an episode each.
    let output = tap(&["rollout", "--where", "iteration = 1"]);
    assert_eq!(output.matches("iteration 1, minesweeper").count(), 6 * 4);
    let turns = ask(&run, "select count(*) as n from rollout where iteration = 1")[0]["n"].as_u64().unwrap() as usize;
    assert_eq!(
        (output.matches("\nturn ").count(), output.matches("\n  seen ").count(), output.matches("\n  earned ").count()),
        (turns, turns, turns)
    );
    assert!(tap(&["update", "--where", "iteration = 0"]).contains("turn 0  used yes, version 1"));
    // Mistakes.
    let message = |extra: &[&str]| fails(flow().arg("tap").arg(&run).args(extra));
    let wrong = message(&["rollout", "--where", "rewrd > 0"]);
    assert!(wrong.starts_with("error: --where rewrd > 0: ") && wrong.contains("did you mean `reward`?"), "{wrong}");
    assert!(wrong.contains("\n  rollout (") && !wrong.contains("\n  states ("), "{wrong}");
    assert!(message(&["rollout", "--where", "turn ="]).contains("Parser Error"));
    assert!(message(&["tasks"]).contains("`tasks` isn't logged by this run; logged are rollout, states, advantage, update"));
}

#[test]
fn a_running_run_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut command = flow();
    command.arg("run").arg(pipeline(folder.path(), SMALL)).arg("--out").arg(&out).args(["--set", "iterations=100000"]);
    let trains = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = std::time::Instant::now();
    while !out.join("manifest.json").exists() {
        assert!(start.elapsed().as_secs() < 60, "no run in a minute");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut tap = flow().arg("tap").arg(&out).args(["rollout", "--follow", "--format", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut observed: Vec<Value> = Vec::new();
    let mut stopped = false;
    for line in BufReader::new(tap.stdout.take().unwrap()).lines() {
        observed.push(serde_json::from_str(&line.unwrap()).unwrap());
        if !stopped && observed.last().unwrap()["iteration"].as_u64().unwrap() >= 3 {
            stopped = true;
            assert!(Command::new("kill").args(["-INT", &trains.id().to_string()]).status().unwrap().success());
        }
    }
    assert!(tap.wait().unwrap().success());
    assert_eq!(trains.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(observed, ask(&out, "from rollout order by iteration, task, sample, attempt, turn, phase"), "every row once, in order");
}

#[test]
fn a_run_that_was_cut_off_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &["--set", "iterations=1"]);
    // What a kill leaves: a manifest that says `running`, and nobody who holds the lock.
    let manifest = std::fs::read_to_string(run.join("manifest.json")).unwrap();
    std::fs::write(run.join("manifest.json"), manifest.replacen("\"finished\"", "\"running\"", 1)).unwrap();
    let output = flow().arg("tap").arg(&run).args(["rollout", "--follow"]).output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("turn 0"));
    assert!(text(&output.stderr).contains("was cut off; `flow resume"), "{}", text(&output.stderr));
}

fn top(run: &Path) -> Value {
    serde_json::from_str(&done(flow().arg("top").arg(run).args(["--format", "json"]))).unwrap()
}

fn node<'a>(top: &'a Value, name: &str) -> &'a Value {
    top["nodes"].as_array().unwrap().iter().find(|n| n["node"] == name).unwrap_or_else(|| panic!("no {name} in {top}"))
}

#[test]
fn a_finished_run_says_where_its_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &["--workers", "2", "--stall", "1"]);
    assert!(!run.join("status.json").exists(), "the status goes with the run");
    let output = top(&run);
    assert_eq!((&output["state"], &output["iterations"], &output["next"]), (&"finished".into(), &3.into(), &3.into()));
    let turns = ask(&run, "select count(*) as n from rollout")[0]["n"].clone();
    // Every node is there, logged or not, and counts the rows that it handed on.
    for name in ["rollout", "reward", "episodes", "episode_advantage", "states", "step_advantage", "advantage", "update"] {
        assert_eq!(node(&output, name)["rows"], turns, "{name}");
        assert!(node(&output, name)["busy_seconds"].as_f64().unwrap() > 0.0, "{name}");
    }
    assert_eq!(node(&output, "tasks")["rows"], 3 * 6);
    let [all, policy] = [&output["seconds"], &output["policy"]["busy_seconds"]].map(|v| v.as_f64().unwrap());
    assert!(policy > 0.0 && policy < all, "{output}");
    // The same figures are in the log, by iteration.
    let figures = ask(&run, "select sum(value) filter (name = 'rows_out')::bigint as rows, sum(value) filter (name = 'busy_seconds') as busy from metrics where node = 'states'");
    assert_eq!(figures[0]["rows"], turns);
    let (a, b) = (figures[0]["busy"].as_f64().unwrap(), node(&output, "states")["busy_seconds"].as_f64().unwrap());
    assert!((a - b).abs() < 1e-9);
    let printed = done(flow().arg("top").arg(&run));
    assert!(printed.contains(": finished, 3 of 3 iterations in ") && printed.contains("policy thread"), "{printed}");
    assert!(
        printed.contains("\ntokens computed per distinct token: reflect ") || printed.contains("distinct token: rollout "),
        "{printed}"
    );
    for name in ["rollout", "update"] {
        let [computed, distinct] = ["computed", "distinct"].map(|key| output["tokens"][name][key].as_f64().unwrap());
        assert!(distinct > 0.0 && computed >= distinct, "{output}");
    }
}

#[test]
fn a_running_run_says_what_it_does_and_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut command = flow();
    command.arg("run").arg(pipeline(folder.path(), SMALL)).arg("--out").arg(&out).args(["--set", "iterations=100000"]);
    let trains = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = std::time::Instant::now();
    while !out.join("status.json").exists() {
        assert!(start.elapsed().as_secs() < 60, "no status in a minute");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Whoever is asked at a bad moment has nothing in hand, so several looks are taken.
    let mut observed = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let output = top(&out);
        assert_eq!(output["state"], "running", "{output}");
        assert_eq!(output["process"], Value::from(trains.id()));
        assert!(output["policy"]["busy_share"].as_f64().unwrap() > 0.0 && output["warnings"] == Value::from(Vec::<Value>::new()));
        for node in output["nodes"].as_array().unwrap() {
            for waits in node["waits_for"].as_array().unwrap() {
                observed.insert(format!("{} for {}", node["node"].as_str().unwrap(), waits.as_str().unwrap()));
            }
            if node["state"] == "running" {
                observed.insert(format!("{} runs", node["node"].as_str().unwrap()));
            }
        }
        if ["rollout runs", "rollout for update of an earlier iteration", "tasks for the commit"].iter().all(|s| observed.contains(*s)) {
            break;
        }
    }
    assert!(observed.contains("rollout runs") && observed.contains("tasks for the commit"), "{observed:?}");
    assert!(observed.contains("rollout for update of an earlier iteration"), "{observed:?}");
    let printed = done(flow().arg("top").arg(&out));
    assert!(printed.contains(": running, ") && printed.contains("holds") && printed.contains("policy thread"), "{printed}");
    assert!(Command::new("kill").args(["-INT", &trains.id().to_string()]).status().unwrap().success());
    assert_eq!(trains.wait_with_output().unwrap().status.code(), Some(130));
    let output = top(&out);
    assert_eq!(output["state"], "stopped");
    assert!(node(&output, "rollout")["busy_seconds"].as_f64().unwrap() > 0.0);
    assert!(!out.join("status.json").exists());
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &["--set", "iterations=1"]);
    // Each answer is far longer than a pipe holds.
    for format in ["table", "csv", "json"] {
        let columns = ["repeat('x', 1000)"; 20].join(", ");
        let (line, output, code) =
            head(flow().arg("query").arg(&run).arg(format!("select {columns} from rollout, range(10)")).args(["--format", format]));
        assert!(!line.is_empty() && output.is_empty() && code == Some(0), "{format}: {line:?} {output:?} {code:?}");
    }
    for format in ["text", "json"] {
        let (line, output, code) = head(flow().arg("tap").arg(&run).args(["trajectories", "--format", format]));
        assert!(line.contains("minesweeper") && output.is_empty() && code == Some(0), "{format}: {line:?} {output:?} {code:?}");
    }
}

/// What the model read, and nothing that is empty.
#[test]
fn the_prompt_is_shown_as_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let asks = SMALL.replace("max_turns: 5", "max_turns: 5, prompt: \"Look: {{ observation }}Choose:\"");
    assert_ne!(asks, SMALL);
    let run = trained(folder.path(), "run", &asks, &[]);
    let output = done(flow().arg("show").arg(&run));
    assert!(output.contains("  read    Look: ") && output.contains("Choose:") && !output.contains("(nothing)"), "{output}");
    assert!(!output.contains("  seen "), "it stands in the prompt: {output}");
}
