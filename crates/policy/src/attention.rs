//! The ways to cut the attention of a pass.

/// How attention is cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionLayout {
    /// Few full blocks.
    Packed,
    /// A node's bits depend on the tokens before it alone.
    PerSequence,
}
