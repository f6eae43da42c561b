//! Pauses in a long piece of work: the policy thread then serves requests that only read.
//!
//! Without them episodes could be played only between two updates, and `staleness` would hide nothing but their first
//! turn. Weights are never changed in place, so neither side sees anything of the other.

use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static MEANWHILE: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// From now on this thread does `work` at every pause.
pub fn at_pauses(work: impl Fn() + 'static) {
    MEANWHILE.set(Some(Rc::new(work)));
}

/// A pause: does what this thread does at pauses; nothing on other threads.
pub fn pause() {
    if let Some(work) = MEANWHILE.with_borrow(Clone::clone) {
        work();
    }
}
