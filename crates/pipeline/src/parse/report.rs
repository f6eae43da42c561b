//! Collects the diagnostics of all checks: locations become lines and columns here, and misspelt names get the nearest
//! valid ones.

use super::read::{locate, read};
use super::tree::{Location, Spot, Tree, Unreadable};
use crate::{Code, Diagnostic, Diagnostics};

/// No one mends more mistakes than this at once, and it bounds the time that a hopeless file can take.
const MOST_FOUND: usize = 100;

/// More right names than this are not listed.
const MOST_LISTED: usize = 80;

/// Names longer than this are not compared with others.
const LONGEST_NAME: usize = 64;

/// A text that places point into.
#[derive(Clone, Debug)]
pub struct Text {
    /// What messages call it.
    pub name: String,
    pub text: String,
    /// Where the YAML starts in it, in bytes: after the `=` of an override.
    pub yaml: usize,
}

/// All that was found so far.
pub struct Report<'a> {
    texts: &'a [Text],
    diagnostics: Vec<(usize, Diagnostic)>,
    /// The kind of the mistakes that are looked for now.
    code: Code,
}

impl<'a> Report<'a> {
    pub fn new(texts: &'a [Text]) -> Self {
        Report { texts, diagnostics: Vec::new(), code: Code::File }
    }

    /// From here on mistakes are of this kind; gives the kind before.
    pub fn kind(&mut self, code: Code) -> Code {
        std::mem::replace(&mut self.code, code)
    }

    /// How many mistakes were found so far.
    pub fn len(&self) -> usize {
        self.diagnostics.len()
    }

    /// One more mistake, at a place.
    pub fn add(&mut self, at: Location, message: impl Into<String>, help: Option<String>) {
        if self.diagnostics.len() < MOST_FOUND {
            let (line, column) = self.position(at);
            self.put(at.text, line, column, message.into(), help);
        }
    }

    /// The tree of a text, with every key that stands twice reported; none, and why, if it can't be read.
    pub fn read(&mut self, text: usize) -> Option<Tree> {
        let before = self.kind(Code::Yaml);
        let tree = self.tree(text);
        self.kind(before);
        tree
    }

    fn tree(&mut self, text: usize) -> Option<Tree> {
        let texts = self.texts;
        let (tree, duplicates) = read(&texts[text].text, text).map_err(|error| self.unreadable(text, error)).ok()?;
        for duplicate in duplicates {
            let help = format!("the first is in line {}", self.line(duplicate.first));
            self.add(duplicate.at, format!("the key `{}` stands here twice", duplicate.key), Some(help));
        }
        Some(tree)
    }

    /// A text that isn't YAML.
    pub fn unreadable(&mut self, text: usize, error: Unreadable) {
        let (mut line, mut column) = self.shift(text, error.line, error.column);
        // What is missing at the end is missing behind the last character.
        let lines: Vec<&str> = self.texts[text].text.lines().collect();
        if line > lines.len() {
            line = lines.len().max(1);
            column = lines.last().map_or(0, |l| l.chars().count()) + 1;
        }
        let shown = self.texts[text].text.lines().nth(line - 1).unwrap_or_default();
        let help = if shown.contains('\t') {
            Some("YAML is indented with spaces, not with tabs".into())
        } else {
            error.message.contains("alias").then(|| "`*name` repeats the value that `&name` marked before it".into())
        };
        self.put(text, line, column, error.message, help);
    }

    /// The line of a place, from 1.
    pub fn line(&self, at: Location) -> usize {
        self.position(at).0
    }

    /// Help for a wrong name: the nearest right one, or all of them when they are few.
    pub fn nearest<'n>(&self, word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
        let names: Vec<&str> = names.into_iter().collect();
        match self.guess(word, names.iter().copied()) {
            Some(name) => Some(format!("did you mean `{name}`?")),
            None if (1..=MOST_LISTED).contains(&names.len()) => {
                Some(format!("there {} {}", if names.len() == 1 { "is" } else { "are" }, listed(&names, "and")))
            }
            None => None,
        }
    }

    /// The right name that somebody who wrote `word` probably meant.
    pub fn guess<'n>(&self, word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        if self.diagnostics.len() >= MOST_FOUND || word.len() > LONGEST_NAME {
            return None;
        }
        // A name that is right elsewhere is no help here.
        let near = |name: &&str| name.len() <= LONGEST_NAME && *name != word;
        let scored = names.into_iter().filter(near).map(|name| (strsim::damerau_levenshtein(word, name), name));
        scored.filter(|(distance, name)| *distance <= 1 + name.len() / 3 && *distance < name.len()).min().map(|(_, name)| name)
    }

    /// Everything found, in the order of the text, nothing twice.
    pub fn finish(self) -> Diagnostics {
        let mut diagnostics = self.diagnostics;
        diagnostics.sort_by_key(|(text, d)| (*text, d.line, d.column));
        let mut out: Vec<Diagnostic> = Vec::with_capacity(diagnostics.len());
        for (_, diagnostic) in diagnostics {
            // Two checks may find one mistake, and help in other words.
            let same = |other: &Diagnostic| {
                (&other.message, &other.file, other.line, other.column)
                    == (&diagnostic.message, &diagnostic.file, diagnostic.line, diagnostic.column)
            };
            if !out.iter().any(same) {
                out.push(diagnostic);
            }
        }
        Diagnostics(out)
    }

    fn put(&mut self, text: usize, line: usize, column: usize, message: String, help: Option<String>) {
        let Text { name, text: whole, .. } = &self.texts[text];
        let source = Some(whole.lines().nth(line - 1).unwrap_or_default().to_string());
        self.diagnostics.push((text, Diagnostic { code: self.code, message, file: name.clone(), line, column, help, source }));
    }

    fn position(&self, at: Location) -> (usize, usize) {
        match at.spot {
            Spot::Character(column) => (1, column + 1),
            Spot::Number(number) => {
                let (line, column) = locate(&self.texts[at.text].text[self.texts[at.text].yaml..], number);
                self.shift(at.text, line, column)
            }
        }
    }

    fn shift(&self, text: usize, line: usize, column: usize) -> (usize, usize) {
        let Text { text, yaml, .. } = &self.texts[text];
        let before = if line == 1 { text[..*yaml].chars().count() } else { 0 };
        (line, column + before)
    }
}

/// `a`, `b` and `c`, each in backquotes.
pub fn listed<S: AsRef<str>>(names: &[S], last: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|n| format!("`{}`", n.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}
