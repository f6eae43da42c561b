//! `flow audit` on the house of doors, where the worth of each answer is known: the policy's probabilities are logged,
//! and three turns can be counted through.

use crate::common::{done, fails, flow};
use crate::report::answers;
use flow_env::Task;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const TURNS: usize = 3;

const DOORS: &str = r#"
flow: doors
iterations: 3
seed: 3
keep: { every: 1 }
models: { actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 } }
nodes:
  tasks: { op: tasks, with: { env: doors, doors: 2, rooms: 1, batch: 8 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 3 }, samples: 32 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 3.0e-3 } }
log: [rollout, advantage, update]
"#;

fn trained(folder: &Path, pipeline: &str) -> PathBuf {
    let (file, run) = (folder.join("doors.yaml"), folder.join("run"));
    std::fs::write(&file, pipeline).unwrap();
    done(flow().arg("run").arg(&file).arg("--out").arg(&run));
    run
}

fn asked(run: &Path, sql: &str) -> Vec<Value> {
    let text = done(flow().arg("query").arg(run).arg(sql).args(["--format", "json"]));
    serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
}

fn audit(run: &Path, more: &[&str]) -> Value {
    serde_json::from_str(&done(flow().arg("audit").arg(run).args(["--format", "json"]).args(more))).unwrap()
}

/// The probability of each answer, by the weights and what is seen: all that this policy reads.
type Chances = BTreeMap<(u64, String), BTreeMap<String, f64>>;

/// What is earned from here on, counted through; none where the log doesn't tell the chance of an answer on the way.
fn value(task: &Task, path: &[String], weights: u64, chances: &Chances) -> Option<f64> {
    let mut env = task.make().unwrap();
    let mut step = env.reset();
    path.iter().for_each(|action| step = env.step(action));
    if step.done || path.len() == TURNS {
        return Some(0.0);
    }
    let known = chances.get(&(weights, step.observation))?;
    if (known.values().sum::<f64>() - 1.0).abs() > 1e-4 {
        return None;
    }
    known.iter().map(|(action, chance)| Some(chance * worth(task, path, action, weights, chances)?)).sum()
}

/// What an answer earns here and from then on.
fn worth(task: &Task, path: &[String], action: &str, weights: u64, chances: &Chances) -> Option<f64> {
    let mut env = task.make().unwrap();
    env.reset();
    path.iter().for_each(|before| drop(env.step(before)));
    let reward = f64::from(env.step(action).reward);
    let path: Vec<String> = path.iter().cloned().chain([action.to_owned()]).collect();
    Some(reward + value(task, &path, weights, chances)?)
}

#[test]
fn the_worth_of_answers_is_what_can_be_counted() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), DOORS);
    let mut chances = Chances::new();
    for row in asked(&run, "SELECT weights, observation, action, any_value(exp(list_sum(logprobs))) AS chance, count(DISTINCT prompt_tokens) AS prompts FROM rollout GROUP BY ALL") {
        assert_eq!(row["prompts"], 1, "what is seen is all that is read");
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        chances.entry((row["weights"].as_u64().unwrap(), text("observation"))).or_default().insert(text("action"), row["chance"].as_f64().unwrap());
    }
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in
        asked(&run, "SELECT concat_ws(' ', iteration, task, sample) AS episode, action FROM rollout ORDER BY iteration, task, sample, turn")
    {
        paths.entry(row["episode"].as_str().unwrap().into()).or_default().push(row["action"].as_str().unwrap().into());
    }
    let settings = ["--turns", "32", "--plays", "100", "--answers", "all", "--seed", "6"];
    let before = asked(&run, "SHOW TABLES").len();
    let told = done(flow().arg("audit").arg(&run).args(settings).arg("--dry-run"));
    assert!(told.contains("32 are drawn (uniform), 0 of them are done"), "{told}");
    assert_eq!(asked(&run, "SHOW TABLES").len(), before, "a dry run leaves nothing");
    let figures = audit(&run, &settings);
    let rows = asked(&run, "SELECT concat_ws(' ', iteration, task, sample) AS episode, * FROM audit ORDER BY ALL");
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let (mut counted, mut covered, mut agree, mut decided) = (0, 0, 0, 0);
    for row in &rows {
        let (task, turn, weights) =
            (Task::parse(row["task"].as_str().unwrap()).unwrap(), row["turn"].as_u64().unwrap(), row["weights"].as_u64().unwrap());
        let path = &paths[row["episode"].as_str().unwrap()][..turn as usize];
        let exact = match row["role"].as_str().unwrap() {
            "policy" => value(&task, path, weights, &chances),
            _ => worth(&task, path, row["answer"].as_str().unwrap(), weights, &chances),
        };
        let (Some(exact), Some(own)) = (exact, value(&task, path, weights, &chances)) else { continue };
        counted += 1;
        let (off, error) = ((number(row, "worth") - exact).abs(), number(row, "worth_error"));
        // An outcome of a chance of 3% may be missing in a hundred plays, and then no error is seen.
        assert!(off <= (5.0 * error).max(0.03), "{row} is worth {exact}");
        covered += usize::from(off <= (1.96 * error).max(0.01));
        if row["role"] == "logged" {
            assert_eq!(row["answer"].as_str().unwrap(), paths[row["episode"].as_str().unwrap()][turn as usize]);
            let (audited, error) = (number(row, "audited"), number(row, "audited_error"));
            assert!((audited - (exact - own)).abs() <= (5.0 * error).max(0.04), "{row}");
            if audited.abs() > 1.96 * error && audited != 0.0 && number(row, "credit") != 0.0 {
                decided += 1;
                agree += usize::from((number(row, "credit") > 0.0) == (exact - own > 0.0));
            }
        }
    }
    assert!(counted > 100 && decided > 15, "{counted} of {} rows, {decided}", rows.len());
    assert!(covered * 100 >= counted * 90, "{covered} of {counted}");
    // What is printed is what the table's rows say.
    let sure = |row: &&Value| row["role"] == "logged" && number(row, "audited").abs() > 1.96 * number(row, "audited_error");
    let signs: Vec<bool> = rows
        .iter()
        .filter(|row| sure(row) && number(row, "credit") != 0.0)
        .map(|row| (number(row, "credit") > 0.0) == (number(row, "audited") > 0.0))
        .collect();
    let same = signs.iter().filter(|same| **same).count() as f64 / signs.len() as f64;
    assert!((number(&figures["same_sign_decided"], "value") - same).abs() < 1e-9, "{figures} and {same}");
    let share = agree as f64 / decided as f64;
    let all_known = counted == rows.len();
    assert!(!all_known || (number(&figures["same_sign_decided"], "value") - share).abs() < 1e-9, "{figures} and {share}");
}

#[test]
fn an_audit_that_is_cut_goes_on_to_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), DOORS);
    let settings = ["--turns", "20", "--plays", "4", "--by", "advantage"];
    let whole = audit(&run, &[&settings[..], &["--name", "whole"]].concat());
    let few = fails(flow().arg("audit").arg(&run).args(settings).args(["--name", "parts", "--budget", "5"]));
    assert!(few.contains("the next cost 128 episodes"), "{few}");
    let first = audit(&run, &[&settings[..], &["--name", "parts", "--budget", "128"]].concat());
    assert_eq!((&first["turns"], &first["left"]), (&16.into(), &4.into()));
    let second = audit(&run, &[&settings[..], &["--name", "parts"]].concat());
    assert_eq!((&second["turns"], &second["left"]), (&20.into(), &0.into()));
    for (key, value) in whole.as_object().unwrap() {
        assert!(key == "audit" || second[key] == *value, "{key}");
    }
    let differ = asked(
        &run,
        "SELECT * EXCLUDE (audit) FROM audit WHERE audit = 'whole' EXCEPT SELECT * EXCLUDE (audit) FROM audit WHERE audit = 'parts'",
    );
    assert!(differ.is_empty(), "{differ:?}");
    // The pages say the same, and a turn's page has what was tried there.
    let pages = answers(&[&run], &folder.path().join("pages"));
    assert_eq!(pages["runs/0/run"]["audits"], serde_json::json!(["parts", "whole"]));
    let page = &pages["runs/0/audit&name=whole"];
    assert!(page["credit"] == "advantage" && page["turns"]["rows"].as_array().unwrap().len() == 20, "{page}");
    for (key, value) in page["figures"].as_object().unwrap() {
        assert_eq!(whole[key], *value, "{key}");
    }
    let tried = asked(&run, "SELECT task, sample, count(*) AS tried FROM audit WHERE iteration = 2 GROUP BY ALL");
    assert!(!tried.is_empty());
    for row in tried {
        let (task, sample) = (row["task"].as_str().unwrap(), &row["sample"]);
        let episode = &pages[&format!("runs/0/episode&iteration=2&table=trajectories&task={task}&sample={sample}")];
        assert_eq!(episode["audited"]["rows"].as_array().unwrap().len() as u64, row["tried"].as_u64().unwrap());
    }
    let other = fails(flow().arg("audit").arg(&run).args(["--name", "parts", "--plays", "5"]));
    assert!(other.contains("was begun otherwise") && other.contains("--name"), "{other}");
    let none = fails(flow().arg("audit").arg(&run).args(["--credit", "nope", "--name", "other"]));
    assert!(none.contains("no column `nope` of numbers was logged") && none.contains("advantage"), "{none}");
    let list = fails(flow().arg("audit").arg(&run).args(["--credit", "response_tokens", "--name", "other"]));
    assert!(list.contains("no column `response_tokens` of numbers was logged"), "{list}");
    // A column that the rollout has itself is one as well.
    let paid = audit(&run, &["--turns", "4", "--plays", "2", "--credit", "reward", "--name", "paid"]);
    assert_eq!(paid["turns"], 4);
    let held = std::fs::File::open(run.join("audit/parts/lock")).unwrap();
    held.lock().unwrap();
    let busy = fails(flow().arg("audit").arg(&run).args(settings).args(["--name", "parts"]));
    assert!(busy.contains("is being written by another process"), "{busy}");
    drop(held);
    let longer = done(flow().arg("audit").arg(&run).args(&settings[2..]).args(["--turns", "30", "--name", "parts", "--dry-run"]));
    assert!(longer.contains("10 turns are left"), "{longer}");
    // A changed byte in the middle of a file: of a number, most likely, which no reader of Parquet would notice.
    let file = std::fs::read_dir(run.join("audit/whole")).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.extension().is_some_and(|end| end == "parquet")).min().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = fails(flow().arg("query").arg(&run).arg("SELECT count(*) FROM audit"));
    assert!(damaged.contains("is damaged") && damaged.contains("`flow audit` plays its turns again"), "{damaged}");
    assert_eq!(asked(&run, "SELECT count(*) AS n FROM errors")[0]["n"], 0);
}

/// A replay's turns were played by the run that it replays: the same turns are worth the same there, whatever they are
/// credited with.
#[test]
fn a_replay_is_audited_with_the_weights_that_played() {
    let folder = tempfile::tempdir().unwrap();
    let (run, replay) = (trained(folder.path(), DOORS), folder.path().join("replay"));
    let set = ["--set", "nodes.advantage.with.baseline=leave_one_out", "--set", "nodes.update.with.lr=3.0e-2"];
    done(flow().arg("replay").arg(&run).args(set).arg("--out").arg(&replay));
    let settings = ["--turns", "20", "--plays", "4"];
    [&run, &replay].into_iter().for_each(|run| drop(audit(run, &settings)));
    let worths = |run: &Path| asked(run, "SELECT * EXCLUDE (credit) FROM audit ORDER BY ALL");
    assert_eq!(worths(&run), worths(&replay));
    let credits = |run: &Path| asked(run, "SELECT credit FROM audit WHERE role = 'logged' ORDER BY iteration, task, sample, turn");
    assert_ne!(credits(&run), credits(&replay));
    std::fs::rename(&run, folder.path().join("moved")).unwrap();
    let gone = fails(flow().arg("audit").arg(&replay).args(settings));
    assert!(gone.contains("the weights of the run whose rows it has"), "{gone}");
}

#[test]
fn what_cannot_be_audited_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(
        folder.path(),
        &DOORS.replace("keep: { every: 1 }\n", "").replace("log: [rollout, advantage, update]", "log: [rollout, advantage]"),
    );
    // The start stays, and so do the newest weights.
    let told = done(flow().arg("audit").arg(&run).arg("--dry-run"));
    assert!(told.contains(" of ") && !told.contains("versions 4"), "{told}");
    let none = fails(flow().arg("audit").arg(&run).args(["--credit", "step_advantage"]));
    assert!(none.contains("step_advantage"), "{none}");
    // An environment that isn't as it was: the rows say another state.
    std::fs::remove_dir_all(run.join("weights")).unwrap();
    let gone = fails(flow().arg("audit").arg(&run));
    assert!(gone.contains("the weights of none of them") && gone.contains("keep: { every: 1 }"), "{gone}");
}

/// Each way is played with its memory, an entry is one that was retrieved, and a cut audit ends with the same table. A
/// memory of notes on earlier attempts has no entries, and no way without one.
#[test]
fn a_memory_is_worth_what_plays_without_it_lose() {
    let folder = tempfile::tempdir().unwrap();
    let told = DOORS
        .replace("max_turns: 3 }", "max_turns: 3, context: [{ memory: notes, chance: 0.5, by: all, most: 2 }] }")
        .replace("weights: { after: update } }, with: { agent", "weights: { after: update }, notes: { after: notes } }, with: { agent")
        .replace("  group:", "  notes: { op: memory-update, inputs: rollout, with: { entries: endings, key: task, text: action, per: all, capacity: 6 } }\n  group:")
        .replace("log: [rollout,", "log: [rollout, notes,")
        .replace("iterations: 3", "iterations: 6")
        .replace("samples: 32", "samples: 4");
    let run = trained(folder.path(), &told);
    let plain = fails(flow().arg("audit").arg(&run));
    assert!(plain.contains("its agent reads a memory") && plain.contains("--memory"), "{plain}");
    let settings = ["--memory", "--turns", "12", "--plays", "4"];
    let whole = audit(&run, &[&settings[..], &["--name", "whole"]].concat());
    assert_eq!((&whole["episodes"], &whole["refused"]), (&12.into(), &serde_json::json!({})));
    let first = audit(&run, &[&settings[..], &["--name", "parts", "--budget", "70"]].concat());
    assert_eq!((&first["episodes"], &first["left"]), (&4.into(), &8.into()));
    let second = audit(&run, &[&settings[..], &["--name", "parts"]].concat());
    assert_eq!(whole["worth"], second["worth"]);
    let differ = asked(
        &run,
        "SELECT * EXCLUDE (audit) FROM audit WHERE audit = 'whole' EXCEPT SELECT * EXCLUDE (audit) FROM audit WHERE audit = 'parts'",
    );
    assert!(differ.is_empty(), "{differ:?}");
    let strange =
        "SELECT a.* FROM audit a JOIN rollout r USING (iteration, task, sample, attempt, turn) WHERE a.role IN ('without', 'another') \
                   AND NOT list_contains(r.retrieved, a.answer::UBIGINT)";
    assert!(asked(&run, strange).is_empty(), "an entry that its prompt didn't hold");
    let ways =
        asked(&run, "SELECT role, count(*) AS n, max(abs(audited)) AS most FROM audit WHERE audit = 'whole' GROUP BY ALL ORDER BY role");
    assert_eq!(ways.iter().map(|way| way["role"].as_str().unwrap()).collect::<Vec<_>>(), ["another", "emptied", "policy", "without"]);
    assert!(ways[1]["n"] == 12 && ways[3]["n"] == 12 && ways[2]["most"] == 0.0 && ways[1]["most"].as_f64().unwrap() > 0.0, "{ways:?}");
    let page = answers(&[&run], &folder.path().join("pages"));
    assert_eq!(page["runs/0/run"]["audits"], serde_json::json!([]), "its page is of credit");

    let other = folder.path().join("notes");
    std::fs::create_dir(&other).unwrap();
    let looped = DOORS.replace("  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 3 }, samples: 32 } }",
        "  trial:\n    loop: { attempts: 2, until: won }\n    nodes:\n      rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update }, memory: { after: reflect } }, with: { agent: { model: actor, max_turns: 3 }, samples: 8 } }\n      reflect: { op: reflect, inputs: rollout, with: { agent: { model: actor, answer: [] }, actor: expert, on: failure } }\n    output: [rollout, reflect]")
        .replace("inputs: rollout, with: { by", "inputs: trial, with: { by").replace("log: [rollout", "log: [trial").replace("batch: 8", "batch: 4");
    let run = trained(&other, &looped);
    let figures = audit(&run, &["--memory", "--turns", "6", "--plays", "4"]);
    assert_eq!((&figures["episodes"], &figures["worth"]["without"]), (&6.into(), &Value::Null), "{figures}");
    assert!(figures["worth"]["emptied"]["episodes"] == 6 && figures["refused"] == serde_json::json!({}), "{figures}");
}
