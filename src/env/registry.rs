//! The registry: the one list of environments. A new one is a folder beside this file, whose settings are a [`GameSettings`],
//! and a line in [`TABLE`].

use super::game::{Game, GameSettings};
use super::{minesweeper, process, sokoban};
use serde_json::Value;
use std::fmt;

/// THE list of environments.
pub const TABLE: &[Kind] =
    &[Kind::of::<sokoban::SokobanSettings>(), Kind::of::<minesweeper::MinesweeperSettings>(), Kind::of::<process::ProcessSettings>()];

/// What is known of an environment before it has settings.
pub struct Kind {
    /// `env` in a pipeline.
    pub name: &'static str,
    /// What a player has to do.
    pub about: &'static str,
    /// JSON Schema of its settings, as a `tasks` node says them.
    pub schema: fn() -> Value,
    pub(super) read: fn(&'static Kind, Value) -> serde_json::Result<Game>,
    pub(super) parse: fn(&'static Kind, &str) -> Option<Game>,
}

impl Kind {
    const fn of<T: GameSettings>() -> Kind {
        Kind {
            name: T::NAME,
            about: T::ABOUT,
            schema: || schemars::schema_for!(T).to_value(),
            read: |kind, with| Ok(Game::of::<T>(kind, serde_json::from_value(with)?)),
            parse: |kind, label| Some(Game::of::<T>(kind, T::parse(label)?)),
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The environment of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    TABLE.iter().find(|kind| kind.name == name)
}

/// The names of all environments, quoted for a message.
pub(super) fn names() -> String {
    TABLE.iter().map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ")
}
