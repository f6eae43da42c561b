//! Rooms: a random walk digs the floor, targets and the player are placed, and reverse play drags the boxes away from
//! the targets. The way of gym-sokoban 0.0.6 (Schrader 2018), held to rooms whose shortest solution has a wanted
//! length.

use super::board::{Board, Direction};
use super::solver::{solve, StateMap};
use super::SokobanSettings;
use crate::{Deal, EnvError};
use flow_core::seed::{mix, Random};

/// Rooms made and thrown away before giving up.
const TRIES: usize = 4_000;
/// The chance that the walk turns before a step.
const TURN: f64 = 0.35;
/// What one step of the walk digs around itself, as offsets of row and column.
const DIGS: [&[(isize, isize)]; 5] = [
    &[(0, -1), (0, 0), (0, 1)],
    &[(-1, 0), (0, 0), (1, 0)],
    &[(0, -1), (0, 0), (1, 0)],
    &[(0, -1), (0, 0), (1, -1), (1, 0)],
    &[(0, 0), (0, 1), (1, 0)],
];
/// States that reverse play looks at in one room.
const EXPLORED: usize = 300_000;

/// The room of a seed. Rooms are dealt out by their content too, so none is in two splits.
pub fn make(settings: &SokobanSettings, seed: u64, deal: Deal) -> Result<Board, EnvError> {
    for tried in 0..TRIES {
        let mut random = Random::new(mix(seed, tried as u64));
        let Some(board) = attempt(settings, &mut random) else { continue };
        if !deal.owns(board.hash()) {
            continue;
        }
        if solve(&board, settings.max_moves).is_some_and(|way| way.len() >= settings.min_moves) {
            return Ok(board);
        }
    }
    let what = format!(
        "{0}x{0} room with {1} boxes and a shortest solution of {2} to {3} moves",
        settings.size, settings.boxes, settings.min_moves, settings.max_moves
    );
    Err(EnvError::Unmade { what, tries: TRIES })
}

/// One room, if the walk left space and reverse play moved every box off the targets.
fn attempt(settings: &SokobanSettings, random: &mut Random) -> Option<Board> {
    let mut board = dig(settings.size, random);
    let mut free: Vec<usize> = (0..settings.size * settings.size).filter(|&at| !board.wall(at)).collect();
    if free.len() <= settings.boxes + 1 {
        return None;
    }
    random.shuffle(&mut free);
    board.player = free[0];
    let targets = &free[1..=settings.boxes];
    targets.iter().for_each(|&at| board.aim(at));
    let (player, boxes) = Reverse::play(&board, targets, settings.search_depth)?;
    board.player = player;
    boxes.iter().for_each(|&at| board.put(at));
    Some(board)
}

/// The floor: a walk of `1.7 (width + height)` steps that digs a random shape at each.
fn dig(size: usize, random: &mut Random) -> Board {
    let mut board = Board::solid(size, size);
    let inner = 1..=size as isize - 2;
    let steps = (1.7 * (2 * size) as f64) as usize;
    const WAYS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];
    let mut way = WAYS[random.below(4)];
    let (mut row, mut column) = (1 + random.below(size - 1) as isize, 1 + random.below(size - 1) as isize);
    for _ in 0..steps {
        if random.unit() < TURN {
            way = WAYS[random.below(4)];
        }
        row = (row + way.0).clamp(*inner.start(), *inner.end());
        column = (column + way.1).clamp(*inner.start(), *inner.end());
        for (down, right) in DIGS[random.below(DIGS.len())] {
            let (r, c) = (row + down, column + right);
            if inner.contains(&r) && inner.contains(&c) {
                board.clear(r as usize * size + c as usize);
            }
        }
    }
    board
}

/// Boxes by the target they came from.
type Boxes = [usize; 7];

/// Reverse play: a depth-first search over pulls and moves for the state with the highest score, which is the number of
/// pulls on the way there times the boxes' summed distance from their targets.
struct Reverse<'a> {
    board: &'a Board,
    targets: &'a [usize],
    explored: StateMap<()>,
    best: usize,
    state: Option<(usize, Boxes)>,
}

impl<'a> Reverse<'a> {
    fn play(board: &'a Board, targets: &'a [usize], depth: usize) -> Option<(usize, Vec<usize>)> {
        let mut search = Reverse { board, targets, explored: StateMap::default(), best: 0, state: None };
        let mut boxes = [0; 7];
        boxes[..targets.len()].copy_from_slice(targets);
        search.visit(board.player, boxes, 0, depth);
        search.state.map(|(player, boxes)| (player, boxes[..targets.len()].to_vec()))
    }

    fn visit(&mut self, player: usize, boxes: Boxes, pulls: usize, depth: usize) {
        let count = self.targets.len();
        let mut sorted = boxes;
        sorted[..count].sort_unstable();
        let key = sorted[..count].iter().fold(1, |key, &at| key << 8 | at as u64) << 8 | player as u64;
        if depth <= 1 || self.explored.len() >= EXPLORED || self.explored.insert(key, ()).is_some() {
            return;
        }
        let score = pulls * self.distance(&boxes);
        if score > self.best && !self.board.target(player) && boxes[..count].iter().all(|&at| !self.board.target(at)) {
            (self.best, self.state) = (score, Some((player, boxes)));
        }
        for pulling in [true, false] {
            for (direction, back) in Direction::ALL.into_iter().zip([1, 0, 3, 2]) {
                let to = self.board.neighbour(player, direction);
                if self.board.wall(to) || boxes[..count].contains(&to) {
                    continue;
                }
                let (mut moved, mut pulled) = (boxes, 0);
                if pulling {
                    let behind = self.board.neighbour(player, Direction::ALL[back]);
                    if let Some(i) = boxes[..count].iter().position(|&at| at == behind) {
                        (moved[i], pulled) = (player, 1);
                    }
                }
                self.visit(to, moved, pulls + pulled, depth - 1);
            }
        }
    }

    fn distance(&self, boxes: &Boxes) -> usize {
        let width = self.board.width;
        let apart = |(&a, &b): (&usize, &usize)| (a / width).abs_diff(b / width) + (a % width).abs_diff(b % width);
        boxes.iter().zip(self.targets).map(apart).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_follow_from_their_seed_and_keep_the_limits() {
        let settings = SokobanSettings { boxes: 2, ..SokobanSettings::default() };
        let mut hashes: Vec<u64> = (0..50)
            .map(|seed| {
                let board = make(&settings, seed, Deal::Untested).unwrap();
                assert_eq!(board, make(&settings, seed, Deal::Untested).unwrap());
                assert_eq!(board.boxes, 2);
                let moves = solve(&board, 200).unwrap().len();
                assert!((5..=21).contains(&moves), "{moves}");
                assert!(!board.draw().contains(['√', 'S']), "a room starts with every target free");
                board.hash()
            })
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert!(hashes.len() > 45, "{} different rooms of 50", hashes.len());
    }

    #[test]
    fn impossible_rooms_end_in_an_error() {
        let settings = SokobanSettings { size: 4, boxes: 3, ..SokobanSettings::default() };
        assert!(matches!(make(&settings, 1, Deal::Untested), Err(EnvError::Unmade { .. })));
    }
}
