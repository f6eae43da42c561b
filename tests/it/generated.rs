//! Valid pipelines, drawn at random from operators, agents, answer parts, loops, memories, functions in Python and evaluations: what
//! `flow check` accepts must run, and give the same rows and weights on any number of workers. `make generated` draws
//! hundreds.

use super::common::{done, flow, text};
use arrow::json::LineDelimitedWriter;
use flow_core::seed::{mix, Random};
use flow_log::{read, Run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The parts of a pipeline text that one draw decides.
struct Draw(Random);

impl Draw {
    fn one(&mut self, of: &[&str]) -> String {
        of[self.0.below(of.len())].to_string()
    }
    fn chance(&mut self, share: f64) -> bool {
        self.0.unit() < share
    }
    fn maybe(&mut self, share: f64, text: &str) -> String {
        if self.chance(share) {
            text.into()
        } else {
            String::new()
        }
    }

    /// The tagged parts of an answer: none, or some of three tags in some order, with the required one last.
    fn parts(&mut self, required: &str) -> String {
        let mut tags = ["think", "plan", "memory"];
        self.0.shuffle(&mut tags);
        let count = self.0.below(3);
        let part = |draw: &mut Draw, tag: &str| format!("{{ tag: {tag}{} }}", draw.maybe(0.3, ", carry: true"));
        let mut parts: Vec<String> = tags[..count].iter().map(|tag| part(self, tag)).collect();
        parts.push(format!("{{ tag: {required}, required: true }}"));
        format!("[{}]", parts.join(", "))
    }

    /// An agent that plays.
    fn player(&mut self, sources: &[String]) -> String {
        let free = self.chance(0.6);
        let decode = if free { format!(", decode: free, answer: {}, max_tokens: 12", self.parts("action")) } else { String::new() };
        let prompt = self.maybe(0.3, ", prompt: full, history: 1");
        let layout = self.maybe(0.15, ", layout: chat");
        let temperature = self.maybe(0.2, ", temperature: 0.7, top_k: 5");
        format!("{{ model: actor, max_turns: 3{decode}{prompt}{layout}{temperature}, context: [{}] }}", sources.join(", "))
    }

    /// An agent that reflects.
    fn writer(&mut self) -> String {
        let answer = match self.0.below(3) {
            0 => ", answer: []".into(),
            1 => format!(", answer: {}", self.parts("remark")),
            _ => String::new(),
        };
        // A model that no node trains keeps its first weights.
        let model = self.one(&["actor", "actor", "frozen"]);
        format!("{{ model: {model}{answer}, max_tokens: 8 }}")
    }

    fn reflect(&mut self) -> String {
        let on = self.one(&["failure", "always"]);
        let keep = self.one(&["both", "reflection", "history", "none"]);
        format!("agent: writer, on: {on}, keep: {keep}, budget: 64")
    }

    /// The settings of an `advantage` behind a loop or behind a rollout.
    fn advantage(&mut self, looped: bool, kl_per_token: bool, critic: Option<&str>) -> String {
        let of = match critic {
            Some("token") => "token_gae".into(),
            Some(_) => "gae".into(),
            None if kl_per_token => "token_return".into(),
            None if looped => self.one(&["episode_return", "step_return", "cross_episode_return", "reward"]),
            None => self.one(&["episode_return", "step_return", "reward"]),
        };
        let baseline = self.one(&["mean", "leave_one_out", "none"]);
        let scale = self.one(&["std", "none"]);
        let single = self.maybe(0.2, ", singleton: drop");
        let equal = self.maybe(0.2, ", equal: drop");
        let unit = self.maybe(0.2, ", unit: turn");
        format!("of: {of}, gamma: 0.95, baseline: {baseline}, scale: {scale}{single}{equal}{unit}")
    }

    fn pipeline(&mut self, seed: u64, panel: &str) -> String {
        let looped = self.chance(0.5);
        let staleness = self.0.below(2);
        let remembers = self.chance(0.5);
        let clustered = !looped && remembers && self.chance(0.4);
        let critic = if self.chance(0.2) { Some(self.one(&["turn", "token"])) } else { None };
        let kl_per_token = critic.is_none() && self.chance(0.1);
        let mut nodes: Vec<String> = Vec::new();
        let mut log = vec![if looped { "trial" } else { "rollout" }];
        let variations = if self.chance(0.5) { ", variations: 4" } else { "" };
        nodes.push(format!("tasks: {{ op: tasks, with: {{ env: minesweeper, size: 3, mines: 2, batch: 3{variations} }} }}"));
        // What the agent is told, and the ports that bring it.
        let mut sources: Vec<String> = Vec::new();
        let mut ports = format!("tasks: tasks, weights: {{ after: update, staleness: {staleness} }}");
        if remembers && !looped {
            let by = self.one(&["", ", by: all", ", by: key, of: state", ", above: 0.2"]);
            let by = if clustered { ", clusters: clusters".into() } else { by };
            let at = self.maybe(0.3, ", at: episode");
            let chance = self.maybe(0.3, ", chance: 0.6");
            sources.push(format!("{{ memory: memory{by}{at}{chance}, most: 2 }}"));
            ports += ", memory: { after: memory }";
            if clustered {
                ports += ", clusters: { after: clusters }";
            }
        }
        if looped {
            let notes = self.one(&["own", "another"]);
            if self.chance(0.6) {
                sources.push(format!("{{ notes: {notes}, keep: {}, budget: 40 }}", self.one(&["history", "none"])));
            }
        }
        let player = self.player(&sources);
        let samples = 2 + self.0.below(2);
        let branch = self.one(&["", "", "branch: { every: 1 }", "branch: { uncertain: 2, into: 2, rounds: 2 }"]);
        let rollout =
            format!("agent: player, samples: {samples}{}", if looped || branch.is_empty() { String::new() } else { format!(", {branch}") });
        if looped {
            let attempts = 1 + self.0.below(3);
            let until = self.one(&["won", "never"]);
            let output = self.one(&["[rollout, reflect]", "[reflect, rollout]", "[rollout]"]);
            let told = self.one(&["reflect", "reflect", "rollout"]);
            let reflect = self.reflect();
            nodes.push(format!(
                "trial:\n    loop: {{ attempts: {attempts}, until: {until} }}\n    nodes:\n      rollout: {{ op: rollout, inputs: {{ {ports}, memory: {{ after: {told} }} }}, with: {{ {rollout} }} }}\n      reflect: {{ op: reflect, inputs: rollout, with: {{ {reflect} }} }}\n    output: {output}"
            ));
        } else {
            nodes.push(format!("rollout: {{ op: rollout, inputs: {{ {ports} }}, with: {{ {rollout} }} }}"));
        }
        let mut rows = log[0].to_string();
        if remembers {
            let from = if looped { rows.clone() } else { self.one(&["reflect", "extract", "rollout"]) };
            let with = match from.as_str() {
                "reflect" => {
                    let reflect = self.reflect();
                    nodes.push(format!("reflect: {{ op: reflect, inputs: rollout, with: {{ {reflect} }} }}"));
                    log.push("reflect");
                    "entries: reflections".to_string()
                }
                "extract" => {
                    nodes.push(
                        "extract: { op: extract, inputs: rollout, with: { template: \"example: {{ action }}\", best: 2, worst: 2 } }"
                            .into(),
                    );
                    log.push("extract");
                    "list: { kinds: [strategy, warning], levels: [principle, pattern, example] }".into()
                }
                _ => format!("entries: {}", self.one(&["reflections", "turns"])),
            };
            let per = self.one(&["task", "all", "cluster"]);
            let evict = self.one(&["oldest", "lowest"]);
            let points = if self.chance(0.3) { ", points: none" } else { "" };
            let window = self.maybe(0.3, ", window: 2");
            nodes.push(format!(
                "memory: {{ op: memory-update, inputs: {from}, with: {{ {with}, per: {per}, capacity: 4, evict: {evict}{points}{window} }} }}"
            ));
            log.push("memory");
        }
        if clustered {
            nodes.push("clusters: { op: cluster, inputs: rollout, with: { at_least: 0.9 } }".into());
            log.push("clusters");
            rows = "clusters".into();
        }
        if self.chance(0.4) {
            let count = self.maybe(0.5, ", per: all");
            nodes.push(format!("novelty: {{ op: novelty, inputs: {rows}, with: {{ at_least: 0.8{count} }} }}"));
            log.push("novelty");
            rows = "novelty".into();
        }
        let paid = if rows == "novelty" { ", novelty: 0.5" } else { "" };
        let kl = if kl_per_token { ", kl: 0.05, kl_per: token, model: actor" } else { "" };
        let overlong = self.maybe(0.2, ", overlong: { max: 8, buffer: 4, weight: 0.1 }");
        nodes.push(format!("reward: {{ op: reward, inputs: {rows}, with: {{ won: 2, invalid: -0.1, format: 0.1{paid}{kl}{overlong} }} }}"));
        rows = "reward".into();
        if self.chance(0.3) {
            let function = self.one(&["paid, by: [task]", "paid", "edited, by: [task, sample]"]);
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/functions.py");
            nodes.push(format!("own: {{ op: python, inputs: {rows}, with: {{ call: {file}:{function} }} }}"));
            log.push("own");
            rows = "own".into();
        }
        let mut models = String::from("  actor: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }\n");
        if let Some(per) = &critic {
            models += "  critic: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1, head: value }\n";
            nodes.push(format!(
                "value: {{ op: value, inputs: {{ rows: {rows}, weights: {{ after: values }} }}, with: {{ model: critic, per: {per} }} }}"
            ));
            rows = "value".into();
        }
        let by = self.one(&["[task]", "[task, state]", "[task, state, visitation_depth]", "[task, attempt]"]);
        nodes.push(format!("group: {{ op: group, inputs: {rows}, with: {{ by: {by} }} }}"));
        let first = self.advantage(looped, kl_per_token, critic.as_deref());
        nodes.push(format!("advantage: {{ op: advantage, inputs: group, with: {{ {first} }} }}"));
        rows = "advantage".into();
        if critic.is_none() && !kl_per_token && self.chance(0.3) {
            let second = self.advantage(looped, false, None);
            let judged = if log.contains(&"own") { "own" } else { "reward" };
            nodes.push(format!("batch: {{ op: group, inputs: {judged}, with: {{ by: [task] }} }}"));
            nodes.push(format!("other: {{ op: advantage, inputs: batch, with: {{ {second} }} }}"));
            nodes.push("both: { op: combine, inputs: { one: advantage, two: other }, with: { weights: { two: 0.5 } } }".into());
            rows = "both".into();
        }
        log.push(if rows == "both" { "both" } else { "advantage" });
        if critic.is_some() {
            nodes.push(format!("values: {{ op: gpu-update, inputs: {rows}, with: {{ model: critic, objective: value, lr: 1.0e-3 }} }}"));
        }
        let learn = self.one(&["", ", kl: 0.05", ", minibatch: 4", ", epochs: 2, minibatch: 8", ", mask_below: 0.01", ", invalid: drop"]);
        let tips = if remembers && !looped && self.chance(0.3) { ", tips: { remove: 0.5 }" } else { "" };
        nodes.push(format!("update: {{ op: gpu-update, inputs: {rows}, with: {{ model: actor, lr: 1.0e-3{learn}{tips} }} }}"));
        log.push("update");
        if self.chance(0.4) {
            let judged = self.one(&["player", "player", "{ model: frozen, max_turns: 3 }"]);
            let attempts = 1 + self.0.below(3);
            let reflects = attempts > 1 && self.chance(0.7);
            let reflect = if reflects { format!(", reflect: {{ {} }}", self.reflect()) } else { String::new() };
            nodes.push(format!(
                "held_out: {{ op: evaluate, inputs: {{ weights: {{ after: update }} }}, with: {{ agent: {judged}, panel: {panel}, every: 2, attempts: {attempts}{reflect} }} }}"
            ));
            log.push("held_out");
        }
        let writer = self.writer();
        if nodes.iter().chain([&writer]).any(|text| text.contains("model: frozen")) {
            models += "  frozen: { new: tiny, layers: 1, width: 16, heads: 2, kv_heads: 1 }\n";
        }
        let nodes: String = nodes.iter().map(|node| format!("  {node}\n")).collect();
        format!(
            "flow: drawn-{seed}\niterations: 3\nseed: {seed}\nmodels:\n{models}agents:\n  player: {player}\n  writer: {writer}\nnodes:\n{nodes}log: [{}]\n",
            log.join(", ")
        )
    }
}

/// Every logged row of every node as a line of JSON, sorted, and the bytes of all weights.
fn digest(run: &Path) -> BTreeMap<String, Vec<String>> {
    let folder = Run::open(run).unwrap();
    let mut digest = BTreeMap::new();
    for node in &folder.manifest().unwrap().info.nodes {
        let mut lines: Vec<String> = Vec::new();
        for rows in read(&folder, &node.id).unwrap() {
            let mut writer = LineDelimitedWriter::new(Vec::new());
            writer.write(&rows).unwrap();
            writer.finish().unwrap();
            lines.extend(text(&writer.into_inner()).lines().map(String::from));
        }
        lines.sort();
        digest.insert(node.id.clone(), lines);
    }
    let mut weights: Vec<PathBuf> = Vec::new();
    let mut walk = vec![run.join("weights")];
    while let Some(folder) = walk.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk.push(path)
            } else {
                weights.push(path)
            }
        }
    }
    weights.retain(|file| file.extension().is_some_and(|end| end == "safetensors"));
    weights.sort();
    let sums = weights.iter().map(|file| format!("{:x}", flow_core::seed::bytes(&std::fs::read(file).unwrap()))).collect();
    digest.insert("weights".into(), sums);
    digest
}

/// Runs the pipelines of these seeds on each number of workers. `check` may refuse one; answers with how many ran.
fn drawn(seeds: impl Iterator<Item = u64>, workers: &[&str]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let frozen = folder.path().join("panels");
    done(flow().args(["panel", "minesweeper", "size=3", "mines=2", "split=test", "--count", "4", "--out"]).arg(&frozen));
    let panel = std::fs::read_dir(&frozen).unwrap().next().unwrap().unwrap().path();
    let mut ran = 0;
    for seed in seeds {
        let yaml = Draw(Random::new(mix(0x9e, seed))).pipeline(seed, &panel.display().to_string());
        let file = folder.path().join(format!("drawn-{seed}.yaml"));
        std::fs::write(&file, &yaml).unwrap();
        let mut first: Option<BTreeMap<String, Vec<String>>> = None;
        let mut refused = false;
        for count in workers {
            let out = folder.path().join(format!("run-{seed}-{count}"));
            let run = flow().arg("run").arg(&file).args(["--workers", count, "--out"]).arg(&out).output().unwrap();
            refused = first.is_none() && !run.status.success() && !flow().arg("check").arg(&file).output().unwrap().status.success();
            if refused {
                break;
            }
            assert!(run.status.success(), "seed {seed} on {count} workers:\n{yaml}\n{}", text(&run.stderr));
            let digest = digest(&out);
            std::fs::remove_dir_all(&out).unwrap();
            let first = first.get_or_insert_with(|| digest.clone());
            for (node, lines) in &digest {
                assert!(first[node] == *lines, "seed {seed}: `{node}` differs between {} and {count} workers:\n{yaml}", workers[0]);
            }
        }
        ran += usize::from(!refused);
    }
    ran
}

#[test]
fn a_pipeline_that_check_accepts_runs_alike_on_any_number_of_workers() {
    let many: Option<u64> = std::env::var("FLOW_GENERATED").ok().and_then(|many| many.parse().ok());
    let begin: u64 = std::env::var("FLOW_GENERATED_FROM").ok().and_then(|from| from.parse().ok()).unwrap_or(0);
    let Some(many) = many else {
        return assert!(drawn(0..8, &["1", "2"]) >= 4, "most of what is drawn is valid");
    };
    let lanes = std::thread::available_parallelism().map_or(1, |lanes| lanes.get() as u64);
    let ran: usize = std::thread::scope(|scope| {
        let lane = |lane| scope.spawn(move || drawn((begin..begin + many).skip(lane as usize).step_by(lanes as usize), &["1", "2", "4"]));
        let lanes: Vec<_> = (0..lanes).map(lane).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    println!("{ran} of {many} pipelines were valid, and ran alike on 1, 2 and 4 workers");
}
