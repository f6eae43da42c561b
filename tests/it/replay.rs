//! A replay repeats credit and updates from logged rollouts: its own run's bit for bit, or another pipeline's on the
//! same rows.

use crate::common::*;
use flow_log::{read, Committer, Metrics, Run};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn replayed(folder: &Path, run: &Path, name: &str, extra: &[&str]) -> PathBuf {
    let out = folder.join(name);
    done(flow().arg("replay").arg(run).arg("--out").arg(&out).args(extra));
    out
}

fn refused(folder: &Path, run: &Path, extra: &[&str]) -> String {
    let out = folder.join("refused");
    let message = fails(flow().arg("replay").arg(run).arg("--out").arg(&out).args(extra));
    assert!(!out.exists(), "nothing is left behind");
    message
}

fn diff(a: &Path, b: &Path) -> Value {
    serde_json::from_str(&done(flow().arg("diff").arg(a).arg(b).args(["--format", "json", "--top", "10000"]))).unwrap()
}

/// [`SMALL`] with all that an update draws on: shuffled minibatches, the frozen start, weights of two iterations.
pub fn rich() -> String {
    let panel =
        "  evaluate:\n    op: evaluate\n    inputs: { weights: { after: update } }\n    with: { agent: { model: actor, max_turns: 1 }, \
                 panel: datasets/minesweeper-6x6-m3-d5ba103a5efa.json, every: 9 }\nlog: [evaluate, ";
    let small = SMALL.replace("lr: 1.0e-3", "lr: 1.0e-3, kl: 0.05, minibatch: 24, epochs: 2").replace("log: [", panel);
    small.replace("{ after: update } }, with: { agent: { model: actor", "{ after: update, staleness: 1 } }, with: { agent: { model: actor")
}

const GRPO: &str = r#"
flow: grpo
iterations: 3
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, advantage, update]
"#;

#[test]
fn a_replay_repeats_its_run_bit_for_bit_on_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &rich(), &[]);
    let whole = digest(&run);
    assert!(whole.0.lines().count() > 100);
    for workers in ["1", "2"] {
        let replay = replayed(folder.path(), &run, workers, &["--workers", workers]);
        assert!(digest(&replay) == whole, "on {workers} workers");
        let output = done(flow().arg("diff").arg(&run).arg(&replay));
        assert!(output.contains(" are equal: ") && output.lines().count() == 1, "{output}");
    }
    // Nothing but the rollouts was needed: what the run had made from them is gone, and so is its panel.
    let bare = folder.path().join("bare");
    copied(&run, &bare, &["rollout"], |rows| rows);
    let replay = replayed(folder.path(), &bare, "again", &[]);
    assert!(digest(&replay) == whole, "from its rollouts alone");
}

#[test]
fn a_replay_of_a_replay_is_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", GRPO, &[]);
    let first = replayed(folder.path(), &run, "first", &["--set", "nodes.advantage.with.baseline=leave_one_out", "--set", "log=[update]"]);
    let second = replayed(folder.path(), &first, "second", &["--workers", "2"]);
    assert!(digest(&first) == digest(&second));
    assert!(digest(&first) != digest(&run));
    assert_eq!(diff(&first, &second)["equal"], true);
}

/// A pipeline whose rollouts stand in a loop.
const LOOPED: &str = r#"
flow: looped
iterations: 2
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 3 } }
  trial:
    loop: { attempts: 2, until: won }
    nodes:
      rollout:
        op: rollout
        inputs: { tasks: tasks, weights: { after: update }, memory: { after: reflect } }
        with: { agent: { model: actor, max_turns: 3 }, samples: 4 }
      reflect: { op: reflect, inputs: rollout, with: { agent: { model: actor, max_tokens: 8 } } }
    output: [rollout, reflect]
  group: { op: group, inputs: trial, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [trial, advantage, update]
"#;

#[test]
fn a_loop_is_replayed_from_its_own_rows() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    done(flow().arg("run").arg(pipeline(folder.path(), LOOPED)).arg("--out").arg(&run));
    let kinds = answer(&run, "select distinct attempt, phase from trial order by all", "json");
    assert_eq!(kinds.matches("reflect").count(), 1, "the last attempt has nothing to reflect for: {kinds}");
    assert!(kinds.contains("\"attempt\":1"), "{kinds}");
    let again = replayed(folder.path(), &run, "again", &[]);
    let same = diff(&run, &again);
    assert_eq!(ask(&run, "select count(*) as n from trial"), ask(&again, "select count(*) as n from trial"));
    assert!(same["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3), "{same}");
    let differing = |node: &Value| node["differ"].as_object().is_none_or(|d| !d.is_empty());
    assert!(!same["nodes"].as_array().unwrap().iter().any(differing), "{same}");
    let other = replayed(folder.path(), &run, "other", &["--set", "nodes.advantage.with.baseline=leave_one_out"]);
    assert!(diff(&run, &other)["nodes"].as_array().unwrap().iter().any(differing));

    let text = LOOPED.replace("log: [trial, ", "log: [");
    let silent = folder.path().join("silent");
    done(flow().arg("run").arg(pipeline(folder.path(), &text)).args(["--set", "iterations=1", "--out"]).arg(&silent));
    let message = refused(folder.path(), &silent, &[]);
    assert!(message.contains("has not logged the rows of `trial`, which `group` reads"), "{message}");
}

/// Taught by hand: of n = 4 the baseline without the own return is (4 m - r) / 3, so r - baseline grows by 4/3, and the
/// scale stays.
#[test]
fn leaving_one_out_moves_baselines_by_the_factor_it_must() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", GRPO, &[]);
    let replay = replayed(folder.path(), &run, "replay", &["--set", "nodes.advantage.with.baseline=leave_one_out"]);
    let differences = diff(&run, &replay);
    assert_eq!(differences["equal"], false);
    assert_eq!(differences["other_turns"], 0, "the rollouts are the same");
    let settings: Vec<&str> = differences["settings"].as_array().unwrap().iter().filter_map(|s| s["path"].as_str()).collect();
    assert_eq!(settings, ["nodes.advantage.with.baseline"]);
    assert_eq!(differences["weights"][0]["equal"], false);
    let credit = &differences["credit"];
    let moved: Vec<&Value> = ["up", "down"].iter().flat_map(|way| credit[*way].as_array().unwrap()).collect();
    assert_eq!(moved.len() as u64, credit["moved"].as_u64().unwrap());
    assert!(moved.len() > 20, "{}", moved.len());
    for row in moved {
        let x = |key: &str| row[key].as_f64().unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-5 * (1.0 + b.abs());
        assert!(near(x("return_b") - x("baseline_b"), 4.0 / 3.0 * (x("return_a") - x("baseline_a"))), "{row}");
        assert!(near(x("advantage_b"), 4.0 / 3.0 * x("advantage_a")), "{row}");
        assert!(near(x("move"), x("advantage_b") - x("advantage_a")), "{row}");
        assert!(row["action"].is_string() && row["response"].is_string());
    }
    // Those come first that moved the policy most.
    let gradients: Vec<f64> = credit["up"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["logit_grad_a", "logit_grad_b"].map(|side| row[side].as_f64().unwrap()).into_iter().fold(0.0, f64::max))
        .collect();
    assert!(gradients.is_sorted_by(|a, b| a >= b) && gradients.first() > gradients.last(), "{gradients:?}");
    assert!((credit["correlation"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    assert_eq!((credit["turned"].as_u64(), credit["rows"].as_u64()), (Some(0), differences["rows"]["both"].as_u64()));
    let output = done(flow().arg("diff").arg(&run).arg(&replay));
    for word in [
        "nodes.advantage.with.baseline: (not given) -> leave_one_out",
        "moved up: the rows that moved the policy most",
        "baseline",
        "gradient",
        "final weights of `actor`: differ",
    ] {
        assert!(output.contains(word), "{word} in\n{output}");
    }
}

#[test]
fn the_same_rollouts_go_through_another_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", GRPO, &[]);
    // Other names for the only rollout and the only model, another model and other tasks: none of that matters any
    // more.
    let other = SMALL.replace("rollout", "play").replace("op: play", "op: rollout").replace("actor", "agent");
    let other = other.replace("layers: 1", "layers: 2").replace("batch: 6", "batch: 9");
    let other = pipeline(folder.path(), &other);
    let replay = replayed(folder.path(), &run, "replay", &["--with", other.to_str().unwrap()]);
    let rows = |run: &Path, table: &str| ask(run, &format!("select * from {table} order by iteration, task, sample, turn"));
    assert_eq!(rows(&run, "rollout"), rows(&replay, "play"));
    let start = |run: &Path, name: &str| std::fs::read(run.join("weights/0").join(name).join("model.safetensors")).unwrap();
    assert!(start(&run, "actor") == start(&replay, "agent"));
    let credit = diff(&run, &replay)["credit"].clone();
    assert!(credit["moved"].as_u64().unwrap() > 20, "{credit}");
    // Its pipeline.yaml is the whole pipeline, so that it reads like any other run's, and is replayed in turn.
    let again = replayed(folder.path(), &replay, "again", &[]);
    assert_eq!(diff(&replay, &again)["equal"], true);
    // Settings of what is not played any more are told to make no difference, and no others.
    let printed = |extra: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let output = flow().arg("replay").arg(&run).arg("--out").arg(out.path()).args(extra).output().unwrap();
        assert!(output.status.success());
        text(&output.stderr).lines().find(|l| l.starts_with("note: ")).map(|l| l.split_once("no difference: ").unwrap().1.to_string())
    };
    assert_eq!(printed(&["--set", "nodes.rollout.with.samples=9"]).as_deref(), Some("nodes.rollout.with.samples"));
    assert_eq!(printed(&["--set", "nodes.update.with.lr=0.1"]), None);
    assert_eq!(printed(&["--with", other.to_str().unwrap()]).as_deref(), Some("nodes.tasks.with.batch"));
}

#[test]
fn a_stopped_replay_goes_on_with_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", GRPO, &[]);
    let change = ["--set", "nodes.advantage.with.scale=none"];
    let whole = replayed(folder.path(), &run, "whole", &change);
    let part = replayed(folder.path(), &run, "part", &[&change[..], &["--set", "iterations=1"]].concat());
    assert!(digest(&part) != digest(&whole));
    done(flow().arg("resume").arg(&part).args(["--iterations", "3"]));
    assert!(digest(&part) == digest(&whole));
    let message = fails(flow().arg("resume").arg(&part).args(["--iterations", "4"]));
    assert!(message.contains("4 iterations can't be replayed") && message.contains("has committed 3"), "{message}");
    let message = refused(folder.path(), &run, &["--set", "iterations=4"]);
    assert!(message.contains("4 iterations can't be replayed"), "{message}");
}

/// Two rollouts and two updates that take turns, as in the quickstart.
fn turns() -> String {
    let demos = "  demos: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 5 }, actor: expert, samples: 1 } }\n  \
                 imitate: { op: gpu-update, inputs: { rows: demos, weights: { after: update } }, with: { model: actor, objective: sft } }\n  rollout:";
    GRPO.replacen("  rollout:", demos, 1).replace("inputs: advantage,", "inputs: { rows: advantage, weights: imitate },")
}

#[test]
fn rollouts_that_were_not_logged_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &turns(), &[]);
    let message = refused(folder.path(), &run, &[]);
    for word in
        ["has not logged the rows of `demos`, which `imitate` reads", "`log: [demos, rollout, advantage, update]`", "--with other.yaml"]
    {
        assert!(message.contains(word), "{word} in\n{message}");
    }
    // Without the demonstrations the rest can be replayed, and with them logged all of it.
    let grpo = pipeline(folder.path(), GRPO);
    let replay = replayed(folder.path(), &run, "grpo", &["--with", grpo.to_str().unwrap()]);
    assert_eq!(diff(&run, &replay)["credit"]["moved"], 0);
    let run = trained(folder.path(), "logged", &turns().replace("log: [", "log: [tasks, demos, imitate, "), &["--workers", "2"]);
    let replay = replayed(folder.path(), &run, "all", &[]);
    assert!(digest(&run) == digest(&replay));
    assert_eq!(diff(&run, &replay)["equal"], true);
    assert_eq!(ask(&run, "from tasks order by all"), ask(&replay, "from tasks order by all"));

    let silent = trained(folder.path(), "silent", &GRPO.replace("log: [rollout, ", "log: ["), &[]);
    let message = refused(folder.path(), &silent, &[]);
    assert!(message.contains("has not logged the rows of `rollout`, which `group` reads"), "{message}");
    assert!(message.contains("`log: [rollout, advantage, update]`") && !message.contains("--with"), "{message}");

    let named = turns().replace("demos", "first").replace("  rollout:", "  second:").replace("inputs: rollout", "inputs: second");
    let named = pipeline(folder.path(), &named.replace("log: [rollout", "log: [second"));
    let message = refused(folder.path(), &run, &["--with", named.to_str().unwrap()]);
    assert!(message.contains("`first`, `second`") && message.contains("its logged rollouts are `demos`, `rollout`"), "{message}");

    let strange =
        GRPO.replace("actor:", "left:").replace("model: actor", "model: left").replace("nodes:\n", "  right: { new: tiny }\nnodes:\n");
    let strange = pipeline(folder.path(), &strange.replace("lr: 1.0e-3", "reference: right, kl: 0.1"));
    let message = refused(folder.path(), &run, &["--with", strange.to_str().unwrap()]);
    assert!(message.contains("`update` trains the model `left`") && message.contains("it has of: `actor`"), "{message}");
}

/// A copy of a run that logged `nodes` only, its rollouts changed by `change`.
fn copied(from: &Path, to: &Path, nodes: &[&str], change: impl Fn(arrow::array::RecordBatch) -> arrow::array::RecordBatch) {
    let old = Run::open(from).unwrap();
    let manifest = old.manifest().unwrap();
    let mut info = manifest.info.clone();
    info.nodes.retain(|n| nodes.contains(&n.id.as_str()));
    let yaml = std::fs::read_to_string(old.pipeline()).unwrap();
    let yaml = yaml.replace("datasets/", "no/such/folder/");
    let new = Run::create(to, &yaml, &info).unwrap();
    let mut committer = Committer::new(new.clone()).unwrap();
    let rows: Vec<_> = read(&old, "rollout").unwrap().into_iter().map(change).collect();
    for (iteration, rows) in rows.iter().enumerate() {
        let part = flow_log::write_part(&new, "rollout", iteration as u64, 0, rows).unwrap();
        committer.commit(iteration as u64, vec![part], Metrics::new(), vec![]).unwrap();
    }
    let start = "weights/0/actor";
    std::fs::create_dir_all(to.join(start)).unwrap();
    for file in std::fs::read_dir(from.join(start)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(start).join(file.file_name())).unwrap();
    }
    committer.note_start(manifest.start).unwrap();
}

#[test]
fn a_column_that_was_not_logged_is_named_with_who_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", GRPO, &[]);
    let without = |rows: arrow::array::RecordBatch| {
        let keep: Vec<usize> = (0..rows.num_columns()).filter(|i| rows.schema().field(*i).name() != "choices").collect();
        rows.project(&keep).unwrap()
    };
    let lacking = folder.path().join("lacking");
    copied(&run, &lacking, &["rollout"], without);
    let message = refused(folder.path(), &lacking, &[]);
    let expected = "error: the port `rows` of `update` needs the column `choices`, and the log has no such column of `rollout`";
    assert!(message.contains(expected) && message.contains("pipeline.yaml:") && message.contains("`logprobs`"), "{message}");
    // Only what the other pipeline needs is asked for.
    let credit: String = GRPO.lines().filter(|l| !l.contains("  update:")).map(|l| format!("{l}\n")).collect();
    let credit = credit.replace(", update]", "]").replace("inputs: { tasks: tasks, weights: { after: update } }", "inputs: tasks");
    let credit = pipeline(folder.path(), &credit);
    let replay = replayed(folder.path(), &lacking, "credit", &["--with", credit.to_str().unwrap()]);
    assert_eq!(diff(&run, &replay)["credit"]["moved"], 0);
    let message = refused(folder.path(), folder.path(), &[]);
    assert!(message.contains("isn't a run folder"), "{message}");
}

#[test]
fn a_run_and_its_bundle_are_verified_digit_by_digit() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &rich(), &[]);
    let said = done(flow().arg("verify").arg(&run));
    assert!(said.contains("weights of actor, version") && said.contains("\nevery digit agrees\n"), "{said}");
    // The bundle has the first weights and the last ones, and is enough elsewhere.
    let bundle = folder.path().join("run.tar");
    assert!(done(flow().arg("bundle").arg(&run).arg("--out").arg(&bundle)).contains("flow verify"));
    assert!(fails(flow().arg("bundle").arg(&run).arg("--out").arg(&bundle)).contains("run.tar"), "a file that is there stays");
    let verified = |extra: &[&str]| -> Value {
        let output = flow().arg("verify").arg(&bundle).args(["--format", "json"]).args(extra).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let whole = verified(&[]);
    assert_eq!((&whole["agrees"], &whole["weights"][0]["equal"]), (&Value::Bool(true), &Value::Bool(true)));
    let part = verified(&["--iterations", "2"]);
    assert_eq!((&part["agrees"], &part["iterations"], part["weights"].as_array().unwrap().len()), (&Value::Bool(true), &2.into(), 0));
    let rows = |of: &Value| of["nodes"].as_array().unwrap().iter().map(|node| node["rows"]["both"].as_u64().unwrap()).sum::<u64>();
    assert!(rows(&part) < rows(&whole));
    // Of the files that say what is computed and compared, each change is noticed.
    let with = |file: &str, change: &dyn Fn(&Path)| {
        let path = run.join(file);
        let kept = std::fs::read(&path).unwrap();
        change(&path);
        let output = flow().arg("verify").arg(&run).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{file}");
        let bundled = flow().arg("bundle").arg(&run).arg("--out").arg(folder.path().join("changed.tar")).output().unwrap();
        let texts = [&output.stdout, &output.stderr, &bundled.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        std::fs::write(&path, kept).unwrap();
        let _ = std::fs::remove_file(folder.path().join("changed.tar"));
        texts
    };
    let replace = |from: &'static str, to: &'static str| {
        move |path: &Path| std::fs::write(path, std::fs::read_to_string(path).unwrap().replacen(from, to, 1)).unwrap()
    };
    let [_, said, bundled] = with("pipeline.yaml", &replace("kl: 0.05", "kl: 0.5"));
    assert!(said.contains("isn't what the run began with") && bundled.contains("isn't what the run began with"), "{said} {bundled}");
    let last = ask(&run, "SELECT max(version) AS v FROM update")[0]["v"].as_u64().unwrap();
    let [_, said, bundled] = with(&format!("weights/{last}/actor/model.safetensors"), &|path| std::fs::remove_file(path).unwrap());
    assert!(said.contains("model.safetensors is missing") && bundled.contains("model.safetensors is missing"), "{said} {bundled}");
    let [_, said, bundled] = with("vocabularies/actor/vocabulary.json", &replace("(1, 1)", "(4, 4)"));
    let differs = "vocabularies/actor/vocabulary.json differs from the model's own";
    assert!(said.contains(differs) && bundled.contains(differs), "{said} {bundled}");
    let part = std::fs::read_dir(run.join("log/rollout")).unwrap().next().unwrap().unwrap().path();
    let part = std::fs::read_dir(part).unwrap().next().unwrap().unwrap().path();
    let [_, _, bundled] = with(part.strip_prefix(&run).unwrap().to_str().unwrap(), &|path| std::fs::write(path, "no rows").unwrap());
    assert!(bundled.contains("is damaged"), "{bundled}");
    assert!(done(flow().arg("verify").arg(&run)).contains("\nevery digit agrees\n"));
    let whole = std::fs::read(&bundle).unwrap();
    for (length, fault) in [(0, "is empty"), (whole.len() / 2, "is cut off"), (whole.len() - 513, "is cut off")] {
        std::fs::write(&bundle, &whole[..length]).unwrap();
        let said = fails(flow().arg("verify").arg(&bundle));
        assert!(said.contains(fault) && said.contains(": copy the bundle again"), "{length}: {said}");
    }
    std::fs::remove_file(&bundle).unwrap();
    assert!(fails(flow().arg("verify").arg(&bundle)).contains("run.tar: name the folder of a run, or a bundle of one"));
    assert!(fails(flow().arg("show").arg(folder.path().join("none"))).contains("none: name the folder of a run"));
    std::fs::write(&bundle, "no archive").unwrap();
    assert!(fails(flow().arg("verify").arg(&bundle)).contains("isn't a bundle of `flow bundle`"));
    // Where nothing but rollouts is logged, the weights are compared.
    let bare = trained(folder.path(), "bare", &rich(), &["--set", "log=[rollout]"]);
    let said = done(flow().arg("verify").arg(&bare));
    assert!(said.contains("the same, bit for bit") && said.contains("\nevery digit agrees\n"), "{said}");
    let part = done(flow().arg("verify").arg(&bare).args(["--iterations", "1"]));
    assert!(part.contains("metrics, ") && part.contains("in each iteration, 1 versions: the same"), "{part}");
    // Without rollouts there is nothing to compute again.
    let few = trained(folder.path(), "few", &rich(), &["--set", "log=[update]"]);
    let refused = fails(flow().arg("bundle").arg(&few).arg("--out").arg(folder.path().join("few.tar")));
    assert!(refused.contains("has not logged the rows of `rollout`, so its bundle could not be verified"), "{refused}");
}

/// Ctrl-C takes the unpacked bundle and the replay with it, whether it comes while one or the other is made.
#[test]
fn an_interrupted_verification_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &rich(), &[]);
    let bundle = folder.path().join("run.tar");
    done(flow().arg("bundle").arg(&run).arg("--out").arg(&bundle));
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let entries = || std::fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    for part in ["run", "replay"] {
        let mut verify = flow();
        verify.arg("verify").arg(&bundle).env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::null());
        let mut verify = verify.spawn().unwrap();
        while !entries().iter().any(|own| own.join(part).exists()) {
            assert_eq!(verify.try_wait().unwrap(), None, "it is at work");
            std::thread::sleep(Duration::from_millis(1));
        }
        done(Command::new("kill").args(["-INT", &verify.id().to_string()]));
        assert_eq!(verify.wait().unwrap().code(), Some(130), "{part}");
        assert_eq!(entries(), Vec::<PathBuf>::new(), "{part}");
    }
    // What is wrong in a bundle is told by the bundle's name, by this process and by the one that replays.
    let changed = |change: &dyn Fn(&Path)| {
        let (open, tar) = (folder.path().join("open"), folder.path().join("changed.tar"));
        std::fs::create_dir(&open).unwrap();
        tar::Archive::new(File::open(&bundle).unwrap()).unpack(&open).unwrap();
        change(&open);
        let mut writer = tar::Builder::new(File::create(&tar).unwrap());
        for entry in walk(&open) {
            writer.append_path_with_name(&entry, entry.strip_prefix(&open).unwrap()).unwrap();
        }
        writer.finish().unwrap();
        std::fs::remove_dir_all(&open).unwrap();
        let said = fails(flow().arg("verify").arg(&tar).env("TMPDIR", &temporary));
        assert!(!said.contains(temporary.to_str().unwrap()) && said.contains("changed.tar"), "{said}");
        said
    };
    let last = ask(&run, "SELECT max(version) AS v FROM update")[0]["v"].as_u64().unwrap();
    let weights = format!("weights/{last}/actor/model.safetensors");
    let said = changed(&|open| std::fs::remove_file(open.join(&weights)).unwrap());
    assert!(said.contains(&format!("changed.tar/{weights} is missing")), "{said}");
    let said = changed(&|open| {
        let part = walk(&open.join("log/rollout")).swap_remove(0);
        let length = std::fs::metadata(&part).unwrap().len();
        std::fs::write(part, vec![0; length as usize]).unwrap();
    });
    assert!(said.contains("changed.tar/log/rollout/") && said.contains("can't be computed again"), "{said}");
    // A file of another length isn't unpacked, and neither is one that the run didn't write.
    let said = changed(&|open| std::fs::write(walk(&open.join("log/rollout")).swap_remove(0), "no rows").unwrap());
    assert!(said.contains("has 7 bytes of `log/rollout/") && said.contains("copy the bundle again"), "{said}");
    let said = changed(&|open| std::fs::write(open.join("log/rollout/notes.txt"), "mine").unwrap());
    assert!(said.contains("`log/rollout/notes.txt` is no file of its run"), "{said}");
    assert_eq!(entries(), Vec::<PathBuf>::new());
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
