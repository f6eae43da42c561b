//! MineSweeper, with the rewards of the published agents' results.

mod field;
mod inference;
mod settings;

use super::{Deal, EnvError, Environment, GameSettings, TimeStep};
use field::{DigResult, Field};

pub use settings::MinesweeperSettings;

/// A field being played.
#[derive(Clone, Debug)]
pub struct Minesweeper {
    closed: Field,
    first: usize,
    field: Field,
    mines: usize,
    lost: bool,
    /// Cells that hide mines according to a note that the expert read.
    noted_mines: Vec<bool>,
}

impl Minesweeper {
    /// The field of a seed, of no split, its first cell open.
    pub fn new(settings: &MinesweeperSettings, seed: u64) -> Result<Self, EnvError> {
        Minesweeper::dealt(settings, seed, Deal::of(None, seed))
    }

    /// The field of a seed, one of those dealt, its first cell open.
    pub fn dealt(settings: &MinesweeperSettings, seed: u64, deal: Deal) -> Result<Self, EnvError> {
        settings.check()?;
        let (closed, first) = Field::make(settings, seed, deal)?;
        let noted_mines = vec![false; closed.open.len()];
        let mut game = Minesweeper { field: closed.clone(), closed, first, mines: settings.mines, lost: false, noted_mines };
        game.restart();
        Ok(game)
    }

    fn restart(&mut self) {
        self.field.clone_from(&self.closed);
        self.field.dig(self.first);
        self.lost = false;
    }

    /// Opens a cell without any text: the reward, and whether the game is over. A finished game stays as it is.
    ///
    /// The rewards are those of LaMer's released code (`agent_system/environments/minesweeper/game/env.py`), which
    /// counts the cells that changed: 10 for the win, 2 where several opened, 0.5 where one did (a blank cell whose
    /// neighbours are all open is one), -1 for an open cell, -0.1 for a mine. The paper only says what training then
    /// pays: 10 for a win and nothing else (`reward: { task: 0, won: 10 }`).
    pub fn open(&mut self, row: usize, column: usize) -> (f32, bool) {
        if self.over() || row >= self.field.size || column >= self.field.size {
            return (0.0, self.over());
        }
        let reward = match self.field.dig(row * self.field.size + column) {
            DigResult::Nothing => -1.0,
            DigResult::Mine => {
                self.lost = true;
                -0.1
            }
            _ if self.field.left == 0 => 10.0,
            DigResult::Cells(1) => 0.5,
            DigResult::Cells(_) => 2.0,
        };
        (reward, self.over())
    }

    /// Hash of its mines and of the cells that are open at first.
    pub fn content(&self) -> u64 {
        self.closed.content(self.first)
    }

    fn over(&self) -> bool {
        self.lost || self.field.left == 0
    }

    fn see(&self, reward: f32, valid: bool) -> TimeStep {
        let (observation, state) = (self.field.draw(), self.field.hash());
        TimeStep { observation, state, reward, done: self.over(), won: self.field.left == 0 && !self.lost, valid }
    }

    /// Row and column of an action, from 0.
    fn parse(&self, action: &str) -> Option<(usize, usize)> {
        let (row, column) = action.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|n| (1..=self.field.size).contains(n)).map(|n| n - 1);
        Some((number(row)?, number(column)?))
    }

    fn text(&self, at: usize) -> String {
        format!("({}, {})", at / self.field.size + 1, at % self.field.size + 1)
    }
}

impl Environment for Minesweeper {
    fn reset(&mut self) -> TimeStep {
        self.restart();
        self.see(0.0, true)
    }

    /// `(row, column)`, counted from 1. Opening an open cell is valid, but costs 1; a cell outside the field is
    /// invalid.
    fn step(&mut self, action: &str) -> TimeStep {
        match self.parse(action) {
            Some((row, column)) if !self.over() => {
                let (reward, _) = self.open(row, column);
                self.see(reward, true)
            }
            _ => self.see(0.0, false),
        }
    }

    /// The closed cells. `step` takes open ones too, without a gain.
    fn admissible(&self) -> Vec<String> {
        if self.over() {
            return Vec::new();
        }
        (0..self.field.open.len()).filter(|&at| !self.field.open[at]).map(|at| self.text(at)).collect()
    }

    /// The cell least likely to hide a mine; it sees what the player sees, and knows mines from notes.
    fn expert(&mut self) -> Option<String> {
        if self.over() {
            return None;
        }
        inference::choose(&self.field, self.mines, &self.noted_mines).map(|at| self.text(at))
    }

    /// As `explore` the cell that it opens without being sure of it, as `memory` the cells that are sure to hide mines.
    fn expert_part(&mut self, tag: &str) -> Option<String> {
        let chance = inference::probabilities(&self.field, self.mines);
        let cells: Vec<usize> = match tag {
            "explore" => {
                inference::choose(&self.field, self.mines, &self.noted_mines).filter(|&at| chance[at] > 1e-9).into_iter().collect()
            }
            "memory" => (0..chance.len()).filter(|&at| chance[at] > 1.0 - 1e-9).collect(),
            _ => return None,
        };
        let names: Vec<String> = cells.into_iter().map(|at| self.text(at)).collect();
        Some(if names.is_empty() { "none".into() } else { names.join(", ") })
    }

    /// The cells that hide mines as far as the field shows it: the opened mine, and mines that follow from the numbers.
    fn lesson(&mut self) -> Option<String> {
        let mut before = self.field.clone();
        let opened = |at: usize| self.field.open[at] && self.field.mines[at];
        (0..before.open.len()).filter(|&at| opened(at)).for_each(|at| before.open[at] = false);
        let chance = inference::probabilities(&before, self.mines);
        let sure: Vec<String> = (0..chance.len()).filter(|&at| opened(at) || chance[at] > 1.0 - 1e-9).map(|at| self.text(at)).collect();
        (!sure.is_empty()).then(|| sure.join(", "))
    }

    /// Cells that hide mines, as in a lesson.
    fn read_note(&mut self, note: &str) {
        for cell in note.split_inclusive(')').filter_map(|cell| Some(&cell[cell.find('(')?..])) {
            if let Some((row, column)) = self.parse(cell) {
                self.noted_mines[row * self.field.size + column] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expert_that_is_told_of_its_mine_does_not_open_it_again() {
        let mut better = [0, 0];
        for seed in 0..200 {
            let mut game = Minesweeper::new(&MinesweeperSettings::default(), seed).unwrap();
            let mut play = |note: Option<String>| {
                game.reset();
                game.read_note(&note.unwrap_or_default());
                while let Some(action) = game.expert() {
                    game.step(&action);
                }
                (game.lost, game.lesson())
            };
            let (lost, lesson) = play(None);
            let (again, other) = play(lesson.clone());
            assert!(!(lost && again) || other != lesson, "seed {seed}: the same mine twice");
            better[0] += lost as u32;
            better[1] += again as u32;
        }
        assert!(better[1] * 2 < better[0], "{better:?} lost of 200");
        let mut game = game(&[5], 0);
        game.read_note("so: (2, 2), (9, 9), (, (1");
        assert_eq!(game.noted_mines.iter().filter(|noted| **noted).count(), 1);
    }

    #[test]
    fn the_lesson_names_mines_that_are_seen_or_sure() {
        for seed in 0..200 {
            let mut game = Minesweeper::new(&MinesweeperSettings::default(), seed).unwrap();
            game.reset();
            while let Some(action) = game.expert() {
                game.step(&action);
            }
            let lesson = game.lesson();
            assert!(lesson.is_some() || game.field.left == 0, "a lost game has an opened mine");
            for cell in lesson.iter().flat_map(|l| l.split("), ")) {
                let (row, column) = game.parse(&format!("{})", cell.trim_end_matches(')'))).unwrap();
                assert!(game.field.mines[row * game.field.size + column], "seed {seed}: {cell}");
            }
        }
    }

    fn game(mines: &[usize], first: usize) -> Minesweeper {
        let closed = Field::new(4, (0..16).map(|at| mines.contains(&at)).collect());
        let noted_mines = vec![false; 16];
        let mut game = Minesweeper { field: closed.clone(), closed, first, mines: mines.len(), lost: false, noted_mines };
        game.restart();
        game
    }

    #[test]
    fn rewards_are_those_published() {
        let mut game = game(&[2, 11], 1);
        assert_eq!(game.reset().observation.lines().next(), Some("Row 1: ? 1 ? ?"));
        let rewards: Vec<f32> = ["(1, 2)", "(4, 1)", "(1, 4)", "( 2,4 )", "(4, 4)"].iter().map(|a| game.step(a).reward).collect();
        assert_eq!(rewards, [-1.0, 2.0, 0.5, 0.5, 10.0]);
        let step = game.see(0.0, true);
        assert!(step.done && step.won && game.expert().is_none() && game.admissible().is_empty());
        game.reset();
        let step = game.step("(3, 4)");
        assert_eq!((step.reward, step.done, step.won, step.valid), (-0.1, true, false, true));
        assert!(!game.step("(1, 1)").valid, "nothing opens after the end");
    }

    /// Mines at (1, 3) and (3, 4). Open at first: a 1 at (1, 2), which leaves five cells in doubt.
    #[test]
    fn the_expert_writes_what_it_does_not_know_and_what_it_does() {
        let mut game = game(&[2, 11], 1);
        let action = game.expert();
        assert_eq!((game.expert_part("explore"), game.expert_part("memory")), (action, Some("none".into())));
        // With the left half open the numbers leave no doubt of both mines.
        game.step("(4, 1)");
        assert_eq!((game.expert_part("explore").unwrap(), game.expert_part("memory").unwrap()), ("none".into(), "(1, 3), (3, 4)".into()));
        assert_eq!(game.expert_part("think"), None);
    }

    /// A mine in one corner, opened from there outwards up to the opposite corner: that one is blank, but nothing opens
    /// with it.
    #[test]
    fn a_blank_cell_with_open_neighbours_is_one_cell() {
        let mut game = game(&[0, 2, 8], 1);
        for around in ["(3, 3)", "(3, 4)", "(4, 3)"] {
            let at = game.parse(around).unwrap();
            game.field.open[at.0 * 4 + at.1] = true;
            game.field.left -= 1;
        }
        assert_eq!((game.field.around[15], game.open(3, 3)), (0, (0.5, false)));
    }

    #[test]
    fn what_is_no_cell_is_invalid_and_changes_nothing() {
        let mut game = game(&[2, 11], 1);
        let before = game.reset();
        for bad in ["", "(0, 1)", "(5, 1)", "(1)", "(1, 2, 3)", "1, 2", "(a, b)", "(-1, 1)", "(1, 99999999999999999999999)", "up", "(√, 1)"]
        {
            let step = game.step(bad);
            assert_eq!((step.valid, step.reward, step.state), (false, 0.0, before.state), "{bad}");
        }
        assert_eq!(game.admissible().len(), 15);
    }

    #[test]
    fn the_state_is_what_is_seen() {
        let (mut a, mut b) = (game(&[2, 11], 1), game(&[0, 15], 1));
        assert_eq!(a.reset(), b.reset());
        assert_ne!(a.step("(4, 1)").state, b.step("(4, 1)").state);
    }

    #[test]
    fn the_expert_wins_nine_in_ten() {
        let settings = MinesweeperSettings { size: 6, mines: 3 };
        let won = (0..200).filter(|&seed| {
            let mut game = Minesweeper::new(&settings, seed).unwrap();
            let mut step = game.reset();
            while let Some(action) = game.expert() {
                step = game.step(&action);
            }
            assert!(step.done);
            step.won
        });
        let won = won.count();
        assert!(won > 180, "{won} of 200");
    }
}
