//! Whether an answer is right, as question answering is scored: exact match and F1 over words (Rajpurkar et al. 2016,
//! and HotpotQA's evaluation, Yang et al. 2018, `hotpot_evaluate_v1.py`; Search-R1 takes the same exact match).

use std::collections::BTreeMap;

/// An answer as it is compared: small letters, no punctuation of ASCII, no articles, single spaces.
pub fn normal(text: &str) -> String {
    let bare: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    // Python's \b stands between a letter, a digit or `_` and anything else.
    let mut words = String::new();
    let mut word = String::new();
    for c in bare.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        words += if matches!(word.as_str(), "a" | "an" | "the") { " " } else { &word };
        words.push(c);
        word.clear();
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether both are the same once they are normal.
pub fn exact(answer: &str, truth: &str) -> bool {
    normal(answer) == normal(truth)
}

/// The harmonic mean of precision and recall of the words: 2 * common / (answered + expected). A `yes`, `no` or
/// `noanswer` is right or wrong.
pub fn f1(answer: &str, truth: &str) -> f64 {
    let (answer, truth) = (normal(answer), normal(truth));
    let closed = |text: &str| matches!(text, "yes" | "no" | "noanswer");
    if (closed(&answer) || closed(&truth)) && answer != truth {
        return 0.0;
    }
    let mut remaining: BTreeMap<&str, usize> = BTreeMap::new();
    truth.split(' ').for_each(|word| *remaining.entry(word).or_default() += 1);
    let (mut common, mut answered) = (0, 0);
    for word in answer.split(' ').filter(|word| !word.is_empty()) {
        answered += 1;
        if let Some(left) = remaining.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            common += 1;
        }
    }
    if common == 0 {
        return 0.0;
    }
    let (precision, recall) = (common as f64 / answered as f64, common as f64 / truth.split(' ').count() as f64);
    2.0 * precision * recall / (precision + recall)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the published functions answer.
    #[test]
    fn answers_are_scored_as_published() {
        for (answer, truth, right, share) in [
            ("The River Sol.", "river sol", true, 1.0),
            ("a town of Brani", "Brani", false, 0.5),
            ("Tor Venfel", "Tor  Mize", false, 0.5),
            ("1987", "in 1987", false, 2.0 / 3.0),
            ("no", "no way", false, 0.0),
            ("", "x", false, 0.0),
            ("a-b", "ab", true, 1.0),
            ("ab ab c", "ab c c", false, 2.0 / 3.0),
        ] {
            assert_eq!(exact(answer, truth), right, "{answer}");
            assert!((f1(answer, truth) - share).abs() < 1e-12, "{answer}: {}", f1(answer, truth));
        }
        assert_eq!(normal("An apple, the 'Theatre' — a_b a"), "apple theatre — ab");
    }
}
