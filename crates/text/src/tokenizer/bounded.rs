//! A `tokenizer.json` as the library `tokenizers` reads it, within bounds: a text grows by a known factor at most, and
//! takes seconds at most.

use super::growth;
use crate::limit::{limited, panicked};
use flow_core::guard::guarded;
use flow_model::folder::parse;
use tokenizers::{Encoding, TruncationParams};

/// Bytes that a text may come to in the normalizers. Each takes some twenty of memory.
const MOST: usize = 64 << 20;

/// A tokenizer that pads and cuts nothing.
pub struct BoundedTokenizer {
    /// What messages call it.
    name: String,
    /// What it was read as.
    pub inner: tokenizers::Tokenizer,
    factor: usize,
}

impl BoundedTokenizer {
    /// The tokenizer that `text` describes, called `name` in messages.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(name: &str, text: &str) -> Result<BoundedTokenizer, String> {
        let described = parse(text)?;
        let factor = growth::factor(&described)?;
        let parsed = limited(name, u64::MAX, || text.trim_start_matches('\u{feff}').parse());
        let inner: tokenizers::Tokenizer = parsed?.map_err(|e: tokenizers::Error| e.to_string())?;
        let mut read = BoundedTokenizer { name: name.into(), inner, factor };
        // The file may ask for a billion places.
        read.inner.with_padding(None);
        read.cut(None)?;
        Ok(read)
    }

    /// The same, which keeps the first `most` tokens of a text.
    ///
    /// # Errors
    /// If so few can't be kept.
    pub fn cut(&mut self, most: Option<usize>) -> Result<(), String> {
        let truncation = most.map(|max_length| TruncationParams { max_length, ..Default::default() });
        self.inner.with_truncation(truncation).map(drop).map_err(|e| e.to_string())
    }

    /// The tokens of `text`; if `whole`, with opening and closing tokens.
    ///
    /// # Errors
    /// If the text is too long.
    pub fn encode(&self, text: &str, whole: bool) -> Result<Encoding, String> {
        let most = MOST / self.factor;
        if text.len() > most {
            return Err(format!("a text of {} bytes is too long for this tokenizer, which takes {most}", text.len()));
        }
        limited(&self.name, u64::MAX, || self.inner.encode_fast(text, whole))?.map_err(|e| e.to_string())
    }

    /// The text of `tokens`; with `plain` without special ones.
    ///
    /// # Errors
    /// If the file's decoder can't decode them.
    pub fn decode(&self, tokens: &[u32], plain: bool) -> Result<String, String> {
        // Decoding takes so little time that it needs no limit.
        let decoded = guarded(|| self.inner.decode(tokens, plain)).map_err(|why| panicked(&self.name, &why));
        decoded?.map_err(|e| e.to_string())
    }
}
