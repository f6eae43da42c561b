//! Several environments in one pipeline: shares of groups, one update, success of each environment.

use crate::common::*;
use crate::processes::together;

fn mixed() -> String {
    let yaml = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/mix.yaml")).unwrap();
    let small =
        yaml.replace("layers: 2, width: 64", "layers: 1, width: 32, heads: 2, kv_heads: 1").replace("iterations: 40", "iterations: 3");
    let small = small.replace("batch: 12", "batch: 6").replace("batch: 4 ", "batch: 2 ").replace("samples: 8", "samples: 4");
    assert!(small.contains("batch: 6") && small.contains("batch: 2 "), "{small}");
    small.replace("max_turns: 12", "max_turns: 4")
}

#[test]
fn one_update_learns_several_environments_alike_everywhere() {
    let (folder, yaml) = (tempfile::tempdir().unwrap(), mixed());
    let run = trained(folder.path(), "one", &yaml, &["--workers", "1"]);
    let whole = digest(&run);
    for workers in ["2", "4"] {
        assert!(digest(&trained(folder.path(), workers, &yaml, &["--workers", workers])) == whole, "on {workers} workers");
    }
    let two = folder.path().join("processes");
    together(&pipeline(folder.path(), &yaml), &two, 2, &[]);
    assert!(digest(&two) == whole, "in two processes");
    let short = trained(folder.path(), "short", &yaml, &["--set", "iterations=1"]);
    done(flow().arg("resume").arg(&short).args(["--iterations", "3"]));
    assert!(digest(&short) == whole, "resumed");
    let replay = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--out").arg(&replay));
    let credit = "select * from advantage order by all";
    assert!(answer(&replay, credit, "json") == answer(&run, credit, "json"), "replayed");
    assert!(done(flow().arg("verify").arg(&run)).contains("every digit agrees"));
}

#[test]
fn shares_are_of_groups_and_success_is_of_an_environment() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", &mixed(), &[]);
    let env = "split_part(task, '-', 1)";
    let groups =
        ask(&run, &format!("select {env} as env, count(distinct (iteration, task)) as groups from \"group\" group by all order by all"));
    assert_eq!(serde_json::to_string(&groups).unwrap(), r#"[{"env":"minesweeper","groups":6},{"env":"sokoban","groups":18}]"#);
    let apart =
        &ask(&run, &format!("select max(n) as n from (select count(distinct {env}) as n from \"group\" group by iteration, \"group\")"))[0];
    assert_eq!(apart["n"], 1, "a group is of one environment");
    let both = "select (select count(*) from update) = (select count(*) from sokoban) + (select count(*) from minesweeper) as alike";
    assert_eq!(ask(&run, both)[0]["alike"], true, "the update sees all rows");
    let measured = "select node, count(*) as n, bool_and(value = won) as alike from metrics join (
        select 'sokoban' as node, iteration, count(*) filter (won) / 24 as won from sokoban where done group by all
        union all select 'minesweeper', iteration, count(*) filter (won) / 8 from minesweeper where done group by all
        ) using (node, iteration) where name = 'success' group by all order by all";
    let expected = r#"[{"node":"minesweeper","n":3,"alike":true},{"node":"sokoban","n":3,"alike":true}]"#;
    assert_eq!(serde_json::to_string(&ask(&run, measured)).unwrap(), expected);
}

/// An environment whose episodes all fail leaves no row, and the run of the others is replayed and verified.
#[test]
fn a_mix_is_replayed_without_an_environment_that_failed_wholly() {
    let folder = tempfile::tempdir().unwrap();
    let program =
        "{ env: process, name: flaky, command: [python3, tests/programs/flaky.py, '1000', '-'], seconds: 4, pass: [FLAKY], batch: 2 }";
    let yaml = mixed().replace("{ env: sokoban, size: 6, boxes: 1, batch: 6 }", program).replace(
        "inputs: { tasks: sokoban_tasks, weights: { after: update } }\n    with: { agent: player, samples: 4 }",
        "inputs: { tasks: sokoban_tasks, weights: { after: update } }\n    with: { agent: player, samples: 4, max_failed: 1.0, tries: 1 }",
    );
    assert!(yaml.contains("flaky") && yaml.contains("max_failed"), "{yaml}");
    let (file, run, replay) = (pipeline(folder.path(), &yaml), folder.path().join("run"), folder.path().join("replay"));
    done(flow().arg("run").arg(file).arg("--out").arg(&run).env("FLAKY", "error"));
    assert_eq!(ask(&run, "select count(*) as n from errors where node = 'sokoban'")[0]["n"], 3 * 2 * 4);
    done(flow().arg("replay").arg(&run).arg("--out").arg(&replay));
    let credit = "select * from advantage order by all";
    assert!(answer(&replay, credit, "json") == answer(&run, credit, "json"), "replayed");
    assert!(done(flow().arg("verify").arg(&run)).contains("every digit agrees"));
}

#[test]
fn success_of_each_environment_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (file, run) = (pipeline(folder.path(), &mixed()), folder.path().join("run"));
    let said = done(flow().arg("run").arg(file).arg("--out").arg(&run));
    let share = |node: &str, iteration: u32| {
        let sql = format!("select value from metrics where node = '{node}' and name = 'success' and iteration = {iteration}");
        format!("{:.1}%", 100.0 * ask(&run, &sql)[0]["value"].as_f64().unwrap())
    };
    for node in ["sokoban", "minesweeper"] {
        let line = format!("\n  {node}: {} in the first tenth, {} in the last\n", share(node, 0), share(node, 2));
        assert!(said.contains(&line), "{line}{said}");
    }
    let shown = done(flow().arg("show").arg(&run).args(["--iteration", "1"]));
    let line = format!("success in iteration 1: minesweeper {}, sokoban {}\n", share("minesweeper", 1), share("sokoban", 1));
    assert!(shown.contains(&line), "{line}{shown}");
}
