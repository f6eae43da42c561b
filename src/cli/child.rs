//! Processes of flow that another one starts for itself: they end with it, also where it is killed.

use flow_dataflow::cluster::end::end_process;
use rustix::process::{getppid, Pid};
use std::process::Command;

/// The variable by which a process knows whose it is.
const PARENT: &str = "FLOW_PARENT";

/// The same command, for a process that ends with this one. Call it on a thread that lives as long as the process.
pub fn tied(command: &mut Command) -> &mut Command {
    command.env(PARENT, std::process::id().to_string())
}

/// Ties this process to the one that started it for itself, if one did: when that one ends, this one gets SIGTERM.
pub fn tie() {
    let Some(parent) = std::env::var(PARENT).ok().and_then(|parent| parent.parse::<i32>().ok()).and_then(Pid::from_raw) else { return };
    // What this process starts is not tied by it.
    std::env::remove_var(PARENT);
    if watched(parent) && getppid() != Some(parent) {
        end_process(130);
    }
}

/// Asks for the signal at the parent's end; whether there is one.
#[cfg(target_os = "linux")]
fn watched(_: Pid) -> bool {
    use rustix::process::{set_parent_process_death_signal, Signal};
    set_parent_process_death_signal(Some(Signal::TERM)).is_ok()
}

/// Where there is no such signal a thread looks; whether it could be started.
#[cfg(not(target_os = "linux"))]
fn watched(parent: Pid) -> bool {
    let look = move || {
        while getppid() == Some(parent) {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        end_process(143);
    };
    std::thread::Builder::new().name("parent".into()).spawn(look).is_ok()
}
