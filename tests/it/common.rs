//! Drives the real binary in a folder of its own.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary, to be run from the repository's root with one libtorch thread.
pub fn flow() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("OMP_NUM_THREADS", "1");
    // Which functions ran here is no matter of the machine's user.
    command.env("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs and insists on success; answers with standard output.
pub fn done(command: &mut Command) -> String {
    let output = command.output().expect("the binary starts");
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs and insists on failure; answers with standard error.
pub fn fails(command: &mut Command) -> String {
    let output: Output = command.output().expect("the binary starts");
    assert!(!output.status.success(), "{command:?} should fail\n{}", text(&output.stdout));
    text(&output.stderr)
}

/// A small pipeline with every kind of operator: 3 iterations of GiGPO and an evaluation.
pub const SMALL: &str = r#"
flow: small
iterations: 3
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 6 } }
  rollout: { op: rollout, inputs: { tasks: tasks, weights: { after: update } }, with: { agent: { model: actor, max_turns: 5 }, samples: 4 } }
  reward: { op: reward, inputs: rollout, with: { format: 0.5, overlong: { max: 8, buffer: 4, weight: 0.1 } } }
  episodes: { op: group, inputs: reward, with: { by: [task] } }
  episode_advantage: { op: advantage, inputs: episodes, with: { of: episode_return } }
  states: { op: group, inputs: reward, with: { by: [task, state, visitation_depth] } }
  step_advantage: { op: advantage, inputs: states, with: { of: step_return, gamma: 0.95 } }
  advantage: { op: combine, inputs: { episode: episode_advantage, step: step_advantage } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, states, advantage, update]
"#;

/// Three iterations of LaMer on a field so small that some trials succeed at once, some later, some never.
pub const LOOPED: &str = r#"
flow: looped
iterations: 3
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 3, batch: 5 } }
  trial:
    loop: { attempts: 3 }
    nodes:
      rollout:
        op: rollout
        inputs: { tasks: tasks, weights: { after: update }, memory: { after: reflect } }
        with: { agent: { model: actor, max_turns: 4 }, samples: 4 }
      reflect: { op: reflect, inputs: rollout, with: { agent: { model: actor, answer: [], max_tokens: 5 }, budget: 120 } }
    output: [rollout, reflect]
  episodes: { op: group, inputs: trial, with: { by: [task] } }
  episode_advantage: { op: advantage, inputs: episodes, with: { of: cross_episode_return, gamma: 0.95 } }
  states: { op: group, inputs: trial, with: { by: [task, state] } }
  step_advantage: { op: advantage, inputs: states, with: { of: cross_episode_return, gamma: 0.95 } }
  advantage: { op: combine, inputs: { episode: episode_advantage, step: step_advantage } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, kl: 0.05 } }
log: [trial, states, advantage, update]
"#;

/// EMPO2 on fields so small that a memory matters at once: tips that come and go, iterations with them and without,
/// updates of all kinds, counted states.
pub const REMEMBERING: &str = r#"
flow: remembering
iterations: 6
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4, variations: 6 } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update }, memory: { after: memory } }
    with: { agent: { model: actor, max_turns: 3, context: [{ memory: memory, chance: 0.6, above: 0.2, most: 3 }] }, samples: 3 }
  reflect: { op: reflect, inputs: rollout, with: { agent: { model: actor, answer: [], max_tokens: 5 }, on: always } }
  memory: { op: memory-update, inputs: reflect, with: { capacity: 4, window: 3, evict: lowest } }
  novelty: { op: novelty, inputs: rollout, with: { at_least: 0.8 } }
  reward: { op: reward, inputs: novelty, with: { novelty: 0.5 } }
  group: { op: group, inputs: reward, with: { by: [task] } }
  advantage: { op: advantage, inputs: group, with: { of: episode_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3, mask_below: 0.001, tips: { remove: 0.5 } } }
log: [rollout, reflect, memory, novelty, reward, advantage, update]
"#;

/// The text of a pipeline with the repository's own files in it, for a file that lies elsewhere.
pub fn rooted(yaml: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    ["datasets/", "tests/golden/", "pipelines/"]
        .iter()
        .fold(yaml.to_owned(), |yaml, own| yaml.replace(&format!(": {own}"), &format!(": {root}/{own}")))
}

/// Writes `yaml` into `folder` and answers with its path.
pub fn pipeline(folder: &Path, yaml: &str) -> PathBuf {
    let path = folder.join("pipeline.yaml");
    std::fs::write(&path, rooted(yaml)).expect("the test's folder can be written");
    path
}

/// Runs `yaml` into `folder`/`name`.
pub fn trained(folder: &Path, name: &str, yaml: &str, extra: &[&str]) -> PathBuf {
    let out = folder.join(name);
    done(flow().arg("run").arg(pipeline(folder, yaml)).arg("--out").arg(&out).args(extra));
    out
}

/// The rows that answer `sql`, as JSON objects.
pub fn ask(run: &Path, sql: &str) -> Vec<Value> {
    serde_json::from_str(&answer(run, sql, "json")).expect("an array of objects")
}

/// The answer to `sql` as text: `csv`, `json` or `table`.
pub fn answer(run: &Path, sql: &str, format: &str) -> String {
    done(flow().arg("query").arg(run).arg(sql).args(["--format", format]))
}

/// What makes two runs the same run: every committed row, and the newest weights with their moments.
pub fn digest(run: &Path) -> (String, Vec<u8>) {
    let rows = answer(run, "select * from trajectories order by iteration, task, sample, attempt, turn, phase", "json");
    let versions = std::fs::read_dir(run.join("weights")).unwrap();
    let newest = versions.filter_map(|v| v.unwrap().file_name().to_str()?.parse::<u64>().ok()).max().unwrap();
    let weights = run.join("weights").join(newest.to_string()).join("actor");
    // Of a model: the weights and their moments; of an adapter: its own as well.
    let mut files: Vec<PathBuf> = std::fs::read_dir(weights).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "safetensors"));
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    (rows, files.into_iter().flat_map(|file| std::fs::read(file).unwrap()).collect())
}
