//! Model folders and files that can't be used: each has a message that names what is wrong, and nothing is loaded.

use crate::tests::parity::folder;
use serde_json::{json, Value};
use std::fs;
use std::path::Path;

/// What is said of the folder of `name` after `change`.
fn error_text(name: &str, change: impl FnOnce(&Path)) -> String {
    let copy = tempfile::tempdir().unwrap();
    let golden = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with("golden");
    for file in fs::read_dir(folder(name)).unwrap().flatten().filter(|file| !golden(file)) {
        fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    change(copy.path());
    match flow_checkpoint::stored::open(copy.path()) {
        Err(error) => error.to_string().replace(&copy.path().display().to_string(), ""),
        Ok(_) => "nothing".into(),
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

fn config(name: &str, key: &str, value: Value) -> String {
    error_text(name, |folder| edit(&folder.join("config.json"), |config| config[key] = value))
}

fn holds(text: String, parts: &[&str]) {
    assert!(parts.iter().all(|part| text.contains(part)), "{text}: wanted {parts:?}");
}

#[test]
fn configurations() {
    holds(config("qwen3", "model_type", json!("gemma3")), &["/config.json", "`gemma3`", "llama, qwen2, qwen3"]);
    holds(config("qwen3", "hidden_act", json!("gelu")), &["/config.json", "`gelu`", "`silu`"]);
    holds(config("qwen3", "num_attention_heads", json!(5)), &["5 heads", "2 kv_heads"]);
    holds(config("qwen3", "num_attention_heads", json!(0)), &["at least 1"]);
    holds(config("qwen3", "num_hidden_layers", json!("two")), &["/config.json", "invalid type"]);
    holds(config("qwen3", "head_dim", json!(15)), &["15 numbers", "pairs"]);
    let slides = |folder: &Path| edit(&folder.join("config.json"), |config| config["layer_types"][1] = "sliding_attention".into());
    holds(error_text("qwen2", slides), &["sliding window"]);
    holds(config("qwen2", "num_hidden_layers", json!(1_000_000_000)), &["more numbers than any machine holds"]);
    holds(config("qwen2", "intermediate_size", json!(1u64 << 62)), &["more numbers"]);
    holds(config("qwen2", "max_position_embeddings", json!(1u64 << 31)), &["2147483648 places", "fill the memory"]);
    holds(
        config("llama-tied", "rope_parameters", json!({ "rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0 })),
        &["`yarn`", "`llama3`"],
    );
    holds(config("llama-tied", "rope_parameters", json!({ "rope_type": "linear", "factor": 0.0 })), &["`factor`", "above 0"]);
    holds(error_text("qwen2", |folder| fs::write(folder.join("config.json"), "{").unwrap()), &["/config.json", "EOF"]);
    holds(error_text("qwen2", |folder| fs::remove_file(folder.join("config.json")).unwrap()), &["no `config.json`, but `chat_template"]);
    holds(error_text("qwen2", |folder| fs::write(folder.join("config.json"), "{}").unwrap()), &["/config.json", "not the configuration"]);
}

#[test]
fn tensors() {
    holds(config("qwen3", "hidden_size", json!(64)), &["/model.safetensors", "`model.embed_tokens.weight`", "[318, 32]", "[318, 64]"]);
    holds(config("qwen3", "num_hidden_layers", json!(3)), &["there is no tensor `model.layers.2.self_attn.q_proj.weight`"]);
    holds(config("qwen3", "num_hidden_layers", json!(1)), &["doesn't know the tensor `model.layers.1."]);
    holds(config("qwen2", "model_type", json!("llama")), &["doesn't know the tensor `model.layers.0.self_attn.k_proj.bias`"]);
    holds(config("llama-tied", "tie_word_embeddings", json!(false)), &["there is no tensor `lm_head.weight`"]);
    let cut = |name: &str, file: &str, bytes: u64| {
        error_text(name, |folder| fs::File::options().write(true).open(folder.join(file)).unwrap().set_len(bytes).unwrap())
    };
    holds(cut("qwen3", "model.safetensors", 100_000), &["/model.safetensors", "cut off", "100000"]);
    holds(cut("qwen3", "model.safetensors", 1000), &["/model.safetensors", "cut off"]);
    holds(cut("qwen3", "model.safetensors", 5), &["/model.safetensors", "no safetensors file"]);
    holds(error_text("qwen3", |folder| fs::write(folder.join("model.safetensors"), [255; 64]).unwrap()), &["no safetensors file"]);
    let shard = "model-00002-of-00003.safetensors";
    holds(error_text("llama3-scaled", |folder| fs::remove_file(folder.join(shard)).unwrap()), &[shard, "No such file"]);
    let astray = |folder: &Path| {
        edit(&folder.join("model.safetensors.index.json"), |index| index["weight_map"]["model.norm.weight"] = json!("../other"))
    };
    holds(error_text("llama3-scaled", astray), &["index.json", "../other"]);
    let header = |dtype: &str, to: usize| {
        let text = json!({ "a": { "dtype": dtype, "shape": [4], "data_offsets": [0, to] } }).to_string();
        let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &[0; 16]].concat();
        error_text("qwen3", |folder| fs::write(folder.join("model.safetensors"), bytes).unwrap())
    };
    holds(header("I8", 4), &["`a`", "I8", "BF16"]);
    holds(header("F32", 12), &["`a`", "16 bytes"]);
    holds(header("F32", 16), &["there is no tensor"]);
}

#[test]
fn tokenizers_and_templates() {
    let without = |file: &'static str| error_text("qwen3", |folder| fs::remove_file(folder.join(file)).unwrap());
    holds(without("tokenizer.json"), &["no `tokenizer.json`: a model's folder has `config.json`"]);
    assert_eq!(without("chat_template.jinja"), "nothing");
    holds(error_text("qwen3", |folder| fs::write(folder.join("tokenizer.json"), "{}").unwrap()), &["/tokenizer.json"]);
    holds(
        error_text("qwen3", |folder| fs::write(folder.join("chat_template.jinja"), "{% if %}").unwrap()),
        &["/chat_template.jinja", "line 1"],
    );
    holds(error_text("qwen3", |folder| fs::write(folder.join("generation_config.json"), "nothing").unwrap()), &["/generation_config.json"]);
    holds(config("qwen3", "vocab_size", json!(300)), &["`model.embed_tokens.weight`"]);
}

/// Common mistakes in place of a readable model, each with its remedy.
#[test]
fn downloads_that_are_no_model_yet() {
    let pointer = "version https://git-lfs.example/spec/v1\noid sha256:0\nsize 1\n";
    for file in ["model.safetensors", "config.json", "tokenizer.json"] {
        let fetched = error_text("qwen3", |folder| fs::write(folder.join(file), pointer).unwrap());
        holds(fetched, &[&format!("/{file}: this is a Git LFS pointer"), "git lfs pull"]);
    }
    let empty = |folder: &Path| fs::read_dir(folder).unwrap().flatten().for_each(|file| fs::remove_file(file.path()).unwrap());
    holds(error_text("qwen3", empty), &["the folder is empty", "`tokenizer.json`", "`model.safetensors`"]);
    let weights =
        |to: &'static str| error_text("qwen3", move |folder| fs::rename(folder.join("model.safetensors"), folder.join(to)).unwrap());
    holds(weights("pytorch_model.bin"), &["no `model.safetensors`, but `pytorch_model.bin`", "save_pretrained"]);
    holds(weights("model.fp16.safetensors"), &["`model.fp16.safetensors`: give it that name"]);
    let tokens = |to: &'static str| error_text("qwen3", move |folder| fs::rename(folder.join("tokenizer.json"), folder.join(to)).unwrap());
    holds(tokens("tokenizer.model"), &["no `tokenizer.json`, but `tokenizer.model`", "AutoTokenizer"]);
    let config_text = |change: fn(String) -> String| {
        error_text("qwen3", |folder| {
            let path = folder.join("config.json");
            fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap()
        })
    };
    assert_eq!(config_text(|text| format!("\u{feff}{text}")), "nothing", "a byte order mark is no fault");
    for number in ["NaN", "Infinity", "-Infinity"] {
        let text = error_text("qwen3", |folder| fs::write(folder.join("config.json"), format!("{{\n  \"a\": {number}\n}}")).unwrap());
        holds(text, &["/config.json: JSON has no NaN and no Infinity", "line 2"]);
    }
    let renamed = |change: fn(&str) -> String| {
        error_text("qwen3", |folder| {
            let path = folder.join("model.safetensors");
            let named: Vec<(String, tch::Tensor)> =
                tch::Tensor::read_safetensors(&path).unwrap().into_iter().map(|(name, tensor)| (change(&name), tensor)).collect();
            tch::Tensor::write_safetensors(&named, &path).unwrap();
        })
    };
    holds(renamed(|name| format!("module.{name}")), &["`model.embed_tokens.weight`", "`module.model.embed_tokens.weight`", "DDP"]);
    holds(renamed(|name| name.trim_start_matches("model.").into()), &["`model.embed_tokens.weight`, but `embed_tokens.weight`"]);
    // A whole file counts, and no index beside it.
    let stale = json!({ "weight_map": { "model.norm.weight": "model-00001-of-00002.safetensors" } }).to_string();
    assert_eq!(error_text("qwen3", |folder| fs::write(folder.join("model.safetensors.index.json"), stale).unwrap()), "nothing");
}

/// A file that would take the memory or never end is refused when it is read.
#[test]
fn tokenizers_without_bounds() {
    let normalizer = |steps: Value| error_text("qwen3", |folder| edit(&folder.join("tokenizer.json"), |file| file["normalizer"] = steps));
    let doubling = json!({ "type": "Replace", "pattern": { "Regex": "x*" }, "content": "a" });
    let many = json!({ "type": "Sequence", "normalizers": vec![doubling; 40] });
    holds(normalizer(many), &["/tokenizer.json", "bytes of one"]);
    holds(normalizer(json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" })), &["/tokenizer.json", "precompiled_charsmap"]);
}

#[test]
fn a_saved_vocabulary_is_the_one_that_the_weights_were_trained_with() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("actor");
    crate::tests::start(1).save("actor", &folder).unwrap();
    let words = folder.join("vocabulary.json");
    let whole: Vec<String> = serde_json::from_str(&fs::read_to_string(&words).unwrap()).unwrap();
    assert!(flow_checkpoint::stored::open(&folder).is_ok());
    fs::write(&words, json!([&whole[..], &["another".to_string()]].concat()).to_string()).unwrap();
    let error = flow_checkpoint::stored::open(&folder).err().unwrap().to_string();
    holds(error, &["vocabulary.json", &format!("{} tokens, the model {}", whole.len() + 259, whole.len() + 258)]);
}
