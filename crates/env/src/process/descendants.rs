//! Processes that a program started, wherever they went: one that calls `setsid` leaves the process group of its
//! program, and one whose parent has ended has no known parent. What they all still have is their environment
//! variables: a program gets a mark of its own there (as build servers do). It works where the system shows the
//! environments of processes under `/proc`; elsewhere only process groups are ended.

use rustix::process::{kill_process, Pid, Signal};
use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

/// The variable that holds the mark.
pub(super) const VARIABLE: &str = "FLOW_PROGRAM";

/// How long processes with the mark are killed, again and again: one may start another meanwhile, and on a busy machine
/// one that was killed takes a while to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a process that is becoming another program may hide its mark. One that has no environment for longer never
/// had the mark.
const HIDDEN: Duration = Duration::from_millis(200);

/// The time from one look to the next.
const MOMENT: Duration = Duration::from_millis(2);

/// The most that a program's arguments and environment take on Linux, so that one read takes all. A process that becomes
/// another program between two reads gives up its environment, and what the first one took may end before the mark.
const WHOLE: usize = 6 << 20;

/// Kills all processes that have this mark, and waits until they have ended.
pub(super) fn kill_all(mark: &str) {
    let start = Instant::now();
    let mut seen = start;
    let mut killed: Vec<Pid> = Vec::new();
    loop {
        let (marked, hidden) = processes_with(mark);
        for process in marked {
            if !killed.contains(&process) {
                killed.push(process);
            }
        }
        killed.retain(|process| !ended(*process));
        if !killed.is_empty() {
            seen = Instant::now();
        } else if !hidden || seen.elapsed() > HIDDEN {
            return;
        }
        if start.elapsed() > PATIENCE {
            return;
        }
        for process in &killed {
            // It may have ended by itself meanwhile.
            let _ = kill_process(*process, Signal::KILL);
        }
        std::thread::sleep(MOMENT);
    }
}

/// Whether a process is gone, or only waits to be asked how it ended. One that dies has no environment for a while
/// before that.
fn ended(process: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())) else { return true };
    // The name, which may hold anything, ends at the last bracket.
    stat.rsplit(") ").next().is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// The processes that have this mark in their environment and haven't ended, and whether there is one whose environment
/// is empty, as it is while `exec` replaces the program.
fn processes_with(mark: &str) -> (Vec<Pid>, bool) {
    let entry = format!("{VARIABLE}={mark}");
    let (mut marked, mut hidden) = (Vec::new(), false);
    let mut buffer = vec![0; WHOLE];
    for name in fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let Some(process) = name.parse().ok().and_then(Pid::from_raw) else { continue };
        // Of a process that has ended, and of one that belongs to somebody else, nothing can be read.
        let Ok(read) = fs::File::open(format!("/proc/{name}/environ")).and_then(|mut file| file.read(&mut buffer)) else { continue };
        // The kernel's own threads have none either, and run no program.
        hidden |= read == 0 && fs::read_link(format!("/proc/{name}/exe")).is_ok();
        if buffer[..read].split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes()) {
            marked.push(process);
        }
    }
    (marked, hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn what_becomes_another_program_all_the_time_is_killed_too() {
        let mark = format!("test-{}-exec", std::process::id());
        let mut children = Vec::new();
        for _ in 0..20 {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", r#"exec /bin/sh -c "$1" sh "$1""#, "sh", r#"exec /bin/sh -c "$1" sh "$1""#]);
            children.push(command.env(VARIABLE, &mark).process_group(0).spawn().unwrap());
        }
        kill_all(&mark);
        let alive = children.iter_mut().filter_map(|child| child.try_wait().unwrap().is_none().then_some(child)).count();
        for child in &mut children {
            let _ = child.kill();
            child.wait().unwrap();
        }
        assert_eq!(alive, 0);
    }
}
