//! How many characters of two texts match, as Python's `difflib.SequenceMatcher(None, a, b)` counts them.
//!
//! The longest block that both texts have, then the same to its left and to its right (Ratcliff and Obershelp 1988);
//! of equally long blocks the first in `a`, then the first in `b`. From 200 characters of `b` on, `autojunk` lets no
//! block begin with or run through a character that makes up more than 1% + 1 of `b`; blocks only grow into such
//! characters at their ends. Neither rule treats `a` and `b` alike, so the count can change when they change places.

use std::ops::Range;

/// From how many characters of `b` on `autojunk` has an effect.
const AUTOJUNK_FROM: usize = 200;

/// A character that no text has: it equals nothing.
const NOTHING: u32 = u32::MAX;

/// The text that others are compared with (difflib's `b`), and where each character stands in it.
/// Characters are numbers below the size of an alphabet that all texts compared with one another share.
#[derive(Clone, Debug)]
pub struct Reference {
    text: Vec<u32>,
    /// The text, with [`NOTHING`] where a block may only end.
    seeds: Vec<u32>,
    /// The places of character `c` in `seeds`, ascending: `places[starts[c]..starts[c + 1]]`.
    starts: Vec<u32>,
    places: Vec<u32>,
    /// How often each character stands in the text.
    counts: Vec<u32>,
}

impl Reference {
    /// The text in numbers below `alphabet`, made ready for many others; with difflib's `autojunk` or without.
    pub fn new(text: Vec<u32>, alphabet: usize, autojunk: bool) -> Reference {
        let counts = counts(&text, alphabet);
        let popular = match autojunk && text.len() >= AUTOJUNK_FROM {
            true => text.len() / 100 + 1,
            false => usize::MAX,
        };
        let seeds: Vec<u32> = text.iter().map(|c| if counts[*c as usize] as usize > popular { NOTHING } else { *c }).collect();
        let mut starts = vec![0u32; alphabet + 1];
        for c in seeds.iter().filter(|c| **c != NOTHING) {
            starts[*c as usize + 1] += 1;
        }
        for c in 0..alphabet {
            starts[c + 1] += starts[c];
        }
        let mut next = starts.clone();
        let mut places = vec![0; starts[alphabet] as usize];
        for (place, c) in seeds.iter().enumerate().filter(|(_, c)| **c != NOTHING) {
            places[next[*c as usize] as usize] = place as u32;
            next[*c as usize] += 1;
        }
        Reference { text, seeds, starts, places, counts }
    }

    /// In characters.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The places of `c` from `from` on; a character that came to the alphabet after this text has none.
    fn places(&self, c: u32, from: usize) -> &[u32] {
        let Some(&[start, end]) = self.starts.get(c as usize..c as usize + 2) else { return &[] };
        let places = &self.places[start as usize..end as usize];
        match places.first() {
            Some(first) if (*first as usize) < from => &places[places.partition_point(|place| (*place as usize) < from)..],
            _ => places,
        }
    }

    /// No two texts match in more characters than both have, whatever their order (difflib's `quick_ratio`).
    /// `counts` is how often each character stands in the other text.
    pub fn at_most(&self, counts: &[u32]) -> usize {
        self.counts.iter().zip(counts).map(|(mine, other)| (*mine).min(*other)).sum::<u32>() as usize
    }

    /// Whether at least `least` characters match: [`matched`](Self::matched), stopped as soon as that is settled.
    pub fn reaches(&self, a: &[u32], least: usize) -> bool {
        self.walk(a, |matched, open| matched < least && matched + open >= least) >= least
    }

    /// How many characters of `a` and this text match.
    pub fn matched(&self, a: &[u32]) -> usize {
        self.walk(a, |_, _| true)
    }

    /// Block after block for as long as `on` says so: it hears how many characters match so far and how many more
    /// could at most.
    fn walk(&self, a: &[u32], on: impl Fn(usize, usize) -> bool) -> usize {
        // In a long text few characters aren't popular, and only those begin a block.
        let live: Vec<usize> = (0..a.len()).filter(|i| !self.places(a[*i], 0).is_empty()).collect();
        let room = |(a, b): &(Range<usize>, Range<usize>)| a.len().min(b.len());
        let mut todo = vec![(0..a.len(), 0..self.len())];
        let (mut matched, mut open) = (0, a.len().min(self.len()));
        while on(matched, open) {
            let Some(part) = todo.pop() else { break };
            open -= room(&part);
            let (in_a, in_b) = part;
            let (i, j, length) = self.longest(a, &live, in_a.clone(), in_b.clone());
            if length > 0 {
                matched += length;
                let sides = [(in_a.start..i, in_b.start..j), (i + length..in_a.end, j + length..in_b.end)];
                for side in sides.into_iter().filter(|side| room(side) > 0) {
                    open += room(&side);
                    todo.push(side);
                }
            }
        }
        matched
    }

    /// The longest block within these parts: where it begins in `a` and here, and its length. `live` are the places in
    /// `a` of characters that stand here too.
    fn longest(&self, a: &[u32], live: &[usize], in_a: Range<usize>, in_b: Range<usize>) -> (usize, usize, usize) {
        let (mut best_i, mut best_j, mut best) = (in_a.start, in_b.start, 0);
        // Only a run that has room to be longer than the best one is looked at, so a long block ends the search early.
        for &i in &live[live.partition_point(|i| *i < in_a.start)..] {
            if i + best >= in_a.end {
                break;
            }
            for j in self.places(a[i], in_b.start).iter().map(|j| *j as usize) {
                if j + best >= in_b.end {
                    break;
                }
                // The character that would make it the longest tells nearly always that it isn't.
                if a[i + best] != self.seeds[j + best] {
                    continue;
                }
                // The rest of a run that began further left is shorter than that was.
                if i > in_a.start && j > in_b.start && a[i - 1] == self.seeds[j - 1] {
                    continue;
                }
                let pairs = a[i..in_a.end].iter().zip(&self.seeds[j..in_b.end]);
                let length = pairs.take_while(|(x, y)| x == y).count();
                if length > best {
                    (best_i, best_j, best) = (i, j, length);
                    if i + best >= in_a.end {
                        break;
                    }
                }
            }
        }
        // Now that it is chosen it grows into popular characters too. If none was found, what both parts begin with
        // counts.
        let before = a[in_a.start..best_i].iter().rev().zip(self.text[in_b.start..best_j].iter().rev());
        let before = before.take_while(|(x, y)| x == y).count();
        let after = a[best_i + best..in_a.end].iter().zip(&self.text[best_j + best..in_b.end]);
        let after = after.take_while(|(x, y)| x == y).count();
        (best_i - before, best_j - before, before + best + after)
    }
}

/// How often each character of the alphabet stands in the text.
pub fn counts(text: &[u32], alphabet: usize) -> Vec<u32> {
    let mut counts = vec![0; alphabet];
    text.iter().for_each(|c| counts[*c as usize] += 1);
    counts
}

/// difflib's ratio of two texts: together they have `characters`, and `matched` in each match the other's.
pub fn ratio(matched: usize, characters: usize) -> f64 {
    if characters == 0 {
        1.0
    } else {
        2.0 * matched as f64 / characters as f64
    }
}

/// The least number of matching characters with which [`ratio`] reaches `at_least`, a number from 0 to 1.
pub fn required_matches(at_least: f64, characters: usize) -> usize {
    let mut required_matches = (at_least * characters as f64 / 2.0).ceil() as usize;
    // Rounding may have put the estimate one off: the ratio itself, as difflib rounds it, decides.
    while required_matches > 0 && ratio(required_matches - 1, characters) >= at_least {
        required_matches -= 1;
    }
    while required_matches <= characters / 2 && ratio(required_matches, characters) < at_least {
        required_matches += 1;
    }
    required_matches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difflib::Alphabet;
    use serde::Deserialize;

    /// What difflib said of two texts: made by `scripts/difflib_fixture.py`.
    #[derive(Deserialize)]
    struct Recorded {
        a: String,
        b: String,
        characters: usize,
        /// (a, b) and (b, a) with autojunk, then both without.
        matched: [usize; 4],
    }

    fn recorded() -> Vec<Recorded> {
        serde_json::from_str(include_str!("recorded.json")).unwrap()
    }

    /// Calls `check` with every first text, every second one and what they should match in.
    fn each(pairs: &[Recorded], mut check: impl FnMut(&[u32], &Reference, usize)) {
        for pair in pairs {
            let mut alphabet = Alphabet::default();
            let texts = [alphabet.read(&pair.a), alphabet.read(&pair.b)];
            for (i, matched) in pair.matched.iter().enumerate() {
                let [first, second] = [&texts[i % 2], &texts[1 - i % 2]];
                check(first, &Reference::new(second.clone(), alphabet.size(), i < 2), *matched);
            }
        }
    }

    #[test]
    fn as_many_characters_match_as_in_python() {
        let mut compared = 0;
        each(&recorded(), |a, b, matched| {
            assert_eq!(b.matched(a), matched, "{a:?} and {:?}, comparison {compared}", b.text);
            compared += 1;
        });
        assert!(compared >= 1000);
        assert!(recorded().iter().all(|s| s.a.chars().count() + s.b.chars().count() == s.characters));
    }

    /// The shortcuts answer what the full count would, at every threshold around it.
    #[test]
    fn shortcuts_change_nothing() {
        each(&recorded(), |a, b, matched| {
            let most = b.at_most(&counts(a, b.counts.len()));
            assert!(most >= matched && most <= a.len().min(b.len()));
            for least in [0, matched / 2, matched.saturating_sub(1), matched, matched + 1, matched + 5, a.len() + b.len()] {
                assert_eq!(b.reaches(a, least), matched >= least, "{a:?} and {:?} at {least}", b.text);
            }
        });
    }

    /// The fixture can tell: for many pairs the order and autojunk change the answer.
    #[test]
    fn the_fixture_knows_every_rule() {
        let all = recorded();
        let count = |differ: fn(&[usize; 4]) -> bool| all.iter().filter(|s| differ(&s.matched)).count();
        assert!(count(|m| m[0] != m[1]) >= 10 && count(|m| m[2] != m[3]) >= 10, "a and b in the other order");
        assert!(count(|m| m[0] != m[2]) >= 10, "with and without autojunk");
    }

    #[test]
    fn the_threshold_is_compared_as_python_compares_it() {
        assert_eq!((required_matches(1.0, 0), required_matches(0.95, 0), required_matches(0.0, 7)), (0, 0, 0), "two empty texts are alike");
        assert_eq!((required_matches(1.0, 10), required_matches(0.95, 600), required_matches(0.85, 3)), (5, 285, 2));
        for characters in 1..700 {
            for at_least in [0.1, 0.3, 1.0 / 3.0, 0.7, 0.85, 0.95, 0.999, 1.0] {
                let least = (0..=characters).find(|m| 2.0 * *m as f64 / characters as f64 >= at_least).unwrap();
                assert_eq!(required_matches(at_least, characters), least, "{at_least} of {characters}");
            }
        }
    }
}
