//! Servers that flow starts on this machine, vLLM or what has a server of Tinker's protocol generate, by
//! `python -m flow_train.servers`: that program starts a server again which dies, and ends it when flow ends, however
//! flow ended.

use super::server::Server;
use flow_core::child::{each_line, find_module, Python};
use flow_model::folder::read;
use flow_model::on_disk::ADAPTER_CONFIG;
use flow_model::{Dtype, LoadModel, ModelFault, PolicyError, Result, ServeSettings, ServerSettings, StartSettings, VllmServers};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The Python of vLLM.
const VLLM: Python = Python { variable: "FLOW_VLLM_PYTHON", folder: ".venv-vllm", packages: "vllm" };
/// How long the front of a server of Tinker's protocol may take to answer.
const FRONT_WAIT: f64 = 120.0;
/// How many of a server's last lines an error quotes.
const QUOTED: usize = 12;
/// Between two looks at servers that are starting.
const LOOK: Duration = Duration::from_millis(200);
/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(20);

/// The servers of a model, which end with this value.
pub struct StartedServers {
    model: String,
    servers: Vec<Started>,
    wait: Duration,
}

/// One of them.
struct Started {
    child: Child,
    server: Server,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl StartedServers {
    /// Starts the servers that the model `name` asks for, if it does; they load the model in `base` meanwhile.
    ///
    /// # Errors
    /// If there is no Python with vLLM, or a server can't be started.
    pub fn begin(name: &str, load: &LoadModel, base: &dyn Fn(&LoadModel) -> Result<PathBuf>) -> Result<Option<StartedServers>> {
        let Some(serve) = &load.serve else { return Ok(None) };
        let fault = |what: String| PolicyError::model(name, ModelFault::Server { what });
        let (count, wait, python) = match (&serve.vllm, &serve.tinker) {
            (VllmServers::Started(start), _) => (start.start, start.wait, VLLM),
            (_, Some(_)) => (1, FRONT_WAIT, Python::TINKER),
            _ => return Ok(None),
        };
        let python = python.find().map_err(fault)?;
        let gpus = visible_gpus();
        let held = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<std::io::Result<Vec<_>>>();
        let held = held.map_err(|e| fault(format!("no free port: {e}")))?;
        let ports = held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<Vec<u16>>>();
        let ports = ports.map_err(|e| fault(format!("no free port: {e}")))?;
        // All are drawn before one is free again: no two servers have the same.
        drop(held);
        let base = base(load)?;
        let servers = ports.into_iter().enumerate().map(|(i, port)| {
            let gpu = (count > 1 && !gpus.is_empty()).then(|| gpus[i % gpus.len()].as_str());
            let mut command = Command::new(&python);
            command.args(["-m", "flow_train.servers", &base.display().to_string(), "--port", &port.to_string()]);
            match (&serve.vllm, &serve.tinker) {
                (VllmServers::Started(start), _) => command.args(words(load, start)?),
                (_, url) => command.arg("--tinker").args(url),
            };
            if let Some(gpu) = gpu {
                command.env("CUDA_VISIBLE_DEVICES", gpu);
            }
            let server = Server::new(name, &format!("http://127.0.0.1:{port}"), &ServerSettings::default())?;
            let (child, lines) = spawned(command).map_err(|e| fault(format!("{}: {e}", python.display())))?;
            Ok(Started { child, server, lines })
        });
        let servers = servers.collect::<Result<_>>()?;
        if serve.tinker.is_none() {
            eprintln!("note: {count} vLLM of `{name}` {} starting", if count == 1 { "is" } else { "are" });
        }
        Ok(Some(StartedServers { model: name.into(), servers, wait: Duration::from_secs_f64(wait) }))
    }

    /// `settings` with the addresses of the servers, once all of them answer.
    ///
    /// # Errors
    /// If one ends or doesn't answer in time; its last lines say why.
    pub fn ready(&mut self, settings: &ServeSettings) -> Result<ServeSettings> {
        let start = Instant::now();
        for started in &mut self.servers {
            while !started.server.healthy() {
                let ended = started.child.try_wait().ok().flatten().is_some();
                if ended || start.elapsed() > self.wait {
                    let why =
                        if ended { "ended before it answered".into() } else { format!("did not answer in {} s", self.wait.as_secs_f64()) };
                    let lines: Vec<String> = started.lines.lock().iter().cloned().collect();
                    let what = format!("the server that was started {why}. Its last lines:\n  {}", lines.join("\n  "));
                    return Err(PolicyError::model(&self.model, ModelFault::Server { what }));
                }
                std::thread::sleep(LOOK);
            }
        }
        let addresses = self.servers.iter().map(|started| format!("http://{}", started.server.host())).collect();
        // One that dies is back after as long as it took to start.
        let wait = settings.wait.max(self.wait.as_secs_f64());
        Ok(ServeSettings { vllm: VllmServers::Named(addresses), tinker: None, wait, ..settings.clone() })
    }
}

impl Drop for StartedServers {
    fn drop(&mut self) {
        // At the end of its input each one ends its server.
        self.servers.iter_mut().for_each(|started| drop(started.child.stdin.take()));
        let start = Instant::now();
        for started in &mut self.servers {
            while started.child.try_wait().ok().flatten().is_none() && start.elapsed() < GRACE {
                std::thread::sleep(LOOK);
            }
            let _ = started.child.kill();
            let _ = started.child.wait();
        }
    }
}

/// The arguments of a vLLM.
fn words(load: &LoadModel, start: &StartSettings) -> Result<Vec<String>> {
    let mut words = vec!["--memory".into(), start.memory.to_string()];
    words.extend(["--dtype".into(), if load.dtype == Dtype::Bf16 { "bf16" } else { "f32" }.into()]);
    let rank = match (&load.lora, &load.adapter) {
        (Some(lora), _) => Some(lora.rank),
        (None, Some(folder)) => read::<Value>(&Path::new(folder).join(ADAPTER_CONFIG))?["r"].as_u64().map(|rank| rank as usize),
        (None, None) => None,
    };
    words.extend(rank.into_iter().flat_map(|rank| ["--lora".into(), rank.to_string()]));
    words.extend(start.length.into_iter().flat_map(|length| ["--length".into(), length.to_string()]));
    words.extend(start.sleep.then(|| "--sleep".into()));
    words.push("--".into());
    words.extend(start.arguments.iter().cloned());
    Ok(words)
}

/// The GPUs that this process may use, as their driver or the environment numbers them.
fn visible_gpus() -> Vec<String> {
    if let Ok(named) = std::env::var("CUDA_VISIBLE_DEVICES") {
        return named.split(',').map(str::trim).filter(|gpu| !gpu.is_empty()).map(String::from).collect();
    }
    let count = (0..64).take_while(|i| Path::new(&format!("/dev/nvidia{i}")).exists()).count();
    (0..count).map(|i| i.to_string()).collect()
}

/// The process, and the last lines that it prints.
fn spawned(mut command: Command) -> std::io::Result<(Child, Arc<Mutex<VecDeque<String>>>)> {
    find_module("flow_train", &mut command).map_err(std::io::Error::other)?;
    // A group of its own: Ctrl-C ends a run between two iterations, and its servers after it.
    command.env("PYTHONUNBUFFERED", "1").process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    if let Some(stream) = child.stderr.take() {
        let kept = lines.clone();
        let read = move || {
            each_line(stream, |text| {
                if let Some(own) = text.strip_prefix("flow_train.servers: ").filter(|own| own.contains("started again")) {
                    eprintln!("warning: {own}");
                }
                let mut lines = kept.lock();
                if lines.len() == QUOTED {
                    lines.pop_front();
                }
                lines.push_back(text);
            });
        };
        std::thread::Builder::new().name("policy-server".into()).spawn(read)?;
    }
    Ok((child, lines))
}
