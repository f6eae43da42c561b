//! Why a study could not be made.

use anstyle::{AnsiColor, Style};
use flow_core::printable::{printable, shortened};
use flow_pipeline::Diagnostics;
use std::fmt::{self, Display};
use std::path::Path;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The longest line of a message, in characters.
const LONGEST: usize = 2000;

const RED: Style = AnsiColor::Red.on_default().bold();

/// An error in words.
#[derive(Debug)]
pub struct Error {
    text: String,
    /// The same as a terminal shows it, if it has places in a file.
    located: Option<String>,
}

impl Error {
    /// A request that can't be met.
    pub fn request(why: impl Display) -> Error {
        Error { text: why.to_string(), located: None }
    }

    /// An error with places in a file, and the same as a terminal shows it.
    pub fn located(text: String, styled: String) -> Error {
        Error { text, located: Some(styled) }
    }

    /// An error of the operating system on `path`.
    pub fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |error| Error::request(format!("{}: {error}", path.display()))
    }

    /// This error, and where it happened.
    pub fn at(self, place: impl Display) -> Error {
        Error::request(format!("{place}: {}", self.text))
    }

    /// This error, and what to do about it.
    pub fn help(self, help: impl Display) -> Error {
        let with = |text: String| format!("{}\n{help}", text.trim_end());
        Error { text: with(self.text), located: self.located.map(with) }
    }

    /// The text as a terminal shows it, in its colours.
    pub fn styled(&self) -> String {
        let lines = || self.text.lines().map(|line| printable(&shortened(line, LONGEST)).into_owned()).collect::<Vec<_>>();
        self.located.clone().unwrap_or_else(|| format!("{RED}error:{RED:#} {}", lines().join("\n")))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Error {
        Error::located(diagnostics.to_string(), diagnostics.styled())
    }
}

impl From<flow_log::LogError> for Error {
    fn from(error: flow_log::LogError) -> Error {
        Error::request(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::request(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error::request(error)
    }
}
