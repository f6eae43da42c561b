//! Groups of alike observations: `flow_credit::founders` and Python's difflib, on the same texts, to the same groups.
//!
//! 16 tasks, 8 samples each, 50 turns, texts of 300 characters. What is timed: from the texts in memory to the founder
//! of every row's group. difflib in two ways: as GiGPO's released code uses it, and as its documentation advises
//! (the founder's index kept, the two quick bounds first, equal texts compared once). One thread each, taking turns.

use flow_core::seed::{mix, Random};
use flow_credit::founders;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const TASKS: u64 = 16;
const SAMPLES: u64 = 8;
const TURNS: u64 = 50;
const CHARACTERS: usize = 300;
const ROUNDS: usize = 3;
const LEVELS: [f64; 2] = [0.95, 0.85];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("flow-bench-alike-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let done = LEVELS.iter().try_for_each(|at_least| compare(*at_least, &folder));
    std::fs::remove_dir_all(&folder)?;
    done
}

fn compare(at_least: f64, folder: &Path) -> Result<()> {
    let (tasks, texts): (Vec<u64>, Vec<String>) = rows().into_iter().unzip();
    let input = folder.join("rows.json");
    std::fs::write(&input, serde_json::json!({ "task": tasks, "text": texts }).to_string())?;
    let (mut ours, mut advised, mut released) = (vec![], vec![], vec![]);
    let mut expected = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        expected = founders(&tasks, |row| &texts[row], at_least, true);
        ours.push(start.elapsed().as_secs_f64());
        for (way, seconds) in [("advised", &mut advised), ("released", &mut released)] {
            seconds.push(difflib(way, at_least, &input, &expected)?);
        }
    }
    let distinct = texts.iter().zip(&tasks).collect::<BTreeSet<_>>().len();
    let groups = expected.iter().collect::<BTreeSet<_>>().len();
    println!("at {at_least}: {} rows, {distinct} distinct, {groups} groups", texts.len());
    println!("{:<36} {:>9} {:>9} {:>9} {:>7}", "", "median ms", "least", "most", "ratio");
    let [ours, advised, released] = [ours, advised, released].map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds
    });
    let ratio = |seconds: &[f64]| seconds[ROUNDS / 2] / ours[ROUNDS / 2];
    for (name, seconds) in [("flow_credit", &ours), ("difflib as it advises", &advised), ("difflib as GiGPO's code has it", &released)] {
        let [least, median, most] = [seconds[0], seconds[ROUNDS / 2], seconds[ROUNDS - 1]].map(|s| s * 1e3);
        println!("{name:<36} {median:>9.1} {least:>9.1} {most:>9.1} {:>7.1}", ratio(seconds));
    }
    let result = serde_json::json!({
        "bench": "alike", "at_least": at_least, "rows": texts.len(), "groups": groups, "flow_s": ours[ROUNDS / 2],
        "advised_over_flow": ratio(&advised), "released_over_flow": ratio(&released),
    });
    println!("{result}");
    Ok(())
}

/// Seconds that Python took; its groups must be ours.
fn difflib(way: &str, at_least: f64, input: &Path, expected: &[u32]) -> Result<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/alike_peer.py");
    let ran = Command::new("python3").arg(script).arg(input).args([way, &at_least.to_string()]).output()?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into());
    }
    let (seconds, groups): (f64, Vec<u32>) = serde_json::from_slice(&ran.stdout)?;
    if groups != expected {
        return Err(format!("difflib ({way}, at {at_least}) made other groups").into());
    }
    Ok(seconds)
}

/// What a household game says: a house a task with eight places, of which one is seen at a time; things are taken, put
/// down and opened as samples go their ways. Cut to, or filled up to, the same length.
fn rows() -> Vec<(u64, String)> {
    const PLACES: [&str; 8] = ["drawer", "shelf", "table", "cabinet", "fridge", "sink", "desk", "sofa"];
    const THINGS: [&str; 12] = ["apple", "bread", "knife", "fork", "plate", "mug", "lamp", "book", "pencil", "remote", "vase", "towel"];
    let mut rows = Vec::new();
    for task in 0..TASKS {
        let mut random = Random::new(mix(11, task));
        let house: Vec<Vec<usize>> =
            PLACES.iter().map(|_| (0..4 + random.below(6)).map(|_| random.below(THINGS.len() * 3)).collect()).collect();
        for _ in 0..SAMPLES {
            let (mut house, mut here, mut carried) = (house.clone(), 0, None);
            for _ in 0..TURNS {
                let called = |thing: &usize| format!("a {} {}", THINGS[thing / 3], thing % 3 + 1);
                let visible: Vec<String> = house[here].iter().map(called).collect();
                let holding = carried.as_ref().map_or("nothing".into(), called);
                let mut text = format!(
                    "You are in the middle of a room. Looking quickly around you, you see {}. You arrive at the {} {}. On the {} you see {}. You are carrying: {holding}.",
                    PLACES[..4].join(", "), PLACES[here], here + 1, PLACES[here], visible.join(", "),
                );
                text.push_str(" What do you want to do next? Think about what is still missing for your task, then act.");
                rows.push((task, text.chars().cycle().take(CHARACTERS).collect()));
                match random.below(3) {
                    0 => here = random.below(PLACES.len()),
                    1 if carried.is_none() && !house[here].is_empty() => {
                        let at = random.below(house[here].len());
                        carried = Some(house[here].remove(at));
                    }
                    _ => house[here].extend(carried.take()),
                }
            }
        }
    }
    rows
}
