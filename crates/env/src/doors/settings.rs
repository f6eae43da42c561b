//! The settings of the house with doors, and everything derived from them.

use super::house::{House, COLOURS, ROOMS};
use super::Doors;
use crate::error::within;
use crate::{Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The expert's strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Expert {
    /// One who looks into rooms where that pays and nowhere else: the best there is.
    #[default]
    Best,
    /// One who knows the form of an answer and not when to look: in the hall looks with even odds as long as it has
    /// seen no note and there is a room left, whatever the sign says, else opens the door that it knows of, or any; in
    /// a room takes the way back with even odds, else any way. For a warm start that leaves something to learn.
    Hesitant,
}

/// The settings of the house with doors.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct DoorsSettings {
    /// Doors of a house, one of them the right one.
    #[schemars(range(min = 2, max = 6))]
    pub doors: usize,
    /// Rooms of a house.
    #[schemars(range(min = 1, max = 4))]
    pub rooms: usize,
    /// The expert's strategy.
    pub expert: Expert,
}

impl Default for DoorsSettings {
    fn default() -> Self {
        DoorsSettings { doors: 4, rooms: 2, expert: Expert::Best }
    }
}

impl GameSettings for DoorsSettings {
    const NAME: &'static str = "doors";
    const ABOUT: &'static str =
        "Open the right one of several doors: a sign names it, or a note in a room, or nothing does. Only one can be opened.";
    const COSTS: Option<bool> = Some(true);

    fn check(&self) -> Result<(), EnvError> {
        within("doors", self.doors, 2, COLOURS.len())?;
        within("rooms", self.rooms, 1, ROOMS.len())
    }

    fn label(&self) -> String {
        let expert = if self.expert == Expert::Hesitant { "-hesitant" } else { "" };
        format!("d{}-r{}{expert}", self.doors, self.rooms)
    }

    fn parse(label: &str) -> Option<Self> {
        let (label, expert) = match label.strip_suffix("-hesitant") {
            Some(label) => (label, Expert::Hesitant),
            None => (label, Expert::Best),
        };
        let (doors, rooms) = label.strip_prefix('d')?.split_once("-r")?;
        Some(DoorsSettings { doors: doors.parse().ok()?, rooms: rooms.parse().ok()?, expert })
    }

    fn rules(&self) -> String {
        let ways: Vec<&str> = ROOMS.iter().map(|(_, way)| *way).collect();
        format!(
            "You stand in a hall with {} doors and {} rooms. Open the right door. Only one can be opened, and every step costs.\n\
             The sign names the right door, or says that a note in one of the rooms does, or that the rooms are dark and nothing does.\n\
             In the hall you can open a door, such as <action>open red</action>, or enter a room, such as <action>enter attic</action>.\n\
             In a room one of the ways {} leads back to the hall.\n\
             Answer with one action between <action> and </action>.",
            self.doors,
            self.rooms,
            ways.join(", ")
        )
    }

    /// A name costs one entry, a line's beginning too.
    fn words(&self) -> Vec<String> {
        let both = |word: &str| [word.to_owned(), format!(" {word}")];
        let mut words: Vec<String> = COLOURS.iter().chain(ROOMS.iter().map(|(room, _)| room)).flat_map(|word| both(word)).collect();
        words.extend(ROOMS.iter().map(|(_, way)| way.to_string()));
        let fixed = [
            "open",
            "enter",
            "none",
            " none",
            " dark",
            "hall\ndoors:",
            "\nrooms:",
            "\nsign:",
            "\nnote:",
            " look for the note",
            " all rooms are dark",
        ];
        words.extend(fixed.map(String::from));
        words
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        self.check()?;
        Ok(Box::new(Doors::new(House::make(self, seed, deal)?, self.expert)))
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        self.check()?;
        Ok(House::make(self, seed, deal)?.content())
    }
}
