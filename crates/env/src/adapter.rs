//! The field's environments: adapters of the Python package `flow-env`, each in a virtual environment of its own under
//! the project. In a pipeline `env: scienceworld` is short for a process that serves one.

use super::game::{Acts, EnvironmentKind, Game};
use super::installed::folder;
use super::process::ProcessSettings;
use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What an adapter's environment turns into.
pub(super) static PROCESS: &EnvironmentKind = &EnvironmentKind::for_settings::<ProcessSettings>();

/// How an environment of the field is played.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct AdapterSettings {
    /// The part after the colon in `flow-env serve textworld-express:coin`: which games, pages or servers; `flow env`
    /// shows the form.
    #[serde(default)]
    world: String,
    /// The name of its tasks; the environment's name unless given. With another `world` the same task is another one,
    /// so it needs another name.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    name: Option<String>,
    /// Which of the environment's splits the tasks are drawn from, without replacement within an epoch; `train` unless
    /// given.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    split: Option<String>,
    /// How many processes share the episodes.
    #[serde(default = "number::<usize, 1>")]
    #[schemars(range(min = 1, max = 256))]
    processes: usize,
    /// Seconds that an answer may take, after which the process is killed and its episodes are tried again.
    #[serde(default = "number::<f64, 60>")]
    #[schemars(range(min = 0.001, max = 86_400))]
    seconds: f64,
    /// Environment variables of flow's own that the program gets in addition to variables that describe the machine
    /// (docs/protocol.md lists them); any other could be a secret.
    #[serde(default)]
    #[schemars(inner(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$")))]
    pass: Vec<String>,
}

/// An adapter's line in `adapters.json`.
#[derive(Deserialize)]
struct Listed {
    acts: Acts,
    about: &'static str,
}

/// The adapters' lines in the registry. The list is a part of the program; a test reads it.
pub(super) fn kinds() -> impl Iterator<Item = EnvironmentKind> {
    let listed = serde_json::from_str::<BTreeMap<&'static str, Listed>>(include_str!("../../../python/flow_env/adapters.json"));
    let schema = || schemars::schema_for!(AdapterSettings).to_value();
    let kind = move |(name, Listed { acts, about })| EnvironmentKind {
        name,
        about,
        schema,
        read: served,
        parse: |_, _| None,
        adapter: Some(acts),
    };
    listed.unwrap_or_default().into_iter().map(kind)
}

/// The command of a process that serves an environment of this adapter.
pub(super) fn serving(adapter: &str, world: &str) -> Vec<String> {
    let python = folder(adapter).join("bin/python").display().to_string();
    [python.as_str(), "-m", "flow_env", "serve", world].map(String::from).to_vec()
}

/// The process that serves the environment. Its tasks are those of a process, and named so.
fn served(kind: &'static EnvironmentKind, with: Value) -> serde_json::Result<Game> {
    let AdapterSettings { world, name, split, processes, seconds, pass } = serde_json::from_value(with)?;
    let served = if world.is_empty() { kind.name.to_owned() } else { format!("{}:{world}", kind.name) };
    let command = serving(kind.name, &served);
    let name = name.unwrap_or_else(|| kind.name.replace('-', "_"));
    let calls = kind.adapter == Some(Acts::Answers);
    Ok(Game::new(PROCESS, ProcessSettings { command, name, processes, seconds, pass, calls, split, item: None }))
}

#[cfg(test)]
mod tests {
    use crate::tests::game;
    use serde_json::json;

    #[test]
    fn a_short_name_is_a_process_of_its_adapter() {
        let game = game(json!({ "env": "textworld-express", "world": "coin", "split": "test", "processes": 2 })).unwrap();
        let program = game.program().unwrap();
        assert_eq!(program.command, [".flow/env/textworld-express/bin/python", "-m", "flow_env", "serve", "textworld-express:coin"]);
        assert_eq!((program.name.as_str(), program.split.as_deref(), program.processes), ("textworld_express", Some("test"), 2));
        assert_eq!(game.env(), "process");
    }
}
