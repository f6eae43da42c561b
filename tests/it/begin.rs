//! The first minutes: a pipeline to begin with, what is missing, several seeds, figures for TensorBoard, and
//! completion.

use crate::common::*;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_new_pipeline_is_written_checked_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let here = || {
        let mut command = flow();
        command.current_dir(folder.path());
        command
    };
    for game in ["minesweeper", "sokoban"] {
        let file = format!("my-{game}.yaml");
        let output = done(here().args(["new", &file, "--game", game]));
        assert!(output.contains(&format!("flow run {file}")), "{output}");
        done(here().args(["check", &file]));
        let output = done(here().args(["run", &file, "--set", "iterations=2"]));
        assert!(output.contains("success in training") && output.contains(&format!("flow query runs/my-{game} ")), "{output}");
        for line in output.lines().filter(|line| line.starts_with("  flow query")) {
            let line = line.replace("flow query", &format!("{} query", env!("CARGO_BIN_EXE_flow")));
            let ran = std::process::Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
            assert!(ran.status.success(), "{line}: {}", text(&ran.stderr));
        }
    }
    let output = fails(here().args(["new", "my-sokoban.yaml", "--game", "sokoban"]));
    assert!(output.contains("is there already"), "{output}");
    // Without a game: an agent program that needs a model and the door, which are named, and its two files.
    let output = done(here().args(["new", "agent.yaml"]));
    assert!(output.contains("  flow model fetch smollm2-135m-instruct\n  flow env install program\n  flow check agent.yaml\n"), "{output}");
    assert!(fails(here().args(["check", "agent.yaml"])).contains("flow model fetch smollm2-135m-instruct"));
    done(here().args(["new", "second.yaml"]));
    std::fs::write(folder.path().join("calculator.py"), "mine").unwrap();
    assert!(fails(here().args(["new", "third.yaml"])).contains("calculator.py is there already"));
    assert!(!folder.path().join("third.yaml").exists() && std::fs::read(folder.path().join("calculator.py")).unwrap() == b"mine");
    assert!(fails(here().args(["new", "0.yaml"])).contains("can't be a pipeline's name"));
}

/// An environment with an expert is imitated first; the commands that are suggested run, the panel's too.
#[test]
fn a_new_pipeline_for_an_environment_begins_with_its_expert() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let world = "from flow_env import View, World

class Hall(World):
    def tasks(self, split):
        return {'train': 100, 'test': 64}.get(split, 0)
    def reset(self, task, seed):
        self.door = task % 2
        return View(f'The door is {self.actions()[self.door]}.')
    def step(self, action):
        won = action == self.actions()[self.door]
        return View('Over.', reward=float(won), done=True, won=won)
    def actions(self):
        return ['left', 'right']
    def expert(self):
        return self.actions()[self.door]
";
    std::fs::write(folder.path().join("hall.py"), world).unwrap();
    let (served, root) = (folder.path().join("flow-env"), env!("CARGO_MANIFEST_DIR"));
    std::fs::write(&served, format!("#!/bin/sh\nPYTHONPATH='{root}/python' exec python3 -m flow_env \"$@\"\n")).unwrap();
    std::fs::set_permissions(&served, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let here = || {
        let mut command = flow();
        command.current_dir(folder.path()).env("PATH", &path);
        command
    };
    assert!(done(here().args(["new", "none.yaml", "--world", "none.py"])).contains("that file isn't there yet"));
    let output = done(here().args(["new", "hall.yaml", "--world", "hall.py"]));
    assert!(output.contains("it begins by imitating the environment's `expert`"), "{output}");
    let panel = output.lines().find_map(|line| line.strip_prefix("  flow panel")).unwrap();
    let panel = format!("{} panel{panel}", env!("CARGO_BIN_EXE_flow"));
    let ran = std::process::Command::new("sh").args(["-c", &panel]).current_dir(folder.path()).env("PATH", &path).output().unwrap();
    assert!(ran.status.success() && text(&ran.stdout).contains("64 tasks of the split `test`"), "{panel}: {}", text(&ran.stderr));
    done(here().args(["run", "hall.yaml", "--set", "iterations=6"]));
    let sql = "select value from metrics where name = 'success' and node = 'rollout' order by iteration desc limit 1";
    let last = done(here().args(["query", "runs/hall", sql, "--format", "csv"]));
    let last: f64 = last.lines().nth(1).unwrap().parse().unwrap();
    assert!(last > 0.8, "a coin's throw wins half, and six iterations of imitation all: {last}");
}

#[test]
fn what_a_pipeline_names_on_disk_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let message = fails(flow().args(["check", "pipelines/grpo-sokoban.yaml", "--set", "models.actor.load=runs/none/warmstart-sokoban"]));
    assert!(message.contains("there is no `runs/none/warmstart-sokoban` to load `actor` from"), "{message}");
    assert!(message.contains("make it: flow run pipelines/warmstart-sokoban.yaml --out runs/none/warmstart-sokoban"), "{message}");
    assert!(message.contains("--> --set models.actor.load:1:19"), "{message}");
    let fetched =
        fails(flow().args(["check", "pipelines/grpo-sokoban.yaml", "--set", "models.actor.load=runs/none/smollm2-135m-instruct"]));
    assert!(fetched.contains("fetch it: flow model fetch smollm2-135m-instruct --out runs/none\n"), "{fetched}");
    let corridor = |command: &str| {
        let set = format!("nodes.tasks.with.command={command}");
        fails(flow().args(["check", "pipelines/process-corridor.yaml", "--set", &set]))
    };
    assert!(corridor("[pyhton9]").contains("there is no program `pyhton9`"));
    assert!(corridor("[./none]").contains("there is no program `./none`"));
    assert!(corridor("[python3, examples/none.py]").contains("there is no `examples/none.py` for `python3` to run"));
    // A program's script is looked for in its own folder.
    let program = |place: &str| {
        let sets = ["nodes.tasks.with.command=[python3, calculator.py]".to_owned(), format!("nodes.tasks.with.folder={place}")];
        let output = flow().args(["check", "pipelines/agents/calculator.yaml", "--set", &sets[0], "--set", &sets[1]]).output().unwrap();
        text(&output.stderr)
    };
    assert!(
        program("examples").contains("there is no `calculator.py` for `python3` to run")
            && program("examples").contains("examples/calculator.py")
    );
    assert!(!program("examples/agents").contains("calculator.py` for"), "{}", program("examples/agents"));
    let run = trained(folder.path(), "run", SMALL, &[]);
    let load = format!("models.actor={{ load: {}, of: critic }}", run.display());
    let message = fails(flow().args(["check", "pipelines/grpo-minesweeper.yaml", "--set", &load]));
    assert!(message.contains("has no weights of `critic`"), "{message}");
    let warm = std::fs::read_to_string(flow().get_current_dir().unwrap().join("papers/lamer/gigpo.yaml")).unwrap();
    let warm = warm.replace("../../runs/lamer/", "/none/").replace("runs/lamer/", "/none/");
    let message = fails(flow().arg("check").arg(pipeline(folder.path(), &warm)));
    assert!(message.contains("make it: flow run papers/lamer/warmstart.yaml --out /none/warmstart-minesweeper"), "{message}");
    let device = ["check", "pipelines/grpo-minesweeper.yaml", "--set", "models.actor.load=/dev/stdin"];
    assert!(fails(flow().args(device)).contains("`/dev/stdin` is no folder and no file"));
    let lamer = ["check", "papers/lamer/lamer.yaml", "--set", "agents.writer.prompt=nowhere.txt"];
    assert!(fails(flow().args(lamer)).contains("`nowhere.txt` can't be read"));
}

#[test]
fn a_run_comes_to_be_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), SMALL);
    let names = || {
        let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.filter(|name| name != "pipeline.yaml").collect::<Vec<_>>()
    };
    // Killed again and again, somewhere in its first second: there is no folder, or one that is resumed.
    let out = folder.path().join("run");
    for wait in (0..12).map(|n| 40 * n) {
        let mut child = flow().arg("run").arg(&path).arg("--out").arg(&out).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!out.exists() || out.join("manifest.json").exists(), "{wait} ms: {:?}", names());
        let _ = std::fs::remove_dir_all(&out);
    }
    // What is there stays as it is, and an empty folder is taken.
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("pipeline.yaml"), "mine").unwrap();
    let mut run = flow();
    run.arg("run").arg(&path).args(["--set", "iterations=1", "--out"]).arg(&out);
    assert!(fails(&mut run).contains("exists and isn't empty"));
    assert_eq!(std::fs::read_to_string(out.join("pipeline.yaml")).unwrap(), "mine");
    std::fs::remove_file(out.join("pipeline.yaml")).unwrap();
    done(&mut run);
    done(flow().arg("run").arg(&path).args(["--set", "iterations=1", "--out"]).arg(folder.path().join("deep/er")));
    assert!(folder.path().join("deep/er/manifest.json").exists());
    assert!(std::fs::read_dir(folder.path().join("deep")).unwrap().count() == 1, "nothing else is left");
}

#[test]
fn several_seeds_are_several_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), SMALL);
    let run = |seeds: &str| {
        let mut command = flow();
        command.arg("run").arg(&path).args(["--seeds", seeds, "--out"]).arg(folder.path().join("many")).args(["--set", "iterations=1"]);
        command
    };
    let output = done(&mut run("4,9"));
    assert!(output.contains("many-seed4") && output.contains("many-seed9") && output.contains("flow view"), "{output}");
    let seeds = [4, 9].map(|seed| {
        let sql = "select any_value(weights) from rollout";
        done(flow().arg("query").arg(folder.path().join(format!("many-seed{seed}"))).arg(sql));
        std::fs::read_to_string(folder.path().join(format!("many-seed{seed}/pipeline.yaml"))).unwrap()
    });
    assert!(seeds[0].contains("seed: 4") && seeds[1].contains("seed: 9"), "{seeds:?}");
    assert!(fails(&mut run("7,7")).contains("stands twice"));
    // A finished run is kept, and another pipeline's is never taken for it.
    let kept = std::fs::read(folder.path().join("many-seed4/manifest.json")).unwrap();
    let again = done(&mut run("5,4"));
    let row = |output: &str| output.lines().find(|line| line.contains("many-seed4 ")).unwrap().to_owned();
    assert_eq!(row(&again), row(&output), "the table of a kept run is its own");
    assert!(kept == std::fs::read(folder.path().join("many-seed4/manifest.json")).unwrap() && folder.path().join("many-seed5").exists());
    let other = fails(run("4").args(["--set", "nodes.update.with.lr=0.1"]));
    assert!(
        other.contains("many-seed4 was made with other settings than these: nodes.update.with.lr") && other.contains("--out"),
        "{other}"
    );
}

/// A budget is each run's; one that has used it up is kept as a finished one is.
#[test]
fn seeds_with_a_budget_are_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), SMALL);
    let run = |seeds: &str| {
        let mut command = flow();
        command
            .arg("run")
            .arg(&path)
            .args(["--seeds", seeds, "--budget", "1", "--format", "json", "--out"])
            .arg(folder.path().join("many"));
        command.args(["--set", "iterations=9"]);
        done(&mut command)
    };
    let first: Vec<serde_json::Value> = serde_json::from_str(&run("4")).unwrap();
    let committed = || flow_log::Run::open(&folder.path().join("many-seed4")).unwrap().manifest().unwrap().committed.len();
    let (ended, both) = (committed(), run("4,9"));
    assert!((1..9).contains(&ended) && committed() == ended, "{ended}");
    let both: Vec<serde_json::Value> = serde_json::from_str(&both).unwrap();
    assert_eq!((both.len(), &both[0]["run"]), (2, &first[0]["run"]));
    // A resume has nothing left, and a run says why it ended.
    assert!(fails(flow().arg("resume").arg(folder.path().join("many-seed4")).args(["--budget", "1"])).contains("leaves none"));
    let one = done(
        flow()
            .arg("run")
            .arg(&path)
            .args(["--set", "iterations=9", "--budget", "1", "--format", "json", "--out"])
            .arg(folder.path().join("one")),
    );
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert!(one["stopped"].as_str().unwrap().contains("tokens of --budget 1 are used"), "{one}");
}

/// A killed `--seeds` takes its run with it, and the same command goes on with it.
#[test]
fn killed_seeds_leave_nothing_in_the_background_and_are_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), &SMALL.replace("iterations: 3", "iterations: 12"));
    let command = |out: &str, seeds: &str| {
        let mut command = flow();
        command.arg("run").arg(&path).args(["--seeds", seeds, "--out"]).arg(folder.path().join(out));
        command
    };
    done(&mut command("whole", "4,9"));
    let mut child = command("killed", "4,9").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let run = folder.path().join("killed-seed9");
    while !run.join("log/update/2").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it is at work");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The run commits its iteration and ends: its lock is free then.
    let start = std::time::Instant::now();
    let lock = std::fs::File::open(run.join("lock")).unwrap();
    while lock.try_lock().is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "its run trains on");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(lock);
    let committed = flow_log::Run::open(&run).unwrap().manifest().unwrap().trained();
    assert!(committed < 12, "it had ended before it was killed");
    let output = command("killed", "4,9").output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("killed-seed4, which is finished"), "{said}");
    assert!(said.contains("killed-seed9, which was begun before") && said.contains(&format!("iteration {committed} of 12")), "{said}");
    for seed in [4, 9] {
        assert!(
            digest(&folder.path().join(format!("killed-seed{seed}"))) == digest(&folder.path().join(format!("whole-seed{seed}"))),
            "{seed}"
        );
    }
}

/// Two learning rates, each under two seeds; a value that can't be is found before the first run.
#[test]
fn a_grid_is_a_run_for_every_combination() {
    let folder = tempfile::tempdir().unwrap();
    let path = pipeline(folder.path(), SMALL);
    let run = |grid: &str| {
        let mut command = flow();
        command
            .arg("run")
            .arg(&path)
            .args(["--grid", grid, "--seeds", "4,9", "--set", "iterations=1", "--out"])
            .arg(folder.path().join("g"));
        command
    };
    assert!(fails(&mut run("nodes.update.with.lr=1e-3,fast")).contains("lr"));
    assert!(!folder.path().join("g-lr-1e-3-seed4").exists(), "nothing ran");
    let output = done(&mut run("nodes.update.with.lr=1e-3,0"));
    assert!(output.contains("g-lr-1e-3-seed9") && output.contains("flow view"), "{output}");
    let weights = |name: &str| digest(&folder.path().join(name)).1;
    assert!(weights("g-lr-0-seed4") != weights("g-lr-1e-3-seed4") && weights("g-lr-0-seed4") != weights("g-lr-0-seed9"));
}

#[test]
fn figures_are_exported_for_tensorboard() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let into = folder.path().join("board");
    let output = done(flow().arg("export").arg(&run).arg("--tensorboard").arg(&into));
    let metrics = done(flow().arg("query").arg(&run).args(["select count(*) from metrics", "--format", "csv"]));
    assert!(output.starts_with(&format!("{} numbers of 1 run", metrics.lines().nth(1).unwrap())), "{output}");
    let bytes = std::fs::read(into.join("run/events.out.tfevents.flow")).unwrap();
    // Every record by its length: the version, the pipeline's text, and one a committed iteration.
    let (mut at, mut records) = (0, Vec::new());
    while at < bytes.len() {
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        records.push(&bytes[at + 12..at + 12 + length]);
        at += 16 + length;
    }
    let holds = |record: &[u8], word: &str| record.windows(word.len()).any(|w| w == word.as_bytes());
    assert!(records[0].ends_with(b"brain.Event:2") && holds(records[1], "flow: small"));
    let losses = records.iter().filter(|r| holds(r, "update/loss")).count();
    assert_eq!(losses, 3);
}

#[test]
fn shells_complete_verbs_flags_and_what_stands_behind_them() {
    for shell in ["bash", "zsh", "fish"] {
        let script = done(flow().args(["completion", shell]));
        assert!(script.contains("FLOW_COMPLETE"), "{shell}: {script}");
    }
    let next = |line: &[&str]| done(flow().env("FLOW_COMPLETE", "fish").arg("--").arg("flow").args(line));
    for (line, word) in [
        (&["re"][..], "resume"),
        (&["run", "--d"], "--dry-run"),
        (&["ops", "roll"], "rollout\t"),
        (&["env", "install", "sc"], "scienceworld\t"),
        (&["panel", "mine"], "minesweeper\t"),
        (&["model", "fetch", "mini"], "minilm\t"),
        (&["run", "pipelines/quickstart.yaml", "--set", "nodes.update.with.max_g"], "nodes.update.with.max_grad_norm="),
        (&["check", "papers/empo2/no-novelty.yaml", "--set", "nodes.mem"], "nodes.memory."),
    ] {
        let words = next(line);
        assert!(words.lines().any(|next| next.starts_with(word)), "{line:?}: {words}");
    }
    assert_eq!(next(&["ops", "nothing-like-it"]), "");
}

/// The figures are those that a query makes of the first iteration's episodes.
#[test]
fn a_run_says_how_many_tasks_have_something_to_learn_from() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SMALL, &[]);
    let said = |of: &str| -> serde_json::Value {
        serde_json::from_str(&done(flow().arg("check").arg("--headroom").arg(&run).args(["--format", of]))).unwrap()
    };
    let figures = &said("json")["headroom"];
    let sql = "SELECT count(*) AS task_count, avg((differ > 1)::INT) AS differ, avg(any_won::INT) AS any_won FROM (SELECT task, count(DISTINCT earned) AS differ, \
               bool_or(won) AS any_won FROM (SELECT task, sample, sum(reward) AS earned, bool_or(won) AS won FROM rollout WHERE iteration = 0 GROUP BY ALL) GROUP BY task)";
    let asked: serde_json::Value = serde_json::from_str(&done(flow().arg("query").arg(&run).args([sql, "--format", "json"]))).unwrap();
    for name in ["task_count", "differ", "any_won"] {
        assert_eq!(figures[name].as_f64(), asked[0][name].as_f64(), "{name}: {figures}");
    }
    assert!(done(flow().arg("check").arg("--headroom").arg(&run)).contains("a baseline of the task has a gradient in these alone"));
    assert!(fails(flow().args(["check", "--headroom", "nowhere"])).contains("nowhere"));
}
