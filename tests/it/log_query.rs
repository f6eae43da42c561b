//! Questions to a run's log: what can be asked, what can't be, and what comes back.

use crate::logged::{advantages, rollout, run};
use flow_log::{print, query, tables, AnswerFormat, Committer, LogError, Metrics, NodeInfo, QueryResult, Run, RunInfo};
use std::fs;

fn json(run: &Run, sql: &str) -> serde_json::Value {
    serde_json::from_str(&text(&query(run, sql).unwrap(), AnswerFormat::Json)).unwrap()
}

fn text(answer: &QueryResult, format: AnswerFormat) -> String {
    let mut out = Vec::new();
    print(answer, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn refusal(run: &Run, sql: &str) -> String {
    query(run, sql).expect_err(sql).to_string()
}

/// Two nodes, two workers, three iterations, of which the last isn't committed.
fn logged() -> (tempfile::TempDir, Run) {
    let (folder, run) = run();
    let mut committer = Committer::new(run.clone()).unwrap();
    for iteration in 0..3 {
        let mut parts = Vec::new();
        for worker in 0..2 {
            parts.push(flow_log::write_part(&run, "rollout", iteration, worker, &rollout(iteration, worker, 2)).unwrap());
            parts.push(flow_log::write_part(&run, "advantage", iteration, worker, &advantages(iteration, worker, 2)).unwrap());
        }
        let metrics = Metrics::from([("update".into(), [("loss".to_string(), 0.5), ("kl".to_string(), f64::NAN)].into())]);
        if iteration < 2 {
            committer.commit(iteration, parts, metrics, vec![]).unwrap();
        }
    }
    (folder, run)
}

#[test]
fn tables_are_named_after_nodes_and_hold_committed_rows() {
    let (_folder, run) = logged();
    let rows = rollout(0, 0, 2).num_rows() as u64;
    assert_eq!(json(&run, "SELECT count(*) AS n, max(iteration) AS last FROM rollout"), serde_json::json!([{ "n": 4 * rows, "last": 1 }]));
    let names: Vec<String> = tables(&run).unwrap().into_iter().map(|t| t.name).collect();
    for name in ["rollout", "advantage", "update", "panel", "metrics", "trajectories"] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    assert_eq!(json(&run, "SELECT count(*) AS n FROM panel"), serde_json::json!([{ "n": 0 }]));
    assert_eq!(
        json(&run, "SELECT sum(turn::int) AS turns FROM rollout")[0]["turns"],
        json(&run, "SELECT sum(turn)::bigint AS t FROM rollout")[0]["t"]
    );
}

#[test]
fn metrics_come_from_the_manifest() {
    let (_folder, run) = logged();
    let loss = json(&run, "SELECT iteration, value FROM metrics WHERE node = 'update' AND name = 'loss' ORDER BY 1");
    assert_eq!(loss, serde_json::json!([{ "iteration": 0, "value": 0.5 }, { "iteration": 1, "value": 0.5 }]));
    assert_eq!(json(&run, "SELECT isnan(value) AS lost FROM metrics WHERE name = 'kl' LIMIT 1"), serde_json::json!([{ "lost": true }]));
}

#[test]
fn trajectories_join_the_nodes_row_by_row() {
    let (_folder, run) = logged();
    let rows = 4 * rollout(0, 0, 2).num_rows() as u64;
    let all =
        "SELECT count(*) AS n, count(observation) AS seen, count(advantage) AS judged, count(rollout_reward) AS first FROM trajectories";
    // `advantages` keeps every second row only.
    assert_eq!(json(&run, all), serde_json::json!([{ "n": rows, "seen": rows, "judged": rows / 2, "first": rows }]));
    // `reward` is logged by both: the plain name is the later node's, and the earlier one's where the later has no such
    // row.
    let both = "SELECT bool_and(reward = 10 * rollout_reward + 1) AS same FROM trajectories WHERE advantage IS NOT NULL";
    assert_eq!(json(&run, both), serde_json::json!([{ "same": true }]));
    let alone = "SELECT bool_and(reward = rollout_reward) AS same FROM trajectories WHERE advantage IS NULL";
    assert_eq!(json(&run, alone), serde_json::json!([{ "same": true }]));
}

#[test]
fn nothing_is_written_and_nothing_outside_is_read() {
    let (folder, run) = logged();
    let outside = folder.path().join("secret.csv");
    fs::write(&outside, "a\n1\n").unwrap();
    let part = run.root().join("log/rollout/0/part-0.parquet");
    let uncommitted = run.root().join("log/rollout/2/part-0.parquet");
    let before = fs::read(&part).unwrap();
    for sql in [
        "CREATE TABLE a AS SELECT 1",
        "INSERT INTO metrics VALUES (1, 'a', 'b', 1)",
        "COPY (SELECT 1) TO 'a.csv'",
        &format!("COPY (SELECT 1 AS a) TO '{}' (FORMAT parquet)", part.display()),
        &format!("EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{}' (FORMAT parquet)", part.display()),
        "ATTACH 'a.db'",
        "PRAGMA database_list",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT 1; SELECT 2",
    ] {
        assert!(matches!(query(&run, sql), Err(LogError::Refused(_))), "{sql}: {:?}", query(&run, sql).err());
    }
    for sql in [
        "SELECT * FROM read_text('/etc/passwd')".to_string(),
        format!("SELECT * FROM '{}'", outside.display()),
        format!("SELECT * FROM read_csv('{}')", outside.display()),
        format!("SELECT * FROM read_parquet('{}')", uncommitted.display()),
        format!("SELECT * FROM read_text('{}/*')", folder.path().display()),
        format!("SELECT * FROM glob('{}/*')", folder.path().display()),
        "SELECT * FROM glob('/etc/*')".into(),
        format!("SELECT * FROM read_text('{}/../secret.csv')", run.root().display()),
    ] {
        let message = refusal(&run, &sql);
        assert!(message.contains("Permission Error"), "{sql}: {message}");
    }
    assert_eq!(fs::read(&part).unwrap(), before);
}

#[test]
fn a_wrong_name_is_answered_with_the_nearest_and_all() {
    let (_folder, run) = logged();
    let message = refusal(&run, "SELECT * FROM rolout");
    assert!(message.contains("did you mean `rollout`?") && message.contains("\n  advantage\n"), "{message}");
    let message = refusal(&run, "SELECT rewrd FROM rollout");
    assert!(message.contains("did you mean `reward`?") && message.contains("\n  rollout (iteration, task"), "{message}");
    assert!(message.contains("\nLINE 1: SELECT rewrd FROM rollout\n") && message.contains("^\n"), "the place: {message}");
    assert!(!message.contains("advantage (iteration"), "of tables that aren't asked the names are enough: {message}");
    assert!(refusal(&run, "SELECT FROM WHERE").starts_with("Parser Error"));
}

#[test]
fn answers_print_in_four_formats() {
    let (_folder, run) = logged();
    let sql = "SELECT turn, action, observation, logprobs, reward FROM rollout WHERE iteration = 0 ORDER BY ALL LIMIT 2";
    let answer = query(&run, sql).unwrap();
    let table = text(&answer, AnswerFormat::Table);
    assert!(table.lines().all(|l| l.chars().count() < 200) && table.contains("⏎"), "{table}");
    assert!(table.ends_with("2 rows\nlonger texts end with …: --format csv gives them whole\n"), "{table}");
    let csv = text(&answer, AnswerFormat::Csv);
    assert!(csv.starts_with("turn,action,observation,logprobs,reward\n0,"), "{csv}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text(&answer, AnswerFormat::Json)).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows[0]["logprobs"].is_array() && rows[0]["observation"].as_str().unwrap().contains('\n'));
    let mut parquet = Vec::new();
    print(&answer, AnswerFormat::Parquet, &mut parquet).unwrap();
    assert_eq!(&parquet[..4], b"PAR1");
    let none = query(&run, "SELECT turn FROM rollout WHERE false").unwrap();
    assert_eq!(text(&none, AnswerFormat::Json).split_whitespace().collect::<String>(), "[]");
    assert_eq!(text(&none, AnswerFormat::Csv), "turn\n");
    assert!(text(&none, AnswerFormat::Table).ends_with("0 rows\n"));
}

#[test]
fn a_name_that_is_a_word_of_sql_is_to_be_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = vec![NodeInfo { id: "group".into(), op: "group".into(), ..Default::default() }];
    let run = Run::create(&folder.path().join("run"), "flow: a\n", &RunInfo { name: "a".into(), nodes, ..Default::default() }).unwrap();
    let message = refusal(&run, "SELECT count(*) FROM group");
    assert!(message.contains("`group` is a word of SQL, too: as a name it stands in quotes, \"group\""), "{message}");
}

#[test]
fn a_run_with_nothing_committed_has_empty_tables() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = vec![NodeInfo { id: "gpu-update".into(), op: "gpu-update".into(), ..Default::default() }];
    let run = Run::create(
        &folder.path().join("run"),
        "flow: a\n",
        &RunInfo { name: "a".into(), nodes, iterations: 1, seed: 1, ..Default::default() },
    )
    .unwrap();
    assert_eq!(json(&run, "SELECT count(*) AS n FROM \"gpu-update\""), serde_json::json!([{ "n": 0 }]));
    assert_eq!(json(&run, "SELECT count(*) AS n FROM trajectories"), serde_json::json!([{ "n": 0 }]));
    assert!(refusal(&run, "SELECT * FROM read_text('/etc/passwd')").contains("Permission Error"));
}

/// Imitation and GRPO on one model: two updates, of which the second learns from grouped rows.
const TAUGHT: &str = r#"
flow: taught
iterations: 2
seed: 3
models:
  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4 } }
  demos: { op: rollout, inputs: tasks, with: { agent: { model: actor, max_turns: 3 }, actor: expert, samples: 1 } }
  imitate: { op: gpu-update, inputs: { rows: demos, weights: { after: update } }, with: { model: actor, objective: sft } }
  own: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 3 } }
  rollout: { op: rollout, inputs: { tasks: own, weights: { after: update } }, with: { agent: { model: actor, max_turns: 3 }, samples: 4 } }
  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: { rows: advantage, weights: imitate }, with: { model: actor } }
log: [demos, imitate, rollout, group, advantage, update]
"#;

#[test]
fn provenance_leads_from_updates_to_rows_and_from_rows_to_updates() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::open(&crate::common::trained(folder.path(), "run", TAUGHT, &[])).unwrap();
    let upstream = |id: &str| run.manifest().unwrap().info.nodes.iter().find(|n| n.id == id).unwrap().upstream.clone();
    assert_eq!(upstream("update"), ["own", "rollout", "group", "advantage"], "an order between updates is no way for rows");
    assert_eq!(upstream("imitate"), ["tasks", "demos"]);
    let number = |sql: &str| json(&run, sql)[0]["n"].as_u64().unwrap();
    assert_eq!(
        number("SELECT count(*) AS n FROM provenance"),
        number("SELECT (SELECT count(*) FROM demos) + (SELECT count(*) FROM rollout) AS n")
    );
    // Each iteration is two updates: the imitation makes the odd versions from demonstrations, which nobody grouped,
    // although some are of the tasks that are played too.
    let updates = "SELECT node, iteration, version, count(\"group\") > 0 AS grouped, count(DISTINCT task) AS tasks FROM provenance GROUP BY ALL ORDER BY version";
    let line = |node: &str, iteration: u64, version: u64, grouped: bool, tasks: u64| serde_json::json!({ "node": node, "iteration": iteration, "version": version, "grouped": grouped, "tasks": tasks });
    assert_eq!(
        json(&run, updates),
        serde_json::json!([
            line("imitate", 0, 1, false, 4),
            line("update", 0, 2, true, 3),
            line("imitate", 1, 3, false, 4),
            line("update", 1, 4, true, 3)
        ])
    );
    // The credit is that of the nodes that gave it, row by row.
    let wrong = "SELECT count(*) AS n FROM provenance p JOIN advantage a USING (iteration, task, sample, attempt, turn, phase) JOIN \"group\" g USING (iteration, task, sample, attempt, turn, phase)
        WHERE p.node = 'update' AND ((p.advantage, p.\"return\", p.baseline, p.scale) != (a.advantage, a.\"return\", a.baseline, a.scale) OR (p.\"group\", p.group_size, p.visitation_depth) != (g.\"group\", g.group_size, g.visitation_depth))";
    assert_eq!(number(wrong), 0);
    assert_eq!(number("SELECT count(*) AS n FROM provenance WHERE node = 'update' AND advantage IS NULL"), 0);
    // So is what the update saw of the row.
    let query = "SELECT count(*) AS n FROM provenance p JOIN \"update\" u USING (version, iteration, task, sample, attempt, turn, phase)
        WHERE (p.ratio, p.clip_share, p.loss_share, p.row_kl) = (u.ratio, u.clip_share, u.loss_share, u.row_kl)";
    assert_eq!(number(query), number("SELECT count(*) AS n FROM \"update\""));
    // Back: what made version 2. Forward: what became of one row (not of a first sample, whose name a demonstration may
    // share).
    let back = json(&run, "SELECT task, sample, turn, \"group\", group_size, advantage FROM provenance WHERE version = 2 AND used = 'yes' AND sample > 0 ORDER BY abs(advantage) DESC LIMIT 10");
    assert_eq!(back.as_array().unwrap().len(), 10);
    let task = back[0]["task"].as_str().unwrap();
    let forward = format!("SELECT node, version, used, \"return\", baseline, scale, advantage FROM provenance WHERE iteration = 0 AND task = '{task}' AND sample = {} AND turn = {}", back[0]["sample"], back[0]["turn"]);
    let forward = json(&run, &forward);
    assert_eq!(forward.as_array().unwrap().len(), 1);
    assert_eq!((&forward[0]["node"], &forward[0]["version"], &forward[0]["used"]), (&"update".into(), &2.into(), &"yes".into()));
    assert_eq!(forward[0]["advantage"], back[0]["advantage"]);
}

#[test]
fn a_run_whose_updates_are_not_logged_has_no_provenance() {
    let (_folder, run) = logged();
    // This run's `update` logs no rows by name.
    let message = refusal(&run, "SELECT * FROM provenance");
    assert!(message.contains("there are:\n  rollout\n"), "{message}");
}

/// The same answer, printed as it comes and printed as a whole.
#[test]
fn an_answer_is_the_same_as_it_comes_and_as_a_whole() {
    let (_folder, run) = logged();
    for sql in ["SELECT * FROM rollout ORDER BY ALL", "SELECT sum(turn) AS turns, count(*) AS n FROM rollout", "SELECT * FROM panel"] {
        for format in [AnswerFormat::Table, AnswerFormat::Csv, AnswerFormat::Json, AnswerFormat::Parquet] {
            let (mut streamed, mut whole) = (Vec::new(), Vec::new());
            flow_log::query_to(&run, sql, format, None, &mut streamed).unwrap();
            print(&query(&run, sql).unwrap(), format, &mut whole).unwrap();
            assert!(streamed == whole && !whole.is_empty(), "{sql} {format:?}");
        }
    }
}

/// Seven million million rows: a table shows the first, a reader that goes away ends it, and neither takes the memory.
#[test]
fn an_answer_larger_than_the_memory_is_shown_and_can_be_stopped() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    let (_folder, run) = logged();
    let endless = "SELECT * FROM range(9000000) a, range(9000000) b";
    let mut shown = Vec::new();
    flow_log::query_to(&run, endless, AnswerFormat::Table, None, &mut shown).unwrap();
    assert!(String::from_utf8(shown).unwrap().ends_with("more than 1000000 rows, the first 200 shown: --format csv gives all\n"));

    for format in ["csv", "json"] {
        let mut command = crate::common::flow();
        command.arg("query").arg(run.root()).args([endless, "--format", format]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..2_000_000 {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0);
        }
        // So far it has printed some 40 MB; all of its rows would be a million times that.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let most = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap().trim().strip_suffix(" kB").unwrap();
        assert!(most.trim().parse::<u64>().unwrap() < 2 << 20, "{format}: {most} KiB");
        drop(lines);
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(10), "{format}: it goes on though nobody reads it");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(child.wait().unwrap().success(), "{format}: a reader that goes away is no error");
    }
}

/// Which iterations are read is taken from the filters, and a text isn't one, whatever it says.
#[test]
fn a_text_that_looks_like_a_filter_leaves_nothing_out() {
    let (_folder, run) = logged();
    let all = json(&run, "select count(*) as n from rollout");
    for text in ["concat(' AND itera', 'tion=0 AND x')", "' AND iteration=0 AND x'", "concat('x', chr(10), 'itera', 'tion=0', chr(10))"] {
        assert_eq!(json(&run, &format!("select count(*) as n from rollout where task <> {text}")), all, "{text}");
    }
}

/// All tables, the joined ones too, by Parquet files and in a database; what is there is not overwritten.
#[test]
fn other_programs_get_every_table() {
    let (folder, run) = logged();
    let tables: Vec<String> = flow_log::tables(&run).unwrap().into_iter().map(|table| table.name).collect();
    assert!(["rollout", "metrics", "trajectories"].iter().all(|name| tables.contains(&name.to_string())), "{tables:?}");
    let (parquet, file) = (folder.path().join("parquet"), folder.path().join("run.duckdb"));
    assert_eq!(flow_log::export_parquet(&run, &parquet).unwrap(), tables);
    assert_eq!(flow_log::export_duckdb(&run, &file).unwrap(), tables);
    let database = duckdb::Connection::open(&file).unwrap();
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for table in &tables {
        let all = json(&run, &format!("select count(*) as n from {table}"))[0]["n"].as_i64().unwrap();
        assert_eq!(count(&format!("select count(*) from {table}")), all, "{table}");
        let written = parquet.join(format!("{table}.parquet"));
        assert_eq!(count(&format!("select count(*) from read_parquet('{}')", written.display())), all, "{table}");
    }
    drop(database);
    assert!(flow_log::export_duckdb(&run, &file).unwrap_err().to_string().contains("exists already"));
    assert!(std::fs::read_dir(folder.path()).unwrap().count() == 3, "nothing else is left there");
}

/// Floats are added in one order, so that one question has one answer, to the last digit.
#[test]
fn a_question_is_answered_on_one_thread() {
    let (_folder, run) = logged();
    assert_eq!(json(&run, "select current_setting('threads')::int as n"), serde_json::json!([{ "n": 1 }]));
}
