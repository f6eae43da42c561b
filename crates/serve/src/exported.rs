//! Weights that were written for servers.

/// What a server computes a version with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// An adapter that it loads.
    Adapter,
    /// All weights of a model, in place of its own.
    Whole,
    /// The weights that it was started with: nothing is sent.
    Own,
}

/// Weights that were written for servers.
pub struct ExportedWeights {
    /// What it is called, and its folder: the model, the version, and a hash of its content.
    pub name: String,
    /// The versions that may still be requested.
    pub versions: Vec<u64>,
    /// What they are.
    pub kind: Weights,
}

/// The parts of a ready version: the weights that were written into a folder, and the learner's log-probabilities of a
/// prompt from its second token on.
pub type Exported = (ExportedWeights, Vec<f32>);
