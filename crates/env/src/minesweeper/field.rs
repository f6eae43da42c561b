//! The field of MineSweeper: where the mines are, what is open, and what opening a cell does.

use super::MinesweeperSettings;
use crate::{Deal, EnvError};
use flow_core::seed::{bytes, mix, Random};

/// Fields drawn and thrown away before giving up.
const TRIES: usize = 4_000;

/// What opening a cell did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigResult {
    /// The cell was open before.
    Nothing,
    /// So many cells: the cell itself and, if it was blank, the closed cells of its neighbourhood.
    Cells(usize),
    Mine,
}

/// A square field; cells are counted row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub size: usize,
    pub mines: Vec<bool>,
    pub open: Vec<bool>,
    pub around: Vec<u8>,
    /// Cells without a mine that are still closed.
    pub left: usize,
}

impl Field {
    /// A field with these mines, all closed.
    pub fn new(size: usize, mines: Vec<bool>) -> Self {
        let count = |at| neighbours(size, at).filter(|&n| mines[n]).count() as u8;
        let around = (0..mines.len()).map(count).collect();
        let left = mines.iter().filter(|&&mine| !mine).count();
        Field { size, open: vec![false; mines.len()], around, left, mines }
    }

    /// The field of a seed with its first cell, as yet closed. Fields that the first opening would win are left out,
    /// and fields are dealt out by their content, so none is in two splits.
    pub fn make(settings: &MinesweeperSettings, seed: u64, deal: Deal) -> Result<(Self, usize), EnvError> {
        let cells = settings.size * settings.size;
        for tried in 0..TRIES {
            let mut random = Random::new(mix(seed, tried as u64));
            let mut places: Vec<usize> = (0..cells).collect();
            random.shuffle(&mut places);
            let first = places[0];
            let mut mines = vec![false; cells];
            places[1..=settings.mines].iter().for_each(|&at| mines[at] = true);
            let field = Field::new(settings.size, mines);
            let mut opened = field.clone();
            opened.dig(first);
            if opened.left > 0 && deal.owns(field.content(first)) {
                return Ok((field, first));
            }
        }
        Err(EnvError::Unmade {
            what: format!("{0}x{0} field with {1} mines that isn't won at once", settings.size, settings.mines),
            tries: TRIES,
        })
    }

    /// Hash of mines and of the region that the first cell opens: what a player can tell apart. Each blank cell of a
    /// region opens all of it, so the first one stands for them.
    pub fn content(&self, first: usize) -> u64 {
        let mut opened = Field::new(self.size, self.mines.clone());
        opened.dig(first);
        let blank = (0..opened.open.len()).find(|&at| opened.open[at] && opened.around[at] == 0 && !opened.mines[at]);
        mix(bytes(&self.mines.iter().map(|&mine| mine as u8).collect::<Vec<_>>()), blank.unwrap_or(first) as u64)
    }

    /// Opens a cell; a blank one opens all its neighbours, and so on.
    pub fn dig(&mut self, at: usize) -> DigResult {
        if self.open[at] {
            return DigResult::Nothing;
        }
        self.open[at] = true;
        if self.mines[at] {
            return DigResult::Mine;
        }
        let before = self.left;
        self.left -= 1;
        let mut blank = if self.around[at] == 0 { vec![at] } else { vec![] };
        while let Some(at) = blank.pop() {
            for n in neighbours(self.size, at) {
                if !self.open[n] {
                    self.open[n] = true;
                    self.left -= 1;
                    if self.around[n] == 0 {
                        blank.push(n);
                    }
                }
            }
        }
        DigResult::Cells(before - self.left)
    }

    /// What a player sees of a cell: `?` closed, `.` blank, a number, `*` a mine.
    fn symbol(&self, at: usize) -> u8 {
        match (self.open[at], self.mines[at], self.around[at]) {
            (false, ..) => b'?',
            (true, true, _) => b'*',
            (true, false, 0) => b'.',
            (true, false, n) => b'0' + n,
        }
    }

    /// The field as text: `Row 1: . 1 ? ?` and so on, from the top.
    pub fn draw(&self) -> String {
        let mut text = String::with_capacity(self.open.len() * 2 + self.size * 9);
        for row in 0..self.size {
            text.push_str(if row == 0 { "Row " } else { "\nRow " });
            text.push_str(&(row + 1).to_string());
            text.push(':');
            for column in 0..self.size {
                text.push(' ');
                text.push(char::from(self.symbol(row * self.size + column)));
            }
        }
        text
    }

    /// Hash of the visible field: fields that look alike are one state, wherever their mines are.
    pub fn hash(&self) -> u64 {
        bytes(&(0..self.open.len()).map(|at| self.symbol(at)).collect::<Vec<_>>())
    }
}

/// The up to eight cells round a cell, in order of place.
pub fn neighbours(size: usize, at: usize) -> impl Iterator<Item = usize> {
    let (row, column) = (at / size, at % size);
    let rows = row.saturating_sub(1)..=(row + 1).min(size - 1);
    let all = rows.flat_map(move |r| (column.saturating_sub(1)..=(column + 1).min(size - 1)).map(move |c| r * size + c));
    all.filter(move |&n| n != at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two mines: a blank region on the left, a number between them.
    fn field() -> Field {
        Field::new(4, (0..16).map(|at| at == 2 || at == 11).collect())
    }

    #[test]
    fn a_blank_opens_up_to_the_numbers_round_it() {
        let mut field = field();
        assert_eq!(field.dig(12), DigResult::Cells(11));
        assert_eq!(field.draw(), "Row 1: . 1 ? ?\nRow 2: . 1 2 ?\nRow 3: . . 1 ?\nRow 4: . . 1 ?");
        assert_eq!(field.left, 14 - 11);
        assert_eq!(field.dig(12), DigResult::Nothing);
        assert_eq!(field.dig(3), DigResult::Cells(1));
        assert_eq!(field.dig(2), DigResult::Mine);
        assert!(field.draw().starts_with("Row 1: . 1 * 1"));
    }

    /// Of the eleven cells that are opened at once eight are blank; a number alone opens itself.
    #[test]
    fn fields_that_look_alike_from_the_start_are_one() {
        let contents: std::collections::BTreeSet<u64> = (0..16).filter(|at| ![2, 11].contains(at)).map(|at| field().content(at)).collect();
        let blank = (0..16).filter(|&at| field().around[at] == 0 && !field().mines[at]).count();
        assert_eq!((contents.len(), blank), (14 - blank + 1, 6));
    }

    #[test]
    fn corners_edges_and_the_middle_have_their_neighbours() {
        let count = |at| neighbours(4, at).count();
        assert_eq!((count(0), count(1), count(5), count(15)), (3, 5, 8, 3));
        assert_eq!(neighbours(4, 4).collect::<Vec<_>>(), [0, 1, 5, 8, 9]);
    }
}
