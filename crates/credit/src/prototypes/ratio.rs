//! Likeness of texts: the share of characters that match, as Python's difflib has it.

use super::Likeness;
use crate::difflib::{counts, required_matches, Alphabet, Reference};

/// Texts are alike whose `difflib.SequenceMatcher(None, key, prototype, autojunk).ratio()` is at least this.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Above 0; 1 means equal.
    pub at_least: f64,
    /// difflib's rule for prototypes of 200 characters and more.
    pub autojunk: bool,
}

/// A text in the numbers of an alphabet that all texts compared with one another share.
#[derive(Clone, Debug)]
pub struct ComparedText {
    characters: Vec<u32>,
    /// How often each character of the alphabet stands in it.
    counts: Vec<u32>,
}

impl ComparedText {
    /// Reads a text; characters that the alphabet doesn't have yet are added to it.
    pub fn read(text: &str, alphabet: &mut Alphabet) -> ComparedText {
        let characters = alphabet.read(text);
        let counts = counts(&characters, alphabet.size());
        ComparedText { characters, counts }
    }
}

impl Likeness for Ratio {
    type Key = ComparedText;
    type Prototype = Reference;

    fn prototype(&self, key: &ComparedText) -> Reference {
        Reference::new(key.characters.clone(), key.counts.len(), self.autojunk)
    }

    /// What is skipped couldn't have changed the answer: texts whose lengths differ too much, and texts with too few
    /// characters in common, in any order.
    fn alike(&self, key: &ComparedText, prototype: &Reference) -> bool {
        let matching = required_matches(self.at_least, key.characters.len() + prototype.len());
        key.characters.len().min(prototype.len()) >= matching
            && prototype.at_most(&key.counts) >= matching
            && prototype.reaches(&key.characters, matching)
    }
}

/// Whether `difflib.SequenceMatcher(None, text, other).ratio()` is at least this.
pub fn alike_texts(text: &str, other: &str, at_least: f64) -> bool {
    let mut alphabet = Alphabet::default();
    let ratio = Ratio { at_least, autojunk: true };
    let other = ratio.prototype(&ComparedText::read(other, &mut alphabet));
    ratio.alike(&ComparedText::read(text, &mut alphabet), &other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prototypes::Prototypes;

    /// The alphabet grows while prototypes are there: "xyz" has characters that the first prototype has never met.
    #[test]
    fn characters_that_come_later_match_nothing_before() {
        let mut alphabet = Alphabet::default();
        let mut texts = Prototypes::new(Ratio { at_least: 0.5, autojunk: true });
        let mut join = |id, text: &str| texts.join(0, id, &ComparedText::read(text, &mut alphabet)).0;
        assert_eq!(join(1, "abcd"), 1);
        assert_eq!(join(2, "wxyz"), 2);
        assert_eq!(join(3, "abxyz"), 2, "wxyz: 2*3/9, abcd: 2*2/9");
        assert_eq!(join(4, "abxx"), 1, "2*2/8 with abcd, which comes first");
    }
}
