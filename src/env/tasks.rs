//! Sets of tasks: seeds to train on, and frozen panels to be measured on, that can never meet.

use super::{EnvError, Game, Task};
use crate::files;
use crate::seed::{mix, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a task is for. The top bit of a task's seed says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    Train,
    Panel,
}

/// The bit of a seed that only tasks of panels have.
const PANEL: u64 = 1 << 63;

impl Split {
    /// What the task of this seed is for.
    pub fn of(seed: u64) -> Split {
        if seed & PANEL == 0 {
            Split::Train
        } else {
            Split::Panel
        }
    }

    /// Whether a board with this hash is dealt to this split: a quarter of all boards goes to panels. Seeds apart aren't
    /// enough on small boards, where two seeds often give the same one.
    pub fn owns(self, board: u64) -> bool {
        (mix(board, text("split")) & 3 == 0) == (self == Split::Panel)
    }
}

/// The training tasks of one iteration. They depend on these four values only.
pub fn training(game: &Game, run_seed: u64, iteration: u64, batch: usize) -> Vec<Task> {
    let first = mix(mix(run_seed, text("training tasks")), iteration);
    (0..batch as u64).map(|i| Task { game: game.clone(), seed: mix(first, i) & !PANEL }).collect()
}

/// A frozen set of tasks to be measured on.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The label and the first 12 digits of the hash of the content.
    pub name: String,
    pub tasks: Vec<Task>,
    /// SHA-256 of the boards of all tasks: whether this program still makes those that were frozen.
    pub boards: String,
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
}

/// Seeds in a row that may repeat a board before repeats are accepted: then the game has no more boards to offer.
const REPEATS: usize = 500;

/// A panel of `count` tasks, different boards as far as the game has them. The same label always gives the same panel.
pub fn freeze(game: &Game, label: &str, count: usize) -> Result<Panel, EnvError> {
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
    let boards = boards(&tasks)?;
    let name = format!("{label}-{}", &content(&tasks, &boards)[..12]);
    Ok(Panel { name, tasks, boards })
}

/// A longer file is no panel.
const MOST_BYTES: u64 = 256 << 20;

impl Panel {
    /// Reads a panel and holds it against its hash.
    pub fn load(path: &Path) -> Result<Panel, EnvError> {
        let shown = path.display().to_string();
        let bad = |why: String| EnvError::Panel { path: shown.clone(), why };
        let text = files::text(path, MOST_BYTES).map_err(|source| EnvError::File { path: shown.clone(), source })?;
        let file: File = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let tasks = file.tasks.iter().map(|name| Task::parse(name)).collect::<Result<Vec<_>, _>>().map_err(|e| bad(e.to_string()))?;
        for task in &tasks {
            if task.game.json()? != file.game || Split::of(task.seed) != Split::Panel {
                return Err(bad(format!("{} is no task of this panel's game", task.name())));
            }
        }
        let hash = content(&tasks, &file.boards);
        if hash != file.sha256 || !file.name.ends_with(&hash[..12]) {
            return Err(bad(format!("its content has the hash {hash}, but it says {} and {}", file.name, file.sha256)));
        }
        Ok(Panel { name: file.name, tasks, boards: file.boards })
    }

    /// Makes every task and compares the boards with those frozen. Takes a moment, so `load` doesn't do it.
    pub fn verify(&self) -> Result<(), EnvError> {
        match boards(&self.tasks)? == self.boards {
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
            sha256: content(&self.tasks, &self.boards),
            boards: self.boards.clone(),
            game: first.game.json()?,
            tasks: self.tasks.iter().map(Task::name).collect(),
        };
        let text = serde_json::to_string_pretty(&file).map_err(|e| EnvError::Panel { path: shown.clone(), why: e.to_string() })?;
        std::fs::write(&path, text + "\n").map_err(|source| EnvError::File { path: shown, source })?;
        Ok(path)
    }
}

/// SHA-256 of all that a panel is: its tasks' names, one a line, and its boards.
fn content(tasks: &[Task], boards: &str) -> String {
    let names: String = tasks.iter().map(|task| task.name() + "\n").collect();
    hex(Sha256::new().chain_update(names).chain_update(boards))
}

/// SHA-256 of the tasks' boards.
fn boards(tasks: &[Task]) -> Result<String, EnvError> {
    let mut hash = Sha256::new();
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

    fn game() -> Game {
        Task::parse("sokoban-6x6-b1-m1-s0").unwrap().game
    }

    #[test]
    fn training_never_meets_a_panel() {
        let tasks = training(&game(), 7, 3, 300);
        assert_eq!(tasks, training(&game(), 7, 3, 300));
        assert_ne!(tasks, training(&game(), 7, 4, 300));
        assert!(tasks.iter().all(|task| Split::of(task.seed) == Split::Train));
        let boards = |tasks: &[Task]| tasks.iter().map(|task| task.board().unwrap()).collect::<BTreeSet<u64>>();
        let panel = freeze(&game(), "test", 100).unwrap();
        assert!(panel.tasks.iter().all(|task| Split::of(task.seed) == Split::Panel));
        assert!(boards(&tasks).is_disjoint(&boards(&panel.tasks)), "not only seeds are apart, but boards");
        assert_eq!(boards(&panel.tasks).len(), 100, "no board twice");
    }

    #[test]
    fn panels_are_read_back_and_changes_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let panel = freeze(&game(), "test", 5).unwrap();
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
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "json") {
                let panel = Panel::load(&path).unwrap();
                panel.verify().unwrap();
                // The wide ones say so in their names.
                assert_eq!(panel.tasks.len(), if panel.name.contains("-1024-") { 1024 } else { 256 });
                assert_eq!(path.file_stem().unwrap().to_str(), Some(panel.name.as_str()));
                count += 1;
            }
        }
        assert_eq!(count, 12);
    }
}
