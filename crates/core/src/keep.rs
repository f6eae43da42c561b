//! `keep`: which old versions of the weights stay on disk, as a pipeline and the manifest of its run say it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which versions of the weights stay. The start stays always, and so does what a stopped run needs to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WeightRetention {
    /// Those of this many iterations, the newest.
    #[schemars(range(min = 1))]
    pub last: u64,
    /// Those of every n-th iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub every: Option<u64>,
    /// The versions that did best on a frozen panel (an `evaluate` node's success).
    pub best: bool,
}

impl Default for WeightRetention {
    fn default() -> Self {
        WeightRetention { last: 1, every: None, best: false }
    }
}

impl WeightRetention {
    /// What the pipeline language says of it.
    pub fn schema() -> Value {
        schemars::schema_for!(WeightRetention).to_value()
    }
}
