//! `flow panel`: freezes a set of tasks to be measured on, under a name made from its content.

use super::candidates;
use super::error::Error;
use super::output::{finish, CommandResult};
use crate::ops;
use clap::Args;
use flow_env::process::Programs;
use flow_env::{freeze, Game, Split};
use serde_json::{Map, Value};
use std::path::PathBuf;

#[derive(Args)]
pub struct PanelArgs {
    /// The environment, with its settings as `tasks` has them: sokoban size=6 boxes=3 moves=3, or process name=corridor
    /// command='["python3","examples/corridor.py"]' split=test
    #[arg(add = candidates::environments())]
    game: String,
    #[arg(value_name = "SETTING=VALUE")]
    settings: Vec<String>,
    /// How many tasks
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: u64,
    /// The beginning of the panel's name; the game and its settings unless given. The same label gives the same panel
    #[arg(long)]
    label: Option<String>,
    /// The folder to write into
    #[arg(long, default_value = "datasets")]
    out: PathBuf,
}

impl PanelArgs {
    pub fn run(self) -> CommandResult {
        let mut with = Map::new();
        with.insert("env".into(), self.game.clone().into());
        for setting in &self.settings {
            let (key, value) =
                setting.split_once('=').ok_or_else(|| Error::Request(format!("`{setting}` is no setting: write name=value")))?;
            let value: Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            with.insert(key.into(), value);
        }
        let game = ops::game(with).map_err(|e| Error::request(e).help("`flow ops tasks` lists the settings"))?;
        // The commands that start a program are long; its name and its split say enough.
        let named = |setting: &&String| game.program().is_none() || ["name=", "split="].iter().any(|key| setting.starts_with(key));
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let usual = || {
            std::iter::once(self.game.clone())
                .chain(self.settings.iter().filter(named).map(|s| short(s, &game)))
                .collect::<Vec<_>>()
                .join("-")
        };
        let label = self.label.clone().unwrap_or_else(usual);
        if !plain(&label) {
            return Err(Error::Request(format!("`{label}` can't be a label: letters, digits and `-` make one")));
        }
        std::fs::create_dir_all(&self.out).map_err(Error::file(&self.out))?;
        let programs = Programs::default();
        if let Some(program) = game.program() {
            programs.declare(program.clone());
        }
        let panel = freeze(&game, &label, self.count as usize, &programs)?;
        let path = panel.write(&self.out)?;
        // A built-in game reserves boards for panels; pipelines that train on another split draw from it.
        let origin = match (game.program(), game.measured()) {
            (Some(program), _) => format!(" of the split `{}`", program.split.as_deref().unwrap_or("train")),
            (None, Some(split)) if split != Split::Test => {
                format!(" of the split `{0}`: pipelines origin tasks name another split don't draw them", split.name())
            }
            _ => ", and training draws none of them".into(),
        };
        finish(&format!("{} tasks{origin} -> {}", panel.tasks.len(), path.display()))
    }
}

/// A setting as a part of a panel's name: `size6`, and of a program the value alone.
fn short(setting: &str, game: &Game) -> String {
    match setting.split_once('=') {
        Some((_, value)) if game.program().is_some() => value.replace('_', "-"),
        _ => setting.replace('=', ""),
    }
}
