//! What moved between two runs, as values.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How many rows two tables share by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RowCounts {
    pub both: u64,
    pub only_a: u64,
    pub only_b: u64,
}

/// A node that both runs logged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NodeDiff {
    pub node: String,
    pub rows: RowCounts,
    /// How many columns were compared beside the rows' names.
    pub compared: usize,
    /// In how many of the rows in both a column differs; columns that never do are left out.
    pub differ: BTreeMap<String, u64>,
    /// Columns that only one of the runs logged of it.
    pub columns_only_a: Vec<String>,
    pub columns_only_b: Vec<String>,
}

/// How the advantages of the rows in both moved from `a` to `b`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CreditDiff {
    pub node_a: String,
    pub node_b: String,
    pub rows: u64,
    /// Rows whose advantage isn't the same.
    pub moved: u64,
    /// By how much those moved, on average and at most, without sign.
    pub mean_move: Option<f64>,
    pub max_move: Option<f64>,
    /// Rows whose advantage was above 0 and is below it now, or the other way round.
    pub turned: u64,
    pub to_zero: u64,
    pub from_zero: u64,
    /// Pearson's, over all rows in both; none where one side is constant.
    pub correlation: Option<f64>,
    /// Whether the rows below moved the policy most, by `logit_grad`; else their advantages moved farthest.
    pub by_gradient: bool,
    /// Rows whose advantage moved, the most important first.
    pub up: Vec<Value>,
    pub down: Vec<Value>,
}

/// Rows that one run trained on and the other didn't, or left out for another reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsedDiff {
    pub node_a: String,
    pub node_b: String,
    pub changed: u64,
    /// What `used` says on either side, and of how many rows.
    pub kinds: Vec<Value>,
    /// The first of these rows.
    pub rows: Vec<Value>,
}
