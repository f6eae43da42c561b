//! Panics of code that isn't ours to mend, as values: of environments, and of libraries that read anybody's files.

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe, PanicHookInfo};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs code that may panic.
///
/// # Errors
/// The message of its panic, with the place.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    GUARDED.set(true);
    PLACE.with(|place| place.borrow_mut().clear());
    let answer = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(false);
    answer.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        let text = text.unwrap_or_else(|| "a panic without a message".into());
        text + &PLACE.with(|place| place.borrow().clone())
    })
}

/// For a panic hook: whether this panic will become a value, so that it isn't printed.
pub fn hushed(info: &PanicHookInfo) -> bool {
    let guarded = GUARDED.get();
    if let (true, Some(at)) = (guarded, info.location()) {
        PLACE.with(|place| *place.borrow_mut() = format!(" ({}:{})", at.file(), at.line()));
    }
    guarded
}
