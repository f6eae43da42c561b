//! Ends a process before its run does: because another process is gone, because of a panic, or because a stop was
//! requested.

use crate::failure::guarding;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has reported why it ends: once, though several threads may notice.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Keeps this process from reporting that another one is gone: the run has already failed, and the failure is reported
/// elsewhere.
pub(crate) fn mark_reported() {
    REPORTED.store(true, Ordering::SeqCst);
}

/// Ends this process because the connection to another one broke.
pub(crate) fn gone(process: &str) -> ! {
    if REPORTED.swap(true, Ordering::SeqCst) {
        // Another thread reports it and ends the process.
        loop {
            std::thread::park();
        }
    }
    eprintln!("error: process {process} is gone, and the run ends with it; committed iterations are safe: start all processes again with `flow resume`");
    end_process(1)
}

/// Ends the process at once. An ordinary exit would destroy libtorch's globals while other threads still use them, and
/// each of those would print an error.
pub fn end_process(code: i32) -> ! {
    // A closed standard output is no reason to fail.
    let _ = std::io::stdout().flush();
    signal_hook::low_level::exit(code)
}

/// A panic of an environment costs its episode, and a stage's is caught and named; any other panic on a worker would
/// leave the other workers waiting for it for ever, so it ends the process, at once and with its message.
pub(crate) fn end_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // timely's network threads panic when a connection breaks.
            let thread = std::thread::current();
            let talks = |name: &'static str| thread.name().and_then(|thread| thread.strip_prefix(name));
            if let Some(process) = talks("timely:recv-").or(talks("timely:send-")) {
                gone(process);
            }
            if flow_env::hushed(info) {
                return;
            }
            usual(info);
            let caught = guarding();
            if !caught && std::thread::current().name().is_some_and(|n| n.starts_with("timely")) {
                end_process(101);
            }
        }));
    });
}
