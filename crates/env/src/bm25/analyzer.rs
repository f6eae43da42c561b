//! A text as search terms, by the steps of Lucene's English analysis: words in small letters, without a possessive 's
//! and without stop words, each cut to its stem.

use super::porter::stem;

/// Lucene's English stop words.
const STOP: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on", "or", "such",
    "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

/// The terms of a text, in its order. Words are letters and digits; a `.` or `'` between two letters or two digits, or
/// a `,` between two digits, is part of a word (Unicode's rule for word boundaries, as far as texts of Latin letters
/// need it).
pub fn terms(text: &str) -> Vec<String> {
    words(text).into_iter().filter_map(|word| term(&word)).collect()
}

fn term(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let word = word.strip_suffix("'s").unwrap_or(&word);
    (!word.is_empty() && !STOP.contains(&word)).then(|| stem(word))
}

/// Letters of a word, at most: Lucene's limit, after which a new word begins.
const LONGEST: usize = 255;

fn words(text: &str) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (i, &c) in all.iter().enumerate() {
        let (before, after) = (i.checked_sub(1).and_then(|i| all.get(i)), all.get(i + 1));
        let between = |kind: fn(&char) -> bool| before.is_some_and(kind) && after.is_some_and(kind);
        let joins = match c {
            '.' | '\'' => between(|c| c.is_alphabetic()) || between(|c| c.is_numeric()),
            ',' => between(|c| c.is_numeric()),
            _ => c.is_alphanumeric() || c == '_',
        };
        if !word.is_empty() && (!joins || word.chars().count() == LONGEST) {
            words.push(std::mem::take(&mut word));
        }
        if joins {
            word.push(c);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::terms;

    #[test]
    fn words_are_cut_where_lucene_cuts_them() {
        assert_eq!(terms("Women's Running-Shoes, 6.76 fl oz (pack of 2)"), ["women", "run", "shoe", "6.76", "fl", "oz", "pack", "2"]);
        assert_eq!(terms("1,000 a.m. don't x-large. The"), ["1,000", "a.m", "don't", "x", "larg"]);
        assert_eq!(terms(&"y".repeat(600)).len(), 3);
        assert!(terms(" ,. the ' \u{0}").is_empty());
    }
}
