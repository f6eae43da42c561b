//! SentencePiece's table of replaced characters, as a `tokenizer.json` has it in base64: the bytes of a trie, and
//! behind them the texts that its leaves point to, each closed by a zero. The library that reads it trusts every number
//! in it.
//!
//! The trie is a double array of 32-bit units (Yata et al. 2007): a node's children lie at its place XOR their byte.

use base64::prelude::{Engine, BASE64_STANDARD};

/// The place of a unit's children, or of its leaf.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

/// The bytes of the longest text that takes a character's place.
///
/// # Errors
/// If the table is invalid, or leads out of itself.
pub fn longest(table: &str) -> Result<usize, String> {
    let broken = || "its precompiled_charsmap is damaged".to_string();
    let bytes = BASE64_STANDARD.decode(table).map_err(|_| broken())?;
    let (size, rest) = bytes.split_first_chunk().ok_or_else(broken)?;
    let size = u32::from_le_bytes(*size) as usize / 4 * 4;
    let (trie, texts) = rest.split_at_checked(size).ok_or_else(broken)?;
    let texts = std::str::from_utf8(texts).map_err(|_| broken())?;
    let units: Vec<u32> = trie.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    let mut seen = vec![false; units.len()];
    let mut open = vec![offset(*units.first().ok_or_else(broken)?)];
    while let Some(node) = open.pop() {
        // Any byte may be looked for here.
        if node | 255 >= units.len() {
            return Err(broken());
        }
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        for byte in 1..256usize {
            let unit = units[node ^ byte];
            if unit & (1 << 31 | 255) != byte as u32 {
                continue;
            }
            let next = node ^ byte ^ offset(unit);
            if unit & 1 << 8 != 0 {
                let text = units.get(next).map(|leaf| (leaf & !(1 << 31)) as usize);
                if !text.is_some_and(|at| texts.is_char_boundary(at)) {
                    return Err(broken());
                }
            }
            open.push(next);
        }
    }
    Ok(texts.split('\0').map(str::len).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::normalizers::precompiled::Precompiled;

    /// A table that replaces `a` by the text at `at`, in units as large as `size`.
    fn table(size: usize, at: u32, texts: &[u8]) -> String {
        let mut units = vec![0u32; size];
        units[b'a' as usize] = u32::from(b'a') | 1 << 8 | 1 << 10;
        units[b'a' as usize ^ 1] = 1 << 31 | at;
        let trie = units.iter().flat_map(|unit| unit.to_le_bytes());
        BASE64_STANDARD.encode([&(4 * size as u32).to_le_bytes()[..], &trie.collect::<Vec<u8>>(), texts].concat())
    }

    #[test]
    fn what_leads_out_of_the_table_is_refused() {
        let good = table(256, 3, b"xx\0bbb\0");
        assert_eq!(longest(&good), Ok(3));
        let read: Precompiled = serde_json::from_str(&format!(r#"{{"type":"Precompiled","precompiled_charsmap":"{good}"}}"#)).unwrap();
        assert_eq!(read.normalize_string("cab"), "cbbbb");
        let empty = BASE64_STANDARD.encode([0; 4]);
        let within = table(256, 1, "\u{e9}\0".as_bytes());
        for bad in ["AAAA", "", "?", &empty, &table(200, 0, b"x\0"), &table(256, 9, b"x\0"), &within, &table(256, 0, &[0xff])] {
            assert!(longest(bad).is_err(), "{bad}");
        }
    }
}
