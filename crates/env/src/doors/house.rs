//! The house of a task: its doors, its rooms, and where it says which door is the right one.

use super::DoorsSettings;
use crate::{Deal, EnvError};
use flow_core::seed::{mix, Random};

/// The colours of doors.
pub const COLOURS: [&str; 6] = ["red", "blue", "green", "white", "black", "yellow"];

/// The rooms, each with the way that leads back to the hall.
pub const ROOMS: [(&str, &str); 4] = [("attic", "climb down"), ("cellar", "climb up"), ("garden", "go in"), ("pantry", "go out")];

/// Houses drawn and thrown away before giving up.
const TRIES: usize = 4_000;

/// Where a task says which door is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clue {
    /// On a sign in the hall: looking into rooms is in vain.
    Sign,
    /// On a note in one of the rooms: looking is what it takes.
    Note,
    /// Nowhere: the rooms are dark, as the sign says, so that nothing is gained by looking.
    Dark,
}

impl Clue {
    pub const ALL: [Clue; 3] = [Clue::Sign, Clue::Note, Clue::Dark];

    /// The kind of task, as rows have it.
    pub fn name(self) -> &'static str {
        match self {
            Clue::Sign => "sign",
            Clue::Note => "note",
            Clue::Dark => "dark",
        }
    }
}

/// All that a seed decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct House {
    pub clue: Clue,
    /// Its doors, as indices of [`COLOURS`].
    pub doors: Vec<usize>,
    /// Its rooms, as indices of [`ROOMS`].
    pub rooms: Vec<usize>,
    /// The colour of the right door.
    pub right: usize,
    /// The room with the note, if there is one.
    pub note: usize,
}

impl House {
    /// The house of a seed, one of those dealt: houses are dealt out by their content, so none is in two splits.
    pub fn make(settings: &DoorsSettings, seed: u64, deal: Deal) -> Result<House, EnvError> {
        for tried in 0..TRIES {
            let mut random = Random::new(mix(seed, tried as u64));
            let mut some = |all: usize, count: usize| {
                let mut places: Vec<usize> = (0..all).collect();
                random.shuffle(&mut places);
                places.truncate(count);
                places
            };
            let (doors, rooms) = (some(COLOURS.len(), settings.doors), some(ROOMS.len(), settings.rooms));
            let (right, note) = (doors[random.below(doors.len())], rooms[random.below(rooms.len())]);
            let house = House { clue: Clue::ALL[random.below(3)], doors, rooms, right, note };
            if deal.owns(house.content()) {
                return Ok(house);
            }
        }
        Err(EnvError::Unmade { what: "house of this split".into(), tries: TRIES })
    }

    /// Hash of all of it.
    pub fn content(&self) -> u64 {
        let whole = self.doors.iter().chain(&self.rooms).fold(self.clue as u64, |hash, at| mix(hash, *at as u64));
        mix(mix(whole, self.right as u64), if self.clue == Clue::Note { self.note as u64 } else { 0 })
    }

    /// What one sees in the hall.
    pub fn hall(&self) -> String {
        let list = |names: Vec<&str>| names.iter().map(|name| format!(" {name}")).collect::<String>();
        let sign = match self.clue {
            Clue::Sign => COLOURS[self.right],
            Clue::Note => "look for the note",
            Clue::Dark => "all rooms are dark",
        };
        let doors = list(self.doors.iter().map(|&door| COLOURS[door]).collect());
        let rooms = list(self.rooms.iter().map(|&room| ROOMS[room].0).collect());
        format!("hall\ndoors:{doors}\nrooms:{rooms}\nsign: {sign}")
    }

    /// What one sees in a room, and the right door if that says it.
    pub fn room(&self, room: usize) -> (String, Option<usize>) {
        let noted = (self.clue == Clue::Note && self.note == room).then_some(self.right);
        let note = match (self.clue, noted) {
            (Clue::Dark, _) => "dark",
            (_, Some(right)) => COLOURS[right],
            (_, None) => "none",
        };
        (format!("{}\nnote: {note}", ROOMS[room].0), noted)
    }
}
