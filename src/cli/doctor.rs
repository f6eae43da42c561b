//! `flow doctor`: what this machine has, and what would be slow or missing.

use super::colours::{GREEN, RED, YELLOW};
use super::error::Result;
use super::output::{answer, paint, CommandResult, OutputFormat};
use crate::ops;
use clap::Args;
use flow_core::child::{find_module, Python};
use flow_core::files::kernel_bytes;
use flow_core::printable::printable;
use flow_env::{installed, TABLE};
use flow_policy::rates::{operations, tokens, TokenRates};
use flow_policy::{gpus, instructions, libtorch, DeviceChoice, FoundDevice, Hardware};
use flow_serve::{look, ServerStatus};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};

/// For how long each of the four speeds of a model is measured.
const SECONDS: f64 = 1.25;

#[derive(Args)]
pub struct DoctorArgs {
    /// Pipelines whose servers are checked, addresses of servers, as http://127.0.0.1:8000 (of one of Tinker's protocol
    /// also https: what it makes of a gradient is measured), or models (folders), whose speed with
    /// `base: int8` is measured for some five seconds each
    subjects: Vec<String>,
    /// The device for models; the variable FLOW_DEVICE is the default
    #[arg(long, value_name = "auto|cpu|cuda")]
    device: Option<DeviceChoice>,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// How good something is.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// It works, slower than it could.
    Slow,
    /// It isn't there; what needs it says so.
    Missing,
    /// It was asked for, and isn't available.
    Wrong,
}

/// One thing that was looked at.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Finding {
    name: String,
    found: String,
    state: State,
    /// Why, and what helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Finding {
    fn new(name: &str, found: impl Into<String>) -> Finding {
        Finding { name: name.into(), found: found.into(), state: State::Good, note: None }
    }

    fn but(self, state: State, note: impl Into<String>) -> Finding {
        Finding { state, note: Some(note.into()), ..self }
    }

    /// What was looked at and isn't there, or doesn't work.
    fn fault(name: &str, found: impl Into<String>, why: impl ToString) -> Finding {
        Finding::new(name, found).but(State::Wrong, why.to_string())
    }
}

impl DoctorArgs {
    pub fn run(self) -> CommandResult {
        let mut findings = vec![Finding::new("flow", env!("CARGO_PKG_VERSION")), cpu(), memory(), self.device()?];
        findings.extend([torch(), duckdb(), python()]);
        findings.push(environments());
        let (addresses, tinker) = self.addresses()?;
        findings.extend(addresses.iter().map(|address| server(look(address))));
        findings.extend(tinker.iter().map(|address| hosted(address)));
        findings.extend(self.subjects.iter().filter(|subject| is_model(subject)).map(|path| speed(path)));
        match self.format {
            OutputFormat::Json => answer(&serde_json::to_string_pretty(&findings)?),
            OutputFormat::Text => findings.iter().for_each(|finding| paint(&line(finding))),
        }
        let faulty = findings.iter().any(|finding| finding.state == State::Wrong);
        Ok(if faulty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn device(&self) -> Result<Finding> {
        let choice = self.device.map_or_else(DeviceChoice::named, Ok)?;
        Ok(match FoundDevice::look(choice) {
            Ok(device) => match device.note().filter(|_| !device.is_cuda()) {
                Some(note) => Finding::new("device", device.to_string()).but(State::Slow, note),
                None => Finding::new("device", device.to_string()),
            },
            Err(error) => Finding::fault("device", choice.to_string(), error),
        })
    }

    /// The servers that were named, and those of pipelines that were named; then servers of Tinker's protocol.
    fn addresses(&self) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
        let (mut addresses, mut tinker) = (BTreeSet::new(), BTreeSet::new());
        for subject in &self.subjects {
            if ["http://", "https://"].iter().any(|scheme| subject.starts_with(scheme)) {
                let of = if subject.starts_with("https://") { &mut tinker } else { &mut addresses };
                of.insert(subject.clone());
            }
            if is_model(subject) || subject.starts_with("http") {
                continue;
            }
            let pipeline = flow_pipeline::load(Path::new(subject), &[], &ops::catalog())?;
            for model in pipeline.models.values() {
                let (serve, text) = (&model["serve"], |address: &Value| address.as_str().map(String::from));
                tinker.extend([&serve["tinker"], &model["train"]["tinker"]].into_iter().filter_map(text));
                let listed = [&serve["vllm"], &serve["sglang"]].into_iter().filter_map(Value::as_array).flatten();
                addresses.extend(listed.chain([&serve["openai"], &model["openai"]]).filter_map(text));
            }
        }
        Ok((addresses, tinker))
    }
}

/// Whether a subject is neither an address nor a pipeline's file.
fn is_model(subject: &str) -> bool {
    let path = Path::new(subject);
    path.is_dir() || path.extension().is_some_and(|end| end == "gguf")
}

fn line(finding: &Finding) -> String {
    let (colour, mark) = match finding.state {
        State::Good => (GREEN, "ok"),
        State::Slow => (YELLOW, "slow"),
        State::Missing => (YELLOW, "none"),
        State::Wrong => (RED, "wrong"),
    };
    let note = finding.note.as_ref().map(|note| format!("\n       {}", printable(note))).unwrap_or_default();
    format!("{colour}{mark:<5}{colour:#}  {:<12} {}{note}\n", finding.name, printable(&finding.found))
}

fn cpu() -> Finding {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("a CPU", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let isa = instructions();
    let names = match isa.as_str() {
        "plain" => "plain code",
        "avx512" => "avx512 (VNNI)",
        other => other,
    };
    let finding = Finding::new("CPU", format!("{name}, {cores} cores; 8 bits by {names}: {:.0} GOP/s a core", operations()));
    let threads = std::env::var("OMP_NUM_THREADS").ok();
    match (isa.as_str(), threads.as_deref()) {
        ("plain", _) => {
            finding.but(State::Slow, "`base` and `act` multiply without this CPU's vectors: flow knows AVX2, AVX-512 with VNNI, and AMX")
        }
        ("avx2", _) => finding.but(State::Slow, "with AVX-512 and VNNI, or AMX, `base: int8` and `act: int8` are several times as fast"),
        (_, Some("1")) if cores > 1 => {
            finding.but(State::Slow, format!("OMP_NUM_THREADS=1 computes on 1 of {cores} cores: --threads says how many compute"))
        }
        _ => finding,
    }
}

/// Tokens a second of a model whose base is in 8 bits, on one thread.
fn speed(path: &str) -> Finding {
    let hardware = Hardware { threads: 1, device: DeviceChoice::Cpu, ..Default::default() };
    match tokens(path, hardware, SECONDS) {
        Ok(TokenRates { reading, writing: [one, many], learning }) => Finding::new(
            "speed",
            format!(
                "{path} with `base: int8` on one core: {reading:.0} tokens a second read, {one:.0} written for one prompt, {many:.0} for 32, {learning:.0} learnt by LoRA"
            ),
        ),
        Err(error) => Finding::fault("speed", path, error),
    }
}

fn memory() -> Finding {
    let gigabytes = |name: &str| kernel_bytes("/proc/meminfo".as_ref(), name).map(|bytes| bytes as f64 / 1e9);
    match (gigabytes("MemTotal:"), gigabytes("MemAvailable:")) {
        (Some(total), Some(free)) => match Finding::new("memory", format!("{total:.0} GB, {free:.0} GB free")) {
            low if free < 2.0 => low.but(State::Slow, "less than 2 GB are free: a published model of 135 million weights takes as much"),
            finding => finding,
        },
        _ => Finding::new("memory", "unknown").but(State::Missing, "the system doesn't say it"),
    }
}

fn torch() -> Finding {
    let libtorch = match libtorch() {
        Ok(libtorch) => libtorch,
        Err(error) => {
            // A flow that was built without it lacks nothing.
            let state = if cfg!(feature = "learn") { State::Wrong } else { State::Missing };
            return Finding::new("libtorch", "none").but(state, error.to_string());
        }
    };
    let gpus = gpus();
    let cuda = match (libtorch.cuda, gpus) {
        (false, _) => "without CUDA".to_owned(),
        (true, 0) => "with CUDA, no GPU".into(),
        (true, gpus) => format!("with CUDA, {gpus} GPU{}", if gpus == 1 { "" } else { "s" }),
    };
    let version = libtorch.version.as_deref().unwrap_or("of an unknown version");
    let folder = libtorch.folder.as_ref().map_or("of this program".into(), |folder| folder.display().to_string());
    match Finding::new("libtorch", format!("{version}, {cuda}, {folder}")) {
        several if gpus > 1 => several.but(State::Slow, "a run computes on one of them: let servers generate on the others (`serve`)"),
        finding => finding,
    }
}

fn duckdb() -> Finding {
    match flow_log::engine_version() {
        Ok(version) => Finding::new("DuckDB", version),
        Err(error) => Finding::fault("DuckDB", "none", format!("queries need it: {error}")),
    }
}

fn python() -> Finding {
    let output = Command::new("python3").arg("--version").output();
    match output.ok().filter(|output| output.status.success()) {
        Some(output) => Finding::new("Python", String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("Python ").to_owned()),
        None => Finding::new("Python", "none").but(State::Missing, "environments in Python and `flow env install` need python3"),
    }
}

fn environments() -> Finding {
    let adapters: Vec<&str> = TABLE.iter().filter(|kind| kind.adapter.is_some()).map(|kind| kind.name).collect();
    let own = TABLE.len() - adapters.len();
    let (here, missing): (Vec<&str>, Vec<&str>) = adapters.into_iter().partition(|name| installed::is_installed(name));
    let names = if here.is_empty() { "none".into() } else { here.join(", ") };
    match Finding::new("environments", format!("{own} of flow's own; installed: {names}")) {
        all if missing.is_empty() => all,
        finding => finding.but(State::Missing, format!("`flow env install NAME` installs {}", missing.join(", "))),
    }
}

fn server(status: ServerStatus) -> Finding {
    let name = "server";
    if status.tinker {
        return hosted(&status.address);
    }
    if let Some(fault) = &status.fault {
        return Finding::fault(name, status.address, format!("no answer: {fault}"));
    }
    let version = status.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let models = if status.models.is_empty() { "nothing that it names".into() } else { status.models.join(", ") };
    let none =
        "it loads no adapters while it runs, as `serve` needs: start vLLM with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True";
    match Finding::new(name, format!("{}{version}, serves {models}", status.address)) {
        finding if status.adapters => finding,
        finding => finding.but(State::Missing, none),
    }
}

/// A server of Tinker's protocol, by `python -m flow_tinker.probe`, which makes an adapter there and removes it.
fn hosted(address: &str) -> Finding {
    let asked = || -> std::result::Result<std::process::Output, String> {
        let mut command = Command::new(Python::TINKER.find()?);
        find_module("flow_tinker", &mut command)?;
        command.args(["-m", "flow_tinker.probe", address]).env("PYTHONSAFEPATH", "1");
        command.output().map_err(|e| e.to_string())
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().replace('\n', "\n       ");
    match asked() {
        Err(why) => Finding::new("server", format!("{address}, of Tinker's protocol")).but(State::Missing, why),
        Ok(output) if output.status.success() => Finding::new("server", text(&output.stdout)),
        Ok(output) => {
            Finding::fault("server", if output.stdout.is_empty() { address.into() } else { text(&output.stdout) }, text(&output.stderr))
        }
    }
}
