//! Encoders against what `transformers` computes: tests/golden/models/encoder, made anew by `make parity-models`.

use crate::tests::parity::folder;
use crate::*;
use flow_checkpoint::EncoderDescription;
use flow_model::*;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn start(path: &Path, threads: usize) -> Result<Policy, PolicyError> {
    let encoder = ModelSettings::Encode(EncoderModel { encode: path.display().to_string() });
    Policy::start(&BTreeMap::from([("encoder".to_string(), encoder)]), &[], 3, threads)
}

/// Holds the encoder at `path` to `golden`: the largest difference between their numbers.
fn compare(path: &Path, golden: &Path) -> f32 {
    let golden: Vec<Value> = serde_json::from_str(&fs::read_to_string(golden).unwrap()).unwrap();
    let texts: Vec<String> = golden.iter().map(|case| case["text"].as_str().unwrap().into()).collect();
    let policy = start(path, 2).unwrap();
    let vectors = policy.embed("encoder", texts.clone()).unwrap();
    let mut largest: f32 = 0.0;
    for (case, vector) in golden.iter().zip(&vectors) {
        let expected: Vec<f32> = case["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        assert_eq!(vector.len(), expected.len());
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5);
        largest = vector.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(largest, f32::max);
    }
    let backwards: Vec<_> = policy.embed("encoder", texts.iter().rev().cloned().collect()).unwrap().into_iter().rev().collect();
    assert_eq!(backwards, vectors, "the order");
    for (text, vector) in texts.iter().zip(&vectors) {
        assert_eq!(start(path, 1).unwrap().embed("encoder", vec![text.clone()]).unwrap(), std::slice::from_ref(vector), "the neighbours");
    }
    largest
}

#[test]
fn vectors_are_those_of_transformers() {
    let difference = compare(&folder("encoder"), &folder("encoder/golden.json"));
    assert!(difference < 1e-5, "vectors differ by {difference}");
    let policy = start(&folder("encoder"), 1).unwrap();
    assert!(policy.embed("encoder", vec![]).unwrap().is_empty());
    let many: Vec<String> = (0..300).map(|i| format!("row {} of the room", i % 150)).collect();
    let vectors = policy.embed("encoder", many).unwrap();
    assert!(vectors[..150] == vectors[150..] && vectors[0] != vectors[1]);
    assert!(matches!(policy.embed("unknown", vec![]), Err(PolicyError::NoModel(_))));
}

#[test]
fn encoders_that_can_not_be_used_are_named() {
    let error_after = |change: &dyn Fn(&Path)| {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("1_Pooling")).unwrap();
        for file in ["config.json", "tokenizer.json", "model.safetensors", "sentence_bert_config.json", "1_Pooling/config.json"] {
            fs::copy(folder("encoder").join(file), copy.path().join(file)).unwrap();
        }
        change(copy.path());
        start(copy.path(), 1).err().map_or("nothing".into(), |error| error.to_string())
    };
    let set = |file: &'static str, key: &'static str, value: Value| {
        error_after(&move |folder: &Path| {
            let path = folder.join(file);
            let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            config[key] = value.clone();
            fs::write(path, config.to_string()).unwrap();
        })
    };
    assert_eq!(error_after(&|_| ()), "nothing");
    assert!(set("config.json", "model_type", json!("llama")).contains("`llama`; `bert` is"));
    assert!(set("config.json", "hidden_act", json!("relu")).contains("`relu`"));
    assert!(set("config.json", "num_attention_heads", json!(5)).contains("5 heads"));
    assert!(set("config.json", "num_attention_heads", json!(0)).contains("at least 1"));
    assert!(set("config.json", "num_hidden_layers", json!(3)).contains("no tensor `encoder.layer.2."));
    assert!(set("config.json", "num_hidden_layers", json!(1)).contains("doesn't know the tensor `encoder.layer.1."));
    assert!(set("1_Pooling/config.json", "pooling_mode_mean_tokens", json!(false)).contains("pooling"));
    assert!(error_after(&|folder| fs::remove_file(folder.join("tokenizer.json")).unwrap()).contains("tokenizer.json"));
    assert!(error_after(&|folder| fs::write(folder.join("model.safetensors"), [0; 9]).unwrap()).contains("model.safetensors"));
}

/// MiniLM from the folder that `FLOW_MINILM` names, against what `make parity-models` found in the same folder
/// (`FLOW_GOLDEN`).
#[test]
#[ignore = "needs a file of 91 MB"]
fn minilm_from_its_package() {
    let name = |variable| PathBuf::from(std::env::var_os(variable).expect(variable));
    let difference = compare(&name("FLOW_MINILM"), &name("FLOW_GOLDEN"));
    println!("vectors differ by {difference:.1e}");
    assert!(difference < 1e-4);
}

#[test]
fn an_encoder_is_described_without_its_weights() {
    let description = EncoderDescription::read(&folder("encoder")).unwrap().unwrap();
    // Words, places and kinds and their norm; two blocks of four square matrices, two of 24 by 40, and two norms, all
    // with biases.
    let block = 4 * (24 * 24 + 24) + 2 * 24 * 40 + 40 + 24 + 2 * 48;
    assert_eq!(description.parameters, (91 + 64 + 2) * 24 + 48 + 2 * block);
    assert_eq!((description.vocab, description.width), (91, 24));
    assert_eq!(EncoderDescription::read(&folder("qwen2")).unwrap(), None);
}
