//! What a run is doing, as `flow top` shows it: the readings of all stages, summarised by node.

use super::monitor::Owner;
use super::watch::StageReading;
use flow_core::files;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::Path;

/// The status file in the run's folder. It exists while the run is going on.
pub const STATUS: &str = "status.json";

/// What a run is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Activity {
    /// The process id, while the process lives.
    pub process: Option<u32>,
    /// How long it has been running.
    pub seconds: f64,
    pub iterations: u64,
    /// The iteration that is committed next: those before it are.
    pub next: u64,
    /// The oldest iteration that some node holds, and which.
    pub oldest: Option<HeldIteration>,
    /// In the order of the pipeline; then the engine's own.
    pub nodes: Vec<NodeActivity>,
    /// The policy thread, if there is one.
    pub policy: Option<PolicyActivity>,
    /// The watchdog's warnings.
    pub warnings: Vec<String>,
}

/// An iteration that is not complete, and the node that holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HeldIteration {
    pub iteration: u64,
    pub node: String,
}

/// What a node is doing, over all workers: the state of the worker that is furthest behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NodeActivity {
    pub node: String,
    /// Whether it is a part of the engine and no node of the pipeline.
    pub engine: bool,
    pub state: NodeState,
    /// The oldest iteration that it is working on or buffering.
    pub iteration: Option<u64>,
    /// For how long it has been working on that iteration.
    pub running_seconds: Option<f64>,
    pub waits_for: Vec<String>,
    /// Rows emitted; 0 for the engine's own stages.
    pub rows: u64,
    /// Summed over workers.
    pub busy_seconds: f64,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Running,
    /// It holds an iteration and waits for its inputs.
    Waiting,
    /// It holds nothing.
    #[default]
    Idle,
}

/// What the policy thread is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PolicyActivity {
    pub busy_seconds: f64,
    /// The share of the run's time.
    pub busy_share: f64,
    /// The time its current job has taken so far.
    pub running_seconds: Option<f64>,
    /// Jobs that wait.
    pub queue: u64,
}

/// Replaces the file atomically. A failure to write is ignored: the file only serves observers.
pub(super) fn write(path: &Path, activity: &Activity) {
    let temporary = path.with_extension("json.tmp");
    let written = serde_json::to_vec(activity).map_err(std::io::Error::from).and_then(|text| files::create(&temporary)?.write_all(&text));
    let _ = written.and_then(|()| fs::rename(&temporary, path));
}

/// Summarises the readings by owner, nodes before the engine's own stages, and finds who holds the oldest iteration.
pub(super) fn summarize(readings: &[StageReading]) -> (Option<HeldIteration>, Vec<NodeActivity>) {
    let mut all: Vec<NodeActivity> = Vec::new();
    let owners: Vec<&Owner> = readings.iter().map(|r| &r.owner).collect();
    for (i, owner) in owners.iter().enumerate().filter(|(i, owner)| !owners[..*i].contains(owner)) {
        let own: Vec<&StageReading> = readings[i..].iter().filter(|r| r.owner == **owner).collect();
        // A running worker takes precedence over a waiting one, then the oldest iteration.
        let most = own.iter().filter(|r| r.iteration.is_some()).min_by_key(|r| (r.running.is_none(), r.iteration));
        let engine = matches!(owner, Owner::Engine(_));
        all.push(NodeActivity {
            node: owner.name().into(),
            engine,
            state: most.map_or(NodeState::Idle, |r| if r.running.is_some() { NodeState::Running } else { NodeState::Waiting }),
            iteration: most.and_then(|r| r.iteration),
            running_seconds: most.and_then(|r| r.running).map(|r| r.as_secs_f64()),
            waits_for: most.map(|r| r.waits_for.clone()).unwrap_or_default(),
            rows: if engine { 0 } else { own.iter().map(|r| r.rows).sum() },
            busy_seconds: own.iter().map(|r| r.busy.as_secs_f64()).sum(),
        });
    }
    all.sort_by_key(|n| n.engine);
    let oldest = readings.iter().filter_map(|r| Some((r.iteration?, r.waits_for.len(), &r.owner))).min();
    (oldest.map(|(iteration, _, owner)| HeldIteration { iteration, node: owner.name().into() }), all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn nodes_are_told_by_their_furthest_behind() {
        let second = Duration::from_secs(1);
        let group = StageReading { stage: "group".into(), owner: Owner::Node("group".into()), busy: second, ..StageReading::default() };
        let running = StageReading { iteration: Some(4), running: Some(second), ..group.clone() };
        let waiting =
            StageReading { stage: "group sizes".into(), iteration: Some(3), waits_for: vec!["group".into()], rows: 5, ..group.clone() };
        let log = StageReading {
            stage: "the log of group".into(),
            owner: Owner::Engine("the log"),
            iteration: Some(2),
            waits_for: vec!["group".into()],
            ..StageReading::default()
        };
        let (oldest, nodes) = summarize(&[log, waiting, running]);
        assert_eq!(oldest, Some(HeldIteration { iteration: 2, node: "the log".into() }));
        assert_eq!(nodes.iter().map(|n| n.node.as_str()).collect::<Vec<_>>(), ["group", "the log"]);
        assert_eq!((nodes[0].state, nodes[0].iteration, nodes[0].running_seconds), (NodeState::Running, Some(4), Some(1.0)));
        assert_eq!((nodes[0].rows, nodes[0].busy_seconds), (5, 2.0));
        assert_eq!((nodes[1].state, nodes[1].iteration), (NodeState::Waiting, Some(2)));
    }
}
