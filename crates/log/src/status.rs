//! How a run stands.

use serde::{Deserialize, Serialize};

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Running,
    Finished,
    Stopped,
    Failed(String),
}
