//! A text as a point, at the price of reading it: hashed words. No model, no vocabulary, the same bits on every machine
//! of a kind.

use flow_core::seed::{mix, text};

/// How many numbers a point has: as many as all-MiniLM-L6-v2 gives.
pub const WIDTH: usize = 384;

/// The point of a text on the unit sphere, `[WIDTH]`: each word and each pair of neighbours adds 1 or -1 to one of the
/// numbers, both by a hash (feature hashing: Weinberger et al. 2009, Eq. 1), and the sum is scaled to length 1. A word
/// is a run of letters and digits in lower case, or any other character that isn't space. The cosine of two texts is
/// the dot product of their points; a text without a word is 0, which is like nothing.
pub fn words(of: &str) -> Vec<f32> {
    let mut point = vec![0f32; WIDTH];
    let mut add = |hash: u64| point[(hash % WIDTH as u64) as usize] += if hash >> 63 == 0 { 1.0 } else { -1.0 };
    let mut before: Option<u64> = None;
    each_word(of, |word| {
        let hash = text(word);
        add(mix(hash, 1));
        if let Some(before) = before {
            add(mix(before, hash));
        }
        before = Some(hash);
    });
    let length = point.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        point.iter_mut().for_each(|x| *x /= length);
    }
    point
}

fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if word.is_empty() {
            // Most words are small letters and stand there as they are; the rest is read letter by letter.
            let plain = plain_word(&text.as_bytes()[at..]);
            if plain > 0 {
                each(&text[at..at + plain]);
                at += plain;
                continue;
            }
        }
        at += c.len_utf8();
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            each(&word);
            word.clear();
        }
        if !c.is_whitespace() {
            each(c.encode_utf8(&mut [0; 4]));
        }
    }
    if !word.is_empty() {
        each(&word);
    }
}

/// How many small letters and digits of ASCII a text begins with, if they are a whole word; else 0.
fn plain_word(text: &[u8]) -> usize {
    let length = text.iter().take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit()).count();
    let whole = text.get(length).is_none_or(|next| next.is_ascii() && !next.is_ascii_alphanumeric());
    if whole {
        length
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prototypes::dot;

    fn cosine(a: &str, b: &str) -> f32 {
        dot(&words(a), &words(b))
    }

    #[test]
    fn texts_are_like_themselves_and_unlike_others() {
        assert!((cosine("open the door", "Open  the door") - 1.0).abs() < 1e-6, "case and space don't count");
        let near = cosine("you are in the kitchen. you see a door", "you are in the kitchen. you see a stove");
        let far = cosine("you are in the kitchen. you see a door", "mix blue and yellow paint");
        assert!(near > 0.6 && far < 0.3, "{near} {far}");
        assert!(cosine("# _ O", "O _ #") < 0.99, "the order of words counts");
        assert_eq!(cosine("  \n", "a"), 0.0);
    }

    #[test]
    fn words_are_runs_and_single_signs() {
        let mut found = Vec::new();
        each_word("Row 12: #_Ü!", |word| found.push(word.to_owned()));
        assert_eq!(found, ["row", "12", ":", "#", "_", "ü", "!"]);
        found.clear();
        each_word("aü bC d9é 7 ß", |word| found.push(word.to_owned()));
        assert_eq!(found, ["aü", "bc", "d9é", "7", "ß"]);
    }
}
