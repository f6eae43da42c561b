//! The registry: the one list of environments. A new one is a folder beside this file, whose settings are a
//! [`super::GameSettings`], and a line in [`OWN`]; an adapter of `flow-env` is a line in its `adapters.json`.

use super::game::{EnvironmentKind, Game};
use super::{adapter, doors, minesweeper, process, program, python, sokoban, EnvError};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// THE list of environments.
pub static TABLE: LazyLock<Vec<EnvironmentKind>> = LazyLock::new(|| OWN.into_iter().chain(adapter::kinds()).collect());

const OWN: [EnvironmentKind; 7] = [
    EnvironmentKind::here::<sokoban::SokobanSettings>(),
    EnvironmentKind::here::<minesweeper::MinesweeperSettings>(),
    EnvironmentKind::here::<python::WebshopSettings>(),
    EnvironmentKind::here::<python::SearchSettings>(),
    EnvironmentKind::here::<doors::DoorsSettings>(),
    EnvironmentKind::for_settings::<process::ProcessSettings>(),
    program::KIND,
];

/// The environment of this name.
pub fn kind(name: &str) -> Option<&'static EnvironmentKind> {
    TABLE.iter().find(|kind| kind.name == name)
}

/// The names of all environments, quoted for a message.
fn names() -> String {
    TABLE.iter().map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ")
}

impl Game {
    /// The game that the settings of a `tasks` node mean, once they are held against what a board can have.
    pub fn read(env: &str, with: Map<String, Value>) -> Result<Game, EnvError> {
        let kind = kind(env).ok_or_else(|| EnvError::Unknown { env: env.into(), known: names() })?;
        // Nothing is what a setting has that isn't given.
        let settings = with.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let game = (kind.read)(kind, Value::Object(settings)).map_err(|e| EnvError::Settings { env: kind.name, why: e.to_string() })?;
        game.check()?;
        Ok(game)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::game;
    use serde_json::json;

    #[test]
    fn settings_that_mean_no_game_are_refused() {
        for (with, word) in [
            (json!({ "env": "chess" }), "no environment `chess`; there are `sokoban`"),
            (json!({ "env": "sokoban", "mines": 3 }), "unknown field `mines`"),
            (json!({ "env": "sokoban", "size": "six" }), "invalid type: string"),
            (json!({ "env": "minesweeper", "size": 4, "mines": 15 }), "mines is 15, but must lie between 1 and 14"),
            (json!({ "env": "process", "name": "my-game", "command": ["x"] }), "name"),
            (json!({ "env": "process", "name": "game" }), "command"),
        ] {
            let message = game(with.clone()).unwrap_err().to_string();
            assert!(message.contains(word), "{with}: {message}");
        }
    }

    /// What a `tasks` node leaves out is what the schema says it is.
    #[test]
    fn defaults_are_typed_once() {
        for kind in TABLE.iter() {
            let schema = (kind.schema)();
            let needed: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert_eq!(property.get("default").is_none(), needed.contains(&name.as_str()), "{}: {name}", kind.name);
            }
        }
    }
}
