//! How alike two short texts are by `thefuzz` 0.19.0, as WebShop's reward asks it.

use flow_credit::difflib::{ratio, Alphabet, Reference};
use std::collections::BTreeSet;

/// `fuzz.token_set_ratio`: 100 where one text has all words of the other, else how many characters match, in percent.
pub fn token_set_ratio(a: &str, b: &str) -> u32 {
    let (a, b) = (words(a), words(b));
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    let joined = |words: &mut dyn Iterator<Item = &String>| words.map(String::as_str).collect::<Vec<_>>().join(" ");
    let both = joined(&mut a.intersection(&b));
    let with = |rest: String| format!("{both} {rest}").trim().to_string();
    let (first, second) = (with(joined(&mut a.difference(&b))), with(joined(&mut b.difference(&a))));
    percent(&both, &first).max(percent(&both, &second)).max(percent(&first, &second))
}

/// The words of a text in small letters, without the characters from 128 to 255.
fn words(text: &str) -> BTreeSet<String> {
    let latin: String = text.chars().filter(|c| !(128..256).contains(&(*c as u32))).collect();
    let words = latin.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// `fuzz.ratio` with Python's `difflib` (the published requirements don't have python-Levenshtein), rounded as Python
/// rounds.
fn percent(a: &str, b: &str) -> u32 {
    if a == b {
        return 100;
    }
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    let mut alphabet = Alphabet::default();
    let (a, b) = (alphabet.read(a), alphabet.read(b));
    let characters = a.len() + b.len();
    let matched = Reference::new(b, alphabet.size(), true).matched(&a);
    (100.0 * ratio(matched, characters)).round_ties_even() as u32
}

#[cfg(test)]
mod tests {
    use super::token_set_ratio;

    /// What thefuzz 0.19.0 answers with Python's difflib.
    #[test]
    fn texts_are_as_alike_as_thefuzz_says() {
        for (a, b, expected) in [
            ("essential oil", "essential oils", 96),
            ("x-large", "('size', 'large')", 83),
            ("large", "('size', 'x-large')", 100),
            ("blue", "('color', 'light blue')", 100),
            ("easy carry", "easy care", 84),
            ("machine washable", "hand washable", 76),
            ("gluten free", "Free, GLUTEN!", 100),
            ("10 inch", "12 inch", 86),
            ("", "a", 0),
            ("é", "a", 0),
        ] {
            assert_eq!(token_set_ratio(a, b), expected, "{a} and {b}");
        }
    }
}
