//! The settings of MineSweeper, and everything derived from them.

use super::Minesweeper;
use crate::error::within;
use crate::{words, Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of MineSweeper.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct MinesweeperSettings {
    /// Rows and columns of the board.
    #[schemars(range(min = 3, max = 16))]
    pub size: usize,
    /// Mines of a board.
    #[schemars(range(min = 1, max = 99))]
    pub mines: usize,
}

impl Default for MinesweeperSettings {
    fn default() -> Self {
        MinesweeperSettings { size: 6, mines: 3 }
    }
}

impl GameSettings for MinesweeperSettings {
    const NAME: &'static str = "minesweeper";
    const ABOUT: &'static str = "Open every cell that hides no mine.";
    const COSTS: Option<bool> = Some(true);

    /// One cell stays free for the first opening, one more for the game.
    fn check(&self) -> Result<(), EnvError> {
        within("size", self.size, 2, 16)?;
        within("mines", self.mines, 1, (self.size * self.size - 2).min(99))
    }

    fn label(&self) -> String {
        format!("{0}x{0}-m{1}", self.size, self.mines)
    }

    fn parse(label: &str) -> Option<Self> {
        let (size, mines) = label.split_once("-m")?;
        Some(MinesweeperSettings { size: size.split_once('x')?.0.parse().ok()?, mines: mines.parse().ok()? })
    }

    fn rules(&self) -> String {
        format!(
            "You play MineSweeper on {0} rows and {0} columns with {1} mines. Open every cell that hides no mine.\n\
             Symbols: ? is a closed cell, . is an open cell with no mine around it, a number is an open cell with so many mines around it, * is a mine.\n\
             Opening a mine loses. Opening a cell with no mine around it opens the cells around it too.\n\
             Answer with one cell, row and column counted from 1, between <action> and </action>, such as <action>(2, 3)</action>.",
            self.size, self.mines
        )
    }

    /// An action costs one entry.
    fn words(&self) -> Vec<String> {
        let mut words = words::board(self.size, "?.12345678*");
        words.extend((1..=self.size).flat_map(|row| (1..=self.size).map(move |column| format!("({row}, {column})"))));
        words.extend(["(", ")"].map(String::from));
        words
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        Ok(Box::new(Minesweeper::dealt(self, seed, deal)?))
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        Ok(Minesweeper::dealt(self, seed, deal)?.content())
    }
}
