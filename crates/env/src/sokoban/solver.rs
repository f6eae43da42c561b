//! The shortest solution of a room: A* (Hart, Nilsson, Raphael 1968) over the player's and the boxes' places.

use super::board::{Board, Direction};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// States looked at before a search gives up.
const PATIENCE: usize = 1_000_000;

/// The player's and the boxes' places in one number. Boxes are alike, so they come in order of place.
pub fn places(board: &Board) -> u64 {
    let size = board.width * board.height;
    let boxes = (0..size).filter(|&at| board.boxed(at));
    boxes.fold(1, |key, at| key << 8 | at as u64) << 8 | board.player as u64
}

/// A hasher for keys that are numbers: cheap, fixed, and enough, since nothing iterates over the tables.
#[derive(Default)]
pub struct StateHasher(u64);

impl Hasher for StateHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(b as u64));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
}

pub type StateMap<V> = HashMap<u64, V, BuildHasherDefault<StateHasher>>;

/// Pushes that a box needs from each cell to the nearest target when nothing else is in the way; `None` where it is
/// stuck for ever. Their sum never exceeds the moves still needed, and one move changes it by at most 1.
fn pushes(board: &Board) -> Vec<Option<u32>> {
    let size = board.width * board.height;
    let mut needed = vec![None; size];
    let mut queue: VecDeque<usize> = (0..size).filter(|&at| board.target(at)).collect();
    queue.iter().for_each(|&at| needed[at] = Some(0));
    while let Some(at) = queue.pop_front() {
        for direction in Direction::ALL {
            // A box came from `from` by a push of a player who stood one cell further.
            let from = board.neighbour(at, direction);
            if !board.wall(from) && needed[from].is_none() && !board.wall(board.neighbour(from, direction)) {
                needed[from] = needed[at].map(|n: u32| n + 1);
                queue.push_back(from);
            }
        }
    }
    needed
}

/// What the search knows of a state: moves so far, and the move that led there.
struct SearchNode {
    moves: u32,
    from: u64,
    direction: Direction,
}

/// The shortest way to a win of at most `limit` moves, each with the places before it. `None` when there is none, or
/// none was found in reasonable time. Equal boards give equal ways.
pub fn solve(board: &Board, limit: usize) -> Option<Vec<(u64, Direction)>> {
    let needed = pushes(board);
    let size = board.width * board.height;
    let total = |boxes: &[u8]| boxes.iter().try_fold(0, |sum, &at| Some(sum + needed[at as usize]?));
    let start = places(board);
    let boxes: Vec<u8> = (0..size).filter(|&at| board.boxed(at)).map(|at| at as u8).collect();
    let count = boxes.len();
    let mut nodes: StateMap<SearchNode> = StateMap::default();
    nodes.insert(start, SearchNode { moves: 0, from: start, direction: Direction::Up });
    // Buckets by moves made and moves still needed at least: the estimate is consistent, so they are emptied in order.
    let mut buckets: Vec<Vec<u64>> = vec![Vec::new(); limit + 1];
    buckets.get_mut(total(&boxes)? as usize)?.push(start);
    let mut estimate = 0;
    while estimate <= limit {
        let Some(key) = buckets[estimate].pop() else {
            estimate += 1;
            continue;
        };
        let moves = nodes[&key].moves;
        let mut boxes = [0u8; 7];
        (0..count).for_each(|i| boxes[i] = (key >> (8 * (count - i))) as u8);
        let boxes = &boxes[..count];
        let left = total(boxes)?;
        if left == 0 {
            return Some(trace(&nodes, start, key));
        }
        if (moves + left) as usize != estimate {
            continue; // A shorter way to this state was found and followed since.
        }
        if nodes.len() > PATIENCE {
            return None;
        }
        for direction in Direction::ALL {
            let to = board.neighbour((key & 255) as usize, direction);
            if board.wall(to) {
                continue;
            }
            let mut moved = [0u8; 7];
            moved[..count].copy_from_slice(boxes);
            let moved = &mut moved[..count];
            let mut left = left;
            if let Some(pushed) = boxes.iter().position(|&b| b as usize == to) {
                let behind = board.neighbour(to, direction);
                if board.wall(behind) || boxes.contains(&(behind as u8)) {
                    continue;
                }
                let (Some(now), Some(before)) = (needed[behind], needed[to]) else { continue };
                left = left + now - before;
                moved[pushed] = behind as u8;
                moved.sort_unstable();
            }
            let next = moved.iter().fold(1, |key, &at| key << 8 | at as u64) << 8 | to as u64;
            let reached = (moves + 1 + left) as usize;
            if reached <= limit && nodes.get(&next).is_none_or(|node| node.moves > moves + 1) {
                nodes.insert(next, SearchNode { moves: moves + 1, from: key, direction });
                buckets[reached].push(next);
            }
        }
    }
    None
}

/// The way from `start` to `end`.
fn trace(nodes: &StateMap<SearchNode>, start: u64, end: u64) -> Vec<(u64, Direction)> {
    let mut way = Vec::new();
    let mut at = end;
    while at != start {
        let node = &nodes[&at];
        way.push((node.from, node.direction));
        at = node.from;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;

    /// The least number of moves by plain breadth-first search over whole boards.
    fn fewest(start: &Board) -> Option<usize> {
        let mut visited = StateMap::default();
        visited.insert(places(start), ());
        let (mut now, mut moves) = (vec![start.clone()], 0);
        while !now.is_empty() {
            if now.iter().any(Board::won) {
                return Some(moves);
            }
            let mut next = Vec::new();
            for board in &now {
                for direction in Direction::ALL {
                    let mut moved = board.clone();
                    moved.walk(direction);
                    if visited.insert(places(&moved), ()).is_none() {
                        next.push(moved);
                    }
                }
            }
            (now, moves) = (next, moves + 1);
        }
        None
    }

    #[test]
    fn ways_are_as_short_as_any_and_none_is_missed() {
        let mut random = Random::new(5);
        let (mut solved, mut stuck) = (0, 0);
        for _ in 0..300 {
            let mut board = Board::solid(6, 6);
            let mut free: Vec<usize> = (0..36).filter(|at| (1..5).contains(&(at % 6)) && (1..5).contains(&(at / 6))).collect();
            random.shuffle(&mut free);
            free[..15].iter().for_each(|&at| board.clear(at));
            board.aim(free[0]);
            board.aim(free[1]);
            board.put(free[2]);
            board.put(free[3]);
            board.player = free[4];
            let way = solve(&board, 200);
            assert_eq!(way.as_ref().map(Vec::len), fewest(&board), "{}", board.draw());
            match way {
                Some(way) => {
                    way.iter().for_each(|&(before, direction)| {
                        assert_eq!(before, places(&board));
                        board.walk(direction);
                    });
                    assert!(board.won());
                    solved += 1;
                }
                None => stuck += 1,
            }
        }
        assert!(solved > 10 && stuck > 10, "{solved} solved, {stuck} stuck: both kinds must be tried");
    }

    #[test]
    fn the_limit_counts_moves() {
        let board = Board::parse("######\n#PX_O#\n######").unwrap();
        assert!(solve(&board, 1).is_none());
        assert_eq!(solve(&board, 2).unwrap().len(), 2);
    }
}
