//! The settings of Sokoban, and everything derived from them.

use super::Sokoban;
use crate::error::within;
use crate::{words, Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of Sokoban. Those without a place in the schema can't be said in a pipeline, only in a task's name.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct SokobanSettings {
    /// Rows and columns of the board.
    #[schemars(range(min = 4, max = 16))]
    pub size: usize,
    /// Boxes of a room, and as many targets.
    #[schemars(range(min = 1, max = 7))]
    pub boxes: usize,
    /// Moves that one turn may make.
    #[serde(alias = "moves")]
    #[schemars(rename = "moves", range(min = 1, max = 3))]
    pub moves_per_turn: usize,
    /// The least number of moves that the shortest solution of a room may have.
    #[schemars(skip)]
    pub min_moves: usize,
    /// The greatest number of moves that the shortest solution of a room may have.
    #[schemars(skip)]
    pub max_moves: usize,
    /// How many steps back from the solved room reverse play may go.
    #[schemars(skip)]
    pub search_depth: usize,
}

impl Default for SokobanSettings {
    fn default() -> Self {
        SokobanSettings { size: 6, boxes: 1, moves_per_turn: 1, min_moves: 5, max_moves: 21, search_depth: 30 }
    }
}

impl GameSettings for SokobanSettings {
    const NAME: &'static str = "sokoban";
    const ABOUT: &'static str = "Push every box onto a target.";
    const COSTS: Option<bool> = Some(true);

    fn check(&self) -> Result<(), EnvError> {
        within("size", self.size, 4, 16)?;
        within("boxes", self.boxes, 1, 7)?;
        within("moves", self.moves_per_turn, 1, 100)?;
        within("max_moves", self.max_moves, 1, 200)?;
        within("min_moves", self.min_moves, 1, self.max_moves)?;
        within("search_depth", self.search_depth, 1, 300)
    }

    fn label(&self) -> String {
        let usual = SokobanSettings::default();
        let mut label = format!("{0}x{0}-b{1}-m{2}", self.size, self.boxes, self.moves_per_turn);
        if self.min_moves != usual.min_moves || self.max_moves != usual.max_moves {
            label += &format!("-l{}to{}", self.min_moves, self.max_moves);
        }
        if self.search_depth != usual.search_depth {
            label += &format!("-d{}", self.search_depth);
        }
        label
    }

    fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('-');
        let size = parts.next()?.split_once('x')?.0.parse().ok()?;
        let mut settings = SokobanSettings { size, ..SokobanSettings::default() };
        for part in parts {
            let (letter, value) = part.split_at_checked(1)?;
            match letter {
                "b" => settings.boxes = value.parse().ok()?,
                "m" => settings.moves_per_turn = value.parse().ok()?,
                "d" => settings.search_depth = value.parse().ok()?,
                "l" => {
                    let (least, most) = value.split_once("to")?;
                    (settings.min_moves, settings.max_moves) = (least.parse().ok()?, most.parse().ok()?);
                }
                _ => return None,
            }
        }
        Some(settings)
    }

    fn rules(&self) -> String {
        let answer = match self.moves_per_turn {
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

    /// A direction costs one entry.
    fn words(&self) -> Vec<String> {
        let mut words = words::board(self.size, "#_OXPS√");
        words.extend(["up", "down", "left", "right"].map(String::from));
        words
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        Ok(Box::new(Sokoban::dealt(self, seed, deal)?))
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        Ok(Sokoban::dealt(self, seed, deal)?.board().hash())
    }
}
