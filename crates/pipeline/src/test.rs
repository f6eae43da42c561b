//! A test that a pipeline brings along.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One test: with these rows as the output of some nodes, other nodes must make those rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// What is tested, in words.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// Files of rows by node, relative to the pipeline: JSON lines that replace the node's output.
    #[schemars(extend("minProperties" = 1))]
    pub feed: BTreeMap<String, PathBuf>,
    /// Files of rows by node, relative to the pipeline: what it must make. Only the columns that a row names are
    /// compared.
    #[schemars(extend("minProperties" = 1))]
    pub expect: BTreeMap<String, PathBuf>,
    /// By how much a float may be off; where more than 1 is expected, by this times as much. Everything else must be
    /// equal.
    #[serde(default = "usual")]
    #[schemars(range(min = 0.0))]
    pub tolerance: f64,
}

fn usual() -> f64 {
    1e-6
}

impl Test {
    pub(super) fn schema() -> Value {
        schemars::schema_for!(Test).to_value()
    }
}
