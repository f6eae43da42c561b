//! What a row must fit.

use flow_model::Sizes;
use std::sync::Arc;

/// What a row must fit to be read by a model.
#[derive(Clone)]
pub struct RowLimits {
    /// The model's sizes.
    pub sizes: Sizes,
    /// The tokens that close an answer.
    pub ends: Arc<[u32]>,
}
