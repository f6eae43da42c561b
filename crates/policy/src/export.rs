//! What is written of a model for other programs.

use std::path::PathBuf;

/// The written part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportKind {
    /// A whole model.
    Model,
    /// An adapter alone.
    Adapter {
        /// The GGUF file that its base is, or the first of them.
        gguf: Option<PathBuf>,
    },
}
