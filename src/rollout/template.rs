//! The prompt of a reflection: a text with places in it, which an episode fills.

use super::{notes, tags};

/// What a template can ask for, with what that is.
pub const PLACES: [(&str, &str); 6] = [
    ("rules", "the rules of the game"),
    ("memory", "what was told of earlier attempts"),
    ("attempt", "the number of the attempt, from 1"),
    ("first", "what was seen first"),
    ("actions", "what was done, in order"),
    ("last", "what was seen in the end"),
];

/// The template where none is given: for small policies trained from nothing.
pub const TEMPLATE: &str = "{memory}{first}\nAttempt {attempt}: {actions}\n{last}\nReflect:";

/// The template with its places filled, in one pass: what a place holds is no template. The fillings are in the order of [`PLACES`].
pub fn fill(template: &str, fillings: [&str; PLACES.len()]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let place = PLACES.iter().zip(fillings).find(|((name, _), _)| rest[1..].starts_with(&format!("{name}}}")));
        let length = place.map_or(1, |((name, _), _)| name.len() + 2);
        text.push_str(place.map_or("{", |(_, filling)| filling));
        rest = &rest[length..];
    }
    text + rest
}

/// The first name in braces that is no place, if there is one.
pub fn stranger(template: &str) -> Option<&str> {
    let names = template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let mut words = names.filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    words.find(|name| PLACES.iter().all(|(place, _)| place != name))
}

/// The words of this template and of the tag, for a vocabulary.
pub fn words(template: &str, tag: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = tag.into_iter().flat_map(|tag| [tags::open(tag), tags::close(tag)]).collect();
    words.extend(notes::words());
    let mut text = template.to_owned();
    for (place, _) in PLACES {
        text = text.replace(&format!("{{{place}}}"), "\u{0}");
    }
    // Whole stretches of a short template cost a token each; of a long one each word does.
    for stretch in text.split('\u{0}').filter(|stretch| !stretch.is_empty()) {
        if stretch.len() <= 16 {
            words.push(stretch.into());
        } else {
            words.extend(stretch.split_whitespace().flat_map(|word| [word.to_owned(), format!(" {word}")]));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_once() {
        let fillings = ["rules", "{first}\n", "2", "A", "up; left", "Z"];
        assert_eq!(fill(TEMPLATE, fillings), "{first}\nA\nAttempt 2: up; left\nZ\nReflect:", "what a place holds is no template");
        assert_eq!(fill("{ {nothing} {last", fillings), "{ {nothing} {last");
    }

    #[test]
    fn what_is_no_place_is_found() {
        assert_eq!(stranger("{first} {a b} {}"), None);
        assert_eq!(stranger("{first} {lats} {frist}"), Some("lats"));
    }
}
