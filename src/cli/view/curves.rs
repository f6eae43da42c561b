//! Figures by iteration: of one run, and the mean over the seeds of an experiment with its interval.

use super::runs::ServedRun;
use super::Answer;
use flow_credit::stats::over_seeds;
use flow_log::sql::literal;
use flow_log::Manifest;
use flow_pipeline::Role;
use serde_json::{json, Value};
use std::sync::Arc;

/// The most points of a line.
const POINTS: usize = 1000;

/// The fewest seeds of a band: of two values Student's t says hardly anything.
const SEEDS: usize = 3;

/// Figures that are shares: an interval of one ends at 0 and at 1.
const SHARES: [&str; 6] = ["success", "invalid", "equal", "clip_fraction", "exploration_degree", "expert_success"];

/// A value, and how far the run was then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    iteration: u64,
    value: f64,
    /// Of the run so far.
    seconds: f64,
    /// Distinct tokens of the episodes that were played in training so far.
    tokens: f64,
}

/// The values of a figure by iteration. Of a long run each point is the mean of several iterations.
pub fn curve(run: &ServedRun, node: &str, name: &str) -> Answer {
    let points = points(&*run.manifest()?, node, name);
    let step = points.len().div_ceil(POINTS).max(1);
    let drawn: Vec<Value> = points.chunks(step).map(mean).map(|p| json!([p.iteration, p.value, p.seconds, p.tokens])).collect();
    Ok(json!({ "sql": sql(node, name), "of": points.len(), "each": step, "points": drawn }))
}

/// The mean of several runs where all of them have a value; from three runs on with its 95% interval (Student's t over
/// the runs).
pub fn band(runs: &[Arc<ServedRun>], node: &str, name: &str) -> Answer {
    let mut all = Vec::new();
    for run in runs {
        all.push(points(&*run.manifest()?, node, name));
    }
    let points = over_runs(&all, name);
    let step = points.len().div_ceil(POINTS).max(1);
    Ok(json!({ "sql": sql(node, name), "runs": runs.len(), "each": step, "points": points.iter().step_by(step).collect::<Vec<_>>() }))
}

/// [iteration, mean, seconds, tokens, low, high] at each iteration where all runs have a value.
fn over_runs(runs: &[Vec<Point>], name: &str) -> Vec<Value> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let (least, most) = if SHARES.contains(&name) { (0.0, 1.0) } else { (f64::NEG_INFINITY, f64::INFINITY) };
    let at = |point: &Point| {
        let find = |run: &Vec<Point>| run.binary_search_by_key(&point.iteration, |other| other.iteration).ok().map(|i| run[i]);
        let here: Option<Vec<Point>> = std::iter::once(Some(*point)).chain(others.iter().map(find)).collect();
        let here = here?;
        let values: Vec<f64> = here.iter().map(|point| point.value).collect();
        let band = over_seeds(&values).filter(|_| values.len() >= SEEDS);
        let mean = mean(&here);
        let end = |end: f64| json!(end.clamp(least, most));
        Some(json!([point.iteration, mean.value, mean.seconds, mean.tokens, band.map(|b| end(b.low)), band.map(|b| end(b.high))]))
    };
    first.iter().filter_map(at).collect()
}

/// The mean of some points; the place of the last iteration among them.
fn mean(points: &[Point]) -> Point {
    let n = points.len().max(1) as f64;
    let last = points.last().copied().unwrap_or_default();
    let of = |pick: fn(&Point) -> f64| points.iter().map(pick).sum::<f64>() / n;
    let same = points.iter().all(|point| point.iteration == last.iteration);
    let at = |pick: fn(&Point) -> f64| if same { of(pick) } else { pick(&last) };
    Point { iteration: last.iteration, value: of(|p| p.value), seconds: at(|p| p.seconds), tokens: at(|p| p.tokens) }
}

/// All values of a figure that are numbers.
fn points(manifest: &Manifest, node: &str, name: &str) -> Vec<Point> {
    let measures = |id: &str| manifest.info.nodes.iter().any(|known| known.id == id && known.role == Some(Role::Measures));
    let (mut seconds, mut tokens) = (0.0, 0.0);
    let mut points = Vec::new();
    for committed in &manifest.committed {
        seconds += committed.seconds;
        let played = committed.metrics.iter().filter(|(id, figures)| figures.contains_key("turns") && !measures(id));
        tokens += played.filter_map(|(_, figures)| figures.get("tokens_distinct")).filter(|count| count.is_finite()).sum::<f64>();
        let value = committed.metrics.get(node).and_then(|figures| figures.get(name)).filter(|value| value.is_finite());
        points.extend(value.map(|value| Point { iteration: committed.iteration, value: *value, seconds, tokens }));
    }
    points
}

fn sql(node: &str, name: &str) -> String {
    format!("SELECT iteration, value FROM metrics WHERE node = {} AND name = {} ORDER BY iteration", literal(node), literal(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(u64, f64)]) -> Vec<Point> {
        values
            .iter()
            .map(|&(iteration, value)| Point { iteration, value, seconds: iteration as f64, tokens: 10.0 * iteration as f64 })
            .collect()
    }

    /// The mean of 0.6, 0.7, 0.8 is 0.7, their deviation 0.1, t of 2 degrees 4.303: 0.7 +- 4.303 * 0.1 / sqrt(3) = 0.7
    /// +- 0.248434.
    #[test]
    fn three_seeds_have_a_band_where_all_of_them_have_a_value() {
        let runs = [run(&[(0, 0.6), (5, 0.1)]), run(&[(0, 0.7)]), run(&[(0, 0.8), (5, 0.3)])];
        let points = over_runs(&runs, "return");
        assert_eq!(points.len(), 1);
        let close = |i: usize, expected: f64| assert!((points[0][i].as_f64().unwrap() - expected).abs() < 1e-6, "{points:?}");
        [(0, 0.0), (1, 0.7), (4, 0.451566), (5, 0.948434)].into_iter().for_each(|(i, expected)| close(i, expected));
        assert_eq!(over_runs(&runs[..1], "return")[1][4], Value::Null);
        assert!(over_runs(&[runs[0].clone(), runs[2].clone()], "return").iter().all(|point| point[4].is_null()), "two seeds have none");
    }

    #[test]
    fn the_band_of_a_share_ends_at_1() {
        let runs = [0.1, 0.9, 0.6].map(|value| run(&[(3, value)]));
        let ends =
            |name: &str| over_runs(&runs, name)[0].as_array().unwrap()[4..].iter().map(|end| end.as_f64().unwrap()).collect::<Vec<_>>();
        assert_eq!(ends("success"), [0.0, 1.0]);
        assert!(ends("return")[0] < 0.0 && ends("return")[1] > 1.0);
    }

    #[test]
    fn a_point_of_several_iterations_stands_at_the_last() {
        let mean = mean(&run(&[(3, 1.0), (4, 2.0)]));
        assert_eq!(mean, Point { iteration: 4, value: 1.5, seconds: 4.0, tokens: 40.0 });
    }
}
