//! Diagnostics: mistakes, each with its place in the text.

use crate::Code;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use flow_core::printable::{printable, shortened};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The number of mistakes that are shown; the others are counted.
const MOST: usize = 100;

/// The longest message, in characters.
const LONGEST: usize = 2000;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnostic {
    /// Its kind: `flow explain KIND` says more of it.
    pub code: Code,
    pub message: String,
    /// The file, or `--set path` for an override.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub help: Option<String>,
    /// The line of text itself; none when there is no text, as for a file that cannot be opened.
    #[serde(skip)]
    pub source: Option<String>,
}

/// Every mistake found, in the order of the file. Displayed with the source line and a caret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered(&Renderer::plain()))
    }
}

impl Diagnostics {
    /// Rendered in the colours of a terminal.
    pub fn styled(&self) -> String {
        self.rendered(&Renderer::styled())
    }

    fn rendered(&self, renderer: &Renderer) -> String {
        let mut all: Vec<String> = self.0.iter().take(MOST).map(|d| d.rendered(renderer) + "\n").collect();
        if let more @ 1.. = self.0.len().saturating_sub(MOST) {
            all.push(format!("and {more} more\n"));
        }
        all.join("\n")
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered(&Renderer::plain()))
    }
}

impl Diagnostic {
    fn rendered(&self, renderer: &Renderer) -> String {
        let brief = |text: &str| shortened(&printable(text), LONGEST).into_owned();
        let (message, file) = (brief(&self.message), brief(&self.file));
        let help = self.help.as_deref().map(brief);
        let Some(line) = &self.source else {
            let help = help.map(|help| format!("\n  = help: {help}")).unwrap_or_default();
            return format!("error: {message}\n --> {file}{help}");
        };
        let mark = AnnotationKind::Primary.span(token(line, self.column, self.file.starts_with("--set ")));
        let snippet = Snippet::source(line.as_str()).line_start(self.line).path(file.as_str()).annotation(mark);
        let help = help.iter().map(|help| Level::HELP.message(help.as_str()));
        let group = Level::ERROR.primary_title(message.as_str()).element(snippet).elements(help);
        renderer.render(&[group])
    }
}

/// The bytes of the word or the quoted text that starts at `column` of `line`.
fn token(line: &str, column: usize, set: bool) -> std::ops::Range<usize> {
    let start = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(i, _)| i);
    // Before its `=`, an override is a path, and one step of it is meant.
    let path = set && line.find('=').is_none_or(|equals| start < equals);
    let rest = &line[start..];
    let length = match rest.chars().next() {
        None => 0,
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.trim_end().len(), |i| i + 2),
        Some(first) => {
            let end = rest.find(|c: char| c.is_whitespace() || ",:[]{}=".contains(c) || path && c == '.').unwrap_or(rest.len());
            end.max(first.len_utf8())
        }
    };
    start..start + length
}
