//! A server that generates for a model which learns here: it has the adapter of every version when that is asked for,
//! and no other one.

use crate::common::*;
use crate::server::{Said, Server};
use flow_model::{Example, LoadModel, ModelSettings, Request, Sampling};
use flow_policy::Policy;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const BASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/models/llama-tied");

/// What a server was told and asked, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Load {
        name: String,
        weights: Vec<u8>,
    },
    Unload(String),
    Asked(String),
    Slept,
    Woken,
    /// What it was asked while it slept.
    Disturbed(String),
}

/// As vLLM: it computes with the adapters that lie where it is told, and knows no other ones.
#[derive(Clone, Default)]
pub struct Machine {
    heard: Arc<Mutex<Vec<Heard>>>,
    loaded: Arc<Mutex<BTreeMap<String, Policy>>>,
    /// The weights that took the place of its own.
    own: Arc<Mutex<Option<Policy>>>,
    /// Where adapters were loaded from.
    folders: Arc<Mutex<Vec<PathBuf>>>,
    /// How far its log-probabilities are from those of the model.
    off: f64,
    /// After so many answers it is gone, and after the second number of requests it is there again, knowing nothing.
    gone: Option<(usize, usize)>,
    /// How long it loads an adapter once it is there again.
    loads: Duration,
    requests: Arc<Mutex<usize>>,
    asleep: Arc<Mutex<bool>>,
    /// How many times it doesn't wake up.
    late: Arc<Mutex<usize>>,
}

impl Machine {
    /// One that has to be woken so many times more.
    pub fn late(times: usize) -> Machine {
        Machine { late: Arc::new(Mutex::new(times)), ..Machine::default() }
    }

    /// One that is gone after the first number of requests, and back after the second.
    pub fn away(from: usize, to: usize) -> Machine {
        Machine { gone: Some((from, to)), ..Machine::default() }
    }

    /// One whose log-probabilities are so far from the model's.
    pub fn apart(off: f64) -> Machine {
        Machine { off, ..Machine::default() }
    }

    fn says(&self, path: &str, body: &Value) -> Said {
        let count = {
            let mut requests = self.requests.lock().unwrap();
            *requests += 1;
            *requests
        };
        match self.gone {
            Some((from, to)) if (from..to).contains(&count) => {
                self.loaded.lock().unwrap().clear();
                *self.own.lock().unwrap() = None;
                return Said::status(0, "");
            }
            _ => {}
        }
        let mut asleep = self.asleep.lock().unwrap();
        let hears = |heard| self.heard.lock().unwrap().push(heard);
        match path {
            "/health" => return Said::status(200, ""),
            "/sleep?level=1" => {
                hears(Heard::Slept);
                *asleep = true;
                return Said::status(200, "");
            }
            "/wake_up" => {
                let mut late = self.late.lock().unwrap();
                if *late > 0 {
                    *late -= 1;
                    return Said::status(500, "out of memory");
                }
                hears(Heard::Woken);
                *asleep = false;
                return Said::status(200, "");
            }
            _ if *asleep => {
                hears(Heard::Disturbed(path.into()));
                return Said::status(500, "CUDA error: an illegal memory access");
            }
            _ => drop(asleep),
        }
        let named = |key: &str| body[key].as_str().unwrap().to_owned();
        match path {
            "/v1/load_lora_adapter" => {
                let (name, path) = (named("lora_name"), named("lora_path"));
                if self.loaded.lock().unwrap().contains_key(&name) {
                    return Said::status(400, format!("The lora adapter '{name}' has already been loaded."));
                }
                assert!(Path::new(&path).is_absolute());
                self.folders.lock().unwrap().push(path.clone().into());
                if self.gone.is_some_and(|(_, to)| count >= to) {
                    std::thread::sleep(self.loads);
                }
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
            "/collective_rpc" => {
                assert_eq!(body["method"], "reload_weights");
                let folder = body["kwargs"]["weights_path"].as_str().unwrap().to_owned();
                let weights = std::fs::read(Path::new(&folder).join("model.safetensors")).unwrap();
                *self.own.lock().unwrap() = Some(model(&folder));
                let name = Path::new(&folder).file_name().unwrap().to_str().unwrap().to_owned();
                self.heard.lock().unwrap().push(Heard::Load { name, weights });
                Said::ok(json!({ "results": [null] }))
            }
            "/reset_prefix_cache" => Said::status(200, ""),
            "/v1/completions" => {
                let name = body["model"].as_str().unwrap_or("own").to_owned();
                let own = || self.own.lock().unwrap().get_or_insert_with(|| model(BASE)).clone();
                let policy = if body["model"].is_null() { Some(own()) } else { self.loaded.lock().unwrap().get(&name).cloned() };
                let Some(policy) = policy else { return Said::status(404, format!("The model `{name}` does not exist.")) };
                self.heard.lock().unwrap().push(Heard::Asked(name));
                let prompt: Vec<u32> = serde_json::from_value(body["prompt"].clone()).unwrap();
                Said::ok(if body["prompt_logprobs"].is_null() {
                    written(&policy, prompt, body)
                } else {
                    likely(&policy, &prompt, self.off)
                })
            }
            _ => Said::status(404, "Not Found"),
        }
    }

    fn folders(&self) -> Vec<PathBuf> {
        self.folders.lock().unwrap().clone()
    }

    /// It begins again, and knows nothing.
    fn restart(&self) {
        self.loaded.lock().unwrap().clear();
        self.heard.lock().unwrap().clear();
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The adapters that were loaded, in order, and their weights.
    pub fn loads(&self) -> Vec<(String, Vec<u8>)> {
        let load = |heard: Heard| match heard {
            Heard::Load { name, weights } => Some((name, weights)),
            _ => None,
        };
        self.heard().into_iter().filter_map(load).collect()
    }
}

/// The model in a folder.
fn model(folder: &str) -> Policy {
    let load = LoadModel { load: folder.into(), ..LoadModel::default() };
    Policy::start(&BTreeMap::from([("actor".to_string(), ModelSettings::Load(load))]), &[], 1, 1).unwrap()
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

pub fn likely(policy: &Policy, prompt: &[u32], off: f64) -> Value {
    let row = Example { prompt: prompt[..1].to_vec(), response: prompt[1..].to_vec(), ..Example::default() };
    let logprobs = policy.logprobs("actor", &[row], Some(1.0)).unwrap().remove(0);
    let entries = prompt[1..]
        .iter()
        .zip(logprobs)
        .map(|(token, logprob)| json!({ token.to_string(): { "logprob": f64::from(logprob) - off, "rank": 1 } }));
    let entries: Vec<Value> = std::iter::once(Value::Null).chain(entries).collect();
    json!({ "choices": [{ "finish_reason": "length", "prompt_logprobs": entries }] })
}

/// GRPO of adapters, all of whose versions stay on disk. `serve` is what the model says of a server.
pub fn learns(serve: &str, decode: &str) -> String {
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
    // It is the same arithmetic, so the same is drawn as without a server, and its log-probabilities are those of the
    // update.
    let played = "select iteration, task, sample, turn, action, weights, reward from rollout order by all";
    assert_eq!(ask(&run, played), ask(&here, played));
    assert!(ask(&run, played).iter().any(|row| row["weights"] == 2));
    let gaps = gaps(&run);
    assert!(gaps.len() == 3 && gaps.iter().all(|gap| *gap < 1e-4), "{gaps:?}");
}

/// All weights of a model learn, and take the place of a server's own: one version at a time, also where a server
/// begins again with those that it was started with, and where two versions play by turns.
#[test]
fn a_server_has_the_whole_weights_of_every_version() {
    let folder = tempfile::tempdir().unwrap();
    let whole = |serve: &str| learns(serve, "constrained").replace(", lora: { rank: 4 }", "").replace("lr: 0.05", "lr: 0.01");
    let here = trained(folder.path(), "here", &whole(""), &[]);
    let machines = [Machine::default(), Machine { gone: Some((6, 8)), ..Machine::default() }];
    let servers = machines.each_ref().map(start);
    let run = trained(folder.path(), "whole", &whole(&many(&servers.each_ref(), "")), &[]);
    let loads = machines[0].loads();
    assert_eq!(loads.len(), 3);
    for (version, (name, weights)) in loads.iter().enumerate() {
        let saved = std::fs::read(run.join(format!("weights/{version}/actor/model.safetensors"))).unwrap();
        assert!(name.starts_with(&format!("actor-{version}-")) && *weights == saved, "{name}");
    }
    assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED));
    // One alone is waited for.
    let machine = Machine { gone: Some((6, 8)), ..Machine::default() };
    let server = start(&machine);
    let alone = trained(folder.path(), "alone", &whole(&many(&[&server], "").replace("tries: 3", "tries: 6")), &[]);
    assert!(machine.loads().len() > 3, "it began again, and was told again");
    assert_eq!(ask(&alone, PLAYED), ask(&here, PLAYED));
    let gaps = gaps(&run);
    assert!(gaps.len() == 3 && gaps.iter().all(|gap| *gap < 1e-4), "{gaps:?}");

    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1:1\n127.0.0.1:2\n").unwrap();
    let written = pipeline(folder.path(), &whole(&many(&[&servers[0]], "")));
    let out = folder.path().join("hosted");
    let message = fails(flow().arg("run").arg(written).arg("--out").arg(out).arg("--hosts").arg(hosts).args(["--process", "0"]));
    assert!(message.contains("asks for one process"), "{message}");
    let shared = whole(&many(&[&servers[0]], "")).replace(
        "nodes:",
        &format!("  other: {{ load: {BASE}, lora: {{ rank: 4 }}, serve: {{ vllm: [\"{}\"] }} }}\nnodes:", servers[0].url),
    );
    let shared = shared.replace("lr: 0.01", "lr: 0.01, kl: 0.1, reference: other");
    let message = fails(flow().arg("run").arg(pipeline(folder.path(), &shared)).arg("--out").arg(folder.path().join("shared")));
    assert!(message.contains("is named a second time, by `other`"), "{message}");

    // The newest and the one before play in the same iteration.
    let both = |serve: &str| {
        whole(serve).replace("  group:", "  old: { op: rollout, inputs: { tasks: tasks, weights: { after: update, staleness: 1 } }, with: { agent: { model: actor, max_turns: 3, decode: constrained }, samples: 2 } }\n  group:").replace("log: [rollout,", "log: [rollout, old,")
    };
    let here = trained(folder.path(), "both-here", &both(""), &[]);
    let server = start(&Machine::default());
    let run = trained(folder.path(), "both", &both(&many(&[&server], "")), &[]);
    let old = PLAYED.replace("from rollout", "from old");
    assert_eq!((ask(&run, PLAYED), ask(&run, &old)), (ask(&here, PLAYED), ask(&here, &old)));
}

/// A server that sees another disk loads what its receiver was sent.
#[test]
fn a_receiver_has_the_weights_of_every_version() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    let mut receiver = std::process::Command::new("python3");
    receiver.args(["-m", "flow_train.receiver", "--listen", "127.0.0.1:0", "--folder"]).arg(&there);
    receiver
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .env("FLOW_RECEIVER_SECRET", "s")
        .stdout(std::process::Stdio::piped());
    let mut receiver = receiver.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(receiver.stdout.take().unwrap()), &mut line).unwrap();
    let address = line.split([' ', ',']).find(|word| word.starts_with("http")).unwrap().to_owned();
    let machine = Machine::default();
    let server = start(&machine);
    let six = |serve: &str| learns(serve, "constrained").replace("iterations: 3", "iterations: 6");
    let here = trained(folder.path(), "here", &six(""), &[]);
    let written = pipeline(folder.path(), &six(&many(&[&server], &format!(", receivers: [\"{address}\"]"))));
    let run = folder.path().join("sent");
    done(flow().arg("run").arg(&written).arg("--out").arg(&run).env("FLOW_RECEIVER_SECRET", "s"));
    let message = fails(flow().arg("run").arg(&written).arg("--out").arg(folder.path().join("other")).env("FLOW_RECEIVER_SECRET", "t"));
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    assert!(message.contains("HTTP 401") && message.contains("FLOW_RECEIVER_SECRET"), "{message}");
    assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED));
    let loads = machine.loads();
    assert!(loads.len() == 6 && loads.iter().enumerate().all(|(version, (_, weights))| *weights == saved(&run, version)));
    assert!(machine.folders().iter().all(|loaded| loaded.starts_with(&there)), "{:?}", machine.folders());
    assert!(std::fs::read_dir(&there).unwrap().count() < 6, "versions that nobody asks for any more go there, too");
}

/// A trainer of two processes learns and a server generates: of the model nothing is in flow.
#[test]
#[ignore = "needs PyTorch, transformers and peft: make train-parity"]
fn a_server_has_the_adapter_of_every_version_of_a_trainer() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let says = machine.clone();
    let server = Server::start(move |_, path, body| says.says(path, body));
    let slow = |serve: &str| learns(serve, "constrained").replace("lr: 0.05", "lr: 1.0e-3, eps: 1.0e-3, kl: 0.1");
    let here = trained(folder.path(), "here", &slow(""), &[]);
    let run = trained(folder.path(), "served", &slow(&format!("{}, train: {{ torchrun: 2 }}", at(&server))), &["--set", "iterations=2"]);
    done(flow().arg("resume").arg(&run).args(["--iterations", "3", "--ranks", "1"]));
    let loads = machine.loads();
    let versions: Vec<&str> = loads.iter().map(|(name, _)| name.split('-').nth(1).unwrap()).collect();
    assert_eq!(versions, ["0", "1", "2"]);
    // What it began with flow has written, and what it became the trainer.
    assert!((1..3).all(|version| loads[version].1 == saved(&run, version)));
    let played = "select iteration, task, sample, turn, action, weights, reward from rollout order by all";
    assert_eq!(ask(&run, played), ask(&here, played));
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
    assert!(message.contains("`prompt_logprobs`"), "{message}");
}

/// What a model says of these servers.
pub fn many(servers: &[&Server], more: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.url)).collect();
    format!(", serve: {{ vllm: [{}], tries: 3, timeout: 60{more} }}", urls.join(", "))
}

pub fn start(machine: &Machine) -> Server {
    let says = machine.clone();
    Server::start(move |_, path, body| says.says(path, body))
}

pub const PLAYED: &str = "select iteration, task, sample, turn, action, weights, reward from rollout order by all";

/// The figure of a server in each iteration.
fn server_gaps(run: &Path, server: &Server) -> Vec<f64> {
    let host = server.url.trim_start_matches("http://").trim_end_matches("/v1");
    let rows = ask(run, &format!("select value from metrics where node = 'rollout' and name = 'gap_{host}' order by iteration"));
    rows.iter().map(|row| row["value"].as_f64().unwrap()).collect()
}

#[test]
fn many_servers_give_the_rows_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let machines = [Machine::default(), Machine::default()];
    let servers = machines.each_ref().map(start);
    let here = trained(folder.path(), "here", &learns("", "constrained"), &[]);
    let run = trained(folder.path(), "many", &learns(&many(&servers.each_ref(), ""), "constrained"), &[]);
    assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED));
    for (machine, server) in machines.iter().zip(&servers) {
        assert_eq!(machine.loads().len(), 3, "each has the adapter of every version");
        let asked = machine.heard().iter().filter(|heard| matches!(heard, Heard::Asked(_))).count();
        assert!(asked > 3, "a proof a version, and the calls of its sessions: {asked}");
        let gaps = server_gaps(&run, server);
        assert!(gaps.len() == 3 && gaps.iter().all(|gap| *gap < 1e-4), "{gaps:?}");
    }
}

#[test]
fn a_server_that_dies_is_left_out_and_rejoins_after_a_proof() {
    let folder = tempfile::tempdir().unwrap();
    let here = trained(folder.path(), "here", &learns("", "constrained").replace("iterations: 3", "iterations: 6"), &[]);
    let six = |serve: &str| {
        learns(serve, "constrained").replace("iterations: 3", "iterations: 6").replace("tries: 1 }", "tries: 1, max_failed: 0 }")
    };
    for (name, to) in [("dies", usize::MAX), ("rejoins", 14)] {
        let machines = [Machine::default(), Machine { gone: Some((8, to)), ..Machine::default() }];
        let servers = machines.each_ref().map(start);
        let run = trained(folder.path(), name, &six(&many(&servers.each_ref(), "")), &[]);
        assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED), "{name}");
        let loads = machines[1].loads().len();
        assert!(name == "rejoins" || loads < 6, "{name}: {loads}");
    }
    // One alone is waited for, by every call while it loads its adapters again.
    let machine = Machine { gone: Some((12, 14)), loads: Duration::from_secs(2), ..Machine::default() };
    let server = start(&machine);
    let run = trained(folder.path(), "alone", &six(&many(&[&server], "")), &[]);
    assert_eq!(ask(&run, PLAYED), ask(&here, PLAYED), "alone");
    assert!(machine.loads().len() > 6, "{}", machine.loads().len());
}

#[test]
fn a_scheduler_says_where_servers_are_and_a_manifest_what_is_promised() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::default();
    let server = start(&machine);
    let written = pipeline(folder.path(), &learns(", serve: { vllm: [\"http://127.0.0.1:1\"], tries: 1 }", "free"));
    let run = folder.path().join("elsewhere");
    done(flow().arg("run").arg(&written).arg("--out").arg(&run).env("FLOW_SERVERS", &server.url));
    assert_eq!(machine.loads().len(), 3);
    let manifest = std::fs::read_to_string(run.join("manifest.json")).unwrap();
    assert!(manifest.contains("L1: servers generate"), "{manifest}");
    assert!(done(flow().arg("show").arg(&run)).contains("L1: servers generate: rows hold exactly the sampled tokens"));
    let message = fails(flow().arg("run").arg(&written).env("FLOW_SERVERS", "10.0.0.1:8000"));
    assert!(message.contains("FLOW_SERVERS: `10.0.0.1:8000` is no address"), "{message}");
}

#[test]
fn a_machine_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|_, path, _| match path {
        "/health" => Said::status(200, ""),
        "/version" => Said::ok(json!({ "version": "0.32.0" })),
        "/v1/models" => Said::ok(json!({ "data": [{ "id": "base" }] })),
        "/v1/load_lora_adapter" => Said::status(400, "no name"),
        _ => Said::status(404, "Not Found"),
    });
    let written = pipeline(folder.path(), &learns(&at(&server), "free"));
    let found: Value = serde_json::from_str(&done(flow().arg("doctor").arg(&written).args(["--format", "json"]))).unwrap();
    let named = |name: &str| found.as_array().unwrap().iter().find(|finding| finding["name"] == name).unwrap().clone();
    assert_eq!(named("server")["found"], format!("{} 0.32.0, serves base", server.url));
    assert!(["good", "slow"].contains(&named("CPU")["state"].as_str().unwrap()));
    for name in ["flow", "memory", "device", "libtorch", "DuckDB", "Python", "environments"] {
        assert!(!named(name)["found"].as_str().unwrap().is_empty(), "{found}");
    }
    let output = flow().args(["doctor", "http://127.0.0.1:1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(1) && text.contains("wrong  server       http://127.0.0.1:1") && text.contains("no answer"),
        "{text}"
    );
}

#[test]
fn a_server_with_another_model_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (Machine::default(), Machine { off: 0.4, ..Machine::default() });
    let servers = [start(&own), start(&other)];
    let run = trained(folder.path(), "two", &learns(&many(&servers.each_ref(), ""), "constrained"), &[]);
    let asked = other.heard().iter().filter(|heard| matches!(heard, Heard::Asked(_))).count();
    assert!(asked <= 4 && server_gaps(&run, &servers[1]).is_empty(), "it is asked for proofs alone: {asked}");
    let alone = pipeline(folder.path(), &learns(&many(&[&servers[1]], ""), "free"));
    let message = fails(flow().arg("run").arg(&alone).arg("--out").arg(folder.path().join("one")));
    assert!(message.contains("isn't the model that learns") && message.contains("`max_gap` is 0.25"), "{message}");
    let wide = learns(&many(&[&servers[1]], ", max_gap: 0.5"), "free");
    trained(folder.path(), "wide", &wide, &[]);
}

#[test]
fn what_a_server_cannot_generate_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| fails(flow().arg("check").arg(pipeline(folder.path(), text)));
    let serve = ", serve: { openai: \"http://127.0.0.1:1/v1\" }";
    let output = check(&learns(", serve: { vllm: [\"http://a:2\", \"http://a:3\"], receivers: [\"http://a:4\"] }", "free"));
    assert!(output.contains("pipeline.yaml:5:") && output.contains("names 1 receivers for 2 servers"), "{output}");
    let hot = learns(serve, "free").replace("max_tokens: 6", "max_tokens: 6, temperature: 0.7");
    let output = check(&hot);
    assert!(output.contains("`rollout` samples at 0.7") && output.contains("processed_logprobs"), "{output}");
    done(flow().arg("check").arg(pipeline(folder.path(), &hot.replace("/v1\" }", "/v1\", tempered: true }"))));
    let output = check(&learns(", serve: { openai: \"http://127.0.0.1:1/v1\", port: 1 }", "free"));
    assert!(output.contains("`port`"), "{output}");
    let output = check(&learns(", serve: { openai: \"http://127.0.0.1:1/v1\", vllm: [\"http://127.0.0.1:2\"] }", "free"));
    assert!(output.contains("are named once"), "{output}");
    let output = check(&learns(", serve: { vllm: [\"http://a:2\", \"http://a:2\"] }", "free"));
    assert!(output.contains("http://a:2 is named twice"), "{output}");
    let output = check(&learns(serve, "free").replace("lora: { rank: 4 }", "lora: { rank: 4 }, head: value"));
    assert!(output.contains("`modules_to_save`"), "{output}");
    let cut = learns(", serve: { vllm: [\"http://a:2\"], tempered: true }", "free").replace("max_tokens: 6", "max_tokens: 6, top_p: 0.9");
    assert!(check(&cut).contains("after `top_p`, and an update"));
    let warm = learns(", serve: { sglang: [\"http://a:2\"] }", "free").replace("max_tokens: 6", "max_tokens: 6, temperature: 0.7");
    done(flow().arg("check").arg(pipeline(folder.path(), &warm)));
    assert!(check(&learns("", "constrained").replace("max_tokens: 6", "max_tokens: 6, stop: [x]")).contains("no text ends it before"));
}
