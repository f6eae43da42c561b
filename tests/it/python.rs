//! Functions in Python as operators and as losses, with the real Python: the same rows everywhere, mistakes with their
//! place, and an end in one clear message whatever a function does.

use crate::common::*;
use crate::processes::together;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A pipeline whose credit is a function's.
fn with_credit(credit: &str) -> String {
    format!(
        r#"
flow: python
iterations: 3
seed: 5
models:
  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }}
nodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 4, mines: 2, batch: 6 }} }}
  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 5 }}, samples: 4 }} }}
  {credit}
  update: {{ op: gpu-update, inputs: credit, with: {{ model: actor, lr: 1.0e-3 }} }}
log: [rollout, credit, update]
"#
    )
}

/// The same with one function of the tests' file.
fn calling(function: &str, more: &str) -> String {
    with_credit(&format!("credit: {{ op: python, inputs: rollout, with: {{ call: {}:{function}{more} }} }}", functions()))
}

fn functions() -> String {
    format!("{}/tests/programs/functions.py", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_function_gives_the_same_rows_everywhere_and_again() {
    let folder = tempfile::tempdir().unwrap();
    for (name, yaml) in [("gap", calling("gap", ", by: [task], settings: { alpha: 0.5 }")), ("baseline", calling("baseline", ""))] {
        let at = |other: &str| format!("{name}-{other}");
        let run = trained(folder.path(), &at("one"), &yaml, &["--workers", "1"]);
        let whole = digest(&run);
        for workers in ["2", "4"] {
            assert!(digest(&trained(folder.path(), &at(workers), &yaml, &["--workers", workers])) == whole, "{name} on {workers} workers");
        }
        let two = folder.path().join(at("processes"));
        together(&pipeline(folder.path(), &yaml), &two, 2, &[]);
        assert!(digest(&two) == whole, "{name} in two processes");
        let short = trained(folder.path(), &at("short"), &yaml, &["--set", "iterations=1"]);
        done(flow().arg("resume").arg(&short).args(["--iterations", "3"]));
        assert!(digest(&short) == whole, "{name} resumed");
        assert!(done(flow().arg("verify").arg(&run)).contains("every digit agrees"), "{name}");
        let replay = folder.path().join(at("replay"));
        done(flow().arg("replay").arg(&run).arg("--out").arg(&replay));
        let credit = "select * from credit order by all";
        assert!(answer(&replay, credit, "json") == answer(&run, credit, "json"), "{name} replayed");
    }
}

/// The mean of a group and its difference, by SQL; chance of its own for each group; columns of one's own.
#[test]
fn what_a_function_makes_is_logged_as_any_other_column() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &calling("gap", ", by: [task], settings: { alpha: 0.5 }"), &[]);
    let sql = "select max(abs(advantage - 0.5 * (reward - mean))) as apart, count(distinct derived_rank) as groups, count(distinct iteration || task) as tasks,
               bool_and(noted_why = 'turn ' || turn) as texts, bool_and(len(token_derived_x) = turn) as lists
               from (select *, avg(reward) over (partition by iteration, task) as mean from trajectories)";
    let found = &ask(&run, sql)[0];
    assert!(found["apart"].as_f64().unwrap() < 1e-6, "{found}");
    assert_eq!((&found["groups"], &found["texts"], &found["lists"]), (&found["tasks"], &true.into(), &true.into()), "{found}");
    // The run has all that it needs: the file may be gone, and no Python is asked to look at it.
    let yaml = std::fs::read_to_string(run.join("pipeline.yaml")).unwrap();
    assert!(
        yaml.contains("call: gap") && yaml.contains("def gap(rows, *, alpha: float = 1.0)") && yaml.contains("noted_why: utf8"),
        "{yaml}"
    );
    let shown = done(flow().arg("show").arg(&run).env("PATH", "/nowhere"));
    assert!(shown.contains("credit"), "{shown}");
    let bundle = folder.path().join("run.tar");
    done(flow().arg("bundle").arg(&run).arg("--out").arg(&bundle));
    assert!(done(flow().arg("verify").arg(&bundle)).contains("every digit agrees"));
    // Another idea on the same rollouts.
    let other = folder.path().join("other");
    let with = format!("nodes.credit.with={{ call: {}:baseline, settings: null, by: null }}", functions());
    done(flow().arg("replay").arg(&run).args(["--set", &with, "--out"]).arg(&other));
    let kept = ask(&other, "select iteration, function_state from credit where function_state <> '' order by 1");
    assert_eq!(kept.len(), 3, "{kept:?}");
    let rewards = ask(&run, "select count(*) as rows, round(avg(reward), 9) as mean from rollout");
    let last: serde_json::Value = serde_json::from_str(kept[2]["function_state"].as_str().unwrap()).unwrap();
    assert_eq!(last["rows"], rewards[0]["rows"]);
    assert!((last["mean"].as_f64().unwrap() - rewards[0]["mean"].as_f64().unwrap()).abs() < 1e-6);
}

/// A run of somebody else: another list of what ran here. Looking at it runs nothing, whatever its pipeline says.
#[test]
fn what_a_stranger_brings_runs_only_when_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let file = folder.path().join("marked.py");
    let code = "import flow_op, pyarrow as pa\nopen('MARK', 'a').write('x')\n\n@flow_op.columns(needs=['reward'], adds={'advantage': pa.float32()})\ndef f(rows):\n    return {'advantage': rows['reward']}\n";
    std::fs::write(&file, code.replace("MARK", &mark.display().to_string())).unwrap();
    let yaml = with_credit(&format!("credit: {{ op: python, inputs: rollout, with: {{ call: {} }} }}", file.display().to_string() + ":f"));
    let run = trained(folder.path(), "run", &yaml, &[]);
    let ran = || std::fs::read_to_string(&mark).map_or(0, |text| text.len());
    let before = ran();
    let elsewhere = |command: &mut Command| {
        let output = command.env("XDG_STATE_HOME", folder.path().join("state")).output().unwrap();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    for verb in ["verify", "replay"] {
        let out = folder.path().join(format!("{verb}-out"));
        let (good, said) = elsewhere(flow().arg(verb).arg(&run).args(if verb == "replay" { vec!["--out".into(), out] } else { vec![] }));
        assert!(!good && said.contains("hasn't run here before") && said.contains("--run-code"), "{verb}: {said}");
    }
    let (good, said) = elsewhere(flow().arg("resume").arg(&run).args(["--iterations", "5"]));
    assert!(!good && said.contains("--run-code") && !folder.path().join("replay-out").exists(), "{said}");
    let yaml = std::fs::read_to_string(run.join("pipeline.yaml")).unwrap();
    let undeclared = yaml.split("      declared:").next().unwrap().to_string() + "  update:" + yaml.split_once("\n  update:").unwrap().1;
    let copy = folder.path().join("copy");
    done(Command::new("cp").arg("-r").arg(&run).arg(&copy));
    std::fs::write(copy.join("pipeline.yaml"), undeclared).unwrap();
    for verb in ["show", "verify", "replay", "diff"] {
        let mut command = flow();
        command.arg(verb).arg(&copy);
        elsewhere(if verb == "diff" { command.arg(&run) } else { &mut command });
    }
    assert_eq!(ran(), before, "nothing of it ran");
    let (good, said) = elsewhere(flow().arg("verify").arg(&run).arg("--run-code"));
    assert!(good && ran() > before, "{said}");
    let (good, said) = elsewhere(flow().arg("verify").arg(&run));
    assert!(good, "it was allowed once: {said}");
}

#[test]
fn rows_are_dropped_changed_and_made() {
    let folder = tempfile::tempdir().unwrap();
    let credit = |function: &str| {
        let few = format!("few: {{ op: python, inputs: rollout, with: {{ call: {}:{function}, by: [task] }} }}", functions());
        with_credit(&format!("{few}\n  credit: {{ op: python, inputs: few, with: {{ call: {}:gap }} }}", functions()))
            .replace("log: [rollout,", "log: [rollout, few,")
    };
    let run = trained(folder.path(), "edited", &credit("edited"), &["--workers", "2"]);
    let sql = "select count(*) as rows, sum(few.reward) as halves, sum(rollout.reward) as wholes,
               (select count(*) from rollout where turn < 2) as early, (select count(*) from credit) as judged, (select count(*) from update) as learnt
               from few join rollout using (iteration, task, sample, attempt, turn, phase)";
    let found = &ask(&run, sql)[0];
    for name in ["early", "judged", "learnt"] {
        assert_eq!(found["rows"], found[name], "{found}");
    }
    assert_eq!(found["halves"].as_f64().unwrap() * 2.0, found["wholes"].as_f64().unwrap(), "{found}");
    assert!(done(flow().arg("verify").arg(&run)).contains("every digit agrees"));
    let run = trained(folder.path(), "doubled", &credit("doubled"), &["--workers", "2"]);
    let found = &ask(
        &run,
        "select count(*) as rows, 2 * (select count(*) from rollout) as twice, (select count(*) from update) as learnt from few",
    )[0];
    assert_eq!((&found["rows"], &found["rows"]), (&found["twice"], &found["learnt"]), "{found}");
    let error = fails(flow().arg("run").arg(pipeline(folder.path(), &credit("half"))).arg("--out").arg(folder.path().join("half")));
    let unsaid = fails(flow().arg("run").arg(pipeline(folder.path(), &credit("unsaid"))).arg("--out").arg(folder.path().join("unsaid")));
    assert!(unsaid.contains("changes `reward` of rows and doesn't say so"), "{unsaid}");
    assert!(error.contains("is new, and the function's result lacks its column") && error.contains("needs=\"all\""), "{error}");
}

/// Notes for the next attempt, edited by a function: the loop's rows are the same on any number of workers, and other than
/// without it.
#[test]
fn a_function_in_a_loop_gets_each_episode_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let told = format!("told: {{ op: python, inputs: reflect, with: {{ call: {}:shout, by: [task, sample] }} }}", functions());
    let yaml = LOOPED
        .replace("    output: [rollout, reflect]", &format!("      {told}\n    output: [rollout, told]"))
        .replace("memory: { after: reflect }", "memory: { after: told }");
    let run = trained(folder.path(), "one", &yaml, &["--workers", "1"]);
    let whole = digest(&run);
    for workers in ["2", "4"] {
        assert!(digest(&trained(folder.path(), workers, &yaml, &["--workers", workers])) == whole, "on {workers} workers");
    }
    let short = trained(folder.path(), "short", &yaml, &["--set", "iterations=1"]);
    done(flow().arg("resume").arg(&short).args(["--iterations", "3"]));
    assert!(digest(&short) == whole, "resumed");
    let kept =
        "select count(*) as notes, count(*) filter (where kept = upper(kept)) as shouted from trial where phase = 'reflect' and kept <> ''";
    let found = &ask(&run, kept)[0];
    assert!(found["notes"].as_u64() > Some(5) && found["notes"] == found["shouted"], "{found}");
    let memory = "select count(*) as n from trial where attempt > 0 and memory <> '' and memory = upper(memory)";
    assert!(ask(&run, memory)[0]["n"].as_u64() > Some(5), "the next attempt reads them");
    assert!(done(flow().arg("verify").arg(&run)).contains("every digit agrees"));
    let error = fails(flow().arg("check").arg(pipeline(folder.path(), &yaml.replace(", by: [task, sample]", ""))));
    assert!(error.contains("in a loop episodes come one by one") && error.contains("by: [task, sample]"), "{error}");
}

/// Each mistake that can be known before anything runs, with what is said of it and the word that the caret stands under.
#[test]
fn mistakes_have_their_place_in_the_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let told = |yaml: &str, why: &str, at: &str| {
        let error = fails(flow().arg("check").arg(pipeline(folder.path(), yaml)));
        let caret = |line: &str| line.find('^').map(|at| (at, line.matches('^').count()));
        let lines: Vec<&str> = error.lines().collect();
        let under = lines.windows(2).find_map(|two| caret(two[1]).map(|(at, long)| two[0][at..at + long].to_string()));
        assert!(error.contains(why), "{why}: {error}");
        assert!(under.is_some_and(|under| under.contains(at)), "{at}: {error}");
        assert_eq!(error.matches("error:").count(), 1, "{error}");
    };
    for (function, more, why, at) in [
        ("nothing", "", "has no function `nothing`", "functions.py"),
        ("unknown_column", "", "call it `derived_grade`", "functions.py"),
        ("other_type", "", "adds `advantage` as utf8, and the column holds f32", "functions.py"),
        ("lacks", "", "needs the column `token_values` here", "functions.py"),
        ("gap", ", settings: { beta: 1 }", "has no setting `beta`", "1"),
        ("gap", ", settings: { alpha: much }", "`alpha` of `gap` is \"much\"", "much"),
        ("gap", ", by: [taks]", "there is no column `taks`", "taks"),
        ("baseline", ", by: [task]", "keeps a state", "["),
        ("mean_of_all", "", "computes a loss of tokens", "functions.py"),
    ] {
        told(&calling(function, more), why, at);
    }
    told(&with_credit("credit: { op: python, inputs: rollout, with: { call: nofile.py:f } }"), "there is no `", "nofile.py");
    told(
        &with_credit("credit: { op: python, inputs: rollout, with: { call: no.such.module:f } }"),
        "there is no module no",
        "no.such.module",
    );
    told(&with_credit("credit: { op: python, inputs: rollout, with: { call: alone } }"), "write `FILE.py:NAME`", "alone");
    told(&calling("gap", "").replace("by: [task]", "").replace("python, inputs", "pyton, inputs"), "there is no operator `pyton`", "pyton");
    let state = calling("baseline", "").replace("log: [rollout, credit,", "log: [rollout,");
    told(&state, "keeps a state, and a resumed run reads it in the log", "{");
    let loss = with_credit("credit: { op: python, inputs: rollout, with: { call: FILE:gap } }").replace("FILE", &functions());
    let loss = |surrogate: &str| loss.replace("lr: 1.0e-3", &format!("lr: 1.0e-3, surrogate: {surrogate}"));
    told(&loss(&format!("{{ call: {}:gap }}", functions())), "`gap` computes no loss", "functions.py");
    told(&loss(&format!("{{ call: {}:mean_of_all, settings: {{ x: 1 }} }}", functions())), "has no setting `x`", "1");
    told(&loss("clipp"), "surrogate", "clipp");
}

/// What a function does while a run goes on. The iterations before it stand, and the run can go on.
#[test]
fn a_function_that_goes_wrong_ends_the_run_in_one_message() {
    let folder = tempfile::tempdir().unwrap();
    for (function, more, words) in [
        ("raises", ", by: [task]", &["KeyError: 'nothing'", "functions.py", "in task "][..]),
        ("short", "", &["values for", "give one a row"]),
        ("nan", "", &["`advantage`", "nan", "turn "]),
        ("text", "", &["`advantage`", "float"]),
        ("exits", "", &["SystemExit"]),
        ("dies", "", &["the process of the function ended (exit status: 7)"]),
        ("killed", "", &["the process of the function ended (signal: 9"]),
        ("endless", ", seconds: 1", &["took more than 1 s (`seconds`)"]),
        ("huge", ", memory_gb: 2", &["bytes that it may have"]),
        ("clock", "", &["two calls with the same rows", "the clock"]),
        ("unsorted", ", by: [task]", &["two calls with the same rows", "the order of the rows"]),
        ("late", "", &["two calls with the same rows", "the order of the rows"]),
    ] {
        let out = folder.path().join(function);
        let error = fails(flow().arg("run").arg(pipeline(folder.path(), &calling(function, more))).arg("--out").arg(&out));
        for word in words {
            assert!(error.contains(word), "{function}: {word} isn't in: {error}");
        }
        assert!(
            error.contains(&format!("functions.py:{function}")) && error.contains("credit") && error.len() < 6000,
            "{function}: {error}"
        );
        assert!(error.contains("flow resume"), "{function}: {error}");
        let end = Instant::now() + Duration::from_secs(5);
        while orphans() > 0 {
            assert!(Instant::now() < end, "{function}: its process lives on");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    for function in ["prints", "forks", "dictionary"] {
        let run = trained(folder.path(), function, &calling(function, ""), &[]);
        assert_eq!(ask(&run, "select distinct advantage from credit").len(), 1, "{function}");
    }
    let prints = std::fs::metadata(folder.path().join("prints/prints-credit.log")).unwrap().len();
    assert!(prints > 10_000_000 && prints < 20_000_000, "{prints} bytes of prints");
}

/// Processes that run a function of the tests though their flow has ended: they have another parent.
fn orphans() -> usize {
    let own = |process: &std::fs::DirEntry| {
        let text = |file: &str| text(&std::fs::read(process.path().join(file)).unwrap_or_default());
        text("cmdline").contains("flow_op") && text("environ").contains(env!("CARGO_MANIFEST_DIR")) && text("status").contains("PPid:\t1\n")
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(own).count()
}

/// The gradient of each token by five losses of `examples/losses.py`, beside those that are built in; in several steps, so
/// that ratios differ from 1 and some are clipped.
#[test]
fn losses_in_python_have_the_gradients_of_those_that_are_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let credit = "group: { op: group, inputs: rollout, with: { by: [task] } }\n  credit: { op: advantage, inputs: group, with: { of: episode_return } }";
    let learning = |surrogate: &str| {
        let with = format!("lr: 1.0e-2, epochs: 4, minibatch: 32, micro_batch: 7, token_figures: true, max_grad_norm: 0, {surrogate}");
        with_credit(credit).replace("lr: 1.0e-3", &with).replace("iterations: 3", "iterations: 1")
    };
    let figures = |run: &Path| {
        let tokens = "select unnest(token_grads) as grad, unnest(token_ratios) as ratio from update order by iteration, task, sample, turn";
        let list = |name: &str| {
            let of = format!("select {name} as x from ({tokens})");
            ask(run, &of).iter().map(|row| row["x"].as_f64().unwrap()).collect::<Vec<f64>>()
        };
        let clipped = ask(run, "select value from metrics where name = 'clip_fraction'")[0]["value"].as_f64().unwrap();
        (list("grad"), list("ratio"), clipped)
    };
    for (name, built_in, settings) in [
        ("clip", "surrogate: clip, clip: 0.1", "{ low: 0.1, high: 0.1 }"),
        ("cispo", "surrogate: cispo, clip: 0.1", "{ low: 0.1, high: 0.1 }"),
        ("gspo", "ratio: sequence, clip: 0.05, aggregation: seq_mean_token_mean", "{ low: 0.05, high: 0.05 }"),
        ("gmpo", "surrogate: gmpo, clip: 0.1, clip_high: 0.1, aggregation: seq_mean_token_mean", "{ low: 0.1, high: 0.1 }"),
        ("dppo", "surrogate: dppo, clip: 0.02, clip_high: 0.02", "{ low: 0.02, high: 0.02 }"),
    ] {
        let root = env!("CARGO_MANIFEST_DIR");
        let aggregation = built_in.split_once("aggregation").map_or(String::new(), |(_, rest)| format!(", aggregation{rest}"));
        let function = format!("surrogate: {{ call: {root}/examples/losses.py:{name}, settings: {settings} }}{aggregation}");
        let (native, own) = (trained(folder.path(), &format!("{name}-native"), &learning(built_in), &[]), folder.path().join(name));
        let own = trained(folder.path(), own.file_name().unwrap().to_str().unwrap(), &learning(&function), &["--workers", "1"]);
        let ((wanted, ratios, clipped), (found, _, found_clipped)) = (figures(&native), figures(&own));
        assert!(ratios.iter().any(|ratio| (ratio - 1.0).abs() > 0.05) && clipped > 0.0, "{name}: nothing is clipped");
        let apart = wanted.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(wanted.len() == found.len() && apart < 1e-6, "{name}: {apart}");
        assert!((clipped - found_clipped).abs() < 1e-9, "{name}: {clipped} and {found_clipped}");
        for workers in ["2", "4"] {
            let other = trained(folder.path(), &format!("{name}-{workers}"), &learning(&function), &["--workers", workers]);
            assert!(digest(&other) == digest(&own), "{name} on {workers} workers");
        }
        assert!(done(flow().arg("verify").arg(&own)).contains("every digit agrees"), "{name}");
    }
    for wrong in ["wrong_sign", "without_weight"] {
        let yaml = learning(&format!("surrogate: {{ call: {}:{wrong} }}", functions()));
        let error = fails(flow().arg("run").arg(pipeline(folder.path(), &yaml)).arg("--out").arg(folder.path().join(wrong)));
        assert!(error.contains("the slope isn't the derivative") && error.contains("central differences"), "{error}");
    }
    let function = format!("surrogate: {{ call: {}:mean_of_all }}", functions());
    let error = fails(flow().arg("run").arg(pipeline(folder.path(), &learning(&function))).arg("--out").arg(folder.path().join("mean")));
    assert!(error.contains("of a row's tokens is another among other rows") && error.contains("mean_of_all"), "{error}");
}
