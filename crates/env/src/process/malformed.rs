//! What doesn't follow the protocol, in words.

use crate::{Cause, Fault};

/// The fault of a program that says what it may not.
pub(super) fn malformed(text: impl Into<String>) -> Fault {
    Fault::new(Cause::Malformed, text)
}

/// A JSON error without its place, which is always line 1.
pub(super) fn why(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line").next().unwrap_or_default().into()
}

/// The beginning of a line, for a message.
pub(super) fn quoted(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(400)]);
    let text = text.trim_end();
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{short}`")
}
