//! Charts: a figure over the iterations, a line an experiment, with a band where something says how sure it is.

use super::source::Experiment;
use crate::stats::{over_seeds, Interval};
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A figure of one run over time: iteration -> value.
pub type Series = BTreeMap<u64, f64>;

/// One chart.
pub struct Chart {
    pub section: &'static str,
    pub title: String,
    pub about: String,
    /// What the axis says; `%` for a share.
    pub unit: &'static str,
    pub lines: Vec<Value>,
}

/// The most points that are drawn of a line; a page must stay readable and small.
const POINTS: usize = 400;

impl Chart {
    /// Whether all of its lines lie at 0 all the time: a card would say no more than that.
    pub fn is_zero(&self) -> bool {
        let values = |points: &Value| points.as_array().map_or(vec![], |points| points.iter().map(|point| point[1].clone()).collect());
        let runs =
            |line: &Value| line["runs"].as_array().map_or(vec![], |runs| runs.iter().flat_map(|run| values(&run["points"])).collect());
        self.lines.iter().flat_map(|line| [values(&line["points"]), runs(line)].concat()).all(|value| value.as_f64() == Some(0.0))
    }

    pub fn json(self) -> Value {
        let Chart { section, title, about, unit, mut lines } = self;
        lines.iter_mut().for_each(|line| clip(line, unit));
        json!({ "section": section, "title": title, "about": about, "unit": unit, "lines": lines })
    }
}

/// Keeps a line's intervals within what the figure can be: a share between 0 and 1, a count of the runs from 0 on.
fn clip(line: &mut Value, unit: &str) {
    let runs = line["runs"].as_array().map_or(vec![], |runs| runs.iter().filter_map(|run| run["points"].as_array()).flatten().collect());
    let whole = |value: &Value| value.as_f64().is_some_and(|value| value >= 0.0 && value.fract() == 0.0);
    let count = !runs.is_empty() && runs.iter().all(|point| whole(&point[1]));
    let (least, most) = match unit {
        "%" => (0.0, 1.0),
        _ if count => (0.0, f64::INFINITY),
        _ => return,
    };
    for point in line["points"].as_array_mut().into_iter().flatten() {
        for place in [2, 3] {
            if let Some(value) = point[place].as_f64().filter(|value| !(least..=most).contains(value)) {
                point[place] = json!(value.clamp(least, most));
            }
        }
    }
}

/// The line of a family: the mean over its runs with the interval over their seeds; of a run alone its own values, with `known`, the
/// interval that its measurement has by itself. Nothing if no run has the figure.
pub fn line(family: (usize, &Experiment), part: Option<String>, figures: &[Series], known: &[BTreeMap<u64, Interval>]) -> Option<Value> {
    let (number, Experiment { label, runs }) = family;
    let having: Vec<usize> = runs.iter().copied().filter(|r| figures.get(*r).is_some_and(|f| !f.is_empty())).collect();
    let alone = match having.as_slice() {
        [] => return None,
        [only] => Some(*only),
        _ => None,
    };
    let iterations: BTreeSet<u64> = having.iter().flat_map(|r| figures[*r].keys().copied()).collect();
    let thin = thinned(&iterations);
    let point = |iteration: &u64| {
        let values: Vec<f64> = having.iter().filter_map(|r| figures[*r].get(iteration).copied()).collect();
        let interval = match alone {
            Some(run) => known.get(run).and_then(|known| known.get(iteration)).copied(),
            // Of two values Student's t says hardly anything: the runs themselves are drawn.
            None => over_seeds(&values).filter(|_| values.len() > 2),
        };
        let value = values.iter().sum::<f64>() / values.len().max(1) as f64;
        json!([iteration, number_of(value), interval.map(|i| number_of(i.low)), interval.map(|i| number_of(i.high)), values.len()])
    };
    let band = match alone {
        Some(run) if known.get(run).is_some_and(|k| !k.is_empty()) => "95% interval over tasks (bootstrap)".to_string(),
        Some(_) => String::new(),
        None if having.len() == 2 => "none of 2 seeds, which are drawn thin".to_string(),
        None => format!("mean of {} seeds, 95% interval (Student's t)", having.len()),
    };
    let each = |run: &usize| {
        let points: Vec<Value> = thin.iter().filter_map(|i| figures[*run].get(i).map(|value| json!([i, number_of(*value)]))).collect();
        json!({ "run": run, "points": points })
    };
    let runs: Vec<Value> = if alone.is_some() { vec![] } else { having.iter().map(each).collect() };
    Some(json!({
        "family": number, "label": part.map_or(label.clone(), |part| format!("{label}, {part}")), "band": band,
        "points": thin.iter().map(point).collect::<Vec<_>>(), "runs": runs, "of": iterations.len(),
    }))
}

/// Every n-th iteration, so that at most [`POINTS`] or so are left, and the last one.
fn thinned(iterations: &BTreeSet<u64>) -> Vec<u64> {
    let step = iterations.len().div_ceil(POINTS).max(1);
    let last = iterations.len().saturating_sub(1);
    iterations.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last).map(|(_, iteration)| *iteration).collect()
}

/// A number of six digits: more than anyone sees, and what keeps a page small.
pub fn number_of(value: f64) -> Value {
    match format!("{value:.5e}").parse::<f64>() {
        Ok(short) if short.is_finite() => json!(short),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(values: &[(u64, f64)]) -> Series {
        values.iter().copied().collect()
    }

    #[test]
    fn several_seeds_are_one_line() {
        let figures = [figure(&[(0, 0.6), (5, 0.1)]), figure(&[(0, 0.7)]), figure(&[(0, 0.8), (5, 0.3)]), figure(&[])];
        let family = Experiment { label: "grpo".into(), runs: vec![0, 1, 2, 3] };
        let drawn = line((4, &family), None, &figures, &[]).unwrap();
        assert_eq!(drawn["points"][0], json!([0, 0.7, 0.451566, 0.948434, 3]));
        assert_eq!(drawn["points"][1], json!([5, 0.2, null, null, 2]));
        assert_eq!(drawn["runs"][1], json!({ "run": 1, "points": [[0, 0.7]] }));
        assert_eq!((&drawn["family"], &drawn["label"]), (&json!(4), &json!("grpo")));
        assert!(line((0, &Experiment { label: "none".into(), runs: vec![3] }), None, &figures, &[]).is_none());
    }

    #[test]
    fn two_seeds_have_no_band_and_a_band_ends_where_values_do() {
        let band = |values: [&[(u64, f64)]; 3], unit: &'static str| {
            let figures = values.map(figure);
            let runs = (0..3).filter(|run| !figures[*run].is_empty()).collect();
            let line = line((0, &Experiment { label: "a".into(), runs }), None, &figures, &[]).unwrap();
            let chart = Chart { section: "more", title: String::new(), about: String::new(), unit, lines: vec![line] };
            let json = chart.json()["lines"][0].take();
            (json["points"][0][2].clone(), json["points"][0][3].clone(), json["band"].clone())
        };
        assert_eq!(band([&[(0, 0.1)], &[(0, 0.3)], &[]], "%"), (Value::Null, Value::Null, json!("none of 2 seeds, which are drawn thin")));
        let share = band([&[(0, 0.1)], &[(0, 0.9)], &[(0, 0.6)]], "%");
        assert_eq!((share.0, share.1), (json!(0.0), json!(1.0)));
        let count = band([&[(0, 10.0)], &[(0, 900.0)], &[(0, 60.0)]], "");
        assert!(count.0 == json!(0.0) && count.1.as_f64().unwrap() > 1000.0, "{count:?}");
        assert!(band([&[(0, 0.1)], &[(0, 0.9)], &[(0, 0.6)]], "nats").0.as_f64().unwrap() < 0.0);
    }

    #[test]
    fn a_run_alone_has_the_band_that_is_known() {
        let known = [BTreeMap::from([(0, Interval { value: 0.5, low: 0.4, high: 0.625 })])];
        let family = Experiment { label: "grpo".into(), runs: vec![0] };
        let drawn = line((0, &family), Some("attempt 1".into()), &[figure(&[(0, 0.5), (1, 0.25)])], &known).unwrap();
        assert_eq!(drawn["points"], json!([[0, 0.5, 0.4, 0.625, 1], [1, 0.25, null, null, 1]]));
        assert_eq!((&drawn["label"], &drawn["runs"]), (&json!("grpo, attempt 1"), &json!([])));
    }

    #[test]
    fn a_long_line_is_thinned_and_keeps_its_ends() {
        let thin = thinned(&(0..1001).collect());
        assert_eq!((thin.len(), thin[1], thin.last()), (335, 3, Some(&1000)));
        assert_eq!(thinned(&(3..7).collect()), [3, 4, 5, 6]);
        assert_eq!(number_of(0.123456789), json!(0.123457));
        assert_eq!(number_of(f64::NAN), Value::Null);
    }
}
