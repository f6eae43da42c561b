//! Sokoban with the semantics of gym-sokoban 0.0.6 (Schrader 2018).

pub mod board;
mod rooms;
mod settings;
mod solver;

use super::{Deal, EnvError, Environment, GameSettings, TimeStep};

pub use board::{Board, Direction};
pub use settings::SokobanSettings;

/// The longest way that the expert looks for, in moves.
const FARTHEST: usize = 500;

/// A room being played.
#[derive(Clone, Debug)]
pub struct Sokoban {
    first: Board,
    board: Board,
    moves_per_turn: usize,
    /// The expert's way: moves, each with the places before it. Good for as long as the game stays on it.
    way: Vec<(u64, Direction)>,
}

impl Sokoban {
    /// The room of a seed, of no split.
    pub fn new(settings: &SokobanSettings, seed: u64) -> Result<Self, EnvError> {
        Sokoban::dealt(settings, seed, Deal::of(None, seed))
    }

    /// The room of a seed, one of those dealt.
    pub fn dealt(settings: &SokobanSettings, seed: u64, deal: Deal) -> Result<Self, EnvError> {
        settings.check()?;
        Ok(Sokoban::start(rooms::make(settings, seed, deal)?, settings.moves_per_turn))
    }

    /// A room as it is drawn, with one move a turn.
    pub fn from_board(text: &str) -> Result<Self, EnvError> {
        Ok(Sokoban::start(Board::parse(text)?, 1))
    }

    fn start(board: Board, moves_per_turn: usize) -> Self {
        Sokoban { first: board.clone(), board, moves_per_turn, way: Vec::new() }
    }

    /// One move without any text: its reward, and whether the game is won. A won game stays as it is.
    pub fn walk(&mut self, direction: Direction) -> (f32, bool) {
        if self.board.won() {
            return (0.0, true);
        }
        let reward = self.board.walk(direction);
        (reward as f32, self.board.won())
    }

    /// The board now.
    pub fn board(&self) -> &Board {
        &self.board
    }

    fn see(&self, reward: f64, valid: bool) -> TimeStep {
        let won = self.board.won();
        TimeStep { observation: self.board.draw(), state: self.board.hash(), reward: reward as f32, done: won, won, valid }
    }

    /// The moves of an action, or `None` if it is no action.
    fn parse(&self, action: &str) -> Option<Vec<Direction>> {
        let moves: Vec<Direction> = action.split(',').take(self.moves_per_turn + 1).map(Direction::parse).collect::<Option<_>>()?;
        (moves.len() <= self.moves_per_turn).then_some(moves)
    }
}

impl Environment for Sokoban {
    fn reset(&mut self) -> TimeStep {
        self.board.clone_from(&self.first);
        self.see(0.0, true)
    }

    /// `up`, `down`, `left` or `right`; several, separated by commas, up to the number of moves a turn. The rewards of
    /// the moves are summed; moves after the winning one are left out.
    fn step(&mut self, action: &str) -> TimeStep {
        let moves = if self.board.won() { None } else { self.parse(action) };
        let Some(moves) = moves else { return self.see(0.0, false) };
        let mut reward = 0.0;
        for direction in moves {
            reward += self.board.walk(direction);
            if self.board.won() {
                break;
            }
        }
        self.see(reward, true)
    }

    /// The four directions, walls or not. With several moves a turn also all their sequences, as long as that makes at
    /// most 100 texts (three moves a turn: 84); beyond that only single directions are listed, though `step` takes
    /// more.
    fn admissible(&self) -> Vec<String> {
        if self.board.won() {
            return Vec::new();
        }
        let words: Vec<String> = Direction::ALL.iter().map(|d| d.word().to_string()).collect();
        let (mut all, mut last) = (words.clone(), words.clone());
        for _ in 1..self.moves_per_turn {
            last = last.iter().flat_map(|head| words.iter().map(move |word| format!("{head}, {word}"))).collect();
            if all.len() + last.len() > 100 {
                return words;
            }
            all.extend_from_slice(&last);
        }
        all
    }

    /// The next moves of a shortest solution.
    fn expert(&mut self) -> Option<String> {
        if self.board.won() {
            return None;
        }
        let here = solver::places(&self.board);
        let place = |way: &[(u64, Direction)]| way.iter().position(|step| step.0 == here);
        let at = match place(&self.way) {
            Some(at) => at,
            None => {
                self.way = solver::solve(&self.board, FARTHEST)?;
                0
            }
        };
        let words: Vec<&str> = self.way[at..].iter().take(self.moves_per_turn).map(|step| step.1.word()).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// The moves of a shortest solution from the start.
    fn lesson(&mut self) -> Option<String> {
        let words: Vec<&str> = solver::solve(&self.first, FARTHEST)?.iter().map(|step| step.1.word()).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expert_solves_every_room_in_the_fewest_turns() {
        let settings = SokobanSettings { boxes: 2, moves_per_turn: 3, ..SokobanSettings::default() };
        for seed in 0..100 {
            let mut room = Sokoban::new(&settings, seed).unwrap();
            let moves = solver::solve(room.board(), FARTHEST).unwrap().len();
            let mut step = room.reset();
            let mut turns = 0;
            while let Some(action) = room.expert() {
                assert!(room.admissible().contains(&action));
                step = room.step(&action);
                turns += 1;
            }
            assert!(step.won && step.done && step.reward > 9.0);
            assert_eq!(turns, moves.div_ceil(3));
            assert!(room.admissible().is_empty());
            assert!(!room.step("up").valid, "nothing moves after the end");
        }
    }

    #[test]
    fn the_expert_finds_back_and_knows_when_all_is_lost() {
        let mut room = Sokoban::from_board("######\n#____#\n#PX_O#\n#____#\n######").unwrap();
        assert_eq!(room.expert().unwrap(), "right");
        room.step("up");
        assert_eq!(room.expert().unwrap(), "down");
        for lost in ["right", "down", "down", "left"] {
            room.step(lost);
        }
        room.reset();
        for lost in ["down", "right", "up"] {
            room.step(lost);
        }
        assert_eq!(room.expert(), None, "a box in the top row never comes down:\n{}", room.board().draw());
    }

    #[test]
    fn the_lesson_is_a_solution() {
        let mut room = Sokoban::new(&SokobanSettings { boxes: 2, ..SokobanSettings::default() }, 3).unwrap();
        room.reset();
        room.step("left");
        let lesson = room.lesson().unwrap();
        room.reset();
        assert!(lesson.split(", ").map(|word| room.step(word)).last().unwrap().won);
    }

    #[test]
    fn actions_are_read_with_patience_but_not_beyond_the_limit() {
        let mut room = Sokoban::new(&SokobanSettings { boxes: 2, moves_per_turn: 2, ..SokobanSettings::default() }, 1).unwrap();
        let before = room.reset();
        for bad in ["", ",", "up,", "up, up, up", "push up", "up down", "1", "√"] {
            let step = room.step(bad);
            assert_eq!((step.valid, step.reward, step.state), (false, 0.0, before.state), "{bad}");
        }
        for good in ["UP", " up ", "Up,Down", "left , right"] {
            assert!(room.step(good).valid, "{good}");
        }
        assert_eq!(room.admissible().len(), 20);
        let many = SokobanSettings { boxes: 2, moves_per_turn: 9, ..SokobanSettings::default() };
        assert_eq!(Sokoban::new(&many, 1).unwrap().admissible().len(), 4);
    }

    #[test]
    fn the_rewards_of_a_turn_are_summed_up_to_the_win() {
        let mut room = Sokoban::start(Board::parse("######\n#PX_O#\n######").unwrap(), 3);
        let step = room.step("right, right, left");
        assert!((step.reward - 10.8).abs() < 1e-6, "{}", step.reward);
        assert!(step.observation.ends_with("Row 2: # _ _ P √ #\nRow 3: # # # # # #"), "{}", step.observation);
    }
}
