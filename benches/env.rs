//! Steps of the native games, each against its Python counterpart: text in and text out where the peer knows text, the
//! bare game where it doesn't. Both sides play random actions on rooms made beforehand; the making of rooms is measured
//! apart.
//!
//! `cargo bench --bench env`

mod peer;

use flow_core::seed::Random;
use flow_env::minesweeper::Minesweeper;
use flow_env::sokoban::{Direction, Sokoban};
use flow_env::{Environment, MinesweeperSettings, SokobanSettings};
use peer::{Peer, Runs, RUNS};
use std::hint::black_box;
use std::time::Instant;

const EPISODE: usize = 200;
const ROOMS: usize = 20;
const STEPS: usize = 400_000;

/// Seconds a step over `STEPS` steps in episodes on copies of `pool`; `play` says whether the episode is over.
fn timed<G: Clone, A>(pool: &[G], actions: &[A], mut play: impl FnMut(&mut G, &A) -> bool) -> f64 {
    let (mut total, mut at) = (0.0, 0);
    for episode in 0.. {
        let mut game = pool[episode % pool.len()].clone();
        let last = (at + EPISODE).min(actions.len());
        let start = Instant::now();
        while at < last {
            at += 1;
            if play(&mut game, &actions[at - 1]) {
                break;
            }
        }
        total += start.elapsed().as_secs_f64();
        if at == actions.len() {
            break;
        }
    }
    total / at as f64
}

fn text(game: &mut impl Environment, action: &str) -> bool {
    black_box(game.step(action)).done
}

/// What is compared with what: our case, theirs, and how many of their steps make one run.
struct Case<'a> {
    name: &'static str,
    unit: &'static str,
    ours: Box<dyn FnMut() -> f64 + 'a>,
    peers: Vec<(&'static str, usize)>,
}

fn compare(case: &mut Case, peer: &mut Option<Peer>) -> Result<(), String> {
    let (mut ours, mut theirs) = (Vec::new(), vec![Vec::new(); case.peers.len()]);
    (case.ours)();
    for _ in 0..RUNS {
        ours.push((case.ours)() * 1e6);
        if let Some(peer) = peer {
            for (seconds, (name, count)) in theirs.iter_mut().zip(&case.peers) {
                seconds.push(peer.ask(&format!("{name} {count}"))? * 1e6);
            }
        }
    }
    let ours = Runs::new(ours);
    let show = |runs: &Runs| format!("{:.3} us ({:.3} to {:.3})", runs.median(), runs.least(), runs.most());
    println!("{}: {} a {}", case.name, show(&ours), case.unit);
    for (seconds, (name, _)) in theirs.into_iter().zip(&case.peers).filter(|(seconds, _)| !seconds.is_empty()) {
        let theirs = Runs::new(seconds);
        let ratio = theirs.median() / ours.median();
        println!("    {name}: {}, {ratio:.0} times as long", show(&theirs));
        let line = serde_json::json!({ "bench": "env", "case": case.name, "peer": name, "ours_us": ours.median(), "peer_us": theirs.median(), "ratio": ratio });
        println!("{line}");
    }
    Ok(())
}

fn main() -> Result<(), String> {
    let (sokoban, mines) = (SokobanSettings { boxes: 2, ..SokobanSettings::default() }, MinesweeperSettings::default());
    let rooms = (0..ROOMS as u64).map(|seed| Sokoban::new(&sokoban, seed)).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let fields = (0..ROOMS as u64).map(|seed| Minesweeper::new(&mines, seed)).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let mut random = Random::new(1);
    let moves: Vec<Direction> = (0..STEPS).map(|_| Direction::ALL[random.below(4)]).collect();
    let words: Vec<String> = moves.iter().map(|direction| direction.word().to_string()).collect();
    let cells: Vec<String> = (0..STEPS).map(|_| format!("({}, {})", random.below(6) + 1, random.below(6) + 1)).collect();
    let mean_seconds = |make: &dyn Fn(u64)| {
        let start = Instant::now();
        (0..200).for_each(make);
        start.elapsed().as_secs_f64() / 200.0
    };
    let mut peer = Peer::start("env_peers.py")?;
    let mut cases = [
        Case {
            name: "sokoban 6x6, 2 boxes: text in, text out",
            unit: "step",
            ours: Box::new(|| timed(&rooms, &words, |game, word| text(game, word))),
            peers: vec![("gym-rgb", 400), ("gym-tiny", 2000), ("gem-sokoban", 10_000)],
        },
        Case {
            name: "sokoban 6x6, 2 boxes: the bare game",
            unit: "step",
            ours: Box::new(|| timed(&rooms, &moves, |game, &direction| black_box(game.walk(direction)).1)),
            peers: vec![("gym-state", 10_000)],
        },
        Case {
            name: "minesweeper 6x6, 3 mines: text in, text out",
            unit: "step",
            ours: Box::new(|| timed(&fields, &cells, |game, cell| text(game, cell))),
            peers: vec![("gem-minesweeper", 5_000)],
        },
        Case {
            name: "making a sokoban room",
            unit: "room",
            ours: Box::new(|| mean_seconds(&|seed| drop(black_box(Sokoban::new(&sokoban, 1000 + seed))))),
            peers: vec![("gym-room", 10), ("gem-room", 10)],
        },
    ];
    for case in &mut cases {
        compare(case, &mut peer)?;
    }
    Ok(())
}
