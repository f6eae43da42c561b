//! Your own agent programs, which drive the loop themselves and know nothing but a base URL: `env: program` is short
//! for the process that opens a door to them (`flow_env`'s `program`), each episode a run of the program.

use super::adapter::{serving, PROCESS};
use super::game::{Acts, EnvironmentKind, Game};
use super::process::ProcessSettings;
use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

const NAME: &str = "program";

/// How an agent program is run. It is started once an episode, with the task as a line of JSON on its standard input
/// and in `FLOW_TASK` (unless it has more than 100 kB), and with the base URLs and keys that the clients of OpenAI and
/// Anthropic read; it needs no change.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct ProgramSettings {
    /// The program and its arguments, run as they are, without a shell.
    #[schemars(length(min = 1), extend("x-names" = "program"))]
    command: Vec<String>,
    /// A file of tasks, a JSON object a line: `id` names the task, `split` its split (`train` unless given), and all
    /// else is the program's own to read.
    tasks: String,
    /// The name of its tasks; with another `command` or another file the same task is another one, so it needs another
    /// name.
    #[serde(default = "default_name", skip_serializing)]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"), extend("default" = NAME))]
    name: String,
    /// Which split the tasks are drawn from, without replacement within an epoch; `train` unless given.
    #[serde(default, skip_serializing)]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"), extend("default" = Value::Null))]
    split: Option<String>,
    /// The folder that it runs in; the one that `flow` runs in unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = Value::Null))]
    folder: Option<String>,
    /// Where its reward comes from.
    #[serde(default)]
    reward: RewardSource,
    /// How an episode's program is started.
    #[serde(default, skip_serializing_if = "StartMode::is_process")]
    #[schemars(extend("default" = "process"))]
    start: StartMode,
    /// Where its processes run, and a checking command's: `bubblewrap`, `docker` and `podman` are for programs, and
    /// models behind them, that aren't trusted.
    #[serde(default, skip_serializing_if = "Sandbox::is_none")]
    #[schemars(extend("default" = "none"))]
    sandbox: Sandbox,
    /// With `sandbox: docker` or `podman`: the image that it runs in, which needs `python3` and is never pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = Value::Null))]
    image: Option<String>,
    /// In a sandbox: this machine's network, with every server on its loopback. Without it the program reaches the
    /// model's base URL and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    network: bool,
    /// In a sandbox: the program may write into the folder that it runs in. Without it FLOW_FOLDER, `/tmp` and home,
    /// which are empty at first, are all that it can write to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    write_folder: bool,
    /// In a sandbox: further files and folders that the program may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("default" = []))]
    read: Vec<String>,
    /// In a sandbox: files and folders that are hidden from the program, besides `.env`, `.git` and `runs` in its
    /// folder. A path begins in that folder, and a path that isn't there is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("default" = []))]
    hide: Vec<String>,
    /// In a sandbox: MB of memory, of one process and of all of an episode; 4096 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = Value::Null))]
    memory_mb: Option<u32>,
    /// In a sandbox: processes and threads of an episode at once; 512 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = Value::Null))]
    max_processes: Option<u32>,
    /// In a sandbox: seconds of CPU time, of one process and of all of an episode; 3600 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = Value::Null))]
    cpu_seconds: Option<u32>,
    /// In a sandbox: MB of a file, of all files in FLOW_FOLDER, and of each of `/tmp`, `/dev/shm` and home, which are in
    /// memory; 1024 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = Value::Null))]
    disk_mb: Option<u32>,
    /// The reward from which an episode counts as won, where the program doesn't say.
    #[serde(default = "number::<f64, 1>")]
    won_at: f64,
    /// Calls that an episode may make, at most: one more is a failure and no reward.
    #[serde(default = "number::<u32, 1000>")]
    #[schemars(range(min = 1, max = 100_000))]
    calls: u32,
    /// Seconds that an episode may take, at most.
    #[serde(default = "number::<f64, 600>")]
    #[schemars(range(min = 0.1, max = 86_400))]
    episode_seconds: f64,
    /// Programs that run at once, at most.
    #[serde(default = "number::<u32, 64>")]
    #[schemars(range(min = 1, max = 4096))]
    live: u32,
    /// Whether calls of one episode may overlap (sub-agents that work at the same time): its rows then stand in the
    /// order of their graph, so that they are the same whichever call comes first. Without it an episode whose calls
    /// overlap has failed. Threads that race need it even if their calls happen not to overlap.
    #[serde(default)]
    parallel: bool,
    /// Environment variables of flow's own that the program gets in addition to variables that describe the machine
    /// (docs/protocol.md lists them); any other could be a secret.
    #[serde(default)]
    #[schemars(inner(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$")))]
    pass: Vec<String>,
    /// Seconds that it may take from an answer to its next call or its end.
    #[serde(default = "number::<f64, 300>", skip_serializing)]
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 300.0))]
    seconds: f64,
}

/// How an episode's program is started.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum StartMode {
    /// As a new process.
    #[default]
    Process,
    /// A program in Python: as a fork of a process that has imported its packages, so that an episode doesn't pay for
    /// them. Packages that start threads or read the environment as they are imported need `process`.
    Fork,
}

impl StartMode {
    /// Programs that were started before this setting was there keep their line.
    fn is_process(&self) -> bool {
        *self == StartMode::Process
    }
}

/// Where the processes of an episode run.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum Sandbox {
    /// On this machine, as the user that runs flow.
    #[default]
    None,
    /// In namespaces of their own, by bubblewrap (`bwrap`): the system's folders and their own to read, FLOW_FOLDER to
    /// write, no network but the model, and limits.
    Bubblewrap,
    /// In a container of `image`, by a Docker daemon on this machine: the same, with the image's programs.
    Docker,
    /// The same by Podman, which needs no daemon.
    Podman,
}

impl Sandbox {
    fn is_none(&self) -> bool {
        *self == Sandbox::None
    }

    fn is_container(&self) -> bool {
        matches!(self, Sandbox::Docker | Sandbox::Podman)
    }
}

/// Where the reward of an episode comes from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum RewardSource {
    /// The last line that it writes: `{"reward": 1.0, "won": true}`, or a number.
    #[default]
    Output,
    /// The JSON that it posts to `.../reward`.
    Post,
    /// A file that it writes, with the same JSON.
    File(String),
    /// A command that is run after it, whose last line is the reward.
    Command(Vec<String>),
}

fn default_name() -> String {
    NAME.into()
}

/// The line of the registry.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: NAME,
    about: "An agent program of your own, which needs no change: it calls a chat model at a base URL.",
    schema: || schemars::schema_for!(ProgramSettings).to_value(),
    read,
    parse: |_, _| None,
    adapter: Some(Acts::Answers),
};

/// The process that opens the door. Its tasks are those of a process, and named so.
fn read(_: &'static EnvironmentKind, with: Value) -> serde_json::Result<Game> {
    let settings: ProgramSettings = serde_json::from_value(with)?;
    if settings.command.is_empty() {
        return Err(Error::custom("command: a program needs one"));
    }
    sandboxed(&settings).map_err(Error::custom)?;
    lines(Path::new(&settings.tasks)).map_err(Error::custom)?;
    let command = serving(NAME, &format!("{NAME}:{}", serde_json::to_string(&settings)?));
    let ProgramSettings { name, split, pass, seconds, .. } = settings;
    Ok(Game::new(PROCESS, ProcessSettings { command, name, processes: 1, seconds, pass, calls: true, split, item: None }))
}

/// Refuses settings of a sandbox where there is none, and forks in one. Settings that aren't given aren't serialized.
fn sandboxed(settings: &ProgramSettings) -> Result<(), String> {
    let (sandbox, image, keys) = (&settings.sandbox, &settings.image, serde_json::to_value(settings).unwrap_or_default());
    match "network write_folder read hide memory_mb max_processes cpu_seconds disk_mb".split(' ').find(|name| keys.get(name).is_some()) {
        Some(name) if sandbox.is_none() => {
            Err(format!("{name}: it is a setting of a sandbox, and there is none: say `sandbox: bubblewrap`"))
        }
        _ if sandbox.is_container() && image.is_none() => {
            Err("image: a container needs one, such as `image: python:3.12-slim`: with `python3` and the program's packages".into())
        }
        _ if !sandbox.is_container() && image.is_some() => {
            Err("image: it is a setting of a container: say `sandbox: docker` or `sandbox: podman`".into())
        }
        _ if !sandbox.is_none() && !settings.start.is_process() => {
            Err("start: `fork` isn't possible in a sandbox, because its forks would share one: say `start: process`".into())
        }
        _ => Ok(()),
    }
}

/// Refuses a file of tasks that can't be read, with the line that is wrong.
fn lines(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("tasks: {}: {e}", file.display()))?;
    let mut some = false;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |why: String| format!("tasks: {}:{}: {why}", file.display(), number + 1);
        serde_json::from_str::<Map<String, Value>>(line).map_err(|e| at(format!("a task is a JSON object on one line: {e}")))?;
        some = true;
    }
    if some {
        Ok(())
    } else {
        Err(format!("tasks: {}: there is no task in it", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::game;
    use serde_json::json;

    #[test]
    fn a_program_is_a_process_that_opens_the_door() {
        let folder = tempfile::tempdir().unwrap();
        let tasks = folder.path().join("tasks.jsonl").display().to_string();
        let with = json!({ "env": NAME, "command": ["python3", "agent.py"], "tasks": tasks, "name": "sums", "reward": { "file": "reward.json" }, "parallel": true });
        assert!(game(with.clone()).unwrap_err().to_string().contains("tasks.jsonl: No such file"));
        std::fs::write(&tasks, "{\"id\": \"a\", \"question\": \"1 + 1\"}\n\n[1]\n").unwrap();
        assert!(game(with.clone()).unwrap_err().to_string().contains("tasks.jsonl:3: a task is a JSON object"));
        std::fs::write(&tasks, "\n").unwrap();
        assert!(game(with.clone()).unwrap_err().to_string().contains("there is no task in it"));
        std::fs::write(&tasks, "{\"id\": \"a\"}").unwrap();
        let made = game(with.clone()).unwrap();
        let program = made.program().unwrap();
        let with = |start: Value| {
            let mut with = with.clone();
            with["start"] = start;
            with
        };
        assert_eq!(
            (&program.command[1..4], program.name.as_str(), program.seconds),
            (&["-m", "flow_env", "serve"].map(String::from)[..], "sums", 300.0)
        );
        let door: Value = serde_json::from_str(program.command[4].strip_prefix("program:").unwrap()).unwrap();
        assert_eq!((&door["reward"]["file"], &door["parallel"], &door["calls"]), (&json!("reward.json"), &json!(true), &json!(1000)));
        assert_eq!(door.get("name"), None, "what only flow reads isn't handed on");
        assert_eq!(door.get("start"), None, "an earlier pipeline's door is begun with the same line");
        let forks = game(with(json!("fork"))).unwrap();
        assert!(forks.program().unwrap().command[4].contains("\"start\":\"fork\""));
        let boxed = |more: Value| {
            let mut with = with(json!("process"));
            with.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            game(with)
        };
        let settings = boxed(json!({ "sandbox": "bubblewrap", "memory_mb": 512 })).unwrap().program().unwrap().command[4].clone();
        assert!(settings.contains(r#""sandbox":"bubblewrap""#) && settings.contains(r#""memory_mb":512"#), "{settings}");
        let settings = boxed(json!({ "sandbox": "podman", "image": "a:1" })).unwrap().program().unwrap().command[4].clone();
        assert!(settings.contains(r#""sandbox":"podman","image":"a:1""#), "{settings}");
        let image = boxed(json!({ "sandbox": "docker" })).unwrap_err().to_string();
        assert!(image.contains("image: a container needs one"), "{image}");
        let image = boxed(json!({ "sandbox": "bubblewrap", "image": "a:1" })).unwrap_err().to_string();
        assert!(image.contains("image: it is a setting of a container"), "{image}");
        let none = boxed(json!({ "disk_mb": 5 })).unwrap_err().to_string();
        assert!(none.contains("disk_mb: it is a setting of a sandbox, and there is none"), "{none}");
        let fork = boxed(json!({ "sandbox": "bubblewrap", "start": "fork" })).unwrap_err().to_string();
        assert!(fork.contains("start: `fork` isn't possible in a sandbox"), "{fork}");
        assert!(game(with(json!("spawn"))).unwrap_err().to_string().contains("unknown variant `spawn`, expected `process` or `fork`"));
    }
}
