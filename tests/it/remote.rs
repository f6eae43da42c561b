//! A model that a server runs, in pipelines: it plays, reflects and is evaluated; what it doesn't answer is a row of
//! `errors`.

use crate::common::*;
use crate::server::{echoed, spoken, Said, Server};
use serde_json::Value;
use std::path::Path;

/// Plays sixteen episodes and learns nothing.
fn plays(url: &str, decode: &str, max_failed: f64) -> String {
    format!(
        "flow: remote\niterations: 1\nseed: 5\nmodels:\n  actor: {{ openai: {url}, model: big, tries: 1, timeout: 20 }}\nnodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 4 }} }}
  rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 4, prompt: full, decode: {decode} }}, samples: 4, tries: 1, max_failed: {max_failed} }} }}
log: [rollout]\n"
    )
}

/// Two attempts with a reflection between them, which another model writes.
fn reflects(url: &str) -> String {
    format!(
        "flow: reflects\niterations: 1\nseed: 5\nmodels:\n  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }}
  big: {{ openai: {url}, model: big, tries: 1, timeout: 20 }}\nnodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 4 }} }}
  trial:
    loop: {{ attempts: 2, until: won }}
    nodes:
      rollout: {{ op: rollout, inputs: {{ tasks: tasks, memory: {{ after: reflect }} }}, with: {{ agent: {{ model: actor, max_turns: 4 }}, samples: 2 }} }}
      reflect: {{ op: reflect, inputs: rollout, with: {{ agent: {{ model: big }}, on: failure, keep: reflection }} }}
    output: [rollout, reflect]
log: [trial]\n"
    )
}

fn single_row(run: &Path, sql: &str) -> String {
    answer(run, sql, "csv").lines().nth(1).unwrap_or_default().to_owned()
}

/// Likes what is in the middle.
fn ranks(_: usize, path: &str, body: &Value) -> Said {
    assert_eq!(path, "/v1/completions");
    Said::ok(echoed(body, |c| if c == '2' { -0.1 } else { -2.0 }))
}

#[test]
fn a_server_plays_and_is_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(ranks);
    let run = trained(folder.path(), "ranked", &plays(&server.url, "constrained", 0.0), &[]);
    assert_eq!(
        single_row(&run, "select count(distinct (task, sample)), bool_and(valid), max(len(response_tokens) - len(logprobs)) from rollout"),
        "16,true,0"
    );
    // The likeliest cell is drawn most: (2, 2), as long as it is closed.
    assert_eq!(single_row(&run, "select action from rollout where turn = 0 group by action order by count(*) desc limit 1"), "\"(2, 2)\"");
    assert_eq!(single_row(&run, "select count(*) from errors"), "0");
    // The same again: nothing that is drawn depends on the server.
    let again = trained(folder.path(), "again", &plays(&server.url, "constrained", 0.0), &[]);
    let output = done(flow().arg("diff").arg(&run).arg(&again));
    assert!(output.contains("are equal"), "{output}");
    let pipeline = pipeline(folder.path(), &plays(&server.url, "constrained", 0.0));
    let panel = "datasets/minesweeper-size3-mines2-a9b2ddbb58d1.json";
    let arguments =
        ["eval", "--like", pipeline.to_str().unwrap(), "--panel", panel, "--max-turns", "2", "--temperature", "0", "--format", "json"];
    let score: Value = serde_json::from_str(&done(flow().args(arguments))).unwrap();
    let of_run =
        done(flow().args(["eval", run.to_str().unwrap(), "--panel", panel, "--max-turns", "2", "--temperature", "0", "--format", "json"]));
    let of_run: Value = serde_json::from_str(&of_run).unwrap();
    assert_eq!(score["success"], of_run["success"]);
    assert!(fails(flow().args(["eval", "--panel", panel])).contains("<RUN>"));
}

#[test]
fn what_a_server_does_not_answer_is_told_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    // Every fifth question: in turn too many, an error, nonsense.
    let says = |number: usize, _: &str, _: &Value| match (number % 5, number % 3) {
        (4, 0) => Said::status(429, "slow down"),
        (4, 1) => Said::status(500, "oh"),
        (4, _) => Said::status(200, "<html>"),
        _ => Said::ok(spoken(&[("I take ", -1.5), ("<action>(1, 1)</action>", -0.5)], "stop")),
    };
    let server = Server::start(says);
    let run = trained(folder.path(), "free", &plays(&server.url, "free", 1.0), &[]);
    let counted = single_row(&run, "select (select count(*) from errors) + (select count(distinct (task, sample)) from rollout)");
    assert_eq!(counted, "16");
    let causes = answer(&run, "select distinct cause from errors order by all", "csv");
    assert!(causes.contains("error") && causes.contains("malformed"), "{causes}");
    assert_eq!(single_row(&run, "select distinct round(list_sum(logprobs), 3), action from rollout"), "-2.0,\"(1, 1)\"");
    // Where none may fail the run says what did.
    let strict = pipeline(folder.path(), &plays(&server.url, "free", 0.0));
    let message = fails(flow().arg("run").arg(strict).arg("--out").arg(folder.path().join("strict")));
    assert!(message.contains("max_failed: 0") && message.contains("/v1/chat/completions: "), "{message}");
    // A server that is gone ends the run.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = pipeline(folder.path(), &plays(&format!("http://{port}/v1"), "free", 1.0));
    let message = fails(flow().arg("run").arg(gone).arg("--out").arg(folder.path().join("gone")));
    assert!(message.contains("model `actor`: the server that runs it gives no answers"), "{message}");
}

/// A judge on a server writes a number about each episode: what has none is asked for again by another draw, and where
/// it writes none at last the pipeline says what counts.
#[test]
fn a_judge_writes_a_number_and_is_asked_again_where_it_writes_none() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |url: &str, tries: u32| {
        format!(
            "flow: judged\niterations: 1\nseed: 5\nmodels:\n  actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }}
  judge: {{ openai: {url}, model: big, tries: 1, timeout: 20 }}\nnodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 4 }} }}
  rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 3 }}, samples: 2 }} }}
  judge:
    op: reflect
    inputs: rollout
    with: {{ agent: {{ model: judge, prompt: \"{{{{ transcript }}}}\\nFrom 0 to 10?\", answer: [{{ tag: score, required: true, number: true }}] }}, on: always, tries: {tries} }}
  reward: {{ op: derive, inputs: {{ rows: rollout, other: judge }}, with: {{ columns: {{ reward: \"coalesce(any_value(try_cast(action as float)) filter (where other) over (partition by task, sample), 5)\" }} }} }}
log: [rollout, judge, reward]\n"
        )
    };
    // The first to be asked about are praised.
    let says = |number: usize, _: &str, _: &Value| {
        Said::ok(spoken(&[("<score>", -0.5), (if number < 8 { "excellent" } else { "7 out of 10" }, -1.0), ("</score>", -0.5)], "stop"))
    };
    for (tries, asked, expected) in [(1, 8, "8,0,8,5.0"), (3, 16, "8,8,8,7.0")] {
        let server = Server::start(says);
        let run = trained(folder.path(), &tries.to_string(), &judged(&server.url, tries), &[]);
        assert_eq!(server.asked.lock().unwrap().len(), asked, "nothing is asked about again that has its number");
        let counts = single_row(&run, "select count(*), count(*) filter (valid), count(*) filter (len(prompt_tokens) > 20) from judge");
        let reward = single_row(&run, "select distinct reward from reward");
        assert_eq!(format!("{counts},{reward}"), expected);
        assert_eq!(single_row(&run, "select count(distinct seed) from judge"), "8");
    }
}

#[test]
fn another_model_reflects() {
    let folder = tempfile::tempdir().unwrap();
    let says = |number: usize, _: &str, body: &Value| {
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(1));
        if number == 1 {
            return Said::status(500, "oh");
        }
        Said::ok(spoken(&[("<remark>", -0.5), ("open (1, 1)", -1.0), ("</remark>", -0.5)], "stop"))
    };
    let server = Server::start(says);
    let run = trained(folder.path(), "reflects", &reflects(&server.url), &[]);
    let request_count = server.asked.lock().unwrap().len();
    assert!(request_count > 2);
    let counts = single_row(
        &run,
        "select count(*), count(*) filter (valid), count(*) filter (action = 'open (1, 1)') from trial where phase = 'reflect'",
    );
    assert_eq!(counts, format!("{request_count},{},{}", request_count - 1, request_count - 1), "the one without an answer says nothing");
    assert_eq!(single_row(&run, "select phase, cause, count(*) from errors group by all"), "reflect,error,1");
    // Who failed goes on, with an answer or without.
    let failed = "select count(distinct (task, sample)) from trial where phase = 'play' and attempt = 1";
    assert_eq!(single_row(&run, failed), request_count.to_string());
}

#[test]
fn what_a_server_cannot_do_is_refused_when_a_pipeline_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| fails(flow().arg("check").arg(pipeline(folder.path(), text)));
    let nodes = "  group: { op: group, inputs: rollout, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: MODEL } }
log:";
    let learns = |model: &str| plays("http://127.0.0.1:1/v1", "free", 0.0).replace("log:", &nodes.replace("MODEL", model));
    let output = check(&learns("actor"));
    assert!(output.contains("a server runs `actor`, whose weights aren't here, so `update` can't use it as `model`"), "{output}");
    let other = learns("own").replace("nodes:", "  own: { new: tiny }\nnodes:");
    let output = check(&other);
    assert!(output.contains("`update` reads rows of `rollout`, and those are written by `actor`, not in the tokens of `own`"), "{output}");
    let output = check(&plays("https://api.example.com/v1", "free", 0.0));
    assert!(output.contains("`openai`"), "{output}");
    let unknown = plays("http://127.0.0.1:1/v1", "free", 0.0).replace("timeout: 20", "temperature: 1");
    let output = check(&unknown);
    assert!(output.contains("no setting `temperature`"), "{output}");
}
