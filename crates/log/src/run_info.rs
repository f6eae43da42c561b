//! What a run is about to do: the part of its manifest that never changes.

use flow_core::keep::WeightRetention;
use flow_core::role::Role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run as it was begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    pub name: String,
    /// The logged nodes, in topological order.
    pub nodes: Vec<NodeInfo>,
    /// How many iterations are planned.
    pub iterations: u64,
    pub seed: u64,
    /// Which old weights are kept.
    pub keep: WeightRetention,
    /// How many iterations back a delayed edge looks, at most: weights as old as that are needed to resume.
    pub delay: u64,
    /// [`flow_core::seed::text`] of `pipeline.yaml`: [`super::Run::create`] fills it in.
    pub pipeline: u64,
    /// Where its folder was when it began: files that `pipeline.yaml` names are looked for from there, too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
    /// What its models were computed on when it began: `cpu`, or `cuda` and the GPU's name. Empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Which weights act (`own`, `int8` or `f32`, as the setting `act` of a model), by model for which the run decided
    /// it when it began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub acting: BTreeMap<String, String>,
    /// The level of reproducibility: `L0`, `L1` or `L2`, with its meaning. Empty where it has no models.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub promise: String,
    /// The run whose rows this one repeats, if it plays none itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<Replays>,
}

/// Rows of another run in place of played ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replays {
    /// The folder of that run, as it was named.
    pub run: String,
    /// Node here -> the node there whose rows it has.
    pub nodes: BTreeMap<String, String>,
}

/// A logged node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeInfo {
    pub id: String,
    pub op: String,
    /// What its operator is there for; of a loop, what that of its output is. None if the operator isn't known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The columns it logs. They give a node without rows its empty table; may be left empty.
    pub columns: Vec<String>,
    /// The nodes that its rows came through, logged or not.
    pub upstream: Vec<String>,
}

impl NodeInfo {
    /// Whether the node's rows stand apart from the training's: those of a frozen panel, or tasks.
    pub(super) fn apart(&self) -> bool {
        self.role.is_some_and(Role::apart)
    }
}
