//! A limit on the memory of a process that runs a query: DuckDB limits its operators, but not the size of a single
//! value such as `repeat('x', 4000000000)`.

use flow_core::files::kernel_bytes;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// What is left free for the rest of the machine, and the least that a question may take.
const LEAST: u64 = 1 << 30;

/// Lets this process take half of the memory that is free, and no more; where that isn't known, what it could before.
pub fn limit() {
    let (Some(free), Some(taken)) =
        (kernel_bytes("/proc/meminfo".as_ref(), "MemAvailable:"), kernel_bytes("/proc/self/status".as_ref(), "VmSize:"))
    else {
        return;
    };
    let most = taken + (free / 2).max(LEAST);
    let before = getrlimit(Resource::As);
    let current = before.current.map_or(most, |current| current.min(most));
    // A limit that can't be set is one that stands already.
    let _ = setrlimit(Resource::As, Rlimit { current: Some(current), ..before });
}
