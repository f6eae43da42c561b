//! Python's `difflib.SequenceMatcher`, exactly: how alike two texts are.

mod alphabet;
mod matching;

pub use alphabet::Alphabet;
pub use matching::{counts, ratio, required_matches, Reference};
