//! Names of tasks: settings and seed in one short word, readable both ways.

use super::process::{is_name, ProcessGame};
use super::{Game, MinesweeperSettings, SokobanSettings, Task};

/// The name of a task.
pub fn write(task: &Task) -> String {
    match &task.game {
        Game::Sokoban(s) => {
            let usual = SokobanSettings { size: s.size, boxes: s.boxes, moves_per_turn: s.moves_per_turn, ..SokobanSettings::default() };
            let mut name = format!("sokoban-{0}x{0}-b{1}-m{2}", s.size, s.boxes, s.moves_per_turn);
            if s.min_moves != usual.min_moves || s.max_moves != usual.max_moves {
                name += &format!("-l{}to{}", s.min_moves, s.max_moves);
            }
            if s.search_depth != usual.search_depth {
                name += &format!("-d{}", s.search_depth);
            }
            format!("{name}-s{}", task.seed)
        }
        Game::Minesweeper(s) => format!("minesweeper-{0}x{0}-m{1}-s{2}", s.size, s.mines, task.seed),
        Game::Process(p) => format!("process-{}-s{}", p.name, task.seed),
    }
}

/// The task of a name. Only what `write` writes is read, so a task has one name.
pub fn read(name: &str) -> Option<Task> {
    if let Some(rest) = name.strip_prefix("process-") {
        let (process, seed) = rest.split_once("-s").filter(|(process, _)| is_name(process))?;
        let task = Task { game: Game::Process(ProcessGame { name: process.into() }), seed: seed.parse().ok()? };
        return (write(&task) == name).then_some(task);
    }
    let mut parts = name.split('-');
    let kind = parts.next()?;
    let (size, height) = parts.next()?.split_once('x')?;
    let size: usize = size.parse().ok()?;
    let (mut sokoban, mut mines) = (SokobanSettings { size, ..SokobanSettings::default() }, MinesweeperSettings { size, mines: 0 });
    let mut seed = None;
    for part in parts {
        let (letter, value) = part.split_at_checked(1)?;
        match (kind, letter) {
            (_, "s") => seed = Some(value.parse().ok()?),
            ("sokoban", "b") => sokoban.boxes = value.parse().ok()?,
            ("sokoban", "m") => sokoban.moves_per_turn = value.parse().ok()?,
            ("sokoban", "d") => sokoban.search_depth = value.parse().ok()?,
            ("sokoban", "l") => {
                let (least, most) = value.split_once("to")?;
                (sokoban.min_moves, sokoban.max_moves) = (least.parse().ok()?, most.parse().ok()?);
            }
            ("minesweeper", "m") => mines.mines = value.parse().ok()?,
            _ => return None,
        }
    }
    let game = match kind {
        "sokoban" => Game::Sokoban(sokoban),
        "minesweeper" => Game::Minesweeper(mines),
        _ => return None,
    };
    let task = Task { game, seed: seed? };
    (height.parse() == Ok(size) && write(&task) == name).then_some(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let usual = SokobanSettings { size: 6, boxes: 2, ..SokobanSettings::default() };
        let odd = SokobanSettings { min_moves: 3, max_moves: 30, search_depth: 77, moves_per_turn: 3, ..usual.clone() };
        for (game, expected) in [
            (Game::Sokoban(usual), "sokoban-6x6-b2-m1-s123"),
            (Game::Sokoban(odd), "sokoban-6x6-b2-m3-l3to30-d77-s123"),
            (Game::Minesweeper(MinesweeperSettings { size: 5, mines: 3 }), "minesweeper-5x5-m3-s123"),
            (Game::Process(ProcessGame { name: "my_game2".into() }), "process-my_game2-s123"),
        ] {
            let task = Task { game, seed: 123 };
            assert_eq!(task.name(), expected);
            assert_eq!(read(expected), Some(task));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in [
            "",
            "sokoban",
            "chess-8x8-s1",
            "sokoban-6x5-b2-m1-s1",
            "sokoban-6x6-b2-m1",
            "sokoban-6x6-m1-b2-s1",
            "minesweeper-6x6-m03-s1",
            "sokoban-6x6-√-s1",
            "sokoban-6x6--s1",
            "process-s1",
            "process--s1",
            "process-my game-s1",
            "process-game-s01",
            "process-a-b-s1",
        ] {
            assert_eq!(read(name), None, "{name}");
        }
    }
}
