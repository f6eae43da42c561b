//! Processes that a program started, wherever they went: one that calls `setsid` leaves the process group of its program, and one whose parent has
//! ended is nobody's child. What they all still have is their environment, in which a program is given a mark of its own (as build servers do).
//! It works where the system shows the environments of processes under `/proc`; elsewhere only process groups are ended.

use rustix::process::{kill_process, Pid, Signal};
use std::fs;

/// The variable that holds the mark.
pub(super) const VARIABLE: &str = "FLOW_PROGRAM";

/// How often the processes are looked through: one may start another while they are.
const ROUNDS: usize = 5;

/// Kills all processes that have this mark.
pub(super) fn kill_all(mark: &str) {
    for _ in 0..ROUNDS {
        let marked = processes_with(mark);
        if marked.is_empty() {
            return;
        }
        for process in marked {
            // It may have ended by itself meanwhile.
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// The processes that have this mark in their environment and haven't ended.
fn processes_with(mark: &str) -> Vec<Pid> {
    let entry = format!("{VARIABLE}={mark}");
    let marked = |name: String| {
        let process = Pid::from_raw(name.parse().ok()?)?;
        // Of a process that has ended, and of one that belongs to somebody else, nothing can be read.
        let environment = fs::read(format!("/proc/{name}/environ")).ok()?;
        environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes()).then_some(process)
    };
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(marked).collect()
}
