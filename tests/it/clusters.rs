//! Clusters of observations and scores that move: the same whoever keeps them, and what a plain recomputation from the
//! log gives.

use crate::common::*;
use crate::report::answers;
use flow_credit::memory::words;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A memory that is read by clusters, whose entries' scores follow what they were worth; credit by clusters as well.
const CLUSTERED: &str = r#"
flow: clustered
iterations: 6
seed: 5
models:
  actor: { new: tiny, layers: 1, width: 32, heads: 2, kv_heads: 1 }
nodes:
  tasks: { op: tasks, with: { env: minesweeper, size: 4, mines: 2, batch: 4, variations: 6 } }
  rollout:
    op: rollout
    inputs: { tasks: tasks, weights: { after: update }, memory: { after: memory }, clusters: { after: clusters } }
    with: { agent: { model: actor, max_turns: 3, context: [{ memory: memory, clusters: clusters, most: 2 }] }, samples: 3 }
  clusters: { op: cluster, inputs: rollout, with: { at_least: 0.95 } }
  memory:
    op: memory-update
    inputs: { rows: clusters, retrieved: rollout }
    with: { entries: turns, per: all, capacity: 12, evict: lowest, rescore: { rate: 0.5 } }
  group: { op: group, inputs: clusters, with: { by: [task, cluster] } }
  advantage: { op: advantage, inputs: group, with: { of: step_return } }
  update: { op: gpu-update, inputs: advantage, with: { model: actor, lr: 1.0e-3 } }
log: [rollout, clusters, memory, group, advantage, update]
"#;

fn results(run: &Path) -> (String, String, (String, Vec<u8>)) {
    let changes = answer(run, "select * exclude (embedding) from memory order by iteration, id, change", "json");
    let clusters = answer(run, "select * from clusters order by iteration, task, sample, turn", "json");
    (changes, clusters, digest(run))
}

#[test]
fn clusters_are_the_same_on_any_number_of_workers_after_a_kill_and_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "one", CLUSTERED, &["--workers", "1"]);
    let whole = results(&run);
    let other = results(&trained(folder.path(), "three", CLUSTERED, &["--workers", "3"]));
    assert!(other == whole, "on three workers:\n{}\n{}\nand not\n{}\n{}", other.0, other.1, whole.0, whole.1);
    // The page of the memory has the entries as they last came, the best first.
    let page = &answers(&[&run], &folder.path().join("pages"))["runs/0/memory&node=memory&iteration=5"]["entries"];
    let column = |name: &str| page["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap();
    let [id, text, score] = ["id", "text", "score"].map(column);
    let shown: Vec<(String, String, String)> =
        page["rows"].as_array().unwrap().iter().map(|row| (row[id].to_string(), row[text].to_string(), row[score].to_string())).collect();
    let sql = "select id::varchar as id, text, score from memory_at(5) order by score desc, id";
    let expected: Vec<(String, String, String)> =
        ask(&run, sql).iter().map(|row| (row["id"].to_string(), row["text"].to_string(), row["score"].to_string())).collect();
    assert_eq!(shown, expected);
    // A score that moved leaves and comes in one iteration.
    let verified = done(flow().arg("verify").arg(&run));
    assert!(verified.contains("\nmemory ") && verified.contains("\nevery digit agrees\n"), "{verified}");
    let killed = folder.path().join("killed");
    let mut command = flow();
    command.arg("run").arg(pipeline(folder.path(), CLUSTERED)).arg("--out").arg(&killed).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !killed.join("log/update/2").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "the run had ended before it was killed");
    done(flow().arg("resume").arg(&killed));
    let other = results(&killed);
    assert!(other == whole, "killed and resumed:\n{}\n{}\nand not\n{}\n{}", other.0, other.1, whole.0, whole.1);
    let replay = folder.path().join("replay");
    done(flow().arg("replay").arg(&run).arg("--out").arg(&replay));
    assert!(results(&replay) == whole, "in a replay");
}

fn u(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} of {value}"))
}

fn f(value: &Value, name: &str) -> f32 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} of {value}")) as f32
}

/// The clusters by a list and a loop, the scores by a mean and a line, from nothing but the log.
#[test]
fn clusters_scores_and_what_is_told_are_those_of_a_plain_recomputation() {
    let folder = tempfile::tempdir().unwrap();
    let run = trained(folder.path(), "run", CLUSTERED, &[]);
    let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum::<f64>();
    let rows = ask(&run, "select r.*, c.cluster, c.prototype from rollout r join clusters c using (iteration, task, sample, attempt, turn, phase) order by all");
    let mut prototypes: Vec<(u64, Vec<f32>)> = Vec::new();
    let mut founded = [0u64; 6];
    for row in &rows {
        let observation = row["observation"].as_str().unwrap();
        let point = words(observation);
        let joined = prototypes.iter().find(|(_, prototype)| cosine(prototype, &point) >= 0.95 - 1e-5).map(|(id, _)| *id);
        assert_eq!(row["prototype"], if joined.is_none() { observation } else { "" });
        assert_eq!(u(row, "cluster"), joined.unwrap_or_else(|| u(row, "cluster")));
        if joined.is_none() {
            prototypes.push((u(row, "cluster"), point));
            founded[u(row, "iteration") as usize] += 1;
        }
    }
    assert!(prototypes.len() > 3 && rows.len() > 2 * prototypes.len(), "{} clusters of {} rows", prototypes.len(), rows.len());
    for iteration in 0..6 {
        let clusters = ask(&run, &format!("select cluster from clusters_at({iteration})"));
        let ids: Vec<u64> = clusters.iter().map(|row| u(row, "cluster")).collect();
        let expected = founded[..=iteration].iter().sum::<u64>() as usize;
        assert_eq!(ids, prototypes[..expected].iter().map(|(id, _)| *id).collect::<Vec<_>>(), "after {iteration}, in their order");
    }
    // The pages have the same clusters, and each row is a member of one.
    let pages = answers(&[&run], &folder.path().join("pages"));
    assert_eq!(pages["runs/0/run"]["clusters"], serde_json::json!(["clusters"]));
    let page = &pages["runs/0/clusters&node=clusters&iteration=5"];
    for (i, shown) in page["rows"].as_array().unwrap().iter().enumerate() {
        let members =
            rows.iter().filter(|row| shown[0] == row["cluster"] || shown[0].as_str() == Some(&row["cluster"].to_string())).count();
        assert!(members > 0 && shown[2] == members, "cluster {i}: {shown} has {members} members");
    }
    assert_eq!(page["rows"].as_array().unwrap().len(), prototypes.len());

    // What every entry's score is after each iteration.
    let changes = ask(&run, "select id, iteration, change, score, key from memory order by iteration, change, id");
    let worth = ask(
        &run,
        "with told as (select distinct iteration, task, sample, unnest(retrieved) as id from rollout), \
         ends as (select iteration, task, sample, arg_max(score, turn) as score from rollout group by all) \
         select iteration, id, avg(score) as mean from told join ends using (iteration, task, sample) group by all order by all",
    );
    let mut scores: BTreeMap<u64, f32> = BTreeMap::new();
    let (mut moved, mut told) = (0, 0);
    for iteration in 0..6u64 {
        // What was there when the iteration's turns were played.
        let before = scores.clone();
        for (id, score) in worth.iter().filter(|row| u(row, "iteration") == iteration).map(|row| (u(row, "id"), f(row, "mean"))) {
            assert!(before.contains_key(&id), "told before it came");
            scores.insert(id, before[&id] + 0.5 * (score - before[&id]));
            told += 1;
        }
        for change in changes.iter().filter(|change| u(change, "iteration") == iteration) {
            let (id, score) = (u(change, "id"), f(change, "score"));
            if u64::try_from(change["change"].as_i64().unwrap()).is_err() {
                assert_eq!(before[&id], score, "it leaves as it was");
                let comes_again =
                    changes.iter().any(|other| other["change"] == 1 && u(other, "id") == id && u(other, "iteration") == iteration);
                if comes_again {
                    moved += 1;
                } else {
                    scores.remove(&id);
                }
            } else if let Some(expected) = before.contains_key(&id).then(|| scores[&id]) {
                assert!((expected - score).abs() < 1e-6, "entry {id} after {iteration}: {score} and not {expected}");
                scores.insert(id, score);
            } else {
                scores.insert(id, score);
            }
        }
        let there = ask(&run, &format!("select id, score from memory_at({iteration}) order by id"));
        let there: BTreeMap<u64, f32> = there.iter().map(|row| (u(row, "id"), f(row, "score"))).collect();
        assert_eq!(there, scores, "after iteration {iteration}");
    }
    assert!(moved > 3 && told > 10, "{moved} scores moved of {told} that were told");

    // A turn was told entries of its cluster where that had some: those whose keys are of it, and those that its turns
    // were told before, which are linked to it. Else it was told what is alike.
    let keys: BTreeMap<u64, Vec<f32>> = changes.iter().map(|change| (u(change, "id"), words(change["key"].as_str().unwrap()))).collect();
    let home =
        |point: &[f32], known: usize| prototypes[..known].iter().find(|(_, other)| cosine(other, point) >= 0.95 - 1e-5).map(|(id, _)| *id);
    let (mut own, mut linked, mut alike) = (0, 0, 0);
    let mut links: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| u(row, "iteration") > 0 && !row["retrieved"].as_array().unwrap().is_empty()) {
        let iteration = u(row, "iteration");
        let known = founded[..iteration as usize].iter().sum::<u64>() as usize;
        let point = words(row["observation"].as_str().unwrap());
        let there = ask(&run, &format!("select id from memory_at({})", iteration - 1));
        let here = home(&point, known);
        let of_it = |id: u64| here.is_some_and(|here| links.get(&(here, id)).is_some_and(|since| *since < iteration));
        let pool = there.iter().any(|entry| here.is_some() && home(&keys[&u(entry, "id")], known) == here || of_it(u(entry, "id")));
        let retrieved: Vec<u64> = row["retrieved"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        for id in &retrieved {
            if pool && home(&keys[id], known) == here {
                own += 1;
            } else if pool {
                assert!(of_it(*id), "linked to the observation's cluster");
                linked += 1;
            } else {
                assert!(cosine(&keys[id], &point) > 0.5, "of another cluster, and alike");
                alike += 1;
            }
        }
        for id in retrieved {
            links.entry((u(row, "cluster"), id)).or_insert(iteration);
        }
    }
    assert!(own > 10 && linked > 0, "{own} entries of the own cluster, {linked} linked to it, {alike} alike");
}
