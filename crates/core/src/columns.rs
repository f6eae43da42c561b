//! Texts in columns, for a person.

/// The lines with each cell as wide as its column; `right` says which columns end below one another. Lines have no
/// trailing spaces.
pub fn aligned<S: AsRef<str>>(lines: &[impl AsRef<[S]>], right: &[bool]) -> Vec<String> {
    let widths = widths(lines, right.len());
    let cell = |(text, (width, right)): (&S, (&usize, &bool))| match right {
        true => format!("{:>width$}", text.as_ref()),
        false => format!("{:<width$}", text.as_ref()),
    };
    let line = |line: &[S]| line.iter().zip(widths.iter().zip(right)).map(cell).collect::<Vec<_>>().join("  ");
    lines.iter().map(|cells| line(cells.as_ref()).trim_end().to_owned()).collect()
}

/// How wide each of so many columns is, in characters.
pub fn widths<S: AsRef<str>>(lines: &[impl AsRef<[S]>], columns: usize) -> Vec<usize> {
    let width = |c: usize| lines.iter().filter_map(|line| Some(line.as_ref().get(c)?.as_ref().chars().count())).max().unwrap_or(0);
    (0..columns).map(width).collect()
}

/// One line of at most `most` characters: line ends show as a mark, and `…` says that there was more.
pub fn cut(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if c == '\n' { '⏎' } else { c }).collect();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_one_another() {
        let lines = [["name", "n"], ["é", "10"], ["longer", "7"]];
        assert_eq!(aligned(&lines, &[false, true]), ["name     n", "é       10", "longer   7"]);
        assert_eq!(aligned(&lines, &[false, false])[0], "name    n");
        assert_eq!((cut("a\nb", 3), cut("abcd", 3)), ("a⏎b".into(), "ab…".into()));
    }
}
