//! The rules of each game as a prompt tells them, and the vocabulary of its texts.

use super::Game;

/// The rules of the game, for the head of a full prompt.
pub fn rules(_game: &Game) -> String {
    String::new()
}

/// Every word and symbol of the game's texts.
pub fn vocabulary(_game: &Game) -> Vec<String> {
    Vec::new()
}
