//! How a process ends before its run does: because another one is gone, because of a panic, or because it was asked to.

use crate::dataflow::failure::guarding;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has said why it ends. It says so once, though several threads may notice.
static SAID: AtomicBool = AtomicBool::new(false);

/// Keeps this process from saying that another one is gone: it has failed itself, or another has and says so.
pub(in crate::dataflow) fn said() {
    SAID.store(true, Ordering::SeqCst);
}

/// Ends this process because the connection to another one broke.
pub(in crate::dataflow) fn gone(process: &str) -> ! {
    if SAID.swap(true, Ordering::SeqCst) {
        // Another thread has the word, and ends the process when it is done.
        loop {
            std::thread::park();
        }
    }
    eprintln!("error: process {process} is gone, and the run ends with it; what was committed is safe: start all processes again with `flow resume`");
    end_process(1)
}

/// Ends the process at once. An ordinary exit would take libtorch's globals from under threads that are still at work, and
/// each of them would have its say about it.
pub fn end_process(code: i32) -> ! {
    // What nobody reads any more is nothing to fail over.
    let _ = std::io::stdout().flush();
    signal_hook::low_level::exit(code)
}

/// A panic of an environment costs its episode, and a stage's is caught and named; any other panic on a worker would leave the
/// other workers waiting for it for ever, so it ends the process, at once and with its message.
pub(in crate::dataflow) fn end_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // timely's threads that talk with another process panic when they can't any more.
            let thread = std::thread::current();
            let talks = |name: &'static str| thread.name().and_then(|thread| thread.strip_prefix(name));
            if let Some(process) = talks("timely:recv-").or(talks("timely:send-")) {
                gone(process);
            }
            if crate::env::hushed(info) {
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
