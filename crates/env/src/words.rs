//! The vocabulary of a game's texts.

use std::collections::BTreeSet;

/// What every prompt and answer may contain, the game's own words, digits, and the words of its rules, each once and in
/// this order.
pub(super) fn vocabulary(own: Vec<String>, rules: &str) -> Vec<String> {
    let mut all: Vec<String> = ["<action>", "</action>", "\n", " ", ",", ", ", ".", ". ", ":", ": "].map(String::from).to_vec();
    all.extend(own);
    all.extend((0..=9).map(|digit| digit.to_string()));
    for word in rules.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|word| !word.is_empty()) {
        all.extend([format!(" {word}"), word.to_string()]);
    }
    let mut unique = BTreeSet::new();
    all.retain(|word| unique.insert(word.clone()));
    all
}

/// The words of a board drawn row by row: it costs one entry a cell and one a row.
pub(super) fn board(size: usize, symbols: &str) -> Vec<String> {
    let rows = (1..=size).flat_map(|row| [format!("Row {row}:"), format!("\nRow {row}:")]);
    rows.chain(symbols.chars().flat_map(|symbol| [format!(" {symbol}"), symbol.to_string()])).collect()
}

#[cfg(test)]
mod tests {
    use crate::Task;

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
            let vocabulary = task.game.vocabulary();
            let mut env = task.make().unwrap();
            let step = env.reset();
            assert_eq!(entries(&vocabulary, &step.observation), Some(size * size + size), "{}", step.observation);
            for action in env.admissible() {
                let moves = if name.starts_with("soko") { action.split(',').count() } else { 1 };
                assert_eq!(entries(&vocabulary, &action), Some(2 * moves - 1), "{action}");
            }
            assert!(entries(&vocabulary, &task.game.rules()).is_some(), "the rules need no bytes");
        }
    }

    #[test]
    fn entries_are_unique() {
        let all = Task::parse("minesweeper-6x6-m3-s0").unwrap().game.vocabulary();
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }
}
