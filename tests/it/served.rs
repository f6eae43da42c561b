//! Servers that have nothing to load, that refuse to, or that are away; and a trainer that is gone while they generate.

use crate::common::*;
use crate::serve::{learns, many, start, Heard, Machine, BASE, PLAYED};
use crate::server::{Said, Server};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Rollouts of a model that nothing trains.
fn plays(model: &str, serve: &str) -> String {
    let all = learns(serve, "constrained");
    let rest = all.find("  group:").unwrap();
    let alone = all[..rest].replace(", weights: { after: update }", "").replace("iterations: 3", "iterations: 2");
    format!("{alone}log: [rollout]\n").replace(&format!("load: {BASE}, lora: {{ rank: 4 }}"), model)
}

/// Where nothing trains a published model its servers have the weights already: nothing is sent, whatever is trained
/// elsewhere, and as soon as flow has written the weights they are sent.
#[test]
fn a_server_of_a_model_that_nothing_trains_is_sent_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (name, model) in [
        ("whole", format!("load: {BASE}")),
        ("bf16", format!("load: {BASE}, dtype: bf16")),
        ("adapter", format!("load: {BASE}, lora: {{ rank: 4 }}")),
    ] {
        let machine = Machine::default();
        let server = start(&machine);
        let run = trained(folder.path(), name, &plays(&model, &many(&[&server], "")), &["--device", "cpu"]);
        let heard = machine.heard();
        assert!(!heard.is_empty() && heard.iter().all(|heard| *heard == Heard::Asked("own".into())), "{name}: {heard:?}");
        if name != "bf16" {
            let here = trained(folder.path(), &format!("{name}-here"), &plays(&model, ""), &[]);
            assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED), "{name}");
        }
        done(flow().arg("resume").arg(&run).args(["--iterations", "3", "--device", "cpu"]));
        assert!(machine.loads().is_empty(), "{name}: nor when it is resumed");
    }
    let source = trained(folder.path(), "source", &learns("", "constrained").replace(", lora: { rank: 4 }", ""), &[]);
    let machine = Machine::default();
    let server = start(&machine);
    trained(folder.path(), "trained", &plays(&format!("load: {}, of: actor", source.display()), &many(&[&server], "")), &[]);
    let weights = std::fs::read(source.join("weights/3/actor/model.safetensors")).unwrap();
    assert!(machine.loads().len() == 1 && machine.loads()[0].1 == weights);
}

/// A model in bf16 all of whose weights are trained is sent in its own kind.
#[test]
fn weights_in_16_bits_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let server = start(&machine);
    let whole =
        learns(&many(&[&server], ""), "constrained").replace(", lora: { rank: 4 }", ", dtype: bf16").replace("lr: 0.05", "lr: 0.001");
    trained(folder.path(), "whole", &whole, &["--device", "cpu"]);
    assert_eq!(machine.loads().len(), 3);
}

#[test]
fn a_server_that_takes_the_other_kind_of_weights_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let says = |name: &str, loads: bool, model: &str| {
        let server = Server::start(move |_, path, body| match path {
            "/v1/load_lora_adapter" if !loads => Said::status(404, "Not Found"),
            "/v1/load_lora_adapter" if body["lora_name"].is_null() => Said::status(400, "no name"),
            "/health" => Said::status(200, ""),
            "/collective_rpc" => Said::status(500, "reload_weights failed"),
            _ => Said::status(404, "Not Found"),
        });
        let yaml = learns(&many(&[&server], "").replace("tries: 3", "tries: 1"), "free").replace(", lora: { rank: 4 }", model);
        fails(flow().arg("run").arg(pipeline(folder.path(), &yaml)).arg("--out").arg(folder.path().join(name)))
    };
    let adapters = says("adapters", true, "");
    assert!(adapters.contains("start it without `--enable-lora`") && adapters.contains("reload_weights failed"), "{adapters}");
    let neither = says("neither", false, "");
    assert!(neither.contains("VLLM_SERVER_DEV_MODE=1") && !neither.contains("--enable-lora"), "{neither}");
    let whole = says("whole", false, ", lora: { rank: 4 }");
    assert!(whole.contains("`--enable-lora`") && whole.contains("A model without `lora` sends all weights"), "{whole}");
}

/// One server alone: it may come after the run has begun, and begin again.
#[test]
fn a_server_that_is_away_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let waits = |serve: &str| serve.replace("tries: 3", "tries: 1, wait: 60");
    let here = trained(folder.path(), "here", &learns("", "constrained"), &[]);
    for (name, gone) in [("late", (1, 4)), ("again", (12, 15)), ("once", (12, 13))] {
        let server = start(&Machine::away(gone.0, gone.1));
        let run = trained(folder.path(), name, &learns(&waits(&many(&[&server], "")), "constrained"), &[]);
        assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED), "{name}");
    }
    // No longer than asked, and not for a server that is there and another model.
    let wrong = start(&Machine::apart(0.4));
    for (name, serve, said) in [
        ("gone", ", serve: { vllm: [\"http://127.0.0.1:1\"], tries: 1, wait: 3 }".to_owned(), "127.0.0.1:1"),
        ("other", waits(&many(&[&wrong], "")), "isn't the model that learns"),
    ] {
        let begun = Instant::now();
        let written = pipeline(folder.path(), &learns(&serve, "constrained"));
        let message = fails(flow().arg("run").arg(written).arg("--out").arg(folder.path().join(name)));
        assert!(message.contains(said) && begun.elapsed() < Duration::from_secs(45), "{message}");
        assert_eq!(message.contains("waiting for one, at most 3 s"), name == "gone", "{message}");
    }
}

/// Speaks a trainer's protocol, with log-probabilities of 0, until it is asked for the first time after `patience`.
fn trainer(patience: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        stream.get_ref().set_read_timeout(Some(patience)).unwrap();
        loop {
            line.clear();
            // Nothing is asked for so long: it is gone.
            if !matches!(stream.read_line(&mut line), Ok(read) if read > 0) {
                return;
            }
            let request: Value = serde_json::from_str(&line).unwrap();
            stream.read_exact(&mut vec![0; request["bytes"].as_u64().unwrap() as usize]).unwrap();
            let numbers = 3 * request["choices"].as_u64().unwrap_or(0) as usize;
            let mut answer =
                json!({ "protocol": 1, "context": 256, "width": 32, "parameters": 9, "trained": 9, "bytes": 4 * numbers }).to_string();
            answer.push('\n');
            stream.get_mut().write_all(&[answer.as_bytes(), &vec![0; 4 * numbers]].concat()).unwrap();
        }
    });
    address
}

/// The server's answers take two minutes, and the trainer is gone before: the run ends with it, and not behind them.
#[test]
fn a_trainer_that_is_gone_ends_a_run_that_waits_for_servers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|_, path, body| match path {
        "/v1/load_lora_adapter" => Said::status(200, "Success"),
        "/v1/completions" if body["prompt_logprobs"].is_null() => Said { after: Duration::from_secs(120), ..Said::status(500, "late") },
        "/v1/completions" => {
            let entry = |token: &Value| json!({ token.to_string(): { "logprob": 0.0, "rank": 1 } });
            let entries: Vec<Value> = body["prompt"].as_array().unwrap().iter().map(entry).collect();
            Said::ok(json!({ "choices": [{ "finish_reason": "length", "prompt_logprobs": entries }] }))
        }
        _ => Said::status(200, ""),
    });
    let serve = many(&[&server], &format!(" }}, train: {{ address: \"{}\"", trainer(Duration::from_secs(6))));
    let written = pipeline(folder.path(), &learns(&serve, "free"));
    let begun = Instant::now();
    let message = fails(flow().arg("run").arg(written).arg("--out").arg(folder.path().join("run")));
    assert!(message.contains("it ended while it was asked nothing") && begun.elapsed() < Duration::from_secs(60), "{message}");
}
