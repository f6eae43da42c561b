//! Sokoban with the semantics of gym-sokoban 0.0.6 (Schrader 2018).

use super::{within, EnvError, Environment, Seen};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of Sokoban.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct SokobanSettings {
    /// Rows and columns of the room, its outer walls counted.
    #[schemars(range(min = 4, max = 16))]
    pub size: usize,
    /// Boxes, and as many targets.
    #[schemars(range(min = 1, max = 7))]
    pub boxes: usize,
    /// Moves that one action may name, separated by commas.
    #[schemars(range(min = 1, max = 100))]
    pub moves_per_turn: usize,
    /// The least number of moves that the shortest solution of a room may have.
    #[schemars(range(min = 1, max = 200))]
    pub min_moves: usize,
    /// The greatest number of moves that the shortest solution of a room may have.
    #[schemars(range(min = 1, max = 200))]
    pub max_moves: usize,
    /// How many steps back from the solved room reverse play may go.
    #[schemars(range(min = 1, max = 300))]
    pub search_depth: usize,
}

impl Default for SokobanSettings {
    fn default() -> Self {
        SokobanSettings { size: 6, boxes: 2, moves_per_turn: 1, min_moves: 5, max_moves: 21, search_depth: 30 }
    }
}

impl SokobanSettings {
    /// Refuses what no room can have.
    pub fn check(&self) -> Result<(), EnvError> {
        within("size", self.size, 4, 16)?;
        within("boxes", self.boxes, 1, 7)?;
        within("moves_per_turn", self.moves_per_turn, 1, 100)?;
        within("max_moves", self.max_moves, 1, 200)?;
        within("min_moves", self.min_moves, 1, self.max_moves)?;
        within("search_depth", self.search_depth, 1, 300)
    }
}

/// A room being played.
pub struct Sokoban {}

impl Sokoban {
    /// The room of a seed.
    pub fn new(settings: &SokobanSettings, _seed: u64) -> Result<Self, EnvError> {
        settings.check()?;
        Err(EnvError::Unmade { what: "room".into(), tries: 0 })
    }
}

impl Environment for Sokoban {
    fn reset(&mut self) -> Seen {
        Seen { observation: String::new(), state: 0, reward: 0.0, done: false, won: false, valid: true }
    }
    fn step(&mut self, _action: &str) -> Seen {
        self.reset()
    }
    fn admissible(&self) -> Vec<String> {
        Vec::new()
    }
    fn expert(&mut self) -> Option<String> {
        None
    }
}
