//! What is written of a model for other programs.

/// The written part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportKind {
    /// A whole model.
    Model,
    /// An adapter alone.
    Adapter,
}
