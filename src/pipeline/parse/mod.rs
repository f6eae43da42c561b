//! Text to a tree that knows where each value stands, with overrides put in, and from places back to lines and columns. This is
//! the only code that knows YAML.

mod depth;
mod file;
mod overrides;
mod read;
mod report;
mod tree;

#[cfg(test)]
pub use file::MOST_BYTES;
pub use file::{refused, text_of};
pub use overrides::{apply, text};
pub use read::read;
pub use report::{listed, Report, Text};
pub use tree::{At, Entry, Shape, Tree};

use super::Pipeline;

impl Pipeline {
    /// The resolved pipeline as YAML: what a run keeps, and what reads back as the same pipeline.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(&self.source).unwrap_or_default()
    }
}
