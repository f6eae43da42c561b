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
    "whatever stands",
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

/// For these the field has other words, an environment and a CPU. They are in no Python package either.
const FOREIGN: &[&str] = &[
    "a world",
    "the world",
    "this world",
    "its world",
    "worlds",
    "a processor",
    "the processor",
    "this processor",
    "processors",
    "processor time",
    "make of processor",
];

/// Questions of a page or of an environment may begin so.
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

/// What people read in a file of Python, likewise: docstrings, comments and the texts between double quotes.
fn python_prose(text: &str) -> String {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        let quotes = line.matches("\"\"\"").count();
        lines.push(match line.strip_prefix('#') {
            _ if inside => line.to_lowercase(),
            Some(comment) => comment.to_lowercase(),
            None => {
                let (code, comment) = line.split_once("  # ").unwrap_or((line, ""));
                let texts: Vec<&str> = code.split('"').skip(1).step_by(2).chain(Some(comment).filter(|text| !text.is_empty())).collect();
                // A docstring may go on in the next line.
                texts.join(" ¦ ").to_lowercase() + if quotes == 1 { "" } else { " ¦" }
            }
        });
        inside ^= quotes % 2 == 1;
    }
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
    all.extend(["src", "crates", "papers/tool"].iter().flat_map(|folder| files(&root.join(folder), "rs")));
    assert!(all.len() > 250, "{}", all.len());
    let mut found = Vec::new();
    for path in all {
        let prose = prose(&std::fs::read_to_string(&path).unwrap(), path.extension().is_some_and(|end| end == "rs"));
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let places = unclear(&prose, UNCLEAR).into_iter().chain(unclear(&prose, FOREIGN));
        found.extend(places.map(|place| format!("{name}: {place}")));
    }
    let tests = root.join("python/tests");
    let python: Vec<PathBuf> = ["python", "benches"].iter().flat_map(|folder| files(&root.join(folder), "py")).collect();
    assert!(python.len() > 100, "{}", python.len());
    for path in python.iter().filter(|path| !path.starts_with(&tests)) {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let prose = python_prose(&std::fs::read_to_string(path).unwrap());
        found.extend(unclear(&prose, FOREIGN).into_iter().map(|place| format!("{name}: {place}")));
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
    let python = "def f(world):\n    \"\"\"Closes the\n    world.\"\"\"\n    # Of a world\n    a_world = \"the world\"  # a world\n    the = world\n";
    assert_eq!(unclear(&python_prose(python), &["a world", "the world"]).len(), 4);
}

/// The most words of a sentence in a page.
const LONGEST: usize = 30;

/// The sentences of a page: without code, tables, headings and the targets of links.
fn sentences(page: &str) -> Vec<String> {
    let mut code = false;
    let mut texts = vec![String::new()];
    for line in page.lines().map(str::trim) {
        let fence = line.starts_with("```");
        code ^= fence;
        if code || fence || line.is_empty() || line.starts_with(['|', '#', '-', '<']) || line.starts_with(|c: char| c.is_ascii_digit()) {
            texts.push(String::new());
        }
        if let (false, false, Some(last)) = (code || fence, line.starts_with(['|', '#', '<']), texts.last_mut()) {
            *last += line;
            last.push(' ');
        }
    }
    let spoken = |text: &String| {
        let words =
            text.split('`').enumerate().map(|(i, part)| if i % 2 == 1 { "code" } else { part }).collect::<String>().replace('*', "");
        words
            .split("](")
            .enumerate()
            .map(|(i, part)| if i == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) })
            .collect::<String>()
    };
    let ends = |text: String| text.replace(". ", ".\n").replace("? ", "?\n").replace("! ", "!\n").replace(": ", ":\n").replace("; ", ";\n");
    texts.iter().flat_map(|text| ends(spoken(text)).lines().map(String::from).collect::<Vec<_>>()).collect()
}

#[test]
fn sentences_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = files(&root.join("docs"), "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "AGENTS.md", "benches/README.md", "crates/README.md"].map(|name| root.join(name)));
    let (mut all, mut long) = (0, Vec::new());
    for page in pages.iter().filter(|page| !page.ends_with("docs/reference.md")) {
        for sentence in sentences(&std::fs::read_to_string(page).unwrap()) {
            let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            all += usize::from(words > 0);
            if words > LONGEST {
                long.push(format!("{}: {words} words: {sentence}", page.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(all > 1500, "only {all} sentences: are pages still read?");
    assert!(long.is_empty(), "split these sentences:\n{}", long.join("\n"));
    let read: Vec<String> = sentences("# A\n\nOne `x y` [two](a.md). Three\nfour: five\n\n| a | b |\n");
    let read: Vec<&str> = read.iter().map(|sentence| sentence.trim()).filter(|sentence| !sentence.is_empty()).collect();
    assert_eq!(read, ["One code [two.", "Three four:", "five"]);
}
