//! Experts of the house: their actions, and their answers' parts about the search and about the known door.

use super::house::{Clue, House, COLOURS, ROOMS};
use super::settings::Expert;
use super::Place;
use flow_core::seed::{mix, Random};

/// An expert in an episode. It is asked once a turn for its action, and then for the parts of its answer.
#[derive(Clone, Debug)]
pub struct Player {
    expert: Expert,
    seed: u64,
    /// The turns that it was asked in.
    turns: u64,
    /// Its last action.
    last: String,
}

impl Player {
    pub fn new(expert: Expert, seed: u64) -> Player {
        Player { expert, seed, turns: 0, last: String::new() }
    }

    pub fn reset(&mut self) {
        (self.turns, self.last) = (0, String::new());
    }

    /// The action from here, having looked into these rooms; none after the end.
    pub fn action(&mut self, house: &House, place: Place, looked: &[usize]) -> Option<String> {
        let mut random = Random::new(mix(self.seed, self.turns));
        self.turns += 1;
        let hesitant = self.expert == Expert::Hesitant;
        let action = match place {
            Place::Behind(_) => return None,
            Place::Room(room) => ROOMS[if hesitant && random.below(2) == 0 { random.below(ROOMS.len()) } else { room }].1.to_owned(),
            Place::Hall => {
                let left: Vec<usize> = house.rooms.iter().copied().filter(|room| !looked.contains(room)).collect();
                let known = known(house, looked);
                let noted = house.clue == Clue::Note && known.is_some();
                let pays = !noted && if hesitant { random.below(2) == 0 } else { house.clue == Clue::Note };
                match left.first() {
                    Some(first) if pays => {
                        let room = if hesitant { left[random.below(left.len())] } else { *first };
                        format!("enter {}", ROOMS[room].0)
                    }
                    _ => format!("open {}", COLOURS[known.unwrap_or(house.doors[random.below(house.doors.len())])]),
                }
            }
        };
        self.last.clone_from(&action);
        Some(action)
    }

    /// What it writes beside that action: the room that it goes to see as `explore`, and as `memory` the right door
    /// once it was seen, on the sign or on a note, before that the rooms that were searched in vain. None for other
    /// parts.
    pub fn part(&self, tag: &str, house: &House, looked: &[usize]) -> Option<String> {
        let none = || "none".to_owned();
        match tag {
            "explore" => Some(self.last.strip_prefix("enter ").map_or_else(none, String::from)),
            "memory" => {
                let rooms: Vec<&str> = looked.iter().map(|&room| ROOMS[room].0).collect();
                Some(match known(house, looked) {
                    Some(door) => COLOURS[door].to_owned(),
                    None if rooms.is_empty() => none(),
                    None => rooms.join(" "),
                })
            }
            _ => None,
        }
    }
}

/// The right door, where the sign says it or one of the rooms that were looked into.
fn known(house: &House, looked: &[usize]) -> Option<usize> {
    match house.clue {
        Clue::Sign => Some(house.right),
        _ => looked.iter().find_map(|&room| house.room(room).1),
    }
}
