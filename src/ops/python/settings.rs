//! The settings of `python`.

use flow_model::FunctionSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of `python`: a function, and the rows that it gets together.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct PythonSettings {
    #[serde(flatten)]
    pub function: FunctionSettings,
    /// The columns whose equal values make a group: the function is called once a group, with all its rows of the
    /// iteration. Without them it is called once, with all rows.
    #[serde(default)]
    #[schemars(extend("default" = []))]
    pub by: Vec<String>,
    /// When it is called a second time with the rows in another order, to find what depends on a clock, on chance without
    /// a seed, or on the order of rows.
    #[serde(default)]
    pub check: Check,
}

/// When a function is called a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Until a call has made different values for some rows: in the first iteration, mostly.
    #[default]
    Once,
    /// In each iteration.
    Always,
    /// In none.
    Never,
}
