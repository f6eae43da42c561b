//! The rules of each game as a prompt tells them, and the vocabulary of its texts.

use super::{Game, MinesweeperSettings, SokobanSettings};

/// The rules of the game, for the head of a full prompt: the symbols, the goal, and how to answer. Those of a process are its own to tell.
pub fn rules(game: &Game) -> String {
    match game {
        Game::Sokoban(settings) => sokoban(settings),
        Game::Minesweeper(settings) => minesweeper(settings),
        Game::Process(_) => String::new(),
    }
}

fn sokoban(settings: &SokobanSettings) -> String {
    let answer = match settings.moves_per_turn {
        1 => "Answer with one move between <action> and </action>, such as <action>up</action>.".to_string(),
        most => format!(
            "Answer with up to {most} moves, separated by commas, between <action> and </action>, such as <action>up, right</action>."
        ),
    };
    format!(
        "You play Sokoban. Push every box onto a target.\n\
         Symbols: # is a wall, _ is floor, O is a target, X is a box, P is you, √ is a box on a target, S is you on a target.\n\
         Moves: up, down, left, right. You walk onto free cells. Walking against a box pushes it, if the cell behind it is free. \
         Boxes can't be pulled, and two can't be pushed at once, so keep them away from corners.\n{answer}"
    )
}

fn minesweeper(settings: &MinesweeperSettings) -> String {
    format!(
        "You play MineSweeper on {0} rows and {0} columns with {1} mines. Open every cell that hides no mine.\n\
         Symbols: ? is a closed cell, . is an open cell with no mine around it, a number is an open cell with so many mines around it, * is a mine.\n\
         Opening a mine loses. Opening a cell with no mine around it opens the cells around it too.\n\
         Answer with one cell, row and column counted from 1, between <action> and </action>, such as <action>(2, 3)</action>.",
        settings.size, settings.mines
    )
}

/// Every word and symbol of the game's texts, for a tokenizer that always takes the longest match. A board costs one entry a
/// cell and one a row; a direction and a MineSweeper action cost one each. Free text falls back on bytes. A process has words of its own.
pub fn vocabulary(game: &Game) -> Vec<String> {
    let mut all: Vec<String> = ["<action>", "</action>", "\n", " ", ",", ", ", ".", ". ", ":", ": "].map(String::from).to_vec();
    let (size, symbols) = match game {
        Game::Sokoban(s) => (s.size, "#_OXPS√"),
        Game::Minesweeper(s) => (s.size, "?.12345678*"),
        Game::Process(_) => (0, ""),
    };
    for row in 1..=size {
        all.extend([format!("Row {row}:"), format!("\nRow {row}:")]);
    }
    for symbol in symbols.chars() {
        all.extend([format!(" {symbol}"), symbol.to_string()]);
    }
    match game {
        Game::Process(_) => {}
        Game::Sokoban(_) => all.extend(["up", "down", "left", "right"].map(String::from)),
        Game::Minesweeper(_) => {
            all.extend((1..=size).flat_map(|row| (1..=size).map(move |column| format!("({row}, {column})"))));
            all.extend(["(", ")"].map(String::from));
        }
    }
    all.extend((0..=9).map(|digit| digit.to_string()));
    for word in rules(game).split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|word| !word.is_empty()) {
        all.extend([format!(" {word}"), word.to_string()]);
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|word| seen.insert(word.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Task;

    /// How many entries the longest-match rule needs; `None` if some text is covered by none.
    fn entries(vocabulary: &[String], mut text: &str) -> Option<usize> {
        let mut count = 0;
        while !text.is_empty() {
            let longest = vocabulary.iter().filter(|word| text.starts_with(word.as_str())).map(|word| word.len()).max()?;
            (text, count) = (&text[longest..], count + 1);
        }
        Some(count)
    }

    #[test]
    fn a_board_costs_one_entry_a_cell_and_one_a_row() {
        for name in ["sokoban-6x6-b2-m3-s5", "sokoban-10x10-b2-m1-s5", "minesweeper-5x5-m3-s5"] {
            let task = Task::parse(name).unwrap();
            let size = if name.contains("10x10") { 10 } else { name.as_bytes()[name.find('x').unwrap() - 1] as usize - 48 };
            let vocabulary = vocabulary(&task.game);
            let mut env = task.make().unwrap();
            let seen = env.reset();
            assert_eq!(entries(&vocabulary, &seen.observation), Some(size * size + size), "{}", seen.observation);
            for action in env.admissible() {
                let moves = if name.starts_with("soko") { action.split(',').count() } else { 1 };
                assert_eq!(entries(&vocabulary, &action), Some(2 * moves - 1), "{action}");
            }
            assert!(entries(&vocabulary, &rules(&task.game)).is_some(), "the rules need no bytes");
        }
    }

    #[test]
    fn entries_are_unique() {
        let all = vocabulary(&Task::parse("minesweeper-6x6-m3-s0").unwrap().game);
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }
}
