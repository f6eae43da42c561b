//! What can go wrong with a policy, told by the names of the rows it happened to.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What can go wrong with a policy. Rows are indices into what the caller handed over; [`PolicyError::told`] names them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PolicyError {
    NoModel(String),
    NoVersion {
        model: String,
        version: u64,
        kept: Vec<u64>,
    },
    Settings(String),
    Row {
        row: usize,
        what: String,
    },
    NotFinite {
        model: String,
        what: Cow<'static, str>,
        rows: Vec<usize>,
    },
    File {
        path: String,
        what: String,
    },
    Torch(String),
    /// Another process of the same run, and what is wrong with it.
    Peer(String),
    Gone,
}

/// So many rows are named; of the others only the number is told.
const NAMED: usize = 5;

impl PolicyError {
    /// The error in words, with `name` as the name of a row.
    pub fn told(&self, name: impl Fn(usize) -> String) -> String {
        match self {
            PolicyError::NoModel(model) => format!("there is no model called `{model}`"),
            PolicyError::NoVersion { model, version, kept } => {
                format!("model `{model}`: version {version} of the weights is no longer kept; kept: {kept:?}")
            }
            PolicyError::Settings(what) => what.clone(),
            PolicyError::Row { row, what } => format!("{}: {what}", name(*row)),
            PolicyError::NotFinite { model, what, rows } => {
                let named: Vec<String> = rows.iter().take(NAMED).map(|&row| name(row)).collect();
                let more = if rows.len() > NAMED { format!("; and {} more", rows.len() - NAMED) } else { String::new() };
                format!(
                    "{what} isn't a number, so `{model}` was not updated and its weights are as they were; rows: {}{more}",
                    named.join("; ")
                )
            }
            PolicyError::File { path, what } => format!("{path}: {what}"),
            PolicyError::Torch(what) => format!("libtorch: {what}"),
            PolicyError::Peer(what) => what.clone(),
            PolicyError::Gone => "the policy thread has ended".into(),
        }
    }
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.told(|row| format!("row {row}")))
    }
}

impl std::error::Error for PolicyError {}

impl From<tch::TchError> for PolicyError {
    fn from(error: tch::TchError) -> Self {
        PolicyError::Torch(first_line(&error.to_string()))
    }
}

/// An error of libtorch carries a C++ stack trace after its first line.
pub fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_by_their_names() {
        let name = |row| format!("task a, turn {row}");
        let error = PolicyError::NotFinite { model: "actor".into(), what: "the loss".into(), rows: (3..10).collect() };
        let told = error.told(name);
        assert!(told.contains("rows: task a, turn 3; ") && told.ends_with("task a, turn 7; and 2 more"), "{told}");
        assert_eq!(PolicyError::Row { row: 4, what: "it is empty".into() }.told(name), "task a, turn 4: it is empty");
        assert_eq!(PolicyError::Row { row: 4, what: "it is empty".into() }.to_string(), "row 4: it is empty");
    }
}
