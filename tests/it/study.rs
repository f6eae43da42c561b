//! `flow study`: a table from nothing but its file, made once, and told where each cell comes from.

use crate::common::*;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

const PIPELINE: &str = r#"
flow: small
iterations: 2
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 4 }, samples: 2 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, update]
"#;

/// A warm start, a method under two seeds that starts from it, and the difference between them.
fn study(folder: &Path) -> std::path::PathBuf {
    let pipeline = pipeline(folder, PIPELINE);
    // It loads what the study says, in place of a new model, and asks as a file says, whose text its runs keep.
    let (method, prompt) = (folder.join("method.yaml"), folder.join("prompt.txt"));
    let new = "{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }";
    std::fs::write(&prompt, "{{ memory }}{{ observation }}\n").unwrap();
    let asks = format!("max_turns: 4, prompt: {}", prompt.display());
    std::fs::write(&method, PIPELINE.replace(new, "{ load: nowhere }").replace("max_turns: 4", &asks)).unwrap();
    let file = folder.join("study.yaml");
    let text = format!(
        r#"study: small
about: Two seeds of a method, and where they started.
home: home
page: docs/page.md
seeds: [1, 2]
runs:
  start: {{ pipeline: {start}, seeds: [7] }}
  method: {{ pipeline: {method}, from: {{ actor: start }}, set: {{ iterations: 3 }} }}
measurements:
  panel: {{ panel: datasets/minesweeper-4x4-m2-d64920f25f41.json, attempts: 2, temperature: 1 }}
tables:
  - title: Success
    measurement: panel
    against: start
    rows:
      - {{ name: start, run: start, paper: "4.5" }}
      - {{ name: method, run: method }}
      - {{ name: gain, run: method, less: {{ run: start }} }}
    columns:
      - {{ name: "pass@1", value: '"pass@1"', scale: 100 }}
      - {{ name: rows, query: "select count(*) from rollout", digits: 0 }}
"#,
        start = pipeline.display(),
        method = method.display(),
    );
    std::fs::write(&file, rooted(&text)).unwrap();
    file
}

#[test]
fn two_processes_share_a_study_and_do_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let file = study(folder.path());
    let left = done(flow().arg("study").arg(&file).arg("--dry-run"));
    // All that is of the first seed comes before the second.
    let jobs: Vec<&str> = left.lines().skip(1).map(str::trim).collect();
    let order = ["run start, seed 7", "measure panel of start, seed 7", "run method, seed 1", "measure panel of method, seed 1"];
    assert_eq!(jobs[..4], order);
    // Of one seed, by an override that is checked as the file is.
    let fewer = done(flow().arg("study").arg(&file).args(["--dry-run", "--set", "seeds=[2]"]));
    assert!(fewer.starts_with("0 pieces of work are done, 4 are left\n") && fewer.contains("run method, seed 2"), "{fewer}");
    let message = fails(flow().arg("study").arg(&file).args(["--dry-run", "--set", "seeds=[two]"]));
    assert!(message.contains("--set") && message.contains("seeds"), "{message}");
    let begin = || flow().arg("study").arg(&file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let both = [begin(), begin()].map(|child| child.wait_with_output().unwrap());
    let mut begun: Vec<String> = Vec::new();
    for output in &both {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines = text(&output.stderr);
        begun.extend(lines.lines().map(|line| line.split_once("  ").unwrap().1.split(';').next().unwrap().to_owned()));
    }
    let mut all: Vec<String> = jobs.iter().map(|job| job.to_string()).collect();
    begun.sort();
    all.sort();
    assert_eq!(begun, all);
}

#[test]
fn a_study_is_made_once_and_says_where_its_cells_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (study(folder.path()), folder.path().join("docs/page.md"));
    let output = done(flow().arg("study").arg(&file).arg("--dry-run"));
    assert!(output.starts_with("0 pieces of work are done, 6 are left\n  run start, seed 7\n"), "{output}");
    done(flow().arg("study").arg(&file).args(["--jobs", "2"]));
    let page_text = std::fs::read_to_string(&page).unwrap();

    // The cells are those of the measurements' and the runs' own answers.
    let home = folder.path().join("home");
    let pass = |run: &str| {
        let saved = std::fs::read_to_string(home.join(format!("measured/panel-{run}.json"))).unwrap();
        let saved: Value = serde_json::from_str(&saved).unwrap();
        100.0 * saved["answer"]["pass"][0]["share"].as_f64().unwrap()
    };
    let (start, first, second) = (pass("start-7"), pass("method-1"), pass("method-2"));
    let (mean, deviation) = ((first + second) / 2.0, (first - second).abs() / 2f64.sqrt());
    let rows = |run: &str| ask(&home.join(run), "select count(*) as n from rollout")[0]["n"].as_f64().unwrap();
    assert!(page_text.contains(&format!("| start | {start:.1} | {:.0} | *4.5* |", rows("start-7"))), "{page_text}");
    // A verdict on each difference, by its p, whether a row is the difference or stands against another: the same
    // numbers, and so the same p.
    let gain = page_text.lines().find(|line| line.starts_with("| gain |")).unwrap();
    let (difference, verdict) = gain.split('|').nth(2).unwrap().trim().split_once(", ").unwrap();
    assert_eq!(difference, format!("{:.1} ({deviation:.1})", mean - start));
    assert!(["above (p ", "below (p ", "not significant (p "].iter().any(|words| verdict.starts_with(words)), "{gain}");
    let sign = if mean > start { "+" } else { "" };
    let method = page_text.lines().find(|line| line.starts_with("| method |")).unwrap();
    assert!(
        method.replace("**", "").starts_with(&format!("| method | {mean:.1} ({deviation:.1}); {sign}{difference}, {verdict} |")),
        "{method}"
    );
    for words in ["for the 2 distinct comparisons", "on the difference from `start`", "Power is at p 0.05 / 2"] {
        assert!(page_text.contains(words), "{words}: {page_text}");
    }
    assert_eq!(ask(&home.join("method-1"), "select max(iteration) as last from rollout")[0]["last"], 2);

    // What is done stays done, and notes below the tables stay.
    std::fs::write(&page, format!("{page_text}\n## What came out\n\nAll of it.\n")).unwrap();
    let manifest = std::fs::read(home.join("method-2/manifest.json")).unwrap();
    let again = flow().arg("study").arg(&file).output().unwrap();
    assert!(again.status.success() && again.stderr.is_empty(), "{}", text(&again.stderr));
    assert_eq!(std::fs::read(home.join("method-2/manifest.json")).unwrap(), manifest);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), format!("{page_text}\n## What came out\n\nAll of it.\n"));

    let origin = done(flow().arg("study").arg(&file).args(["--cell", "Success", "gain", "pass@1"]));
    let from = format!("--set models.actor.load={}", home.join("start-7").display());
    assert!(origin.contains("flow eval") && origin.contains(&from) && origin.contains("\nless\n"), "{origin}");

    // What has iterations to go isn't on the page.
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, whole.replace("{ iterations: 3 }", "{ iterations: 4 }")).unwrap();
    done(flow().arg("study").arg(&file).arg("--write"));
    let unfinished = std::fs::read_to_string(&page).unwrap();
    assert!(unfinished.contains(&format!("| start | {start:.1} |")) && unfinished.contains("| method | - | - |"), "{unfinished}");
    std::fs::write(&file, whole).unwrap();

    // A measurement whose command has changed is made again; a run whose settings have changed is refused.
    let changed = std::fs::read_to_string(&file).unwrap().replace("temperature: 1", "temperature: 0.5");
    std::fs::write(&file, &changed).unwrap();
    let output = done(flow().arg("study").arg(&file).arg("--dry-run"));
    assert!(output.starts_with("3 pieces of work are done, 3 are left\n  measure panel of start, seed 7\n"), "{output}");
    std::fs::write(&file, changed.replace("{ iterations: 3 }", "{ iterations: 3, nodes.update.with.lr: 0.5 }")).unwrap();
    let output = fails(flow().arg("study").arg(&file));
    assert!(output.contains("was made with other settings than these: nodes.update.with.lr"), "{output}");
}

/// A measurement with a `memory` plays the panel told what that run of the same seed remembers, as `flow eval --memory`
/// does by hand; one without plays it told nothing.
#[test]
fn a_measurement_may_read_the_memory_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let remembering = PIPELINE.replace("log: [", "log: [memory, ").replace(
        "  group:",
        "  memory: { op: memory-update, inputs: rollout, with: { entries: endings, text: observation, per: all } }\n  group:",
    );
    let remembering = remembering
        .replace("weights: { after: update } }", "weights: { after: update }, memory: { after: memory } }")
        .replace("max_turns: 4", "max_turns: 4, context: [{ memory: memory, by: all, most: 1, tokens: 100 }]");
    let (pipeline, home) = (pipeline(folder.path(), &remembering), folder.path().join("home"));
    let (file, panel) = (folder.path().join("study.yaml"), "datasets/minesweeper-4x4-m2-d64920f25f41.json");
    let text = format!(
        r#"study: told
home: {home}
page: {page}
seeds: [1, 2]
runs:
  method: {{ pipeline: {pipeline} }}
measurements:
  told: {{ panel: {panel}, memory: method }}
  nothing: {{ panel: {panel} }}
tables:
  - title: Success
    rows:
      - {{ name: told, run: method, measurement: told }}
      - {{ name: nothing, run: method, measurement: nothing }}
    columns:
      - {{ name: return, value: '"return"', digits: 3 }}
"#,
        home = home.display(),
        page = folder.path().join("page.md").display(),
        pipeline = pipeline.display(),
    );
    let text = rooted(&text);
    std::fs::write(&file, &text).unwrap();
    done(flow().arg("study").arg(&file));
    let measurement = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(home.join(format!("measured/{name}.json"))).unwrap()).unwrap()
    };
    for seed in [1, 2] {
        let run = home.join(format!("method-{seed}"));
        let (with_memory, nothing) = (measurement(&format!("told-method-{seed}")), measurement(&format!("nothing-method-{seed}")));
        assert!(with_memory["command"].as_str().unwrap().contains(&format!("--memory {}", run.display())), "{with_memory}");
        assert!(!nothing["command"].as_str().unwrap().contains("--memory"), "{nothing}");
        let out = folder.path().join(format!("played-{seed}"));
        let mut by_hand = flow();
        by_hand.arg("eval").arg(&run).args(["--panel", panel, "--format", "json", "--seed", &seed.to_string()]);
        let by_hand: Value = serde_json::from_str(&done(by_hand.arg("--memory").arg(&run).arg("--out").arg(&out))).unwrap();
        assert_eq!(with_memory["answer"], by_hand);
        let heard = ask(&out, "select count(*) filter (where len(retrieved) > 0) as told, count(*) as n from rollout");
        assert!(heard[0]["told"] == heard[0]["n"], "every turn was told something: {heard:?}");
        assert!(with_memory["answer"]["return"] != nothing["answer"]["return"], "being told makes a difference: {with_memory}");
    }
    std::fs::write(&file, text.replace("memory: method", "memory: methot")).unwrap();
    let message = fails(flow().arg("study").arg(&file));
    assert!(message.contains("there is no run `methot` in this study") && message.contains("study.yaml:8:"), "{message}");
}

/// A policy of one environment is measured in another, a program of the user's own, which only the pipeline that it is
/// played like declares.
#[test]
fn a_measurement_may_be_in_an_environment_that_no_run_trains_in() {
    let folder = tempfile::tempdir().unwrap();
    let world = "env: process, name: corridor, command: [python3, examples/corridor.py]";
    let other = PIPELINE.replace("env: minesweeper, size: 4, mines: 2", &format!("{world}, split: train"));
    let like = folder.path().join("other.yaml");
    std::fs::write(&like, other).unwrap();
    let mut freeze = flow();
    freeze.args(["panel", "process", "name=corridor", "split=test", "--count", "3", "--out"]).arg(folder.path().join("panels"));
    done(freeze.arg(r#"command=["python3","examples/corridor.py"]"#));
    let panel = std::fs::read_dir(folder.path().join("panels")).unwrap().next().unwrap().unwrap().path();
    let text = format!(
        r#"study: abroad
home: home
page: page.md
seeds: [1]
runs:
  method: {{ pipeline: {pipeline} }}
measurements:
  abroad: {{ panel: {panel}, like: {like} }}
tables:
  - title: Return
    rows: [{{ name: method, run: method, measurement: abroad }}]
    columns: [{{ name: return, value: '"return"', digits: 3 }}]
"#,
        pipeline = pipeline(folder.path(), PIPELINE).display(),
        panel = panel.display(),
        like = like.display(),
    );
    let file = folder.path().join("study.yaml");
    std::fs::write(&file, text).unwrap();
    done(flow().arg("study").arg(&file));
    let answer = std::fs::read_to_string(folder.path().join("home/measured/abroad-method-1.json")).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["answer"]["tasks"], 3, "{answer}");
}

/// Each seed is audited once, and the tables' questions read it.
#[test]
fn a_measurement_may_be_an_audit() {
    let folder = tempfile::tempdir().unwrap();
    let kept = PIPELINE.replace("iterations: 2", "iterations: 2\nkeep: { every: 1 }").replace("log: [rollout", "log: [rollout, advantage");
    let text = format!(
        "study: small\nhome: home\npage: page.md\nseeds: [1, 2]\nruns:\n  method: {{ pipeline: {} }}\nmeasurements:\n  \
         credit: {{ audit: {{ turns: 6, plays: 2 }} }}\ntables:\n  - title: Audited\n    measurement: credit\n    rows: [{{ name: method, run: method }}]\n    \
         columns: [{{ name: turns, digits: 0, query: \"select count(*) from audit where role = 'logged' and audit = 'credit'\" }}]\n",
        pipeline(folder.path(), &kept).display()
    );
    let file = folder.path().join("study.yaml");
    std::fs::write(&file, &text).unwrap();
    assert!(done(flow().arg("study").arg(&file).arg("--dry-run")).contains("4 "), "two runs and an audit of each");
    done(flow().arg("study").arg(&file));
    let page = std::fs::read_to_string(folder.path().join("page.md")).unwrap();
    assert!(page.contains("| method | 6"), "{page}");
    assert!(done(flow().arg("study").arg(&file).arg("--dry-run")).contains("0 are left"));
    std::fs::write(&file, text.replace("plays: 2 }", "plays: 2 }, panel: datasets/minesweeper-4x4-m2-d64920f25f41.json")).unwrap();
    let both = fails(flow().arg("study").arg(&file));
    assert!(both.contains("either a `panel` or an `audit`") && both.contains("study.yaml:8"), "{both}");
}

/// What `make reproduce` runs: each study of the repository, its pipelines, panels and queries, as far as its
/// environments are installed.
#[test]
fn the_studies_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let entries = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let papers = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("papers"));
    let studies = papers.iter().filter(|paper| paper.is_dir()).flat_map(|paper| entries(paper));
    let mut checked = 0;
    for file in studies.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("study")) {
        // Not what was run here before, perhaps by other settings.
        let home = format!("home={}", folder.path().display());
        let output = flow().arg("study").arg(&file).args(["--dry-run", "--set", &home]).output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.success() || error.contains("isn't installed here"), "{}: {error}", file.display());
        checked += usize::from(output.status.success());
    }
    assert!(checked >= 8, "{checked}");
}

/// Another environment, in a file of its own in another folder: paths begin in the file that names them, and mistakes
/// stand where they were made.
#[test]
fn a_study_that_is_like_another_says_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    study(folder.path());
    let other = folder.path().join("others");
    std::fs::create_dir(&other).unwrap();
    let file = other.join("larger.yaml");
    let text = "like: ../study.yaml\nstudy: larger\nhome: home\npage: page.md\nseeds: [3]\nset: { nodes.tasks.with.size: 5 }\n\
                runs: { method: { set: { iterations: 1 } } }\nmeasurements: { panel: null }\n\
                tables: [{ title: Rows, rows: [{ name: method, run: method }], columns: [{ name: rows, query: select count(*) from rollout }] }]\n";
    std::fs::write(&file, text).unwrap();
    done(flow().arg("study").arg(&file));
    let resolved = |run: &str| std::fs::read_to_string(other.join("home").join(run).join("pipeline.yaml")).unwrap();
    for run in ["start-7", "method-3"] {
        assert!(resolved(run).contains("size: 5"), "{}", resolved(run));
    }
    assert!(resolved("method-3").contains("iterations: 1"));
    let page = std::fs::read_to_string(other.join("page.md")).unwrap();
    assert!(page.contains("| method |") && !folder.path().join("home").exists(), "{page}");
    for (from, to, place, message) in [
        ("seeds: [3]", "seed: [3]", "larger.yaml:5:1", "the study has no setting `seed`"),
        ("../study.yaml", "../studies.yaml", "larger.yaml:1:", "there is no file `../studies.yaml` to be like"),
        ("run: method }]", "run: methot }]", "larger.yaml:9:", "there is no run `methot`"),
        ("with.size", "with.sise", "nodes.tasks.with.sise=5", "sise"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let error = fails(flow().arg("study").arg(&file));
        assert!(error.contains(message) && error.contains(place), "{from}: {error}");
    }
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("study.yaml"), "study: [").unwrap();
    assert!(fails(flow().arg("study").arg(&file)).contains("study.yaml:1:"));
}

#[test]
fn mistakes_in_a_study_have_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = study(folder.path());
    let good = std::fs::read_to_string(&file).unwrap();
    for (from, to, place, message) in [
        ("seeds: [1, 2]", "seed: [1, 2]", "study.yaml:5:1", "the study has no setting `seed`"),
        ("actor: start", "actor: strat", "study.yaml:8:", "there is no run `strat` in this study"),
        ("seeds: [7]", "seeds: [7, 8]", "study.yaml:8:", "`method` runs under seed 1, and `start` has the seeds [7, 8]"),
        ("datasets/minesweeper-4x4", "datasets/minesweper-4x4", "study.yaml:10:", "/datasets/minesweper-4x4"),
        ("measurement: panel", "measurement: pannel", "study.yaml:16:", "there is no measurement `pannel`"),
        ("run: method, less", "run: methot, less", "study.yaml:18:", "there is no run `methot`"),
        ("measurement: panel", "picture: pass@9\n    measurement: panel", "study.yaml:13:", "there is no column `pass@9`"),
        (
            "against: start",
            "against: gain",
            "study.yaml:14:",
            "there is no row `gain` in this table to compare with; there are: start, method",
        ),
        ("seeds: [1, 2]", "seeds: [1, 1, 2]", "study.yaml:5:", "the seed 1 stands there twice"),
        ("  start: {", "  ../../evil: {", "study.yaml:", "can't be a name of runs"),
        ("query: \"select count(*)", "query: \"select cuont(*)", "`rows` of `start`", "cuont"),
        ("query: \"select count(*) from rollout", "query: \"select count(*) from rolout", "`rows` of `start`", "did you mean `rollout`?"),
        ("query: \"select", "value: \"1\", query: \"select", "study.yaml:21:", "needs either a `value` or a `query`"),
    ] {
        assert!(good.contains(from), "{from}");
        std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let error = fails(flow().arg("study").arg(&file));
        assert!(error.contains(message) && error.contains(place), "{from}: {error}");
        assert!(!folder.path().join("home").exists(), "nothing ran");
    }
    // Two plain rows, and no word on which of them counts; one alone is the one.
    let plain = good.replace("    against: start\n", "").replace("{ name: start, run: start,", "{ name: start, run: start, plain: true,");
    std::fs::write(&file, &plain).unwrap();
    done(flow().arg("study").arg(&file).arg("--dry-run"));
    std::fs::write(&file, plain.replace("run: method }", "run: method, plain: true }")).unwrap();
    let error = fails(flow().arg("study").arg(&file));
    assert!(
        error.contains("several rows are `plain`") && error.contains("`against: start`") && error.contains("study.yaml:12:"),
        "{error}"
    );
}

/// `flow NAME` starts the program `flow-NAME` beside the program `flow`, and no other.
#[test]
fn another_verb_is_a_program_beside_flow() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("flow");
    std::fs::hard_link(env!("CARGO_BIN_EXE_flow"), &program).unwrap();
    let hello = folder.path().join("flow-hello");
    std::fs::write(&hello, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&hello, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str]| std::process::Command::new(&program).args(arguments).output().unwrap();
    let output = run(&["hello", "--help", "two words"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("--help two words\n", Some(7)));
    assert_eq!(run(&["hullo"]).status.code(), Some(2));
    let output = run(&["study", "--help"]);
    let message = text(&output.stderr);
    assert!(message.contains("flow-study") && message.contains("`make build` makes both"), "{message}");
    assert_eq!(output.status.code(), Some(1));
    assert!(done(flow().args(["study", "--help"])).contains("--dry-run"));
    assert!(done(flow().arg("--help")).contains("  study "));
}
