//! Episodes that branch, from end to end: the return of each turn, computed another way, and each branch played again
//! from the start of its task.

use crate::common::*;
use flow_env::Task;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// AT2PO with a model and trees so small that a test can wait for them: three episodes a room, and twice three
/// branches.
const AT2PO: &str = "
like: pipelines/at2po-sokoban.yaml
flow: small
iterations: 2
keep: { every: 1 }
models: { actor: { load: null, new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 } }
agents: { player: { max_turns: 6 } }
nodes:
  tasks: { with: { boxes: 1, batch: 4 } }
  rollout: { with: { samples: 3, branch: { uncertain: 3 } } }
  # Every turn earns something: this policy wins nothing.
  outcome: { with: { columns: { reward: (turn + sample) % 3 } } }
  evaluate: null
  told: { op: reflect, inputs: rollout, with: { agent: { model: actor, answer: [], max_tokens: 2 }, on: always } }
log: [rollout, told, tree, advantage, update]
";

/// All episodes copied at their third and fifth turn, twice, and the answers to one prompt compared.
const SIBLINGS: &str = "
like: pipelines/grpo-sokoban.yaml
flow: siblings
iterations: 2
models: { actor: { load: null, new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 } }
agents: { player: { max_turns: 6 } }
nodes:
  tasks: { with: { boxes: 1, batch: 4 } }
  rollout: { with: { samples: 3, branch: { every: 2, into: 2 } } }
  group: { with: { by: [task, branch_of, turn] } }
  advantage: { with: { of: tree_return, scale: none, singleton: drop } }
  evaluate: null
log: [rollout, group, advantage, update]
";

/// Iteration, task, sample and turn.
type Name = (u64, String, u64, u64);

fn rows(run: &Path, sql: &str) -> BTreeMap<Name, Value> {
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let named = |row: Value| {
        ((number(&row, "iteration"), row["task"].as_str().unwrap().to_owned(), number(&row, "sample"), number(&row, "turn")), row)
    };
    ask(run, sql).into_iter().map(named).collect()
}

/// The return of a row: its reward, and the mean over the answers to the next prompt. From the root to the ends, as it
/// is defined.
fn worth(rows: &BTreeMap<Name, Value>, (iteration, task, sample, turn): &Name) -> f64 {
    let answers = |row: &&(&Name, &Value)| {
        let ((i, t, _, at), value) = row;
        (i, t, *at) == (iteration, task, turn + 1) && value["branch_of"] == *sample
    };
    let next: Vec<f64> = rows.iter().filter(|row| answers(&row)).map(|(name, _)| worth(rows, name)).collect();
    let reward = ((turn + sample) % 3) as f64;
    reward + if next.is_empty() { 0.0 } else { next.iter().sum::<f64>() / next.len() as f64 }
}

#[test]
fn a_tree_of_episodes_is_the_same_everywhere_and_each_branch_is_a_play_of_its_task() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "one", AT2PO, &["--workers", "1"]);
    let whole = digest(&run);
    for workers in ["2", "4"] {
        assert!(digest(&trained(folder.path(), workers, AT2PO, &["--workers", workers])) == whole, "on {workers} workers");
    }
    let short = trained(folder.path(), "short", AT2PO, &["--set", "iterations=1"]);
    done(flow().arg("resume").arg(&short).args(["--iterations", "2"]));
    assert!(digest(&short) == whole, "resumed");
    let out = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--out").arg(&out).args(["--workers", "2"]));
    assert!(digest(&out) == whole, "credit and weights from the log");

    // Two iterations of four rooms, each with three episodes and twice three branches; no row stands twice.
    let all = rows(&run, "select iteration, task, sample, turn, branch_of, observation, action, won, done from rollout");
    let sum = |sql: &str| ask(&run, sql)[0]["n"].clone();
    assert_eq!((sum("select count(*) as n from rollout"), sum("select count(*) as n from errors")), (all.len().into(), 0.into()));
    assert_eq!(sum("select count(*) as n from rollout where done"), 2 * 4 * 9);
    // Where a branch begins it answers another row's prompt, with a draw of its own; all its other rows are of its own
    // sample.
    let begins = sum("select count(*) as n from rollout b join rollout o on (o.iteration, o.task, o.sample, o.turn) = (b.iteration, b.task, b.branch_of, b.turn)
        where b.branch_of <> b.sample and b.turn > 0 and o.sample < b.sample and o.prompt_tokens = b.prompt_tokens and o.state = b.state and o.seed <> b.seed
        and b.turn = (select min(turn) from rollout r where (r.iteration, r.task, r.sample) = (b.iteration, b.task, b.sample))");
    assert_eq!(begins, 2 * 4 * 6);
    assert_eq!(sum("select count(*) as n from rollout where branch_of <> sample"), begins);
    // The first round copies the three turns that the policy was least certain of.
    let chosen = "select count(*) as n from (select iteration, task, sample, turn from rollout where sample < 3 and turn > 0
        qualify row_number() over (partition by iteration, task order by list_avg(logprobs), sample, turn) <= 3)
        semi join (select iteration, task, branch_of as sample, turn from rollout where sample between 3 and 5 and branch_of <> sample)
        using (iteration, task, sample, turn)";
    assert_eq!(sum(chosen), 2 * 4 * 3);

    // Each end is what its task shows once the way to it is played from the start.
    for (name, _) in all.iter().filter(|(_, row)| row["done"] == true) {
        let (iteration, task, mut sample, last) = name.clone();
        let mut way = Vec::new();
        for turn in (0..=last).rev() {
            let row = &all[&(iteration, task.clone(), sample, turn)];
            sample = row["branch_of"].as_u64().unwrap();
            way.push(row);
        }
        let mut env = Task::parse(&task).unwrap().make().unwrap();
        let mut shown = env.reset();
        for row in way.into_iter().rev() {
            assert_eq!(row["observation"], shown.observation, "{name:?}");
            shown = env.step(row["action"].as_str().unwrap());
        }
    }

    // Who reflects on a branch is told of its way from the start.
    let told = "select count(*) as n from told join (select iteration, task, sample, max(turn) + 1 as turn from rollout group by all)
        using (iteration, task, sample, turn) where phase = 'reflect'";
    assert_eq!(sum(told), 2 * 4 * 9);

    // The return of each turn, counted the other way round.
    let returns = rows(&run, "select iteration, task, sample, turn, \"return\" from tree");
    for name in all.keys() {
        let (expected, actual) = (worth(&all, name), returns[name]["return"].as_f64().unwrap());
        assert!((expected - actual).abs() < 1e-6, "{name:?}: {actual}, expected {expected}");
    }

    // A branch is an episode of its own to whatever shows one, and its credit is audited on its way from the start.
    let (_, task, sample, turn) = all.iter().find(|(_, row)| row["branch_of"] != row["sample"]).unwrap().0;
    let shown = done(flow().arg("show").arg(&run).args(["--task", task, "--sample", &sample.to_string()]));
    assert!(shown.contains(&format!("\nturn {turn}\n")) && !shown.contains("\nturn 0\n"), "{shown}");
    let pages = folder.path().join("pages");
    done(flow().arg("view").arg(&run).arg("--static").arg(&pages));
    assert!(pages.join("index.html").exists());
    let audit = done(flow().arg("audit").arg(&run).args(["--turns", "32", "--plays", "2", "--format", "json"]));
    assert!(serde_json::from_str::<Value>(&audit).is_ok(), "{audit}");
    assert_eq!(sum("select count(*) as n from audit where refused <> ''"), 0);
    assert!(sum("select count(*) as n from audit where sample > 2").as_u64().unwrap() > 4);
}

#[test]
fn answers_to_one_prompt_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", SIBLINGS, &[]);
    let count = |sql: &str| ask(&run, sql)[0]["n"].as_u64().unwrap();
    assert_eq!(count("select count(*) as n from rollout where branch_of <> sample and turn not in (2, 4)"), 0);
    // Whoever had a third turn answers it three times, and each other prompt once.
    assert!(count("select count(*) as n from rollout where branch_of <> sample") >= 2 * 4 * 3);
    let sizes = ask(
        &run,
        "select distinct group_size, used from advantage join \"group\" using (iteration, task, sample, turn) order by group_size",
    );
    let sizes: Vec<_> = sizes.iter().map(|row| (row["group_size"].as_u64().unwrap(), row["used"].as_str().unwrap().to_owned())).collect();
    assert_eq!(sizes, [(1, "singleton".to_owned()), (3, "yes".to_owned())]);
    let zero = "select count(*) as n from (select sum(advantage) as sum from advantage join \"group\" using (iteration, task, sample, turn) group by \"group\", iteration) where abs(sum) > 1e-5";
    assert_eq!(count(zero), 0);
}

/// An environment that counts the episodes that it has begun shows each play another number.
const FICKLE: &str = r#"
import json, sys
begun, steps = 0, {}
for line in sys.stdin:
    batch, answers = json.loads(line), []
    for ask in batch if isinstance(batch, list) else [batch]:
        episode = ask.get("episode")
        answer = {"episode": episode}
        if ask["request"] == "hello":
            answer = {"protocol": 2, "splits": {"train": 2}, "words": []}
        elif ask["request"] == "reset":
            begun, steps[episode] = begun + 1, 0
            answer["observation"] = f"play {begun}"
        elif ask["request"] == "step":
            steps[episode] += 1
            answer |= {"observation": "on", "reward": 0, "done": steps[episode] == 3}
        else:
            answer["closed"] = True
        answers.append(answer)
    print(json.dumps(answers if isinstance(batch, list) else answers[0]), flush=True)
"#;

#[test]
fn a_branch_in_an_environment_that_does_not_replay_is_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("fickle.py");
    std::fs::write(&program, FICKLE).unwrap();
    let yaml = format!(
        "flow: fickle\niterations: 1\nseed: 1\nmodels: {{ actor: {{ new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }} }}\nnodes:\n  \
         tasks: {{ op: tasks, with: {{ env: process, name: fickle, command: [python3, {program:?}], seconds: 60, batch: 2 }} }}\n  \
         rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, decode: free, max_turns: 4, max_tokens: 2 }}, samples: 2, tries: 1, max_failed: 0.5, branch: {{ every: 2 }} }} }}\nlog: [rollout]\n"
    );
    let run = trained(folder.path(), "run", &yaml, &[]);
    let errors = answer(&run, "select count(*), any_value(cause), any_value(error), min(sample), max(sample) from errors", "csv");
    assert_eq!(errors.lines().nth(1), Some("4,replay,the environment's state at turn 0 isn't the one that was logged,2,3"));
    let failed = answer(&run, "select value from metrics where node = 'rollout' and name = 'failed'", "csv");
    assert_eq!(failed.lines().nth(1), Some("4.0"));
    let rows = answer(&run, "select count(*), max(sample), count(*) filter (branch_of <> sample) from rollout", "csv");
    assert_eq!(rows.lines().nth(1), Some("12,1,0"), "the episodes themselves are whole");
}

/// What the first iteration plays without branches, it plays with them as well.
#[test]
fn figures_count_an_episode_once_however_often_it_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let alone = [
        "--set",
        "nodes.rollout.with.branch=null",
        "--set",
        "nodes.group.with.by=[task]",
        "--set",
        "nodes.advantage.with.of=episode_return",
    ];
    let figures = |name: &str, sets: &[&str]| -> BTreeMap<String, f64> {
        let run = trained(folder.path(), name, SIBLINGS, &[&["--set", "iterations=1"], sets].concat());
        let figures = ask(&run, "select name, value from metrics where node = 'rollout' and iteration = 0");
        figures.iter().map(|figure| (figure["name"].as_str().unwrap().to_owned(), figure["value"].as_f64().unwrap())).collect()
    };
    let (plain, branched) = (figures("plain", &alone), figures("branched", &[]));
    for name in ["success", "return", "invalid", "exploration_degree"] {
        assert_eq!(plain[name], branched[name], "{name}");
    }
    assert!(plain["exploration_degree"] > 0.0 && branched["turns"] > plain["turns"], "{plain:?} {branched:?}");
}
