//! A server that generates for a model which learns here: it has the adapter of every version when that is asked for, and no other one.

use crate::common::*;
use crate::server::{Said, Server};
use flow::policy::{Example, LoadModel, ModelSettings, Policy, Request, Sampling};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

const BASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/models/llama-tied");

/// What a server was told and asked, in order.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Load { name: String, weights: Vec<u8> },
    Unload(String),
    Asked(String),
}

/// As vLLM: it computes with the adapters that lie where it is told, and knows no other ones.
#[derive(Clone, Default)]
struct Machine {
    heard: Arc<Mutex<Vec<Heard>>>,
    loaded: Arc<Mutex<BTreeMap<String, Policy>>>,
}

impl Machine {
    fn says(&self, path: &str, body: &Value) -> Said {
        let named = |key: &str| body[key].as_str().unwrap().to_owned();
        match path {
            "/v1/load_lora_adapter" => {
                let (name, path) = (named("lora_name"), named("lora_path"));
                if self.loaded.lock().unwrap().contains_key(&name) {
                    return Said::status(400, format!("The lora adapter '{name}' has already been loaded."));
                }
                assert!(Path::new(&path).is_absolute());
                let weights = std::fs::read(Path::new(&path).join("adapter_model.safetensors")).unwrap();
                let load = LoadModel { load: BASE.into(), adapter: Some(path), ..LoadModel::default() };
                let policy = Policy::start(&BTreeMap::from([("actor".to_string(), ModelSettings::Load(load))]), &[], 1, 1).unwrap();
                self.heard.lock().unwrap().push(Heard::Load { name: name.clone(), weights });
                self.loaded.lock().unwrap().insert(name, policy);
                Said::status(200, "Success: LoRA adapter added successfully.")
            }
            "/v1/unload_lora_adapter" => {
                let name = named("lora_name");
                let there = self.loaded.lock().unwrap().remove(&name).is_some();
                self.heard.lock().unwrap().push(Heard::Unload(name));
                if there {
                    Said::status(200, "Success")
                } else {
                    Said::status(404, "cannot be found")
                }
            }
            "/v1/completions" => {
                let name = named("model");
                let policy = self.loaded.lock().unwrap().get(&name).cloned();
                let Some(policy) = policy else { return Said::status(404, format!("The model `{name}` does not exist.")) };
                self.heard.lock().unwrap().push(Heard::Asked(name));
                let prompt: Vec<u32> = serde_json::from_value(body["prompt"].clone()).unwrap();
                Said::ok(if body["prompt_logprobs"].is_null() { written(&policy, prompt, body) } else { likely(&policy, &prompt) })
            }
            _ => Said::status(404, "Not Found"),
        }
    }

    /// It begins again, and knows nothing.
    fn restart(&self) {
        self.loaded.lock().unwrap().clear();
        self.heard.lock().unwrap().clear();
    }

    fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The adapters that were loaded, in order, and their weights.
    fn loads(&self) -> Vec<(String, Vec<u8>)> {
        let load = |heard: Heard| match heard {
            Heard::Load { name, weights } => Some((name, weights)),
            _ => None,
        };
        self.heard().into_iter().filter_map(load).collect()
    }
}

fn written(policy: &Policy, prompt: Vec<u32>, body: &Value) -> Value {
    let number = |key: &str| body[key].as_f64().unwrap();
    assert_eq!((number("repetition_penalty"), number("top_k"), body["return_token_ids"].as_bool()), (1.0, -1.0, Some(true)));
    let sampling = Sampling {
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens: number("max_tokens") as usize,
        ..Sampling::default()
    };
    let request = Request { prompt, seed: body["seed"].as_u64().unwrap(), choices: vec![], ..Request::default() };
    let reply = policy.generate("actor", 0, vec![request], sampling).unwrap().remove(0);
    let closed = reply.tokens.last().is_some_and(|&token| body["stop_token_ids"].as_array().unwrap().contains(&json!(token)));
    let names: Vec<String> = reply.tokens.iter().map(|token| format!("token_id:{token}")).collect();
    let finish = if closed { "stop" } else { "length" };
    json!({ "choices": [{ "finish_reason": finish, "token_ids": reply.tokens, "logprobs": { "tokens": names, "token_logprobs": reply.logprobs } }] })
}

fn likely(policy: &Policy, prompt: &[u32]) -> Value {
    let row = Example { prompt: prompt[..1].to_vec(), response: prompt[1..].to_vec(), ..Example::default() };
    let logprobs = policy.logprobs("actor", &[row], Some(1.0)).unwrap().remove(0);
    let entries = prompt[1..].iter().zip(logprobs).map(|(token, logprob)| json!({ token.to_string(): { "logprob": logprob, "rank": 1 } }));
    let entries: Vec<Value> = std::iter::once(Value::Null).chain(entries).collect();
    json!({ "choices": [{ "finish_reason": "length", "prompt_logprobs": entries }] })
}

/// GRPO of adapters, all of whose versions stay on disk. `serve` is what the model says of a server.
fn learns(serve: &str, decode: &str) -> String {
    format!(
        "flow: serve\niterations: 3\nseed: 5\nmodels:\n  actor: {{ load: {BASE}, lora: {{ rank: 4 }}{serve} }}\nnodes:
  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 2 }} }}
  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3, decode: {decode}, max_tokens: 6 }}, samples: 4, tries: 1 }} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: step_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 0.05 }} }}
log: [rollout, advantage, update]\nkeep: {{ every: 1 }}\n"
    )
}

fn at(server: &Server) -> String {
    format!(", serve: {{ openai: \"{}\", tries: 1, timeout: 60 }}", server.url)
}

/// The adapter's weights of a version, as the run has saved them.
fn saved(run: &Path, version: usize) -> Vec<u8> {
    std::fs::read(run.join(format!("weights/{version}/actor/adapter_model.safetensors"))).unwrap()
}

/// How far the log-probabilities that were recorded are from those of the update, in each iteration.
fn gaps(run: &Path) -> Vec<f64> {
    let rows = ask(run, "select value from metrics where node = 'update' and name = 'logprob_gap' order by iteration");
    rows.iter().map(|row| row["value"].as_f64().unwrap()).collect()
}

#[test]
fn a_server_has_the_adapter_of_every_version() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let says = machine.clone();
    let server = Server::start(move |_, path, body| says.says(path, body));
    let here = trained(folder.path(), "here", &learns("", "constrained"), &[]);
    let run = trained(folder.path(), "served", &learns(&at(&server), "constrained"), &[]);
    // What is asked in an iteration is asked of the weights that the update of the one before has made.
    let loads = machine.loads();
    assert_eq!(loads.len(), 3, "{:?}", machine.heard().len());
    for (version, (name, weights)) in loads.iter().enumerate() {
        assert!(name.starts_with(&format!("actor-{version}-")), "{name}");
        assert!(*weights == saved(&run, version) && (version == 0 || *weights != saved(&run, version - 1)), "{name}");
    }
    let mut requests: Vec<String> =
        machine.heard().into_iter().filter_map(|h| if let Heard::Asked(name) = h { Some(name) } else { None }).collect();
    requests.dedup();
    assert_eq!(requests, loads.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    // It is the same arithmetic, so the same is drawn as without a server, and its log-probabilities are those of the update.
    let played = "select iteration, task, sample, turn, action, weights, reward from rollout order by all";
    assert_eq!(ask(&run, played), ask(&here, played));
    assert!(ask(&run, played).iter().any(|row| row["weights"] == 2));
    let gaps = gaps(&run);
    assert!(gaps.len() == 3 && gaps.iter().all(|gap| *gap < 1e-4), "{gaps:?}");
}

#[test]
fn a_resumed_run_tells_the_server_again() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let says = machine.clone();
    let server = Server::start(move |_, path, body| says.says(path, body));
    let run = trained(folder.path(), "free", &learns(&at(&server), "free"), &["--set", "iterations=2"]);
    assert!(ask(&run, "select max(len(logprobs)) as tokens from rollout")[0]["tokens"].as_u64() > Some(1));
    machine.restart();
    done(flow().arg("resume").arg(&run).args(["--iterations", "8"]));
    let loads = machine.loads();
    let versions: Vec<&str> = loads.iter().map(|(name, _)| name.split('-').nth(1).unwrap()).collect();
    assert_eq!(versions, ["2", "3", "4", "5", "6", "7"]);
    assert!((2..8).all(|version| loads[version - 2].1 == saved(&run, version)));
    let gaps = gaps(&run);
    assert!(gaps.len() == 8 && gaps.iter().all(|gap| *gap < 1e-4), "{gaps:?}");
    // What no node can ask for any more is unloaded, what the killed process left among it.
    let unloaded =
        |version: u32| machine.heard().iter().any(|h| matches!(h, Heard::Unload(name) if name.starts_with(&format!("actor-{version}-"))));
    assert!((0..3).all(unloaded) && !unloaded(7));
    let lent = std::fs::read_dir(run.join("lent")).unwrap().count();
    assert_eq!(lent, machine.loaded.lock().unwrap().len());
    // A server that still has it is content, and so is the run.
    done(flow().arg("resume").arg(&run).args(["--iterations", "9"]));
    assert_eq!(machine.loads().last().map(|(_, weights)| weights.clone()), Some(saved(&run, 8)));
}

#[test]
fn a_server_that_cannot_load_adapters_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let fails_with = |name: &str, message: fn(&str) -> Said| {
        let server = Server::start(move |_, path, _| message(path));
        let pipeline = pipeline(folder.path(), &learns(&at(&server), "free"));
        fails(flow().arg("run").arg(pipeline).arg("--out").arg(folder.path().join(name)))
    };
    let message = fails_with("without", |_| Said::status(404, "{\"detail\":\"Not Found\"}"));
    assert!(message.contains("/v1/load_lora_adapter: HTTP 404"), "{message}");
    assert!(message.contains("`--enable-lora`") && message.contains("VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"), "{message}");
    let message = fails_with("rank", |_| Said::status(500, "LoRA rank 4 is greater than max_lora_rank 2"));
    assert!(message.contains("didn't load its adapter") && message.contains("max_lora_rank 2"), "{message}");
    let message = fails_with("lost", |path| match path {
        "/v1/load_lora_adapter" => Said::status(200, "Success"),
        _ => Said::status(404, "The model does not exist."),
    });
    assert!(message.contains("/v1/completions: HTTP 404: The model does not exist."), "{message}");
    let message = fails_with("texts", |path| match path {
        "/v1/load_lora_adapter" => Said::status(200, "Success"),
        _ => Said::ok(
            json!({ "choices": [{ "text": "up", "finish_reason": "stop", "logprobs": { "tokens": ["up"], "token_logprobs": [-1.0] } }] }),
        ),
    });
    assert!(message.contains("`return_token_ids`"), "{message}");
}

#[test]
fn what_a_server_cannot_generate_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| fails(flow().arg("check").arg(pipeline(folder.path(), text)));
    let serve = ", serve: { openai: \"http://127.0.0.1:1/v1\" }";
    let output = check(&learns(serve, "free").replace("lora: { rank: 4 }, ", ""));
    assert!(
        output.contains("pipeline.yaml:5:") && output.contains("a server is told of the adapters of `actor`, and it has none"),
        "{output}"
    );
    let hot = learns(serve, "free").replace("max_tokens: 6", "max_tokens: 6, temperature: 0.7");
    let output = check(&hot);
    assert!(output.contains("`rollout` samples at 0.7") && output.contains("processed_logprobs"), "{output}");
    done(flow().arg("check").arg(pipeline(folder.path(), &hot.replace("/v1\" }", "/v1\", tempered: true }"))));
    let output = check(&learns(", serve: { openai: \"http://127.0.0.1:1/v1\", port: 1 }", "free"));
    assert!(output.contains("`port`"), "{output}");
}
