//! English that is understood at the first reading: phrases that hide their subject are in no page, and in no comment
//! or text of `src` and of the other packages. Read from the files themselves, so that a new one is seen by its writer.

use std::path::{Path, PathBuf};

/// Phrases that are hard to read for engineers whose first language isn't English. Name the thing, its subject first:
/// "a file of which nothing is read" is "a file that isn't read". To add one, rewrite its last place first.
const UNCLEAR: &[&str] = &[
    "told apart",
    "what is told",
    "of which",
    "what stands",
    "what becomes",
    "becomes of",
    "whoever",
    "one's own",
    "be had",
    "but for",
    "those that",
    "is told",
    "are told",
    "was told",
    "were told",
    "is none of",
    "that is none",
    "that are none",
    "nobody",
    "of what",
    "by what",
    "from what",
    "to what",
    "with what",
    "than what",
    "in what",
    "for what",
    "on what",
    "behind what",
    "in which",
    "what learns",
    "what acts",
    "what follows",
    "what comes",
    "what plays",
    "what reads",
    "what says",
    "what makes",
    "what differs",
    "what was read",
    "what was written",
    "what was sampled",
    "what was committed",
    "what was done",
    "what was said",
    "what was seen",
    "what was there",
    "what was noted",
    "what was retrieved",
    "what was found",
    "what was computed",
    "what was drawn",
    "what was expected",
    // A setting in a table says what it is: a noun.
    "| who",
    "| whose",
    "| what is",
    "| what the",
    "| what it",
    "| what its",
    "| what a",
    "| what an",
    "| what acts",
];

/// Questions of a page or of a world may begin so.
const ASKED: &[&str] = &["in which town", "in which year", "in which region", "in which turn"];

/// The files below `folder` whose name ends with `.end`.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == end) => files.push(path),
                false => {}
            }
        }
    }
    files
}

/// What people read in a file, in lower case and on one line: of Rust the comments and the texts between quotes,
/// without the tests at its end; of Markdown all but blocks of code.
fn prose(text: &str, rust: bool) -> String {
    // A bar begins a cell of a page's table, and nothing in Rust.
    let text = match rust {
        true => text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().replace('|', "¦"),
        false => text.to_owned(),
    };
    let mut code = false;
    let read = |line: &str| {
        let fence = !rust && line.starts_with("```");
        code ^= fence;
        match line.strip_prefix("//") {
            _ if code || fence => String::new(),
            Some(comment) if rust => comment.trim_start_matches(['/', '!']).to_lowercase(),
            _ if rust => line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ¦ ").to_lowercase() + " ¦",
            _ => line.to_lowercase(),
        }
    };
    let lines: Vec<String> = text.lines().map(str::trim).map(read).collect();
    lines.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// Each place where one of `phrases` stands in `prose` as whole words, with the words around it.
fn unclear(prose: &str, phrases: &[&str]) -> Vec<String> {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    for phrase in phrases {
        for (at, _) in prose.match_indices(*phrase) {
            let (before, after) = (&prose[..at], &prose[at + phrase.len()..]);
            let asked = ASKED.iter().any(|asked| prose[at..].starts_with(*asked));
            if !asked && !inside(before.chars().next_back()) && !inside(after.chars().next()) {
                let last: Vec<&str> = before.trim_end().split(' ').rev().take(6).collect();
                let near: Vec<&str> = last.into_iter().rev().chain([*phrase]).chain(after.trim_start().split(' ').take(6)).collect();
                found.push(format!("`{phrase}`: ... {} ...", near.join(" ")));
            }
        }
    }
    found
}

#[test]
fn english_is_understood_at_the_first_reading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = files(&root.join("docs"), "md");
    all.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    assert!(all.len() > 15, "{all:?}");
    all.extend(["src", "crates"].iter().flat_map(|folder| files(&root.join(folder), "rs")));
    assert!(all.len() > 250, "{}", all.len());
    let mut found = Vec::new();
    for path in all {
        let prose = prose(&std::fs::read_to_string(&path).unwrap(), path.extension().is_some_and(|end| end == "rs"));
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        found.extend(unclear(&prose, UNCLEAR).into_iter().map(|place| format!("{name}: {place}")));
    }
    assert!(found.is_empty(), "name the thing, its subject first:\n{}", found.join("\n"));
}

/// The reader itself is held to what it should see.
#[test]
fn phrases_are_found_over_lines_and_in_no_code() {
    let rust = "/// A file of\n/// which nothing is read.\nlet of_which = \"Of which\"; // f\n#[cfg(test)]\nmod tests { // of which";
    assert_eq!(unclear(&prose(rust, true), &["of which"]).len(), 2);
    assert!(unclear("proof which of whichever", &["of which"]).is_empty());
    let page = "Rows in\nwhich. In which town?\n```sql\nin which\n```\n";
    assert_eq!(unclear(&prose(page, false), &["in which"]), ["`in which`: ... rows in which . in which town? ..."]);
}
