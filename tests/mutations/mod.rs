//! Inputs that are nearly right: what lies in the repository, with a few blows. And a watch over whoever reads them.
//!
//! `FLOW_FUZZ=n` asks for n inputs of each kind instead of the few that a usual test run can spare; `make fuzz` does.

use flow_core::seed::Random;
use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// No reader may need longer for one input. What is slow is a second, on a machine that does other things beside it.
const LONGEST: Duration = Duration::from_secs(20);
/// Blows that add something stop at this length.
const MOST_BYTES: usize = 64 * 1024;

/// Numbers at which something ends, and what is no number.
const NUMBERS: [&str; 20] = [
    "0",
    "-1",
    "1",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e308",
    "1e999",
    "-0.0",
    "0.1",
    ".nan",
    ".inf",
    "0x10",
    "1_000",
    "null",
    "true",
];
/// What means something to YAML or JSON.
const WORDS: [&str; 30] = [
    "{", "}", "[", "]", ":", ": ", ",", "- ", "\n", "\n  ", "\t", "#", "&a ", "*a", "!!str ", "!x ", "? ", "|\n", ">-\n", "---\n", "...\n",
    "<<: ", "\"", "'", "\\u0000", "\u{feff}", "\u{202e}", "é", "\u{0}", "../",
];

/// Things to begin with.
pub struct Corpus(pub Vec<Vec<u8>>);

impl Corpus {
    /// One of them with one to five blows, mostly few. `text` also gives those that only a text notices.
    pub fn input(&self, random: &mut Random, text: bool) -> Vec<u8> {
        let mut input = self.0[random.below(self.0.len())].clone();
        for _ in 0..1 + random.below(5).min(random.below(5)) {
            if text && random.below(3) > 0 {
                self.text_blow(random, &mut input);
            } else {
                self.blow(random, &mut input);
            }
        }
        input
    }

    fn blow(&self, random: &mut Random, input: &mut Vec<u8>) {
        let (start, end) = range(random, input.len(), 32);
        match random.below(9) {
            0 if start < input.len() => input[start] ^= 1 << random.below(8),
            1 if start < input.len() => input[start] = random.below(256) as u8,
            // The bytes at which lengths and counts go wrong.
            2 if start < input.len() => input[start] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 => drop(input.drain(start..end)),
            4 => input.truncate(random.below(input.len() + 1)),
            5 if input.len() < MOST_BYTES => drop(input.splice(start..start, input[start..end].to_vec())),
            6 if input.len() < MOST_BYTES => {
                let bytes: Vec<u8> = (0..random.below(16)).map(|_| random.below(256) as u8).collect();
                drop(input.splice(start..end, bytes));
            }
            7 if input.len() < MOST_BYTES => {
                let other = &self.0[random.below(self.0.len())];
                let (from, to) = range(random, other.len(), 400);
                drop(input.splice(start..end, other[from..to].to_vec()));
            }
            // A part moved elsewhere.
            8 => {
                let moved: Vec<u8> = input.drain(start..end).collect();
                let at = random.below(input.len() + 1);
                drop(input.splice(at..at, moved));
            }
            _ => {}
        }
    }

    fn text_blow(&self, random: &mut Random, input: &mut Vec<u8>) {
        match random.below(7) {
            // A word for another, a number for a worse one.
            0 | 1 => {
                let (start, end) = word(random, input);
                let other = &self.0[random.below(self.0.len())];
                let (from, to) = word(random, other);
                drop(input.splice(start..end, other[from..to].to_vec()));
            }
            2 => {
                let (start, end) = word(random, input);
                drop(input.splice(start..end, NUMBERS[random.below(NUMBERS.len())].bytes()));
            }
            3 => {
                let at = random.below(input.len() + 1);
                drop(input.splice(at..at, WORDS[random.below(WORDS.len())].bytes()));
            }
            // A line doubled, or one of another text in its place.
            4 if input.len() < MOST_BYTES => {
                let (start, end) = line(random, input);
                drop(input.splice(start..start, input[start..end].to_vec()));
            }
            5 if input.len() < MOST_BYTES => {
                let (start, end) = line(random, input);
                let other = &self.0[random.below(self.0.len())];
                let (from, to) = line(random, other);
                drop(input.splice(start..end, other[from..to].to_vec()));
            }
            // Nesting, mostly shallow; a few levels more than any reader should follow otherwise.
            6 if input.len() < MOST_BYTES => {
                let depth = [2, 10, 130, 5000][random.below(4).min(random.below(4))];
                let (open, close) = [("[", "]"), ("{\"a\":", "}"), ("{a: ", "}"), ("- ", ""), ("[", "")][random.below(5)];
                let (start, end) = word(random, input);
                let nested = [open.repeat(depth).as_bytes(), &input[start..end], close.repeat(depth).as_bytes()].concat();
                drop(input.splice(start..end, nested));
            }
            _ => {}
        }
    }
}

/// A part of at most `most` bytes.
fn range(random: &mut Random, length: usize, most: usize) -> (usize, usize) {
    let start = random.below(length + 1);
    (start, start + random.below((length - start).min(most) + 1))
}

/// Letters and digits that stand together, from a random place on.
fn word(random: &mut Random, text: &[u8]) -> (usize, usize) {
    let of = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let from = random.below(text.len() + 1);
    let start = from + text[from..].iter().position(of).unwrap_or(text.len() - from);
    (start, start + text[start..].iter().position(|byte| !of(byte)).unwrap_or(text.len() - start))
}

/// A line with its end, around a random place.
fn line(random: &mut Random, text: &[u8]) -> (usize, usize) {
    let at = random.below(text.len() + 1);
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    (start, at + text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len() - at, |place| place + 1))
}

/// How many inputs of each kind are asked for.
pub fn count(usual: u64) -> u64 {
    std::env::var("FLOW_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

thread_local! {
    /// What the last panic of a reader said, while one reads.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `read` with the inputs of the seeds 0, 1, ...: it must come back, neither with a panic nor too late. An input
/// that breaks this is kept in a file, and named. Answers with how often it said true.
pub fn each(kind: &'static str, count: u64, make: impl Fn(&mut Random) -> Vec<u8>, mut read: impl FnMut(&[u8]) -> bool) -> u64 {
    type Now = Option<(Instant, u64, Vec<u8>)>;
    // A reader may catch panics of what it uses: nobody has to hear of those.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            match SAID.with(|said| said.borrow_mut().as_mut().map(|said| *said = info.to_string())) {
                Some(()) => {}
                None => usual(info),
            }
        }));
    });
    let now: Arc<Mutex<Now>> = Arc::default();
    let watched = Arc::downgrade(&now);
    std::thread::spawn(move || {
        while let Some(now) = watched.upgrade() {
            if let Some((since, seed, input)) = now.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                if since.elapsed() > LONGEST {
                    eprintln!("{kind}: no answer within {LONGEST:?} on {}", kept(kind, *seed, input).display());
                    std::process::abort();
                }
            }
            drop(now);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let (start, mut taken, mut slowest) = (Instant::now(), 0, (Duration::ZERO, 0));
    for seed in 0..count {
        let input = make(&mut Random::new(flow_core::seed::mix(flow_core::seed::text(kind), seed)));
        let since = Instant::now();
        *now.lock().unwrap_or_else(PoisonError::into_inner) = Some((since, seed, input.clone()));
        SAID.set(Some(String::new()));
        let answer = catch_unwind(AssertUnwindSafe(|| read(&input)));
        let said = SAID.take().unwrap_or_default();
        match answer {
            Ok(good) => taken += u64::from(good),
            Err(_) => panic!("{kind}: {said}\n{} holds the input", kept(kind, seed, &input).display()),
        }
        slowest = slowest.max((since.elapsed(), seed));
    }
    *now.lock().unwrap_or_else(PoisonError::into_inner) = None;
    println!(
        "{kind}: {count} inputs, {taken} taken, {:.0} s; the slowest took {:?} (seed {})",
        start.elapsed().as_secs_f64(),
        slowest.0,
        slowest.1
    );
    taken
}

fn kept(kind: &str, seed: u64, input: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("flow-fuzz-{}-{seed}", kind.replace(' ', "-")));
    let _ = std::fs::write(&path, input);
    path
}
