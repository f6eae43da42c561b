//! The command line as its users meet it.

use crate::common::*;

/// Every pipeline of the repository.
fn pipelines() -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("pipelines"), root.join("papers")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".yaml") && !name.starts_with("study") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// What computes no model loads no libtorch, which takes a quarter of a second to begin.
#[test]
fn libtorch_is_loaded_by_what_computes() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "small", SMALL, &["--set", "iterations=1"]);
    let run = run.to_str().unwrap();
    let loads = |arguments: &[&str]| {
        let logs = folder.path().join("logs");
        // The linker writes what it loads into a file for each process.
        std::fs::create_dir(&logs).unwrap();
        done(flow().args(arguments).env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", logs.join("linker")));
        let files: Vec<String> =
            std::fs::read_dir(&logs).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        std::fs::remove_dir_all(&logs).unwrap();
        assert!(files.iter().any(|text| text.contains("libduckdb.so")), "{arguments:?}: {files:?}");
        files.iter().any(|text| text.contains("libtorch_cpu.so"))
    };
    let sql = "select count(*) from rollout";
    let without: [&[&str]; 8] = [
        &["--help"],
        &["check", "pipelines/quickstart.yaml", "--device", "cpu"],
        &["query", run, sql],
        &["show", run],
        &["report", run],
        &["diff", run, run],
        &["ops"],
        &["schema"],
    ];
    for arguments in without {
        assert!(!loads(arguments), "{arguments:?}");
    }
    assert!(loads(&["doctor", "--device", "cpu"]));
}

#[test]
fn every_pipeline_of_the_repository_is_fine() {
    let files = pipelines();
    assert!(files.len() >= 120, "{}", files.len());
    // A warm start that isn't made yet is no mistake of the file.
    for path in files {
        if let Err(diagnostics) = flow_pipeline::load_with_tests(&path, &[], &flow::ops::catalog()) {
            panic!("{diagnostics}");
        }
    }
}

#[test]
fn the_committed_schema_is_the_generated_one() {
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/flow.schema.json")).unwrap();
    assert_eq!(done(flow().arg("schema")), committed, "run `make schema`");
    let columns = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/columns.md")).unwrap();
    assert_eq!(done(flow().args(["ops", "--columns"])), columns, "run `make schema`");
}

#[test]
fn every_operator_is_listed_and_explained() {
    let list = done(flow().arg("ops"));
    for op in ["tasks", "rollout", "reward", "value", "group", "advantage", "combine", "gpu-update", "evaluate"] {
        assert!(list.contains(op), "{op} is not in\n{list}");
        let output = done(flow().args(["ops", op]));
        assert!(output.contains("inputs") && output.contains("makes"), "{output}");
    }
    assert!(fails(flow().args(["ops", "rolout"])).contains("there is no operator `rolout`"));
}

#[test]
fn a_run_folder_that_exists_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("precious"), "mine").unwrap();
    let message = fails(flow().arg("run").arg(pipeline(folder.path(), SMALL)).arg("--out").arg(&out));
    assert!(message.contains(&out.display().to_string()), "{message}");
    assert_eq!(std::fs::read_to_string(out.join("precious")).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
}

#[test]
fn check_says_what_overlaps() {
    let check = ["check", "pipelines/grpo-sokoban.yaml", "--set", "models.actor={ new: tiny }"];
    let output = done(flow().args(check).args(["--set", "nodes.rollout.inputs.weights.staleness=1"]));
    assert!(output.contains("update -> rollout.weights: staleness 1: `rollout` may run 1 iteration ahead"), "{output}");
    assert!(!done(flow().args(check)).contains("staleness"));
}

#[test]
fn overrides_are_checked_like_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), SMALL);
    for (set, word) in [
        ("nonsense", "="),
        ("=1", ""),
        ("nodes.update.with.lr=fast", "lr"),
        ("nodes.update.with.lrr=1", "lr"),
        ("nodes.updat.with.lr=1", "update"),
        ("seed.deep=1", "seed"),
        ("iterations=-1", "iterations"),
    ] {
        let message = fails(flow().arg("check").arg(&path).args(["--set", set]));
        assert!(message.contains("--set") && message.contains(word), "{set}: {message}");
    }
}

#[test]
fn a_key_of_the_pipeline_as_a_flag_has_a_tip() {
    for (flag, tip) in [("--iterations", "--set iterations=N"), ("--seed", "--set seed=N")] {
        let message = fails(flow().args(["run", "x.yaml", flag, "3"]));
        assert!(message.contains(tip) && !message.contains("as a value"), "{message}");
    }
    assert!(!fails(flow().args(["view", "--iterations", "3"])).contains("--set"));
}

#[test]
fn dry_run_makes_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    done(flow().arg("run").arg(pipeline(folder.path(), SMALL)).arg("--dry-run").arg("--out").arg(&out));
    assert!(!out.exists());
}

#[test]
fn an_interrupt_commits_what_is_in_hand() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let path = pipeline(folder.path(), SMALL);
    let mut command = flow();
    command.arg("run").arg(path).arg("--out").arg(&out).args(["--set", "iterations=100000"]);
    let child = command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let committed = || flow_log::Run::open(&out).and_then(|run| run.manifest()).is_ok_and(|manifest| manifest.next() > 0);
    let start = std::time::Instant::now();
    while !committed() && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(committed(), "nothing was committed in a minute");
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("stopped after"), "{}", text(&output.stderr));
    let rows = done(flow().arg("query").arg(&out).arg("select count(*) as n from rollout").args(["--format", "csv"]));
    assert!(rows.lines().nth(1).unwrap().parse::<u64>().unwrap() > 0);
}

#[test]
fn queries_answer_and_errors_explain() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let count = |sql: &str| done(flow().arg("query").arg(&run).arg(sql).args(["--format", "csv"])).lines().nth(1).unwrap().to_owned();
    assert_eq!(count("select count(distinct (iteration, task, sample)) from trajectories"), (3 * 6 * 4).to_string());
    assert_eq!(
        count("select count(*) from rollout anti join update using (iteration, task, sample, attempt, turn, phase)"),
        "0",
        "every row went into an update"
    );
    let message = fails(flow().arg("query").arg(&run).arg("select rewrd from trajectories"));
    assert!(message.contains("reward"), "{message}");
    fails(flow().arg("query").arg(&run).arg("create table t (x int)"));
}

#[test]
fn an_iteration_without_a_row_to_learn_from_is_logged_with_the_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let (head, _) = SMALL.split_once("  reward:").unwrap();
    let nodes = "  group: { op: group, inputs: rollout, with: { by: [task, sample] } }
  advantage: { op: advantage, inputs: group, with: { singleton: drop } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, update]\n";
    let run = trained(folder.path(), "run", &format!("{head}{nodes}"), &[]);
    let ask = |sql: &str| answer(&run, sql, "csv").lines().skip(1).collect::<Vec<_>>().join(" ");
    assert_eq!(ask("select distinct iteration, used, version from update order by all"), "0,singleton,0 1,singleton,0 2,singleton,0");
    assert_eq!(ask("select iteration, value::int from metrics where node = 'update' and name = 'rows' order by all"), "0,0 1,0 2,0");
    assert_eq!(ask("select count(*) from rollout anti join update using (iteration, task, sample, attempt, turn, phase)"), "0");
}

#[test]
fn every_pipeline_fits_the_published_schema() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"));
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{root}/schemas/flow.schema.json")).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for path in pipelines() {
        let value: serde_json::Value = serde_yaml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path)).collect();
        assert!(errors.is_empty(), "{path:?}: {errors:?}");
    }
    let broken =
        serde_json::json!({ "flow": "x", "iterations": 1, "nodes": { "t": { "op": "tasks", "with": { "env": "chess", "batch": 1 } } } });
    assert!(!validator.is_valid(&broken), "the schema must refuse an unknown game");
}

/// One value may be as long as a question says, and DuckDB's own limit doesn't count it: the process that answers has a
/// limit itself.
#[test]
fn a_question_cannot_take_the_machines_memory() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let mut command = flow();
    command.arg("query").arg(&run).arg("select count(*) from range(100000000) a, range(100000000) b where a.range + b.range < 0");
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let limits = format!("/proc/{}/limits", child.id());
    let bound = || {
        let text = std::fs::read_to_string(&limits).unwrap();
        text.lines().find_map(|line| line.strip_prefix("Max address space")?.split_whitespace().next()?.parse::<u64>().ok())
    };
    let start = std::time::Instant::now();
    while bound().is_none() && start.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let most = bound();
    child.kill().unwrap();
    child.wait().unwrap();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let all =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap() << 10;
    // Beside what it has mapped already, half of what is free.
    assert!(most.is_some_and(|most| most < all), "{most:?} of {all}");
}

/// What is not written as flow wants it gets the next step.
#[test]
fn a_wrong_word_on_the_command_line_gets_the_right_one() {
    for (word, verb) in
        [("trian", "run"), ("train", "run"), ("chek", "check"), ("evaluate", "eval"), ("rplay", "replay"), ("quary", "query")]
    {
        let said = fails(flow().arg(word));
        assert!(said.contains(&format!("did you mean `flow {verb}`?")), "{word}: {said}");
    }
    assert!(!fails(flow().arg("zzzzzzzz")).contains("did you mean"));
    for set in ["--set", "--set=iterations=3"] {
        let said = fails(flow().args(["resume", "runs/none", set, "iterations=3"]));
        assert!(said.contains("a run keeps its pipeline to its end") && said.contains("flow replay RUN --set"), "{said}");
    }
    let help = done(flow().arg("--help"));
    assert!(help.lines().next().unwrap().contains("`flow run` trains"), "{help}");
}

/// A machine without PyTorch: the same program, in which its library and the folder of libtorch have other names.
#[test]
fn a_check_says_that_there_is_no_libtorch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flow");
    let mut sed = std::process::Command::new("sed");
    sed.env("LC_ALL", "C");
    for name in ["libflow_torch.so", option_env!("LIBTORCH").unwrap_or_default()].into_iter().filter(|name| !name.is_empty()) {
        sed.args(["-e", &format!("s|{}|{}|g", name.replace('.', "\\."), "x".repeat(name.len()))]);
    }
    let program = sed.arg(env!("CARGO_BIN_EXE_flow")).output().unwrap();
    assert!(program.status.success(), "{}", text(&program.stderr));
    std::fs::write(&path, program.stdout).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let yaml = pipeline(folder.path(), SMALL);
    let check = |program: &std::path::Path| done(std::process::Command::new(program).arg("check").arg(&yaml));
    let said = check(&path);
    assert!(
        said.contains("it can't run on this machine yet: libtorch can't be used") && said.contains("pip install 'torch>=2.11"),
        "{said}"
    );
    assert!(!said.contains("models are computed on"), "{said}");
    assert!(check(env!("CARGO_BIN_EXE_flow").as_ref()).contains("models are computed on"));
}
