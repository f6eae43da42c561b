//! A limit on the memory of a process that runs a query: DuckDB limits its operators, but not the size of a single
//! value such as `repeat('x', 4000000000)`.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// What is left free for the rest of the machine, and the least that a question may take.
const LEAST: u64 = 1 << 30;

/// Lets this process take half of the memory that is free, and no more; where that isn't known, what it could before.
pub fn limit() {
    let (Some(free), Some(taken)) = (field("/proc/meminfo", "MemAvailable:"), field("/proc/self/status", "VmSize:")) else { return };
    let most = taken + (free / 2).max(LEAST);
    let before = getrlimit(Resource::As);
    let current = before.current.map_or(most, |current| current.min(most));
    // A limit that can't be set is one that stands already.
    let _ = setrlimit(Resource::As, Rlimit { current: Some(current), ..before });
}

/// A number of KiB in one of Linux's own files, in bytes.
pub fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok().map(|kib: u64| kib << 10)
}
