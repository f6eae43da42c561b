//! What the nodes measured while they ran: every figure of the table `metrics` as a chart.

use super::chart::{line, Chart, Series};
use super::measured::RunMeasurements;
use super::source::{Experiment, ReportRun};
use crate::pipeline::Role;
use std::collections::BTreeSet;

/// Figures that are known: name, section for those that learn and for those that play, title, unit, what it is.
const KNOWN: &[(&str, &str, &str, &str)] = &[
    ("success", "Success", "%", "Share of episodes that were won."),
    ("return", "Return", "", "Mean sum of an episode's rewards."),
    ("entropy", "Entropy of the policy", "nats", "Mean over response tokens."),
    (
        "kl",
        "KL divergence",
        "nats",
        "Mean over response tokens: from the reference, or without one of the policy that acted from the new one.",
    ),
    ("grad_norm", "Norm of the gradient", "", "Before it is clipped."),
    ("clip_fraction", "Tokens for which the clip decided", "%", "Share of all response tokens."),
    ("tokens_computed", "Tokens computed", "", "Places that forward passes went over, padding among them."),
    ("tokens_distinct", "Tokens to compute", "", "Different ones: those that follow the same ones under the same weights are one."),
    ("loss", "Loss", "", "Of the update's optimiser steps."),
    ("invalid", "Actions that could not be carried out", "%", "Share of all turns."),
    ("equal", "Groups without spread", "%", "Share of groups in which every advantage is 0: nothing is learnt from them."),
    ("samples", "Samples that are compared", "", "Mean number a task; fewer than `samples` of the rollout where episodes failed."),
    ("entries", "Entries of the memory", "", "How many there are after the iteration."),
    ("added", "Entries that came", "", "In the iteration."),
    ("removed", "Entries that left", "", "In the iteration."),
    ("expert_success", "Success of the expert", "%", "Share of the demonstrations that were won."),
];

/// What has charts of its own: where the time goes, and what is read from the rows.
const ELSEWHERE: [&str; 4] = ["seconds", "exploration_degree", "group_size", "alone"];

/// Where a node's figures stand: what is measured on frozen tasks first, then training, then learning.
fn section(role: Option<Role>, name: &str) -> &'static str {
    let known = KNOWN.iter().any(|k| k.0 == name);
    match role {
        Some(Role::Measures) if matches!(name, "success" | "return") => "panel",
        Some(Role::Plays) if matches!(name, "success" | "return") => "training",
        Some(Role::Learns | Role::Remembers) if known => "learning",
        _ => "more",
    }
}

/// A chart a figure and node.
pub fn charts(sources: &[ReportRun], families: &[Experiment], measured: &[RunMeasurements]) -> Vec<Chart> {
    let mut all: BTreeSet<(usize, usize, String, String)> = BTreeSet::new();
    let order = |name: &str| KNOWN.iter().position(|k| k.0 == name).unwrap_or(KNOWN.len());
    for (node, name) in sources
        .iter()
        .flat_map(|s| s.manifest.committed.iter())
        .flat_map(|i| i.metrics.iter().flat_map(|(node, values)| values.keys().map(move |name| (node.clone(), name.clone()))))
    {
        if !ELSEWHERE.contains(&name.as_str()) {
            let role = sources.iter().find_map(|s| s.role(&node));
            let place = ["panel", "training", "learning", "more"].iter().position(|s| *s == section(role, &name)).unwrap_or(3);
            all.insert((place, order(&name), name, node));
        }
    }
    let chart = |(place, _, name, node): (usize, usize, String, String)| {
        let figures: Vec<Series> = sources.iter().map(|s| figure(s, &node, &name)).collect();
        let known: Vec<_> = measured
            .iter()
            .zip(&figures)
            .map(|(m, figure)| if name == "success" { m.success(&node, figure) } else { Default::default() })
            .collect();
        let lines = families.iter().enumerate().filter_map(|f| line(f, None, &figures, &known)).collect::<Vec<_>>();
        // A figure that never changes, such as the divergence of an imitation, need not stand among those that do.
        let first = figures.iter().flat_map(|f| f.values()).next();
        let still = figures.iter().flat_map(|f| f.values()).all(|v| Some(v) == first);
        let place = if still && place == 2 { 3 } else { place };
        let (_, title, unit, about) = KNOWN.iter().find(|k| k.0 == name).copied().unwrap_or(("", &name, "", ""));
        let suffix = match place {
            0 => " on the panel",
            1 => " in training",
            _ => "",
        };
        let about = format!("{about} Node {node}, figure {name}.").trim_start().to_string();
        let title = if place == 3 { format!("{node}: {title}") } else { format!("{title}{suffix}") };
        let section = ["panel", "training", "learning", "more"][place];
        (!lines.is_empty()).then_some((node, Chart { section, title, about, unit, lines }))
    };
    with_unique_titles(all.into_iter().filter_map(chart).collect())
}

/// The charts, each with its node: where several have the same title, the node's name is added to it.
fn with_unique_titles(charts: Vec<(String, Chart)>) -> Vec<Chart> {
    let titles: Vec<String> = charts.iter().map(|(_, chart)| chart.title.clone()).collect();
    let apart = |(node, mut chart): (String, Chart)| {
        if titles.iter().filter(|title| **title == chart.title).count() > 1 {
            chart.title = format!("{} ({node})", chart.title);
        }
        chart
    };
    charts.into_iter().map(apart).collect()
}

fn figure(source: &ReportRun, node: &str, name: &str) -> Series {
    let value = |i: &crate::log::Iteration| i.metrics.get(node)?.get(name).copied().filter(|v| v.is_finite()).map(|v| (i.iteration, v));
    source.manifest.committed.iter().filter_map(value).collect()
}
