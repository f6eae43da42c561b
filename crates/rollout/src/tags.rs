//! Text between tags, as in `<action>up</action>`: how a response marks its parts.

/// The tag that an action stands in where anything can be written.
pub const ACTION: &str = "action";

/// The tag that a reflection stands in, unless the agent's answer says otherwise.
pub const REMARK: &str = "remark";

/// The content of the last closed `<tag>` of a text, without the space around it; `None` without a closed tag.
pub fn read<'a>(tag: &str, text: &'a str) -> Option<&'a str> {
    let (open, close) = (open(tag), close(tag));
    let start = text.rfind(&open)? + open.len();
    let length = text[start..].find(&close)?;
    Some(text[start..start + length].trim())
}

/// The first number in a text, as it is written: digits with a point, and a minus that no word goes before. None where
/// that isn't a number that every reader reads alike, as in `1.2.3`, `1,000`, `1 000`, `- 3`, `0x10`, `10^3` and
/// `1e-3`, or is too large for a column.
pub fn number(text: &str) -> Option<&str> {
    let digit = text.find(|c: char| c.is_ascii_digit())?;
    let point = digit - usize::from(text[..digit].ends_with('.'));
    let minus = text[..point].ends_with('-') && !text[..point - 1].ends_with(|c: char| c.is_alphanumeric());
    let start = point - usize::from(minus);
    // A dash that stands apart, or isn't a keyboard's.
    let dash = |c: char| c == '-' || ('\u{2010}'..='\u{2015}').contains(&c) || c == '\u{2212}';
    let unclear = text[..start].trim_end().ends_with(dash) && !text[..start].ends_with('-');
    let rest = &text[digit..];
    let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let behind: Vec<char> = rest[length..].chars().take(4).collect();
    let digits = behind.iter().skip(1).take_while(|c| c.is_ascii_digit()).count();
    let goes_on = match behind.first() {
        Some(',' | '\'' | '\u{2019}' | '\u{66b}' | '\u{66c}' | '^' | '_') => digits > 0,
        Some('e' | 'E') => digits > 0 || behind.get(1).is_some_and(|c| "+-".contains(*c)),
        Some('x' | 'X') => rest[..length] == *"0",
        Some(' ' | '\u{a0}' | '\u{202f}') => digits == 3,
        _ => false,
    };
    let number = text[start..digit + length].trim_end_matches('.');
    (!unclear && !goes_on && number.parse::<f32>().is_ok_and(f32::is_finite)).then_some(number)
}

/// The text before the last `<tag>`, without the space around it; nothing without a tag.
pub fn before<'a>(tag: &str, text: &'a str) -> &'a str {
    text.rfind(&open(tag)).map_or("", |at| text[..at].trim())
}

/// The text in the tag.
pub fn write(tag: &str, text: &str) -> String {
    format!("{}{text}{}", open(tag), close(tag))
}

/// `<tag>`.
pub fn open(tag: &str) -> String {
    format!("<{tag}>")
}

/// `</tag>`.
pub fn close(tag: &str) -> String {
    format!("</{tag}>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_closed_tag_counts() {
        assert_eq!(read("action", "<action>up</action> or <action> down </action>"), Some("down"));
        assert_eq!(read("action", "<action>up"), None);
        assert_eq!(read("action", "</action><action>"), None);
        assert_eq!(read("remark", "<action>up</action>"), None);
        assert_eq!((before("action", " so <action>up</action>"), before("action", "up")), ("so", ""));
        assert_eq!(read("action", &write("action", "left")), Some("left"));
    }
}
