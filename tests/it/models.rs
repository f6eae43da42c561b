//! Model folders from elsewhere: what `flow check` says of them before anything runs, and that whatever they make this
//! program compute ends.

use crate::common::*;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models").join(name)
}

/// A copy of a golden model in `folder`.
fn copy(name: &str, folder: &Path) -> PathBuf {
    let to = folder.join("model");
    std::fs::create_dir(&to).unwrap();
    for file in std::fs::read_dir(golden(name)).unwrap().flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

/// A pipeline in `folder` whose model is `model` and whose agent has `agent` besides.
fn playing(folder: &Path, model: &str, agent: &str) -> PathBuf {
    let text = format!(
        "flow: playing\niterations: 1\nmodels:\n  actor: {{ {model} }}\nagents:\n  player: {{ model: actor, max_turns: 2, decode: free, \
         max_tokens: 4{agent} }}\nnodes:\n  tasks: {{ op: tasks, with: {{ env: minesweeper, size: 4, mines: 2, batch: 1 }} }}\n  \
         rollout: {{ op: rollout, inputs: {{ tasks: tasks }}, with: {{ agent: player, samples: 1 }} }}\nlog: [rollout]\n"
    );
    let path = folder.join("playing.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

fn load(folder: &Path) -> String {
    format!("load: {}", folder.display())
}

/// What `flow check` says against a pipeline, with the place where it says so.
fn refusal(pipeline: &Path) -> String {
    let said = fails(flow().arg("check").arg(pipeline));
    assert!(said.contains("playing.yaml:4:"), "{said}: the place is the model's");
    said
}

#[test]
fn check_reads_headers_and_configurations() {
    let home = tempfile::tempdir().unwrap();
    let own = golden("qwen3");
    done(flow().arg("check").arg(playing(home.path(), &load(&own), "")));
    let said = |model: &str| refusal(&playing(home.path(), model, ""));
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let text = said(&load(&empty));
    assert!(text.contains("the folder is empty") && text.contains("`config.json`, `tokenizer.json`"), "{text}");
    let file = home.path().join("cut.gguf");
    std::fs::write(&file, "GGUF").unwrap();
    let text = said(&load(&file));
    let command = format!("`flow model convert {} {}`", file.display(), file.with_extension("").display());
    assert!(text.contains("cut.gguf: a GGUF file must be converted") && text.contains(&command), "{text}");
    let text = said(&format!("{}, lora: {{ targets: [q_proj, w_proj] }}", load(&own)));
    assert!(text.contains("no matrices called `w_proj`") && text.contains("q_proj, k_proj"), "{text}");
    let text = said(&format!("{}, lora: {{ targets: [all-linear, embed_tokens] }}", load(&own)));
    assert!(text.contains("no matrices called `embed_tokens`"), "{text}");
    let text = said(&format!("{}, base: int8, dtype: bf16, lora: {{ rank: 2 }}", load(&own)));
    assert!(text.contains("leave `dtype` out"), "{text}");
    let text = said(&format!("{}, adapter: {}", load(&own), golden("qwen3").display()));
    assert!(text.contains("adapter_config.json"), "{text}");
    let text = said("new: tiny, lora: { targets: [w_proj] }");
    assert!(text.contains("no matrices called `w_proj`"), "{text}");
}

/// transformers and vLLM would fail on such a folder as they load it.
#[test]
fn check_refuses_rope_factors_for_other_programs() {
    let home = tempfile::tempdir().unwrap();
    let folder = copy("llama-tied", home.path());
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["rope_scaling"] = json!({ "rope_type": "factors", "factors": [1.0, 1.0, 2.0, 4.0] });
    std::fs::write(&path, config.to_string()).unwrap();
    done(flow().arg("check").arg(playing(home.path(), &load(&folder), "")));
    for program in ["train: { torchrun: 1 }", r#"serve: { openai: "http://127.0.0.1:1" }"#] {
        let text = refusal(&playing(home.path(), &format!("{}, lora: {{ rank: 1 }}, {program}", load(&folder)), ""));
        assert!(text.contains("its rope factors come from a GGUF file, and only flow computes them"), "{program}: {text}");
    }
}

#[test]
fn check_gives_a_chat_template_the_messages_of_the_agents() {
    let home = tempfile::tempdir().unwrap();
    let folder = copy("qwen3", home.path());
    let template = |text: &str| std::fs::write(folder.join("chat_template.jinja"), text).unwrap();
    let pipeline = |agent: &str| playing(home.path(), &load(&folder), agent);
    let terse = ", system: You are terse.";
    template("{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{{ messages[0].content }}");
    done(flow().arg("check").arg(pipeline("")));
    let text = refusal(&pipeline(terse));
    assert!(text.contains("System role not supported") && text.contains("`rollout` gives it a system message"), "{text}");
    template("{% for m in messages %}{{ m.content | upper }}{% endfor %}");
    done(flow().arg("check").arg(pipeline(terse)));
    let text = refusal(&pipeline(", layout: chat"));
    assert!(text.contains("leaves answers out"), "{text}");
    // What it leaves out is said, and not only what it raises.
    template("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}");
    let text = refusal(&pipeline(terse));
    assert!(text.contains("leaves system messages out of the prompt"), "{text}");
    let shown = done(flow().args(["model", "show"]).arg(&folder));
    assert!(shown.contains("it renders no tools") && shown.contains("it leaves system messages out"), "{shown}");
    template("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}{{ thinking }}");
    assert!(done(flow().args(["model", "show"]).arg(&folder)).contains("yes; it renders tools\n"));
    done(flow().arg("check").arg(playing(home.path(), &format!("{}, template: {{ thinking: no }}", load(&folder)), "")));
    let text = refusal(&playing(home.path(), &format!("{}, template: {{ thinkin: no }}", load(&folder)), ""));
    assert!(text.contains("reads no variable `thinkin`"), "{text}");
    // Its context is 256 tokens.
    let long = playing(home.path(), &load(&folder), "");
    let text = std::fs::read_to_string(&long).unwrap();
    for (tokens, fits) in [(255, true), (256, false), (1000, false)] {
        std::fs::write(&long, text.replace("max_tokens: 4", &format!("max_tokens: {tokens}"))).unwrap();
        let output = flow().arg("check").arg(&long).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), fits, "{tokens}: {said}");
        assert!(fits || said.contains(&format!("an answer may have {tokens} tokens, and `actor` reads 256 with the prompt")), "{said}");
    }
    // A line of words that names no file is the text itself, in the run's copy as well.
    template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}");
    let run = home.path().join("run");
    done(flow().arg("run").arg(pipeline(terse)).arg("--out").arg(&run));
    let kept = std::fs::read_to_string(run.join("pipeline.yaml")).unwrap();
    assert!(kept.contains("system: You are terse.\n"), "{kept}");
    let prompt = &ask(&run, "select prompt_tokens from rollout limit 1")[0]["prompt_tokens"];
    let tokens: Vec<u32> = serde_json::from_value(prompt.clone()).unwrap();
    let files = ["tokenizer.json"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    let vocabulary: tokenizers::Tokenizer = files[0].parse().unwrap();
    assert!(vocabulary.decode(&tokens, false).unwrap().starts_with("system: You are terse.\nuser: "));
}

/// Sixty steps that double a text would take all memory, and cheap steps on a large value a minute.
#[test]
fn whatever_a_model_makes_us_compute_ends_with_one_message() {
    let home = tempfile::tempdir().unwrap();
    let folder = copy("llama-tied", home.path());
    let ends = |what: &str| {
        let (begun, pipeline) = (Instant::now(), playing(home.path(), &load(&folder), ""));
        let said = fails(flow().arg("check").arg(pipeline));
        assert!(begun.elapsed() < Duration::from_secs(40), "{what}: {:?}", begun.elapsed());
        assert!(said.lines().filter(|line| line.starts_with("error: ")).count() == 1 && !said.contains("panicked"), "{what}: {said}");
        said
    };
    for template in [
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s | length }}",
        "{% set x = 'x' * 100000 %}{{ (x | replace('x', x)) | length }}",
        "{% set x = 'x' * 30000000 %}{% for i in range(9000) %}{% set y = x | upper | reverse %}{% endfor %}",
    ] {
        std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
        let said = ends(template);
        assert!(said.contains("chat_template.jinja"), "{template}: {said}");
    }
    std::fs::copy(golden("llama-tied").join("chat_template.jinja"), folder.join("chat_template.jinja")).unwrap();
    let edited = |file: &str, change: &dyn Fn(&mut Value)| {
        let path = folder.join(file);
        let before = std::fs::read_to_string(&path).unwrap();
        let mut value = serde_json::from_str(&before).unwrap();
        change(&mut value);
        std::fs::write(&path, value.to_string()).unwrap();
        let said = ends(file);
        std::fs::write(&path, before).unwrap();
        said
    };
    assert!(edited("config.json", &|config| config["num_hidden_layers"] = json!(1_000_000_000)).contains("config.json"));
    let doubling = json!({ "type": "Replace", "pattern": { "Regex": "x*" }, "content": "a" });
    assert!(edited("tokenizer.json", &|file| file["normalizer"] = json!({ "type": "Sequence", "normalizers": vec![&doubling; 24] }))
        .contains("bytes of one"));
    let table = json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" });
    assert!(edited("tokenizer.json", &|file| file["normalizer"] = table.clone()).contains("precompiled_charsmap"));
    let said = fails(
        flow().env("FLOW_ISA", "sse").arg("run").arg(playing(home.path(), &load(&folder), "")).arg("--out").arg(home.path().join("run")),
    );
    assert!(said.contains("FLOW_ISA names no set of instructions: `sse`"), "{said}");
}

/// Speeds of a tiny model, each above nothing; a folder without a model is an error in one line.
#[test]
fn doctor_measures_a_model() {
    let home = tempfile::tempdir().unwrap();
    let folder = copy("llama-tied", home.path());
    let said = done(flow().arg("doctor").arg(&folder));
    let speed = said.lines().find(|line| line.contains("  speed ")).unwrap();
    let numbers: Vec<u64> = speed.split("one core: ").nth(1).unwrap().split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 4 && numbers.iter().all(|&number| number > 0), "{speed}");
    let cpu = said.lines().find(|line| line.contains("  CPU ")).unwrap();
    assert!(cpu.contains("8 bits by ") && cpu.contains(" GOP/s a core"), "{cpu}");
    let output = flow().arg("doctor").arg(home.path()).output().unwrap();
    assert!(output.status.code() == Some(1) && String::from_utf8_lossy(&output.stdout).contains("wrong  speed"), "{output:?}");
}
