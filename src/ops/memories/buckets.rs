//! Shared by `memory-update` and `novelty`: their entries are partitioned into buckets, and come back from the log when
//! a run is resumed.

use flow_credit::memory;
use flow_dataflow::Route;
use flow_pipeline::{Mistake, Node, Pipeline};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which entries share a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// Those of a task (EMPO2).
    #[default]
    Task,
    /// All.
    All,
}

impl Per {
    /// Which bucket a task's rows belong to.
    pub fn bucket(self, task: &str) -> u64 {
        match self {
            Per::Task => memory::bucket(task),
            Per::All => 0,
        }
    }

    /// The route to the worker that holds a row's bucket.
    pub fn route(self) -> Route {
        match self {
            Per::Task => Route::by(&["task"]),
            Per::All => Route::One,
        }
    }
}

/// The mistake of a node whose rows aren't logged; `why` completes the message.
pub fn unlogged(node: &Node, pipeline: &Pipeline, why: &str) -> Option<Mistake> {
    let mistake = || Mistake::in_node(node, &[], format!("`{}` {why}", node.id)).help(format!("name `{}` in `log`", node.id));
    (!pipeline.log.contains(&node.id)).then(mistake)
}
