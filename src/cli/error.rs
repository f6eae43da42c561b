//! Why a verb could not do its work. Errors keep their type up to here and become text once, in [`super::main`].

use super::colours::RED;
use flow_core::printable::{printable, shortened};
use flow_core::row::lines::Mistakes;
use flow_core::row::RowError;
use flow_dataflow::cluster::ClusterError;
use flow_dataflow::Failure;
use flow_env::EnvError;
use flow_log::LogError;
use flow_model::PolicyError;
use flow_pipeline::Diagnostics;
use flow_rollout::error::RolloutError;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// What every fallible function of the command line answers with.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The longest line of a message, in characters.
const LONGEST: usize = 2000;

/// An error, with a remedy where one is known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Mistakes in a pipeline, each with its place.
    #[error(transparent)]
    Pipeline(#[from] Diagnostics),
    /// Mistakes in a file of rows, each with its place.
    #[error(transparent)]
    Lines(#[from] Mistakes),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Env(#[from] EnvError),
    #[error(transparent)]
    Row(#[from] RowError),
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    #[error(transparent)]
    Run(#[from] Failure),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
    #[error(transparent)]
    Output(#[from] io::Error),
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
    /// A request that can't be met: an unknown name, or arguments that exclude one another.
    #[error("{0}")]
    Request(String),
    /// Another error, and where it happened.
    #[error("{place}: {error}")]
    At { place: String, error: Box<Error> },
    /// Another error, and what to do about it.
    #[error("{error}\n{help}")]
    Help { error: Box<Error>, help: String },
}

impl Error {
    /// A request that can't be met.
    pub fn request(why: impl Display) -> Error {
        Error::Request(why.to_string())
    }

    /// An error of the operating system on `path`.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |error| Error::File { path: path.into(), error }
    }

    /// This error, and where it happened.
    pub fn at(self, place: impl Display) -> Error {
        Error::At { place: place.to_string(), error: Box::new(self) }
    }

    /// This error, and what to do about it.
    pub fn help(self, help: impl Display) -> Error {
        Error::Help { error: Box::new(self), help: help.to_string() }
    }

    /// The text for a person. Diagnostics with a place have their own heading; the lines of other errors, which may
    /// quote the output of a model or a program, are shortened.
    pub fn text(&self) -> String {
        match self {
            Error::Pipeline(_) | Error::Lines(_) => self.to_string(),
            Error::Help { error, help } => format!("{}\n{help}", error.text().trim_end()),
            _ => format!("error: {self}").lines().map(|line| shortened(line, LONGEST)).collect::<Vec<_>>().join("\n"),
        }
    }
}

impl Error {
    /// The text as a terminal may show it, in its colours.
    pub fn styled(&self) -> String {
        match self {
            Error::Pipeline(diagnostics) => diagnostics.styled(),
            Error::Help { error, help } => format!("{}\n{}", error.styled().trim_end(), printable(help)),
            _ => match self.text().strip_prefix("error:") {
                Some(rest) => format!("{RED}error:{RED:#}{}", printable(rest)),
                None => printable(&self.text()).into_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_pipeline::{Code, Diagnostic};

    #[test]
    fn an_error_is_called_one_once() {
        let diagnostic = |message: &str| {
            let (file, help, source) = ("x.yaml".to_string(), None, None);
            Error::from(Diagnostics(vec![Diagnostic { code: Code::File, message: message.into(), file, line: 1, column: 1, help, source }]))
        };
        assert_eq!(diagnostic("no").text(), "error: no\n --> x.yaml\n");
        assert_eq!(diagnostic("no").help("look").text(), "error: no\n --> x.yaml\nlook");
        assert_eq!(Error::request("no").at("runs/a").help("look").text(), "error: runs/a: no\nlook");
    }
}
