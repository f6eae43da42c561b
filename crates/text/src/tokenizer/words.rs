//! Text to tokens and back: greedy longest match over a list of words, with every byte as a token of its own for the
//! rest.

use std::collections::BTreeMap;

/// The token of byte 0; the other bytes follow, then the words.
const BYTES: u32 = 2;

/// A vocabulary: padding, end, 256 bytes, words.
#[derive(Clone, Debug, PartialEq)]
pub struct WordVocabulary {
    /// The words beyond the bytes, in token order.
    pub words: Vec<String>,
    /// First byte -> (word, token), longest word first.
    by_first: BTreeMap<u8, Vec<(Vec<u8>, u32)>>,
}

impl WordVocabulary {
    /// A vocabulary of `words` in their order. Empty words, repeated ones and single bytes (which are tokens anyway)
    /// are left out.
    pub fn new(words: &[String]) -> Self {
        let mut unique: Vec<String> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        for word in words.iter().filter(|word| word.len() > 1) {
            if known.insert(word.as_str()) {
                unique.push(word.clone());
            }
        }
        let mut by_first: BTreeMap<u8, Vec<(Vec<u8>, u32)>> = BTreeMap::new();
        for (i, word) in unique.iter().enumerate() {
            let bytes = word.as_bytes();
            by_first.entry(bytes[0]).or_default().push((bytes.to_vec(), BYTES + 256 + i as u32));
        }
        for words in by_first.values_mut() {
            words.sort_by_key(|(word, token)| (std::cmp::Reverse(word.len()), *token));
        }
        WordVocabulary { words: unique, by_first }
    }

    /// The tokens of `text`; at each place the longest word that fits.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut rest = text.as_bytes();
        let mut tokens = Vec::with_capacity(rest.len());
        while let Some(&first) = rest.first() {
            let word = self.by_first.get(&first).and_then(|words| words.iter().find(|(word, _)| rest.starts_with(word)));
            let (length, token) = word.map_or((1, BYTES + first as u32), |(word, token)| (word.len(), *token));
            tokens.push(token);
            rest = &rest[length..];
        }
        tokens
    }

    /// The text of `tokens`. Padding, end and unknown tokens are nothing; bytes that make no character show as the
    /// replacement character.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::with_capacity(tokens.len());
        for &token in tokens {
            match token.checked_sub(BYTES) {
                Some(byte @ 0..=255) => bytes.push(byte as u8),
                Some(word) => bytes.extend_from_slice(self.words.get(word as usize - 256).map_or(&[], |word| word.as_bytes())),
                None => {}
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        BYTES as usize + 256 + self.words.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_model::{END, PAD};

    fn words(list: &[&str]) -> WordVocabulary {
        WordVocabulary::new(&list.iter().map(|w| w.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn the_longest_word_wins() {
        let tokenizer = words(&["up", " up", "upward", "✓", "up", ""]);
        assert_eq!(tokenizer.vocab_size(), 258 + 4, "repeated and empty words are left out");
        assert_eq!(tokenizer.encode("up upward✓"), [258, 259, 2 + b'w' as u32, 2 + b'a' as u32, 2 + b'r' as u32, 2 + b'd' as u32, 261]);
        assert_eq!(tokenizer.encode("upwardup"), [260, 258]);
    }

    #[test]
    fn any_text_comes_back() {
        for tokenizer in [words(&["Row", " _", "_ ", "\n", "Wörter", "ö"]), words(&[])] {
            for text in ["", "Row 1: _ _ #\nRöw", "Wörter \u{0} ✓ 漢字", "_ _"] {
                let tokens = tokenizer.encode(text);
                assert_eq!(tokenizer.decode(&tokens), text);
                assert!(tokens.iter().all(|&t| t > END && (t as usize) < tokenizer.vocab_size()));
            }
        }
    }

    #[test]
    fn specials_are_no_text() {
        assert_eq!(words(&[]).decode(&[PAD, 2 + b'a' as u32, END, 9999]), "a");
    }
}
