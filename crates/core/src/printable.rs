//! Text that was made elsewhere (by a model, an environment, a file's author), as it may go to a terminal: what a
//! terminal would obey instead of show is written out, and what is too long to read is cut.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The text with its control characters written as `\u001b`; line ends and tabs stay. Marks that turn the direction of
/// writing count as control characters: they make text read as what it isn't. JSON keeps its meaning.
///
/// ```
/// # use flow_core::printable::printable;
/// assert_eq!(printable("a\x1b[31mb\n"), "a\\u001b[31mb\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) {
            // Writing to a text can't fail.
            let _ = write!(out, "\\u{:04x}", c as u32);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal obeys the character instead of showing it.
fn obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{061c}');
    c.is_control() && !matches!(c, '\n' | '\t') || turns
}

/// The first `most` characters, and how many more there were.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{} [{} more characters]", &text[..end], text[end..].chars().count())),
    }
}

/// A path quoted as one word of a shell command.
pub fn shell_word(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=:@%,".contains(c);
    match !path.is_empty() && path.chars().all(plain) {
        true => path.into(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

/// Writes its input, made printable. Bytes that are no text are written as `\xff`.
pub struct Printable<W: Write> {
    inner: W,
    /// The bytes of a character that isn't complete yet.
    partial: Vec<u8>,
}

impl<W: Write> Printable<W> {
    pub fn new(inner: W) -> Self {
        Printable { inner, partial: Vec::new() }
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        let mut rest = std::mem::take(&mut self.partial);
        loop {
            let error = match std::str::from_utf8(&rest) {
                Ok(text) => {
                    self.inner.write_all(printable(text).as_bytes())?;
                    return Ok(bytes.len());
                }
                Err(error) => error,
            };
            let valid = error.valid_up_to();
            self.inner.write_all(printable(&String::from_utf8_lossy(&rest[..valid])).as_bytes())?;
            let Some(invalid) = error.error_len() else {
                self.partial = rest.split_off(valid);
                return Ok(bytes.len());
            };
            for byte in &rest[valid..valid + invalid] {
                write!(self.inner, "\\x{byte:02x}")?;
            }
            rest.drain(..valid + invalid);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(printable("plain ü\n\t"), "plain ü\n\t");
        assert_eq!(
            printable("\x1b]0;t\x07 \0 \x7f \u{9b}2J \r \u{202e}x"),
            "\\u001b]0;t\\u0007 \\u0000 \\u007f \\u009b2J \\u000d \\u202ex"
        );
        let value = serde_json::json!({ "said": "\x1b\u{9b}\u{7f}" });
        let read: serde_json::Value = serde_json::from_str(&printable(&value.to_string())).unwrap();
        assert_eq!(read, value, "JSON means the same");
    }

    #[test]
    fn characters_that_arrive_in_pieces_are_whole() {
        let mut out = Printable::new(Vec::new());
        for byte in "é\u{9b}1\x1b".as_bytes() {
            out.write_all(&[*byte]).unwrap();
        }
        out.write_all(b"\xff\xc2x").unwrap();
        assert_eq!(String::from_utf8(out.inner).unwrap(), "é\\u009b1\\u001b\\xff\\xc2x");
    }

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(shortened("éèê", 3), "éèê");
        assert_eq!(shortened("éèê", 1), "é [2 more characters]");
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(shell_word("runs/a-2"), "runs/a-2");
        assert_eq!(shell_word("runs/my run"), "'runs/my run'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
