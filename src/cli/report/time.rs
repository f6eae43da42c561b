//! Where the time went: the seconds that each node measured, and the rest.

use super::chart::number_of;
use super::source::ReportRun;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Seconds by node, slowest first, and what no node measured: the engine, the log, and nodes that don't measure. Nodes can work at the
/// same time, so together they may have worked longer than the run took; then the rest is none.
pub fn time(source: &ReportRun) -> Value {
    let mut nodes: BTreeMap<&str, f64> = BTreeMap::new();
    for (node, values) in source.manifest.committed.iter().flat_map(|i| &i.metrics) {
        if let Some(seconds) = values.get("seconds").filter(|s| s.is_finite()) {
            *nodes.entry(node).or_default() += seconds;
        }
    }
    let whole = source.seconds();
    let rest = (whole - nodes.values().sum::<f64>()).max(0.0);
    let mut nodes: Vec<(&str, f64)> = nodes.into_iter().collect();
    nodes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let nodes: Vec<Value> = nodes.into_iter().map(|(node, seconds)| json!([node, source.op(node), number_of(seconds)])).collect();
    json!({ "whole": number_of(whole), "rest": number_of(rest), "nodes": nodes })
}
