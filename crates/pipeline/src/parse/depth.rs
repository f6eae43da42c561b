//! Detects texts that are nested far too deep before the YAML scanner sees them.

use super::tree::Unreadable;

/// A person never has more brackets than this open at once. The scanner takes a time that grows with the square of
/// their number, so they are counted before it sees them.
const MOST_OPEN: usize = 400;

/// Where the nesting becomes hopeless, if it does: brackets that are never closed, or a line that begins many lists in
/// lists.
pub fn too_deep(text: &str) -> Option<Unreadable> {
    let mut open = 0usize;
    for (n, line) in text.lines().enumerate() {
        let mut begun = 0usize;
        let mut prefix = true;
        for (column, c) in line.chars().enumerate() {
            match c {
                '[' | '{' => open += 1,
                ']' | '}' => open = open.saturating_sub(1),
                _ => (),
            }
            prefix &= matches!(c, ' ' | '-' | '?' | ':');
            begun += usize::from(prefix && c != ' ');
            if open.max(begun) > MOST_OPEN {
                return Some(Unreadable { message: "values are nested too deeply".into(), line: n + 1, column: column + 1 });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::parse::{read, Tree};

    #[test]
    fn hopeless_nesting_is_refused_at_once() {
        let start = std::time::Instant::now();
        let many = 250 * 1024;
        for text in ["[", "{", "{a: ", "[a, ", "- ", "? ", "-\n ", "[\n", "\"[", "a: [\"", "&a [", "!a [", ": ", "[?", "{? ["] {
            let text = text.repeat(many / text.len());
            drop(read(&text, 0));
            assert!(start.elapsed().as_secs() < 20, "{:?}...", &text[..9]);
        }
        assert_eq!(read(&"[".repeat(many), 0).unwrap_err().message, "values are nested too deeply");
        let (tree, _) = read(&format!("text: '{}'", "[](){}".repeat(2000)), 0).unwrap();
        assert_eq!(tree.get("text").and_then(Tree::text).map(str::len), Some(12_000), "brackets that close are no nesting");
    }
}
