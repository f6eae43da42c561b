//! `flow report`: what the page shows is what the log says, and nothing in it points anywhere else.

use crate::common::*;

use arrow::array::{ArrayRef, BooleanArray, Float32Array, StringArray, UInt32Array, UInt64Array};
use flow::log::{write_part, Committer, Metrics, NodeInfo, Run, RunInfo};
use flow::row;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The page of these runs, and the data in it.
fn page(runs: &[&Path], out: &Path) -> (String, Value) {
    let output: Value =
        serde_json::from_str(&done(flow().arg("report").args(runs).arg("--out").arg(out).args(["--format", "json"]))).unwrap();
    let page = std::fs::read_to_string(out).unwrap();
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!((&output["file"], &output["bytes"]), (&json!(out.display().to_string()), &json!(page.len())));
    assert_eq!((output["charts"].as_u64(), output["runs"].as_u64()), (Some(length(&data["charts"])), Some(runs.len() as u64)));
    assert_eq!(output["episodes"].as_u64(), Some(length(&data["browser"]["trips"])));
    (page, data)
}

fn length(list: &Value) -> u64 {
    list.as_array().unwrap().len() as u64
}

fn chart<'a>(data: &'a Value, title: &str) -> &'a Value {
    let charts = data["charts"].as_array().unwrap();
    charts
        .iter()
        .find(|c| c["title"] == title)
        .unwrap_or_else(|| panic!("no chart `{title}`: {:?}", charts.iter().map(|c| &c["title"]).collect::<Vec<_>>()))
}

fn close(a: &Value, b: f64) -> bool {
    a.as_f64().is_some_and(|a| (a - b).abs() <= 1e-5 * b.abs().max(1e-3))
}

/// (iteration, value) of each row that has both.
fn figure(rows: &[Value]) -> Vec<(u64, f64)> {
    rows.iter().map(|r| (r["iteration"].as_u64().unwrap(), r["value"].as_f64().unwrap())).collect()
}

/// Nothing is loaded: no address but the name of SVG, no source, no link that leaves the page, and a policy that forbids the rest.
fn alone(page: &str) {
    for (i, _) in page.match_indices("://") {
        assert!(page[..i + 22].ends_with("http://www.w3.org/2000/svg"), "{}", &page[i.saturating_sub(40)..i + 40]);
    }
    for way in [" src=", "url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "import(", "sendBeacon", "<link", "<iframe", "<img"] {
        assert!(!page.contains(way), "{way}");
    }
    assert!(page.contains(
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\""
    ));
    assert!(page.len() < 3_000_000 && page.matches("</script>").count() == 2, "{} bytes", page.len());
    let (before, after) = (page.split_once("id=\"data\">").unwrap().0, page.rsplit_once("</script>").unwrap().1);
    assert!(!before.contains("{{") && !after.contains("{{"), "a place that was not filled");
}

#[test]
fn two_seeds_are_one_curve() {
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<PathBuf> =
        ["5", "6"].iter().map(|seed| trained(folder.path(), seed, SMALL, &["--set", &format!("seed={seed}")])).collect();
    let (page, data) = page(&[&runs[0], &runs[1]], &folder.path().join("two.html"));
    alone(&page);
    assert_eq!(data["families"], json!([{ "label": "small", "runs": [0, 1] }]));
    assert_eq!(
        (&data["runs"][1]["seed"], &data["runs"][1]["trained"], &data["runs"][1]["status"]),
        (&json!(6), &json!(3), &json!("finished"))
    );
    assert_eq!(data["runs"][0]["yaml"], std::fs::read_to_string(runs[0].join("pipeline.yaml")).unwrap());

    let (zero, charts) = (data["zero"].as_array().unwrap(), data["charts"].as_array().unwrap());
    let metric = |node: &str, name: &str| {
        format!("SELECT iteration, value FROM metrics WHERE node = '{node}' AND name = '{name}' ORDER BY iteration")
    };
    let degree = "SELECT iteration, avg((n > 1)::INTEGER) AS value FROM (SELECT iteration, count(*) AS n FROM rollout \
                  GROUP BY iteration, task, sample, attempt, state) GROUP BY iteration ORDER BY iteration";
    let entropy =
        "SELECT iteration, avg(h) AS value FROM (SELECT iteration, task, -sum(n / g * ln(n / g)) AS h FROM (SELECT iteration, task, \
                   count(*)::DOUBLE AS n, sum(count(*)) OVER (PARTITION BY iteration, task) AS g FROM (SELECT iteration, task, sample, \
                   string_agg(state || action, ' ' ORDER BY turn) AS course FROM rollout GROUP BY ALL) GROUP BY iteration, task, course) \
                   GROUP BY ALL) GROUP BY ALL ORDER BY iteration";
    let sizes = "SELECT iteration, count(*) / count(DISTINCT \"group\") AS value FROM states GROUP BY iteration ORDER BY iteration";
    for (title, sql) in [
        ("Success in training", metric("rollout", "success")),
        ("Entropy of the policy", metric("update", "entropy")),
        ("Norm of the gradient", metric("update", "grad_norm")),
        ("Exploration degree", degree.into()),
        ("Trajectory diversity", entropy.into()),
        ("Rows a group", sizes.into()),
    ] {
        let both: Vec<Vec<(u64, f64)>> = runs.iter().map(|run| figure(&ask(run, &sql))).collect();
        // What is always 0 has no card.
        if zero.iter().any(|zero| zero == title) {
            assert!(both.iter().flatten().all(|(_, value)| *value == 0.0), "{title}: {both:?}");
            continue;
        }
        let curve = chart(&data, title);
        let line = &curve["lines"][0];
        assert_eq!((length(&curve["lines"]), both[0].len()), (1, 3), "{title}");
        for (run, expected) in both.iter().enumerate() {
            let points = line["runs"][run]["points"].as_array().unwrap();
            assert!(points.iter().zip(expected).all(|(p, w)| p[0] == w.0 && close(&p[1], w.1)), "{title}: {points:?} is not {expected:?}");
        }
        for (i, point) in line["points"].as_array().unwrap().iter().enumerate() {
            let mean = (both[0][i].1 + both[1][i].1) / 2.0;
            assert!(close(&point[1], mean) && point[2].is_null() && point[3].is_null() && point[4] == 2, "{title}: {point}");
        }
    }
    assert!(
        zero.iter().any(|title| title == "rollout: failed") && charts.iter().all(|chart| chart["title"] != "rollout: failed"),
        "{zero:?}"
    );
    // Time: as the nodes measured it, and no less than nothing for the rest.
    let spent = ask(&runs[0], "SELECT node, sum(value) AS s FROM metrics WHERE name = 'seconds' GROUP BY node ORDER BY s DESC");
    let shown = data["time"][0]["nodes"].as_array().unwrap();
    assert!(
        shown.len() == spent.len() && shown.iter().zip(&spent).all(|(a, b)| a[0] == b["node"] && close(&a[2], b["s"].as_f64().unwrap()))
    );
    assert!(data["time"][0]["rest"].as_f64().unwrap() >= 0.0);
    episodes_are_those_of_the_log(&runs, &data);
}

/// The page opens on what the policy did, whatever the nodes are called.
#[test]
fn episodes_of_the_expert_come_last() {
    let folder = tempfile::tempdir().unwrap();
    let demos =
        "nodes:\n  demos: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 4 }, actor: expert, samples: 1 } }\n";
    let yaml = SMALL.replacen("nodes:\n", demos, 1).replacen("log: [", "log: [demos, ", 1);
    let run = trained(folder.path(), "both", &yaml, &[]);
    let (_, data) = page(&[&run], &folder.path().join("both.html"));
    let mut nodes: Vec<&str> = data["browser"]["trips"].as_array().unwrap().iter().map(|trip| trip["node"].as_str().unwrap()).collect();
    nodes.dedup();
    assert_eq!(nodes, ["rollout", "demos"]);
}

/// Every episode of the browser, turn by turn, against the log; and there are some of the first and of the last iteration.
fn episodes_are_those_of_the_log(runs: &[PathBuf], data: &Value) {
    let texts = data["browser"]["texts"].as_array().unwrap();
    let trips = data["browser"]["trips"].as_array().unwrap();
    assert_eq!(trips.len(), 32, "two samples of four tasks, twice in each of two runs");
    for trip in trips.iter().step_by(5) {
        let rows = ask(
            &runs[trip["run"].as_u64().unwrap() as usize],
            &format!(
                "SELECT r.*, a.advantage FROM rollout r JOIN advantage a USING (iteration, task, sample, attempt, turn, phase) \
                 WHERE r.iteration = {} AND r.task = '{}' AND r.sample = {} ORDER BY turn",
                trip["iteration"],
                trip["task"].as_str().unwrap(),
                trip["sample"]
            ),
        );
        let turns = trip["turns"].as_array().unwrap();
        assert!(turns.len() == rows.len() && !rows.is_empty());
        for (turn, row) in turns.iter().zip(&rows) {
            let text = |i: usize| &texts[turn[i].as_u64().unwrap() as usize];
            assert_eq!((text(3), text(4), text(5), &turn[1]), (&row["observation"], &row["response"], &row["action"], &row["turn"]));
            assert_eq!((turn[6] == 1, turn[9] == 1), (row["valid"] == true, row["won"] == true));
            assert!(
                close(&turn[7], row["reward"].as_f64().unwrap()) && close(&turn[11], row["advantage"].as_f64().unwrap()),
                "{turn} {row}"
            );
        }
    }
    for iteration in [0, 2] {
        assert_eq!(trips.iter().filter(|t| t["iteration"] == iteration).count(), 16);
    }
}

/// A panel of three tasks, two samples each: (task, sample, the attempt that was won). Lost attempts end with -1 and a reflection.
const TRIALS: [(&str, u32, Option<u32>); 6] =
    [("a", 0, Some(0)), ("a", 1, Some(1)), ("b", 0, None), ("b", 1, Some(2)), ("c", 0, Some(1)), ("c", 1, None)];

/// A log of such a panel, measured at iteration 4, as a run would have left it.
fn attempts(folder: &Path) -> PathBuf {
    let mut rows: Vec<(&str, u32, u32, u32, &str, f32, bool)> = Vec::new();
    for (task, sample, won) in TRIALS {
        for attempt in 0..=won.unwrap_or(2) {
            let wins = won == Some(attempt);
            rows.push((task, sample, attempt, 0, "play", if wins { 10.0 } else { -1.0 }, wins));
            if !wins {
                rows.push((task, sample, attempt, 1, "reflect", 0.0, false));
            }
        }
    }
    let n = rows.len();
    let u32s = |f: &dyn Fn(usize) -> u32| Arc::new(UInt32Array::from_iter_values((0..n).map(f))) as ArrayRef;
    let f32s = |f: &dyn Fn(usize) -> f32| Arc::new(Float32Array::from_iter_values((0..n).map(f))) as ArrayRef;
    let texts = |f: &dyn Fn(usize) -> String| Arc::new(StringArray::from_iter_values((0..n).map(f))) as ArrayRef;
    let bools = |f: &dyn Fn(usize) -> bool| Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(f(i))))) as ArrayRef;
    let columns = vec![
        ("iteration", Arc::new(UInt64Array::from(vec![4; n])) as ArrayRef),
        ("task", texts(&|i| rows[i].0.into())),
        ("sample", u32s(&|i| rows[i].1)),
        ("attempt", u32s(&|i| rows[i].2)),
        ("turn", u32s(&|i| rows[i].3)),
        ("phase", texts(&|i| rows[i].4.into())),
        ("observation", texts(&|_| "</script><script>alert(1)</script>{{style}}".into())),
        ("state", Arc::new(UInt64Array::from(vec![1; n])) as ArrayRef),
        ("response", texts(&|i| format!("<remark>{i} & more</remark>"))),
        ("action", texts(&|_| "up".into())),
        ("valid", bools(&|_| true)),
        ("reward", f32s(&|i| rows[i].5)),
        ("done", bools(&|_| true)),
        ("won", bools(&|i| rows[i].6)),
        ("score", f32s(&|i| rows[i].5)),
    ];
    let columns_of = columns.iter().map(|c| c.0.to_string()).collect();
    let node = NodeInfo { id: "panel".into(), op: "evaluate".into(), role: None, columns: columns_of, upstream: vec![] };
    let info = RunInfo { name: "trials".into(), nodes: vec![node], iterations: 4, seed: 1, ..Default::default() };
    let folder = folder.join("trials");
    let run = Run::create(&folder, "flow: trials\nnodes:\n  panel: { op: evaluate }\n", &info).unwrap();
    let mut committer = Committer::new(run.clone()).unwrap();
    let part = write_part(&run, "panel", 4, 0, &row::batch(columns).unwrap()).unwrap();
    // Four of six trials were won.
    let metrics = Metrics::from([("panel".into(), [("success".to_string(), 4.0 / 6.0), ("seconds".into(), 0.25)].into())]);
    committer.commit(4, vec![part], metrics, vec![]).unwrap();
    folder
}

#[test]
fn several_attempts_are_bars() {
    let folder = tempfile::tempdir().unwrap();
    let run = attempts(folder.path());
    let (page, data) = page(&[&run], &folder.path().join("one.html"));
    alone(&page);
    let bars = &data["passes"][0];
    assert_eq!((&bars["node"], &bars["most"], &bars["families"][0]["trials"]), (&json!("panel"), &json!(3), &json!(6)));
    let k = bars["families"][0]["k"].as_array().unwrap();
    for (k, won) in k.iter().zip([1.0, 3.0, 4.0]) {
        assert!(close(&k[0], won / 6.0) && k[1].as_f64() <= k[0].as_f64() && k[0].as_f64() <= k[2].as_f64(), "{k}");
    }
    // Tasks with 1, 0 and 0 of 2 won at once: draws lie between 0 and 1/2.
    assert_eq!((&k[0][1], &k[0][2]), (&json!(0.0), &json!(0.5)));
    let success = &chart(&data, "Success on the panel")["lines"][0];
    assert_eq!((&success["points"][0][0], &success["points"][0][4]), (&json!(4), &json!(1)));
    assert!(
        success["points"][0][2].as_f64() < success["points"][0][1].as_f64() && success["band"] == "95% interval over tasks (bootstrap)"
    );
    // First attempts earned (10 - 5) / 6, second ones (2 * 10 - 3) / 5, third ones (10 - 2) / 3.
    let lines = chart(&data, "Return by attempt (panel)")["lines"].as_array().unwrap();
    assert_eq!(
        lines.iter().map(|l| l["label"].as_str().unwrap()).collect::<Vec<_>>(),
        ["trials, attempt 0", "trials, attempt 1", "trials, attempt 2"]
    );
    assert!(
        lines.iter().zip([5.0 / 6.0, 17.0 / 5.0, 8.0 / 3.0]).all(|(line, expected)| close(&line["points"][0][1], expected)),
        "{lines:?}"
    );
    // Texts are data, whatever is in them.
    let texts = &data["browser"]["texts"];
    let trip = &data["browser"]["trips"][2];
    let phases: Vec<&Value> = trip["turns"].as_array().unwrap().iter().map(|t| &texts[t[2].as_u64().unwrap() as usize]).collect();
    assert_eq!(
        (&trip["task"], phases),
        (&json!("b"), ["play", "reflect"].repeat(3).iter().map(|p| Value::from(*p)).collect::<Vec<_>>().iter().collect())
    );
    let observed = &texts[trip["turns"][0][3].as_u64().unwrap() as usize];
    assert_eq!(observed, "</script><script>alert(1)</script>{{style}}");
}

#[test]
fn what_cannot_be_drawn_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let message = fails(flow().arg("report").arg(folder.path()));
    assert!(message.starts_with("error: ") && message.contains("isn't a run folder"), "{message}");
    let empty = folder.path().join("empty");
    Run::create(&empty, "flow: empty\n", &RunInfo { name: "empty".into(), ..Default::default() }).unwrap();
    let message = fails(flow().arg("report").arg(&empty));
    assert!(message.contains("has no committed iteration yet"), "{message}");
    let run = attempts(folder.path());
    let message = fails(flow().arg("report").arg(&run).arg("--out").arg(folder.path().join("nowhere/page.html")));
    assert!(message.contains("nowhere/page.html") && message.contains("--out FILE"), "{message}");
    // Without a place it lies in the run's folder; for a person, a sentence.
    let message = done(flow().arg("report").arg(&run));
    assert!(message.starts_with("1 run of 1 pipeline drawn: ") && run.join("report.html").exists(), "{message}");
}
