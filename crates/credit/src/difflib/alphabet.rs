//! Texts as small numbers, one a character: what can be counted in an array.

use rustc_hash::FxHashMap;

/// The characters (Unicode code points, as Python has them) of all texts read so far, numbered as they first came.
#[derive(Clone, Debug, Default)]
pub struct Alphabet {
    /// Only asked for one character at a time, never walked.
    numbers: FxHashMap<char, u32>,
    /// The same for ASCII, one more than the number; 0 is unknown.
    ascii: Vec<u32>,
    len: usize,
}

impl Alphabet {
    /// How many characters are known.
    pub fn size(&self) -> usize {
        self.len
    }

    /// The text in numbers; characters not met before get the next ones.
    pub fn read(&mut self, text: &str) -> Vec<u32> {
        self.ascii.resize(128, 0);
        text.chars().map(|c| self.number(c)).collect()
    }

    fn number(&mut self, c: char) -> u32 {
        if let Some(known) = self.ascii.get_mut(c as usize) {
            if *known == 0 {
                self.len += 1;
                *known = self.len as u32;
            }
            return *known - 1;
        }
        let next = self.len;
        let number = *self.numbers.entry(c).or_insert(next as u32);
        self.len += usize::from(number as usize == next);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_numbered_as_they_come() {
        let mut alphabet = Alphabet::default();
        assert_eq!(alphabet.read("aéa\u{1f600}b"), [0, 1, 0, 2, 3]);
        assert_eq!(alphabet.read("bé\u{301}\0"), [3, 1, 4, 5]);
        assert_eq!((alphabet.size(), alphabet.read("")), (6, vec![]));
    }
}
