//! The board of Sokoban and its one move. Semantics and rewards are those of gym-sokoban 0.0.6 (Schrader 2018).

use crate::EnvError;
use flow_core::seed;

/// Where a move leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
    Left,
    Right,
}

impl Direction {
    /// All four, in the order of searches and lists.
    pub const ALL: [Direction; 4] = [Direction::Up, Direction::Down, Direction::Left, Direction::Right];

    /// The word of an action.
    pub fn word(self) -> &'static str {
        ["up", "down", "left", "right"][self as usize]
    }

    /// The direction that a word means, whatever its case and the space around it.
    pub fn parse(word: &str) -> Option<Direction> {
        Direction::ALL.into_iter().find(|d| word.trim().eq_ignore_ascii_case(d.word()))
    }
}

const WALL: u8 = 1;
const TARGET: u8 = 2;
const BOX: u8 = 4;
const PLAYER: u8 = 8;
/// What a cell of each combination of bits looks like; a wall carries nothing.
const SYMBOLS: [char; 16] = ['_', '#', 'O', '#', 'X', '#', '√', '#', 'P', '#', 'S', '#', 'P', '#', 'S', '#'];

/// Walls, targets, boxes and the player. Walls close it all round, so a neighbour of a free cell always exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    pub width: usize,
    pub height: usize,
    cells: Vec<u8>,
    pub player: usize,
    pub boxes: usize,
    on_target: usize,
}

impl Board {
    /// A board of walls only.
    pub fn solid(width: usize, height: usize) -> Self {
        Board { width, height, cells: vec![WALL; width * height], player: 0, boxes: 0, on_target: 0 }
    }

    /// The board of a drawing: the symbols of `text`, with or without spaces between them and `Row 1:` before them.
    pub fn parse(text: &str) -> Result<Self, EnvError> {
        let bad = |why: &str| EnvError::Board(why.into());
        let rows: Vec<Vec<char>> = text
            .lines()
            .map(|line| line.rsplit(':').next().unwrap_or(line).chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>())
            .filter(|row| !row.is_empty())
            .collect();
        let (height, width) = (rows.len(), rows.first().map_or(0, Vec::len));
        if height < 3 || width < 3 || width * height > 256 || rows.iter().any(|row| row.len() != width) {
            return Err(bad("wanted a rectangle of 3x3 to 256 cells"));
        }
        let mut board = Board::solid(width, height);
        let mut players = 0;
        for (at, symbol) in rows.concat().into_iter().enumerate() {
            let edge = at < width || at >= width * (height - 1) || at % width == 0 || at % width == width - 1;
            board.cells[at] = match symbol {
                '#' => WALL,
                _ if edge => return Err(bad("the outer cells must be walls")),
                '_' | 'P' => 0,
                'O' | 'S' => TARGET,
                'X' => BOX,
                '√' => BOX | TARGET,
                other => return Err(EnvError::Board(format!("`{other}` isn't one of # _ O X P S √"))),
            };
            if matches!(symbol, 'P' | 'S') {
                (board.player, players) = (at, players + 1);
            }
        }
        let count = |bit| board.cells.iter().filter(|&&cell| cell & bit == bit).count();
        let (boxes, targets, on_target) = (count(BOX), count(TARGET), count(BOX | TARGET));
        (board.boxes, board.on_target) = (boxes, on_target);
        match players == 1 && boxes == targets && (1..=7).contains(&boxes) {
            true => Ok(board),
            false => Err(bad("wanted one player, and 1 to 7 boxes with as many targets")),
        }
    }

    /// Makes a cell free of walls.
    pub fn clear(&mut self, at: usize) {
        self.cells[at] &= !WALL;
    }

    /// Makes a free cell a target.
    pub fn aim(&mut self, at: usize) {
        self.cells[at] |= TARGET;
    }

    /// Puts a box on a free cell.
    pub fn put(&mut self, at: usize) {
        self.cells[at] |= BOX;
        self.boxes += 1;
        self.on_target += self.target(at) as usize;
    }

    pub fn wall(&self, at: usize) -> bool {
        self.cells[at] & WALL != 0
    }

    pub fn target(&self, at: usize) -> bool {
        self.cells[at] & TARGET != 0
    }

    pub fn boxed(&self, at: usize) -> bool {
        self.cells[at] & BOX != 0
    }

    /// Whether every box is on a target.
    pub fn won(&self) -> bool {
        self.on_target == self.boxes
    }

    /// The cell beside a free cell.
    pub fn neighbour(&self, at: usize, direction: Direction) -> usize {
        match direction {
            Direction::Up => at - self.width,
            Direction::Down => at + self.width,
            Direction::Left => at - 1,
            Direction::Right => at + 1,
        }
    }

    /// One move, and its reward: -0.1, +1 for a box onto a target, -1 for one off it, +10 when all are on.
    /// A move against a wall or a stuck box changes nothing and costs the same.
    pub fn walk(&mut self, direction: Direction) -> f64 {
        let before = self.on_target;
        let next = self.neighbour(self.player, direction);
        match self.cells[next] & (WALL | BOX) {
            0 => self.player = next,
            BOX => {
                let behind = self.neighbour(next, direction);
                if self.cells[behind] & (WALL | BOX) == 0 {
                    self.cells[next] &= !BOX;
                    self.cells[behind] |= BOX;
                    self.on_target = self.on_target + self.target(behind) as usize - self.target(next) as usize;
                    self.player = next;
                }
            }
            _ => {}
        }
        let pushed = self.on_target as f64 - before as f64;
        -0.1 + pushed + if self.won() { 10.0 } else { 0.0 }
    }

    /// The board as text: `Row 1: # # _ X` and so on, from the top.
    pub fn draw(&self) -> String {
        let mut text = String::with_capacity(self.cells.len() * 2 + self.height * 10);
        for (row, cells) in self.cells.chunks(self.width).enumerate() {
            if row > 0 {
                text.push('\n');
            }
            text.push_str("Row ");
            if row >= 9 {
                text.push('1');
            }
            text.push(char::from(b'0' + ((row + 1) % 10) as u8));
            text.push(':');
            for (column, &cell) in cells.iter().enumerate() {
                let here = if row * self.width + column == self.player { PLAYER } else { 0 };
                text.push(' ');
                text.push(SYMBOLS[(cell | here) as usize]);
            }
        }
        text
    }

    /// Hash of all that the game's future depends on.
    pub fn hash(&self) -> u64 {
        seed::mix(seed::bytes(&self.cells), (self.width as u64) << 32 | self.player as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: &str = "#######\n#P_XO_#\n#__#X_#\n#__O__#\n#######";

    #[test]
    fn a_push_onto_and_off_a_target_is_paid_as_published() {
        let mut board = Board::parse(ROOM).unwrap();
        assert_eq!(board.walk(Direction::Up), -0.1, "a wall stops the player, and the move costs");
        assert_eq!(board.walk(Direction::Right), -0.1);
        assert_eq!(board.walk(Direction::Right), 0.9, "a box onto a target");
        assert_eq!(board.walk(Direction::Right), -1.1, "and off it again");
        assert!(board.draw().contains("Row 2: # _ _ _ S X #"), "{}", board.draw());
        assert_eq!(board.walk(Direction::Right), -0.1, "a box against a wall stays");
    }

    #[test]
    fn two_boxes_in_a_row_do_not_move() {
        let mut board = Board::parse("#######\n#PXX_O#\n#O____#\n#######").unwrap();
        let before = board.clone();
        assert_eq!(board.walk(Direction::Right), -0.1);
        assert_eq!(board, before);
    }

    #[test]
    fn the_last_box_wins() {
        let mut board = Board::parse("#####\n#PXO#\n#####").unwrap();
        assert!((board.walk(Direction::Right) - 10.9).abs() < 1e-12);
        assert!(board.won());
        assert_eq!(board.draw(), "Row 1: # # # # #\nRow 2: # _ P √ #\nRow 3: # # # # #");
    }

    #[test]
    fn equal_boards_have_equal_hashes_however_reached() {
        let start = Board::parse(ROOM).unwrap();
        let mut board = start.clone();
        let mut hashes = vec![board.hash()];
        for direction in [Direction::Down, Direction::Right, Direction::Up, Direction::Left] {
            board.walk(direction);
            hashes.push(board.hash());
        }
        assert_eq!(hashes[0], hashes[4]);
        hashes.pop();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 4);
        assert_eq!(Board::parse(&start.draw()).unwrap(), start);
    }

    #[test]
    fn what_is_no_board_is_refused() {
        for text in
            ["", "###", "####\n#PX#\n####", "#####\n#PXO_\n#####", "#####\n#P?O#\n#####", "#####\n#PXO#\n####", "#####\n##XO#\n#####"]
        {
            assert!(Board::parse(text).is_err(), "{text}");
        }
    }
}
