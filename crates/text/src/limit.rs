//! A limit on the work that a model's files make us do. Chat templates and tokenizers are programs from anywhere, and
//! neither library can stop one: a variable that is doubled sixty times is sixty steps.

use flow_core::guard::guarded;
use std::fs;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Seconds of the CPU for one piece of work. Usual work takes a thousandth of one.
const SECONDS: f64 = 3.0;
/// Seconds after which the memory of the process counts: by then the work isn't usual, and it is what takes it.
const UNUSUAL: f64 = 0.2;
/// How often the work is looked at.
const TICK: Duration = Duration::from_millis(20);

/// A piece of work.
struct Work {
    number: u64,
    what: String,
    /// Bytes that the process may grow by.
    bytes: u64,
    /// Where the system says how long its thread has run.
    thread: Option<String>,
    ticks: u32,
    /// The seconds of its thread and the memory of the process, when it was looked at first.
    first: Option<(f64, u64)>,
}

static WORKING: Mutex<Vec<Work>> = Mutex::new(Vec::new());
static BEGUN: Condvar = Condvar::new();

fn working() -> MutexGuard<'static, Vec<Work>> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work` with the file or template `what`. Where that takes seconds, or the process grows by more than `bytes`
/// meanwhile, the process ends with one message: a thread can't be stopped, and nothing that was committed is lost by
/// it.
///
/// # Errors
/// If the library that does the work panics.
pub fn limited<T>(what: &str, bytes: u64, work: impl FnOnce() -> T) -> Result<T, String> {
    let _end = Watched::new(what, bytes);
    guarded(work).map_err(|why| panicked(what, &why))
}

/// The error of a file or a template whose library panics.
pub fn panicked(what: &str, why: &str) -> String {
    format!("{what} makes the library that reads it panic, so it can't be used: {why}")
}

/// Work that is watched until this is dropped.
struct Watched(u64);

impl Watched {
    fn new(what: &str, bytes: u64) -> Watched {
        static WATCH: Once = Once::new();
        // Without a thread to watch, work is done unwatched.
        WATCH.call_once(|| drop(std::thread::Builder::new().name("limit".into()).spawn(watch)));
        let thread = fs::read_link("/proc/thread-self").ok().map(|link| format!("/proc/{}/stat", link.display()));
        let mut all = working();
        let number = all.last().map_or(0, |last| last.number + 1);
        all.push(Work { number, what: what.into(), bytes, thread, ticks: 0, first: None });
        BEGUN.notify_one();
        Watched(number)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        working().retain(|work| work.number != self.0);
    }
}

fn watch() {
    loop {
        let all = working();
        drop(BEGUN.wait_while(all, |all| all.is_empty()));
        std::thread::sleep(TICK);
        for work in working().iter_mut() {
            work.ticks += 1;
            let now = (seconds(work), resident());
            let (begun, before) = *work.first.get_or_insert(now);
            let spent = now.0 - begun;
            if spent > SECONDS {
                end(&work.what, &format!("{SECONDS} seconds"));
            }
            if spent > UNUSUAL && now.1.saturating_sub(before) > work.bytes {
                end(&work.what, &format!("{} MB of memory", work.bytes >> 20));
            }
        }
    }
}

/// How long the work's thread has run on a CPU; where the system doesn't say, how long it has been watched.
fn seconds(work: &Work) -> f64 {
    // The name in brackets may hold anything; the twelfth and thirteenth number after it are hundredths of seconds.
    let run = |stat: String| {
        let after = stat.rsplit_once(')')?.1;
        let ticks: Vec<f64> = after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
        (ticks.len() == 2).then(|| (ticks[0] + ticks[1]) / 100.0)
    };
    let run = work.thread.as_ref().and_then(|stat| run(fs::read_to_string(stat).ok()?));
    run.unwrap_or(f64::from(work.ticks) * TICK.as_secs_f64())
}

/// Bytes of memory that the process has; 0 where the system doesn't say.
fn resident() -> u64 {
    let kilobytes =
        |text: String| text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse::<u64>().ok();
    fs::read_to_string("/proc/self/status").ok().and_then(kilobytes).map_or(0, |kilobytes| kilobytes << 10)
}

fn end(what: &str, limit: &str) -> ! {
    let _ = std::io::stdout().flush();
    eprintln!("error: {what} takes more than {limit}, so the program ends: what needs so much is broken, or meant to harm");
    signal_hook::low_level::exit(1)
}
