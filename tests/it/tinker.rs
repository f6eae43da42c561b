//! A model that learns on a server of Tinker's protocol, over a stand-in for the SDK: whole runs, and what becomes of them
//! where something fails. What the same call means there is python/tests/test_flow_tinker.py's.

use crate::common::*;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/models/llama-tied");

/// Small letters are rewarded.
const LETTERS: &str = "
from flow_env import View, World


class Letters(World):
    words = []

    def tasks(self, split):
        return {'train': 64}.get(split, 0)

    def reset(self, task, seed):
        return f'Word {task}:'

    def step(self, action):
        return View('done', reward=sum('a' <= letter <= 'z' for letter in action) / 6, done=True)
";

/// A server whose states lie in a folder, and what generates by it.
struct Hosted {
    folder: PathBuf,
    front: Child,
    address: String,
}

impl Hosted {
    fn start(folder: &Path) -> Hosted {
        std::fs::write(folder.join("letters.py"), LETTERS).unwrap();
        let mut front = Hosted::here(folder, Command::new(python()));
        front.args(["-m", "flow_tinker.front", "--url", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut front = front.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(front.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split([' ', ',']).find(|word| word.starts_with("http")).unwrap().to_owned();
        Hosted { folder: folder.into(), front, address }
    }

    /// With the stand-in in place of the SDK.
    fn here(folder: &Path, mut command: Command) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let paths = ["python", "python/tests/tinker_stand_in", ".pyarrow"].map(|path| root.join(path));
        command.env("PYTHONPATH", std::env::join_paths(paths).unwrap()).env("TINKER_STAND_IN", folder);
        command.env("TINKER_STAND_IN_MODEL", "llama-tied").env("TINKER_STAND_IN_FAULT", folder.join("fault"));
        command.env("FLOW_TINKER_PYTHON", python());
        command
    }

    fn flow(&self) -> Command {
        Hosted::here(&self.folder, flow())
    }

    /// From the next start of a trainer on this goes wrong.
    fn fault(&self, what: &str) {
        std::fs::write(self.folder.join("fault"), what).unwrap();
    }

    fn pipeline(&self, iterations: usize) -> String {
        format!(
            "flow: hosted\niterations: {iterations}\nseed: 5\nmodels:\n  actor:\n    load: {BASE}\n    \
             lora: {{ rank: 8, alpha: 32, targets: [all-linear] }}\n    train: {{ tinker: \"http://127.0.0.1:1\", timeout: 60 }}\n    \
             serve: {{ vllm: [\"{}\"], tries: 2, timeout: 60 }}\nnodes:
  tasks: {{ op: tasks, with: {{ env: process, name: letters, command: [python3, -m, flow_env, serve, {}/letters.py], batch: 2 }} }}
  rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 1, decode: free, answer: [], max_tokens: 6 }}, samples: 8, tries: 1 }} }}
  group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}
  advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}
  update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor, lr: 0.01, max_grad_norm: 0, kl: 0.1, token_figures: true }} }}
log: [rollout, advantage, update]\nkeep: {{ every: 1 }}\n",
            self.address,
            self.folder.display()
        )
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        let _ = self.front.kill();
        let _ = self.front.wait();
    }
}

/// By its path, since flow looks whether it is there.
fn python() -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&paths).map(|path| path.join("python3")).find(|path| path.exists()).unwrap()
}

const PLAYED: &str = "select iteration, task, sample, turn, response_tokens, weights, reward from rollout order by all";
const LEARNT: &str = "select iteration, task, sample, turn, used, version, ratio, loss_share, row_kl from update order by all";

/// What a run did, and the weights of each version.
fn made(run: &Path) -> (Vec<serde_json::Value>, Vec<serde_json::Value>, Vec<Vec<u8>>) {
    let versions = std::fs::read_dir(run.join("weights")).unwrap().count();
    let weights =
        (0..versions).map(|version| std::fs::read(run.join(format!("weights/{version}/actor/adapter_model.safetensors"))).unwrap());
    (ask(run, PLAYED), ask(run, LEARNT), weights.collect())
}

#[test]
fn a_hosted_run_learns_and_what_has_no_source_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = Hosted::start(folder.path());
    // The weights lie on the server alone.
    let bare = folder.path().join("llama-tied");
    std::fs::create_dir(&bare).unwrap();
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(Path::new(BASE).join(name), bare.join(name)).unwrap();
    }
    let written = pipeline(folder.path(), &hosted.pipeline(3).replace(BASE, &bare.display().to_string()));
    let run = folder.path().join("run");
    assert!(done(hosted.flow().arg("check").arg(&written)).contains("below L2"));
    done(hosted.flow().arg("run").arg(&written).arg("--out").arg(&run));
    let (_, _, weights) = made(&run);
    assert!(weights.len() == 4 && weights.windows(2).all(|pair| pair[0] != pair[1]));
    let figures = "select name, count(*) as n, max(value) as most from metrics where node in ('update', 'rollout') group by name";
    let figures = ask(&run, figures);
    let of = |name: &str| figures.iter().find(|row| row["name"] == name).map(|row| row["most"].as_f64().unwrap());
    assert!(of("entropy").is_none() && of("grad_norm") > Some(0.0) && of("logprob_gap") < Some(1e-5), "{figures:?}");
    // The metric is of one iteration: the passes for the gradient and for the divergence are read, the first alone is trained.
    let (read, trained) = (of("tokens_read").unwrap(), of("tokens_trained").unwrap());
    assert!(trained > 100.0 && read > trained && of("tokens_written") > Some(0.0), "{figures:?}");
    let gap = figures.iter().find(|row| row["name"].as_str().unwrap().starts_with("gap_")).unwrap();
    assert!(gap["n"] == 3 && gap["most"].as_f64() < Some(1e-5), "each version was proved: {gap}");
    let nulls =
        "select count(*) as n, count(logit_grad) as grads, count(token_entropies) as entropies, count(token_ratios) as ratios from update";
    let nulls = &ask(&run, nulls)[0];
    assert!(nulls["n"].as_u64() > Some(10) && nulls["grads"] == 0 && nulls["entropies"] == 0 && nulls["ratios"] == nulls["n"], "{nulls}");
    let message = fails(flow().arg("show").arg(&run).arg("--moved"));
    assert!(message.contains("log-probabilities alone"), "{message}");
}

/// flow has the server generate itself, and a budget of tokens ends the run between two iterations.
#[test]
fn a_budget_ends_a_hosted_run_and_resume_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = Hosted::start(folder.path());
    let written = hosted.pipeline(6);
    let whole = folder.path().join("whole");
    done(hosted.flow().arg("run").arg(pipeline(folder.path(), &written)).arg("--out").arg(&whole));
    let own = written.replace(&format!("vllm: [\"{}\"]", hosted.address), "tinker: \"http://127.0.0.1:1\"");
    assert_ne!(own, written);
    let (own, run) = (pipeline(folder.path(), &own), folder.path().join("run"));
    let used = "select sum(value)::bigint as tokens from metrics where name in ('tokens_read', 'tokens_written', 'tokens_trained')";
    let all = ask(&whole, used)[0]["tokens"].as_u64().unwrap();
    let budget = (all / 3).to_string();
    let ended = hosted.flow().arg("run").arg(&own).arg("--out").arg(&run).args(["--budget", &budget]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains(&format!("tokens of --budget {budget} are used: stopped after")), "{said}");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("flow query"), "it has a summary as a finished run");
    let (used, most) = (ask(&run, used)[0]["tokens"].as_u64().unwrap(), all / 3);
    assert!(used >= most && used < all, "{used} of {all}");
    let message = fails(hosted.flow().arg("resume").arg(&run).args(["--budget", &most.to_string()]));
    assert!(message.contains(&format!("have used {used} tokens already")), "{message}");
    done(hosted.flow().arg("resume").arg(&run).args(["--budget", &(10 * all).to_string()]));
    assert_eq!(made(&run), made(&whole));
    let other = written.replace(&format!("vllm: [\"{}\"]", hosted.address), "tinker: \"http://127.0.0.1:2\"");
    let message = fails(hosted.flow().arg("check").arg(pipeline(folder.path(), &other)));
    assert!(message.contains("lie on the server that it learns on"), "{message}");
}

#[test]
fn doctor_says_what_a_hosted_server_makes_of_a_gradient() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |url: &str| Hosted::here(folder.path(), flow()).args(["doctor", url]).output().unwrap();
    let found = String::from_utf8(asked("https://127.0.0.1:1").stdout).unwrap();
    assert!(found.contains("reduction: `cross_entropy` is no sum"), "{found}");
    // A pipeline says what its server is: one that answers nothing is no server of models without adapters.
    let hosted = Hosted::start(folder.path());
    let written = pipeline(folder.path(), &hosted.pipeline(1).replace("http://127.0.0.1:1\"", "https://tinker.invalid\""));
    let output = hosted.flow().arg("doctor").arg(&written).output().unwrap();
    assert!(!output.status.success() && text(&output.stdout).contains("TINKER_API_KEY isn't set"), "{}", text(&output.stdout));
    let refused = asked("https://tinker.invalid");
    let found = String::from_utf8(refused.stdout).unwrap();
    assert!(!refused.status.success() && found.contains("TINKER_API_KEY isn't set"), "{found}");
}

/// Killed in a backward, between a step and its saving; a server that forgets its clients; flow killed: each time
/// `flow resume` ends with the rows and weights of a run that nothing happened to. Killed in a forward, before the first
/// step of an update, the run goes on by itself, and ends with these as well.
#[test]
fn a_hosted_run_loses_nothing_and_learns_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let hosted = Hosted::start(folder.path());
    let written = pipeline(folder.path(), &hosted.pipeline(4));
    let run = |name: &str| folder.path().join(name);
    done(hosted.flow().arg("run").arg(&written).arg("--out").arg(run("whole")));
    let expected = made(&run("whole"));
    hosted.fault("forward 17 die");
    let output = hosted.flow().arg("run").arg(&written).arg("--out").arg(run("forward")).output().unwrap();
    let again = text(&output.stderr).contains("it is started again");
    assert!(again && output.status.success() && !folder.path().join("fault").exists(), "{}", text(&output.stderr));
    assert_eq!(made(&run("forward")), expected);
    for (fault, said) in [
        ("backward 16 die", "asked to `step`"),
        ("step 14 expired", "not loaded"),
        ("save 8 die", "asked to `export`"),
        ("save 9 die", "asked to `save`"),
        ("backward 16 nan", "the gradient isn't a number"),
    ] {
        let (name, pipeline) = (fault.replace(' ', "-"), &written);
        hosted.fault(fault);
        let message = fails(hosted.flow().arg("run").arg(pipeline).arg("--out").arg(run(&name)));
        assert!(message.contains(said) && !folder.path().join("fault").exists(), "{fault}: {message}");
        done(hosted.flow().arg("resume").arg(run(&name)));
        assert_eq!(made(&run(&name)), expected, "{fault}");
    }
    // flow itself, at several moments.
    for moment in [600, 1400, 2000] {
        let name = format!("killed-{moment}");
        let mut process = hosted.flow().arg("run").arg(&written).arg("--out").arg(run(&name)).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(moment));
        let _ = process.kill();
        process.wait().unwrap();
        let again = if run(&name).join("manifest.json").exists() { ["resume"].to_vec() } else { continue };
        done(hosted.flow().args(again).arg(run(&name)));
        assert_eq!(made(&run(&name)), expected, "killed after {moment} ms");
    }
}
