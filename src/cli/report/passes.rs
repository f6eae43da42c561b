//! pass@k as bars, and the charts of what was measured on the rows.

use super::chart::{line, number_of, Chart, Series};
use super::measured::{RunMeasurements, SEED};
use super::source::Experiment;
use crate::stats::{over_seeds, pass_interval, Interval};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};

/// For each node whose trials have several attempts: pass@1, 2, ... of every family, the last time that each of its runs measured it.
pub fn passes(families: &[Experiment], measured: &[RunMeasurements]) -> Vec<Value> {
    let nodes: BTreeSet<&String> = measured.iter().flat_map(|m| m.trials.keys()).collect();
    nodes.into_iter().filter_map(|node| bars(node, families, measured)).collect()
}

fn bars(node: &str, families: &[Experiment], measured: &[RunMeasurements]) -> Option<Value> {
    let most = measured.iter().filter_map(|m| m.attempts.get(node)).max().copied().unwrap_or(0);
    if most < 2 {
        return None;
    }
    let of_family = |(number, family): (usize, &Experiment)| {
        let last: Vec<_> = family.runs.iter().filter_map(|r| measured[*r].trials.get(node)?.last_key_value()).collect();
        let (iteration, trials) = last.last()?;
        let at = |k: u32| {
            let each: Vec<Interval> = last.iter().map(|(_, trials)| pass_interval(trials, k, SEED)).collect();
            let values: Vec<f64> = each.iter().map(|i| i.value).collect();
            let interval = over_seeds(&values).unwrap_or(each[0]);
            json!([number_of(interval.value), number_of(interval.low), number_of(interval.high)])
        };
        let band = if last.len() > 1 {
            format!("mean of {} seeds, 95% interval (Student's t)", last.len())
        } else {
            "95% interval over tasks (bootstrap)".into()
        };
        Some(json!({
            "family": number, "label": family.label, "iteration": iteration, "trials": trials.len(), "band": band,
            "k": (1..=most).map(at).collect::<Vec<_>>(),
        }))
    };
    let lines: Vec<Value> = families.iter().enumerate().filter_map(of_family).collect();
    Some(json!({ "node": node, "most": most, "families": lines }))
}

/// A figure of every run by node, taken out of what was measured.
type Pick = fn(&RunMeasurements) -> &BTreeMap<String, Series>;

const CHARTS: [(&str, &str, &str, Pick); 4] = [
    ("Exploration degree", "%", "Of the states that an episode was in, the share that it was in more than once (EAPO, D.7.4).", |m| {
        &m.exploration
    }),
    (
        "Trajectory diversity",
        "nats",
        "Entropy of the distinct trajectories (states and actions) of a task, averaged over tasks (LaMer, section 5).",
        |m| &m.diversity,
    ),
    ("Rows a group", "rows", "Mean number of rows that are compared with one another.", |m| &m.group_size),
    ("Rows with nobody to compare them with", "%", "Share of rows that are alone in their group.", |m| &m.alone),
];

/// Exploration, groups and returns by attempt over the iterations.
pub fn charts(families: &[Experiment], measured: &[RunMeasurements]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (title, unit, about, pick) in CHARTS {
        let nodes: BTreeSet<&String> = measured.iter().flat_map(|m| pick(m).keys()).collect();
        let several = nodes.len() > 1;
        for node in nodes {
            let figures: Vec<Series> = measured.iter().map(|m| pick(m).get(node).cloned().unwrap_or_default()).collect();
            let lines: Vec<Value> = families.iter().enumerate().filter_map(|f| line(f, None, &figures, &[])).collect();
            let title = if several { format!("{title} ({node})") } else { title.to_string() };
            let about = format!("{about} Rows of node {node}.");
            charts.extend((!lines.is_empty()).then_some(Chart { section: "exploration", title, about, unit, lines }));
        }
    }
    charts.extend(attempts(families, measured));
    charts
}

/// What each attempt of a trial earned by itself.
fn attempts(families: &[Experiment], measured: &[RunMeasurements]) -> Vec<Chart> {
    let nodes: BTreeSet<&String> = measured.iter().flat_map(|m| m.attempts.iter().filter(|(_, n)| **n > 1).map(|(node, _)| node)).collect();
    let chart = |node: &String| {
        let most = measured.iter().filter_map(|m| m.attempts.get(node)).max().copied().unwrap_or(0);
        let mut lines = Vec::new();
        for attempt in 0..most {
            let key = (node.clone(), attempt);
            let figures: Vec<Series> = measured.iter().map(|m| m.returns.get(&key).cloned().unwrap_or_default()).collect();
            let part = |f| line(f, Some(format!("attempt {attempt}")), &figures, &[]);
            lines.extend(families.iter().enumerate().filter_map(part));
        }
        let about = format!("Mean sum of the rewards of each attempt at a task, of the trials that got so far. Rows of node {node}.");
        Chart { section: "attempts", title: format!("Return by attempt ({node})"), about, unit: "", lines }
    };
    nodes.into_iter().map(chart).collect()
}
