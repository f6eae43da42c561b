//! Texts that end an answer.

use flow_text::Tokenizer;

/// Tokens that are looked at besides as many as the longest text has bytes: some of them may be no text.
const MORE: usize = 8;

/// The texts, and the decoder of tokens.
#[derive(Clone, Copy)]
pub struct Stops<'a> {
    pub texts: &'a [String],
    pub tokenizer: &'a Tokenizer,
}

impl Stops<'_> {
    /// Whether the last of `tokens` completes one of the texts, which those before it don't have.
    pub fn completed(&self, tokens: &[u32]) -> bool {
        let Some(longest) = self.texts.iter().map(String::len).max() else { return false };
        let end = self.tokenizer.answer(&tokens[tokens.len().saturating_sub(longest + MORE)..]);
        self.texts.iter().any(|text| !text.is_empty() && end.contains(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_that_completes_a_text_ends_the_answer() {
        let tokenizer = Tokenizer::bytes();
        let texts = ["</a>".to_owned(), "STOP".into()];
        let stops = Stops { texts: &texts, tokenizer: &tokenizer };
        let answer = tokenizer.encode("<a>a long way to the door, <b></a> and on");
        let first = (1..=answer.len()).find(|&count| stops.completed(&answer[..count])).unwrap();
        assert_eq!(tokenizer.decode(&answer[..first]), "<a>a long way to the door, <b></a>");
        assert!(!Stops { texts: &[], tokenizer: &tokenizer }.completed(&answer));
    }
}
