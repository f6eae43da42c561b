//! Panels: frozen sets of tasks to be measured on, named by their content.

use super::process::{draw, ProcessError, ProcessSettings, Programs};
use super::split::PANEL;
use super::{EnvError, Environments, EpisodeView, Game, Task};
use flow_core::files;
use flow_core::seed::{mix, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A frozen set of tasks to be measured on.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The label and the first 12 digits of the hash of the content.
    pub name: String,
    pub tasks: Vec<Task>,
    /// SHA-256 of the boards of all tasks, or of the first views of some of a program's: whether those are still made
    /// that were frozen.
    pub boards: String,
    /// The kind of each task, where a program names it; else nothing.
    pub types: Vec<String>,
}

/// A panel as its file holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    sha256: String,
    boards: String,
    /// The environment and its settings.
    game: Value,
    tasks: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    types: Vec<String>,
}

/// Seeds in a row that may repeat a board before repeats are accepted: then the game has no more boards to offer.
const REPEATS: usize = 500;

/// Tasks of a program's panel whose first views are a part of its content: so few that a panel is quickly held against
/// the program.
const VIEWED: usize = 16;

/// A panel of `count` tasks, different boards as far as the game has them. The same label always gives the same panel.
/// Of a program's split it is a sample, or all of it if there are no more; `programs` knows how the program is started.
pub fn freeze(game: &Game, label: &str, count: usize, programs: &Programs) -> Result<Panel, EnvError> {
    let (tasks, types) = match game.program() {
        Some(program) => sample(game, program, label, count, programs)?,
        None => (distinct(game, label, count)?, vec![]),
    };
    let boards = boards(&tasks, programs)?;
    let name = format!("{label}-{}", &content(&tasks, &boards, &types)[..12]);
    Ok(Panel { name, tasks, boards, types })
}

/// Tasks of a program's split, and their types if it names any: all are begun once to hear it, and to see that they can
/// be.
fn sample(
    game: &Game,
    program: &ProcessSettings,
    label: &str,
    count: usize,
    programs: &Programs,
) -> Result<(Vec<Task>, Vec<String>), EnvError> {
    let hello = programs.hello(&program.name)?;
    let (split, items) = program.items(&hello)?;
    let task = |(item, seed)| Task { game: game.with(program.task(&split, item)), seed };
    let tasks: Vec<Task> = draw::panel(items, label, count).into_iter().map(task).collect();
    let types: Vec<String> = begun(&tasks, programs)?.into_iter().map(|view| view.extras.facts.kind).collect();
    let named = types.iter().any(|kind| !kind.is_empty());
    Ok((tasks, if named { types } else { vec![] }))
}

/// What these tasks of a program show first.
fn begun(tasks: &[Task], programs: &Programs) -> Result<Vec<EpisodeView>, EnvError> {
    let mut envs = Environments::new(programs.clone());
    let mut views = Vec::with_capacity(tasks.len());
    while views.len() < tasks.len() {
        let rest = &tasks[views.len()..];
        let room = envs.room(&rest[0].game)?.unwrap_or(rest.len()).clamp(1, rest.len());
        let starts: Vec<(usize, &Task)> = rest[..room].iter().enumerate().collect();
        for ((episode, task), view) in starts.iter().zip(envs.reset(&starts)?) {
            views.push(view.map_err(|fault| ProcessError::Unbegun { task: task.name(), why: fault.text })?);
            envs.close(&[*episode]);
        }
    }
    Ok(views)
}

/// Tasks of a game of our own with different boards, as far as it has them.
fn distinct(game: &Game, label: &str, count: usize) -> Result<Vec<Task>, EnvError> {
    let first = mix(text(label), text("panel tasks"));
    let (mut tasks, mut known, mut repeats) = (Vec::with_capacity(count), BTreeSet::new(), 0);
    for i in 0.. {
        if tasks.len() == count {
            break;
        }
        let task = Task { game: game.clone(), seed: mix(first, i) | PANEL };
        let board = match task.board() {
            // Not every seed has a room with these settings.
            Err(EnvError::Unmade { .. }) if repeats < REPEATS => None,
            board => Some(board?),
        };
        let fresh = board.is_some_and(|board| known.insert(board));
        repeats = if fresh { 0 } else { repeats + 1 };
        if fresh || repeats > REPEATS && board.is_some() {
            tasks.push(task);
        }
    }
    Ok(tasks)
}

/// A longer file is no panel.
const MOST_BYTES: u64 = 256 << 20;

impl Panel {
    /// Reads a panel and checks its hash.
    pub fn load(path: &Path) -> Result<Panel, EnvError> {
        let shown = path.display().to_string();
        let bad = |why: String| EnvError::Panel { path: shown.clone(), why };
        let text = files::text(path, MOST_BYTES).map_err(|source| EnvError::File { path: shown.clone(), source })?;
        let file: File = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let tasks = file.tasks.iter().map(|name| Task::parse(name)).collect::<Result<Vec<_>, _>>().map_err(|e| bad(e.to_string()))?;
        for task in &tasks {
            let measured = task.game.program().is_some() || task.seed & PANEL != 0;
            if task.game.json()? != file.game || !measured {
                return Err(bad(format!("{} is no task of this panel's game", task.name())));
            }
        }
        let hash = content(&tasks, &file.boards, &file.types);
        if hash != file.sha256 || !file.name.ends_with(&hash[..12]) {
            return Err(bad(format!("its content has the hash {hash}, but it says {} and {}", file.name, file.sha256)));
        }
        Ok(Panel { name: file.name, tasks, boards: file.boards, types: file.types })
    }

    /// Makes the tasks and compares the boards with those frozen. Takes a moment, so `load` doesn't do it.
    pub fn verify(&self, programs: &Programs) -> Result<(), EnvError> {
        match boards(&self.tasks, programs)? == self.boards {
            true => Ok(()),
            false => Err(EnvError::Panel { path: self.name.clone(), why: "its tasks make other boards than when it was frozen".into() }),
        }
    }

    /// Writes the panel into `folder`, as `<name>.json`.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, EnvError> {
        let path = folder.join(format!("{}.json", self.name));
        let shown = path.display().to_string();
        let Some(first) = self.tasks.first() else { return Err(EnvError::Panel { path: shown, why: "it has no tasks".into() }) };
        let file = File {
            name: self.name.clone(),
            sha256: content(&self.tasks, &self.boards, &self.types),
            boards: self.boards.clone(),
            game: first.game.json()?,
            tasks: self.tasks.iter().map(Task::name).collect(),
            types: self.types.clone(),
        };
        let text = serde_json::to_string_pretty(&file).map_err(|e| EnvError::Panel { path: shown.clone(), why: e.to_string() })?;
        std::fs::write(&path, text + "\n").map_err(|source| EnvError::File { path: shown, source })?;
        Ok(path)
    }
}

/// SHA-256 of all that a panel is: its tasks' names, one a line, its boards, and the types, one a line, if it has any.
fn content(tasks: &[Task], boards: &str, types: &[String]) -> String {
    let names: String = tasks.iter().map(|task| task.name() + "\n").collect();
    let types: String = types.iter().map(|kind| format!("{kind}\n")).collect();
    hex(Sha256::new().chain_update(names).chain_update(boards).chain_update(types))
}

/// SHA-256 of the tasks' boards; for a program, of some tasks' first observations.
fn boards(tasks: &[Task], programs: &Programs) -> Result<String, EnvError> {
    let mut hash = Sha256::new();
    if tasks.first().is_some_and(|task| task.game.program().is_some()) {
        let viewed: Vec<Task> = tasks.iter().step_by(tasks.len().div_ceil(VIEWED)).cloned().collect();
        for view in begun(&viewed, programs)? {
            hash.update(mix(view.step.state, text(&view.step.observation)).to_le_bytes());
        }
        return Ok(hex(hash));
    }
    for task in tasks {
        hash.update(task.board()?.to_le_bytes());
    }
    Ok(hex(hash))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::training;

    fn game() -> Game {
        Task::parse("sokoban-6x6-b1-m1-s0").unwrap().game
    }

    #[test]
    fn training_never_meets_a_panel() {
        let tasks = training(&game(), 7, 3, 300);
        assert_eq!(tasks, training(&game(), 7, 3, 300));
        assert_ne!(tasks, training(&game(), 7, 4, 300));
        assert!(tasks.iter().all(|task| task.seed & PANEL == 0));
        let boards = |tasks: &[Task]| tasks.iter().map(|task| task.board().unwrap()).collect::<BTreeSet<u64>>();
        let panel = freeze(&game(), "test", 100, &Programs::default()).unwrap();
        assert!(panel.tasks.iter().all(|task| task.seed & PANEL != 0));
        assert!(boards(&tasks).is_disjoint(&boards(&panel.tasks)), "not only seeds are apart, but boards");
        assert_eq!(boards(&panel.tasks).len(), 100, "no board twice");
    }

    #[test]
    fn panels_are_read_back_and_changes_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let panel = freeze(&game(), "test", 5, &Programs::default()).unwrap();
        let path = panel.write(folder.path()).unwrap();
        assert_eq!(Panel::load(&path).unwrap(), panel);
        let text = std::fs::read_to_string(&path).unwrap();
        let name = panel.tasks[0].name();
        let other = Task { seed: panel.tasks[0].seed ^ 1, game: game() }.name();
        for broken in [text.replace(&name, &other), text.replace(&name, "sokoban"), text[..text.len() / 2].to_string(), String::new()] {
            std::fs::write(&path, broken).unwrap();
            assert!(matches!(Panel::load(&path), Err(EnvError::Panel { .. })));
        }
        assert!(matches!(Panel::load(&folder.path().join("none.json")), Err(EnvError::File { .. })));
    }

    #[test]
    fn the_frozen_panels_still_make_the_same_boards() {
        let folder = crate::tests::root().join("datasets");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "json") {
                let panel = Panel::load(&path).unwrap();
                panel.verify(&Programs::default()).unwrap();
                // The wide ones say so in their names; the smallest boards have a small one, for a large model.
                let wide = [512, 1024].into_iter().find(|count| panel.name.contains(&format!("-{count}-")));
                let usual = if panel.name.contains("-size3-") { 64 } else { 256 };
                assert_eq!(panel.tasks.len(), wide.unwrap_or(usual));
                assert_eq!(path.file_stem().unwrap().to_str(), Some(panel.name.as_str()));
                count += 1;
            }
        }
        assert_eq!(count, 12);
    }
}
