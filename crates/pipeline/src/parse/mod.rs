//! Text to a tree that knows where each value stands, with overrides put in, and from places back to lines and columns.
//! This is the only code that knows YAML.

mod depth;
mod each;
mod family;
mod file;
mod merge;
mod overrides;
mod read;
mod report;
mod tree;

pub use family::{family, family_tree, Lineage};
#[cfg(test)]
pub use file::MOST_BYTES;
pub use file::{refused, text_of};
pub use overrides::{apply, text};
pub use read::read;
pub use report::{listed, Report, Text};
pub use tree::{Location, Shape, Tree, TreeEntry};

use super::Pipeline;
use std::path::Path;

impl Pipeline {
    /// The resolved pipeline as YAML, for a file in `folder`: a run keeps it there, and it reads back from there as the
    /// same pipeline.
    pub fn to_yaml(&self, folder: &Path) -> String {
        serde_yaml::to_string(&self.source_in(folder)).unwrap_or_default()
    }
}
