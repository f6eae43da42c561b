//! A house where one has to know when to look: one of several doors is the right one. Some houses say which in the
//! hall, some on a note in a room, where looking costs two turns, and some nowhere, as they say. A room's content can't
//! be seen from the hall, so it has to be remembered. The best play is known exactly ([`optimum`]).
//!
//! Made for the claim that an agent can learn to explore where it pays (EAPO): one that always looks and one that never
//! does both fall short of the best. A step into a room can be taken back, by a way that is the room's own.

mod expert;
mod house;
mod optimum;
mod settings;

use super::{Environment, EpisodeFacts, Extras, TimeStep};
use expert::Player;
use flow_core::seed::text;
use house::{House, COLOURS, ROOMS};
use std::collections::BTreeMap;

pub use optimum::optimum;
pub use settings::{DoorsSettings, Expert};

/// What each step costs; the right door earns 1 besides.
const COST: f32 = 0.05;

/// Where one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Hall,
    /// In a room, an index of [`ROOMS`].
    Room(usize),
    /// Behind a door, by its colour: the end.
    Behind(usize),
}

/// A house being played.
#[derive(Clone, Debug)]
pub struct Doors {
    house: House,
    place: Place,
    /// Rooms that were looked into, each once.
    looked: Vec<usize>,
    player: Player,
}

impl Doors {
    fn new(house: House, expert: Expert) -> Doors {
        Doors { player: Player::new(expert, house.content()), house, place: Place::Hall, looked: vec![] }
    }

    /// Where an action leads from here; none where it can't be carried out. A way that doesn't lead back leaves one
    /// where one is.
    fn leads(&self, action: &str) -> Option<Place> {
        match (self.place, action.split_once(' ')?) {
            (Place::Hall, ("open", colour)) => {
                self.house.doors.iter().find(|&&door| COLOURS[door] == colour).map(|&door| Place::Behind(door))
            }
            (Place::Hall, ("enter", name)) => self.house.rooms.iter().find(|&&room| ROOMS[room].0 == name).map(|&room| Place::Room(room)),
            (Place::Room(room), _) if ROOMS[room].1 == action => Some(Place::Hall),
            (Place::Room(room), _) if ROOMS.iter().any(|(_, way)| *way == action) => Some(Place::Room(room)),
            _ => None,
        }
    }

    fn observation(&self) -> String {
        match self.place {
            Place::Hall => self.house.hall(),
            Place::Room(room) => self.house.room(room).0,
            Place::Behind(door) if door == self.house.right => format!("{}: the prize", COLOURS[door]),
            Place::Behind(door) => format!("{}: nothing", COLOURS[door]),
        }
    }

    fn see(&self, reward: f32, valid: bool) -> TimeStep {
        let observation = self.observation();
        let won = self.place == Place::Behind(self.house.right);
        TimeStep { state: text(&observation), observation, reward, done: matches!(self.place, Place::Behind(_)), won, valid }
    }
}

impl Environment for Doors {
    fn reset(&mut self) -> TimeStep {
        (self.place, self.looked) = (Place::Hall, vec![]);
        self.player.reset();
        self.see(0.0, true)
    }

    /// `open` and a colour ends the episode, `enter` and a room's name leads there, and the room's way back to the
    /// hall.
    fn step(&mut self, action: &str) -> TimeStep {
        let Some(place) = self.leads(action.trim()) else { return self.see(0.0, false) };
        self.place = place;
        if let Place::Room(room) = place {
            if !self.looked.contains(&room) {
                self.looked.push(room);
            }
        }
        let step = self.see(0.0, true);
        TimeStep { reward: f32::from(u8::from(step.won)) - COST, ..step }
    }

    fn admissible(&self) -> Vec<String> {
        match self.place {
            Place::Hall => {
                let open = self.house.doors.iter().map(|&door| format!("open {}", COLOURS[door]));
                open.chain(self.house.rooms.iter().map(|&room| format!("enter {}", ROOMS[room].0))).collect()
            }
            Place::Room(_) => ROOMS.iter().map(|(_, way)| way.to_string()).collect(),
            Place::Behind(_) => vec![],
        }
    }

    /// The rooms that were looked into, and what the best play of such a house comes to.
    fn extras(&self) -> Extras {
        let best = optimum::with_clue(self.house.clue, self.house.doors.len(), self.house.rooms.len());
        let info = BTreeMap::from([("looks".to_owned(), self.looked.len() as f64), ("best".to_owned(), best.value)]);
        Extras { info, facts: EpisodeFacts { kind: self.house.clue.name().into(), ..EpisodeFacts::default() }, ..Extras::default() }
    }

    fn expert(&mut self) -> Option<String> {
        self.player.action(&self.house, self.place, &self.looked)
    }

    fn expert_part(&mut self, tag: &str) -> Option<String> {
        self.player.part(tag, &self.house, &self.looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    fn episodes(name: &str, count: u64, mut play: impl FnMut(&mut dyn Environment, TimeStep)) {
        for seed in 0..count {
            let mut env = Task::parse(&format!("{name}-s{seed}")).unwrap().make().unwrap();
            let first = env.reset();
            play(env.as_mut(), first);
        }
    }

    /// 3,000 houses: the mean return of the best expert is the optimum, with 0.008 as the error of a mean of them.
    #[test]
    fn the_best_expert_comes_to_the_optimum() {
        let (mut sum, mut states, mut again) = (0.0, 0, 0);
        episodes("doors-d4-r2", 3000, |env, first| {
            let mut seen = vec![first.state];
            while let Some(action) = env.expert() {
                let step = env.step(&action);
                sum += f64::from(step.reward);
                assert!(step.valid, "{action}");
                if !step.done {
                    seen.push(step.state);
                }
            }
            let distinct: std::collections::BTreeSet<u64> = seen.iter().copied().collect();
            states += distinct.len();
            again += distinct.iter().filter(|state| seen.iter().filter(|s| s == state).count() > 1).count();
        });
        let (best, degree) = optimum(4, 2);
        assert!((sum / 3000.0 - best.value).abs() < 0.03, "{} and {}", sum / 3000.0, best.value);
        assert!((again as f64 / states as f64 - degree).abs() < 0.02, "{again} of {states}, and {degree}");
    }

    #[test]
    fn a_step_into_a_room_is_taken_back_by_its_own_way() {
        episodes("doors-d3-r4", 20, |env, hall| {
            for action in env.admissible().into_iter().filter(|action| action.starts_with("enter")) {
                let room = env.step(&action);
                let back: Vec<String> = env.admissible();
                let leads = back.iter().filter(|way| {
                    let led = env.step(way).state == hall.state;
                    if led {
                        env.step(&action);
                    }
                    led
                });
                assert_eq!(leads.count(), 1, "from {}", room.observation);
                back.iter().find(|way| env.step(way).state == hall.state).unwrap();
            }
        });
    }

    #[test]
    fn what_is_right_is_said_where_the_house_says() {
        episodes("doors-d4-r2", 200, |env, hall| {
            let kind = env.extras().facts.kind;
            let mut notes = Vec::new();
            for action in env.admissible().into_iter().filter(|action| action.starts_with("enter")) {
                notes.push(env.step(&action).observation.split_once("note: ").unwrap().1.to_owned());
                let way = ROOMS.iter().find(|(room, _)| action.ends_with(room)).unwrap().1;
                env.step(way);
            }
            let sign = hall.observation.split_once("sign: ").unwrap().1.to_owned();
            let noted = notes.iter().find(|note| COLOURS.contains(&note.as_str()));
            let right = match kind.as_str() {
                "sign" => Some(sign),
                _ => noted.cloned(),
            };
            assert_eq!((right.is_some(), noted.is_some()), (kind != "dark", kind == "note"), "{kind}");
            let end = env.step(&format!("open {}", right.as_deref().unwrap_or("red")));
            assert!(right.is_none() || end.won && (end.reward - 0.95).abs() < 1e-6);
            assert!(!end.valid || !env.step("enter attic").valid, "nothing goes on after the end");
        });
    }

    /// The hesitant one looks half of the time, on any kind of task.
    #[test]
    fn the_hesitant_expert_does_not_know_when_to_look() {
        let mut looked = BTreeMap::<String, (u32, u32)>::new();
        episodes("doors-d4-r2-hesitant", 600, |env, _| {
            let kind = env.extras().facts.kind;
            let first = env.expert().unwrap();
            let parts = ["explore", "memory", "think"].map(|tag| env.expert_part(tag));
            let count = looked.entry(kind).or_default();
            *count = (count.0 + u32::from(first.starts_with("enter")), count.1 + 1);
            match first.strip_prefix("enter ") {
                Some(room) => assert_eq!(parts[0].as_deref(), Some(room)),
                None => assert_eq!(parts[0].as_deref(), Some("none")),
            }
            assert!(parts[1].is_some() && parts[2].is_none());
            let over = (0..60).any(|_| env.expert().map(|action| env.step(&action)).is_some_and(|step| step.done));
            assert!(over, "it comes to an end");
        });
        assert!(looked.values().all(|(looks, all)| (*looks as f64 / *all as f64 - 0.5).abs() < 0.12), "{looked:?}");
    }
}
