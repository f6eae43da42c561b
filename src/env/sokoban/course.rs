//! Courses: the turns of an attempt as a note names them. What an expert notes of a lost attempt is its course up to the turn that
//! lost it, and the moves that would not have.

use super::board::{Board, Direction};
use super::{solver, words, FARTHEST};

/// Between the turns of a course.
const THEN: &str = "; ";

/// A turn: the board before it, and what was done.
pub type Turn = (Board, String);

/// What won, or the turns up to the one that lost, and the first moves of a shortest solution in that one's stead. A turn lost the
/// attempt if before it the turns that were left would have sufficed, and after it they didn't; `None` where they never did.
pub fn corrected(turns: &[Turn], end: &Board, moves_per_turn: usize) -> Option<String> {
    let course = |until: usize| turns[..until].iter().map(|(_, done)| done.clone());
    if end.won() {
        return Some(course(turns.len()).collect::<Vec<_>>().join(THEN));
    }
    let good = |at: usize| {
        let left = (turns.len() - at) * moves_per_turn;
        let way = solver::solve(&turns[at].0, FARTHEST).filter(|way| way.len() <= left)?;
        Some((at, way.iter().take(moves_per_turn).map(|step| step.1).collect::<Vec<Direction>>()))
    };
    let (at, better) = (0..turns.len()).rev().find_map(good)?;
    Some(course(at).chain([words(&better)]).collect::<Vec<_>>().join(THEN))
}

/// The turns that a note names.
pub fn read(note: &str) -> Vec<String> {
    note.split(THEN).map(|turn| turn.trim().to_owned()).collect()
}

/// The turn of the course `told` that is due, if it was followed so far.
pub fn next<'a>(told: &'a [String], turns: &[Turn]) -> Option<&'a str> {
    let next = told.get(turns.len())?;
    turns.iter().zip(told).all(|((_, done), told)| done == told).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Sokoban, SokobanSettings};
    use super::*;

    /// Plays a room with random actions for some turns.
    fn failed(settings: &SokobanSettings, seed: u64, turns: usize) -> Sokoban {
        let mut room = Sokoban::new(settings, seed).unwrap();
        room.reset();
        let mut draw = seed;
        for _ in 0..turns {
            draw = draw.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ seed;
            if let Some(action) = room.admissible().get(draw as usize % 84) {
                room.step(action);
            }
        }
        room
    }

    #[test]
    fn a_lesson_that_is_followed_wins_in_the_turns_that_there_were() {
        let settings = SokobanSettings { moves_per_turn: 3, ..SokobanSettings::default() };
        let mut kept = 0;
        for seed in 0..100 {
            let mut room = failed(&settings, seed, 7);
            let Some(lesson) = room.lesson() else { panic!("seed {seed}: every room can be solved in 21 moves") };
            let own: Vec<String> = room.turns.iter().map(|turn| turn.1.clone()).collect();
            let noted: Vec<&str> = lesson.split(THEN).collect();
            assert!(room.board.won() || noted.len() <= 7 && noted[..noted.len() - 1].iter().zip(&own).all(|(a, b)| a == b));
            kept += noted.len() - 1;
            let mut seen = room.reset();
            room.told(&lesson);
            for turn in 0..7 {
                let Some(action) = room.expert() else { break };
                assert!(turn >= noted.len() || action == noted[turn], "seed {seed}: the expert does as it was told");
                seen = room.step(&action);
            }
            assert!(seen.won, "seed {seed}: {lesson}");
        }
        assert!(kept > 50, "{kept} turns of the failed attempts were good");
    }

    #[test]
    fn a_note_that_leads_nowhere_is_not_followed() {
        for note in ["", "down; right; up", "jump", "left; left"] {
            let mut room = Sokoban::from_board("######\n#____#\n#PX_O#\n#____#\n######").unwrap();
            room.reset();
            room.told(note);
            let mut seen = room.reset();
            while let Some(action) = room.expert() {
                seen = room.step(&action);
            }
            assert!(seen.won, "{note}");
        }
    }
}
