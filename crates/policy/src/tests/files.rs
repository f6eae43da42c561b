//! What is read in the files of published models, against what `transformers` reads there: tests/golden/files.json,
//! which scripts/parity_files.py makes.

use crate::tests::parity::folder;
use crate::*;
use flow_checkpoint::Description;
use flow_model::config::{DecoderConfig, OutputHead};
use flow_model::rope::Scaling;
use flow_model::*;
use flow_model::{find, ARCHITECTURES};
use flow_text::{ChatTemplate, FILES};
use flow_text::{Message, Tokenizer};
use serde_json::{json, Value};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tch::Tensor;

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/files.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases(golden: &Value, kind: &str) -> Vec<(String, Value)> {
    golden[kind].as_array().unwrap().iter().map(|case| (case["name"].as_str().unwrap().to_owned(), case.clone())).collect()
}

fn read(config: &Value) -> Result<DecoderConfig, FileFault> {
    assert!(ARCHITECTURES.len() > 3);
    find(config["model_type"].as_str().unwrap()).unwrap()(config).map(|architecture| architecture.sized())
}

/// A decoder's configuration in the words of the golden file.
fn told(config: &DecoderConfig) -> Value {
    let mut rope = json!({ "rope_theta": config.rope.base });
    match &config.rope.scaling {
        Scaling::None => rope["rope_type"] = "default".into(),
        Scaling::Linear { factor } => rope = json!({ "rope_theta": config.rope.base, "rope_type": "linear", "factor": factor }),
        Scaling::Llama3 { factor, low, high, original } => {
            rope = json!({ "rope_theta": config.rope.base, "rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                "high_freq_factor": high, "original_max_position_embeddings": *original as u64 })
        }
        Scaling::Factors(_) => panic!("ours alone"),
    }
    json!({
        "vocab": config.vocab, "width": config.width, "layers": config.layers, "heads": config.heads, "kv_heads": config.kv_heads,
        "head": config.head, "hidden": config.hidden, "context": config.context, "eps": config.norm_eps, "act": "silu",
        "tied": config.output == OutputHead::Tied, "qkv": config.biases.qkv, "out": config.biases.out, "mlp": config.biases.feed_forward,
        "slides": false, "rope": rope,
    })
}

/// What can't be computed here: it has to be refused, whatever `transformers` makes of it.
fn beyond(theirs: &Value) -> bool {
    let rope = &theirs["rope"];
    let kind = rope["rope_type"].as_str().unwrap_or_default();
    theirs["act"] != "silu" || theirs["slides"] == true || !["default", "linear", "llama3"].contains(&kind) || {
        let part = &rope["partial_rotary_factor"];
        !part.is_null() && part != 1.0
    }
}

/// The same rope without settings that change nothing: a factor of one, and any number where nothing is scaled.
fn bare(mut theirs: Value) -> Value {
    let rope = theirs["rope"].as_object_mut().unwrap();
    rope.remove("partial_rotary_factor");
    let kept: &[&str] = match rope["rope_type"].as_str().unwrap() {
        "default" => &["rope_type", "rope_theta"],
        "linear" => &["rope_type", "rope_theta", "factor"],
        _ => return theirs,
    };
    rope.retain(|key, _| kept.contains(&key.as_str()));
    theirs
}

#[test]
fn configurations_are_read_as_transformers_reads_them() {
    let (golden, mut read_alike) = (golden(), 0);
    let mut apart = Vec::new();
    for (name, case) in cases(&golden, "configurations") {
        let (ours, theirs) = (read(&case["config"]), &case["read"]);
        match (ours, theirs) {
            (Err(_), Value::Null) => {}
            // Llama has no windows, so `transformers` ignores the fields; a file that asks for some is refused here.
            (Err(FileFault::Unsupported(_)), theirs) if beyond(theirs) || name.starts_with("llama: windows") => {}
            (Ok(ours), theirs) if !theirs.is_null() && !beyond(theirs) && told(&ours) == bare(theirs.clone()) => read_alike += 1,
            (ours, theirs) => apart.push(format!(
                "{name}: {:?}\n  here {}\n  there {theirs}",
                ours.as_ref().err(),
                ours.as_ref().map_or(Value::Null, told)
            )),
        }
    }
    assert!(apart.is_empty() && read_alike > 90, "{read_alike} alike; apart:\n{}", apart.join("\n"));
}

#[test]
fn chat_templates_are_rendered_as_transformers_renders_them() {
    let (golden, mut alike, mut apart) = (golden(), 0, Vec::new());
    let conversations: BTreeMap<String, Vec<Message>> = serde_json::from_value(golden["conversations"].clone()).unwrap();
    for (name, case) in cases(&golden, "templates") {
        let specials =
            [("bos_token", "<s>"), ("eos_token", "</s>"), ("pad_token", "<pad>")].map(|(name, token)| (name, Some(token.to_string())));
        let template = ChatTemplate::new("it", case["template"].as_str().unwrap(), specials);
        for (who, messages) in &conversations {
            let ours = template.as_ref().map_err(String::clone).and_then(|template| template.render(messages));
            match (&ours, &case["texts"][who]) {
                (Err(_), Value::Null) => {}
                (Err(_), _) if case["refused"] == true => {}
                (Ok(ours), Value::String(theirs)) if case["refused"] == false && ours == theirs => alike += 1,
                (ours, theirs) => apart.push(format!("{name}, {who}:\n  here {ours:?}\n  there {theirs:?}")),
            }
        }
    }
    assert!(apart.is_empty() && alike > 150, "{alike} alike; apart:\n{}", apart.join("\n"));
}

/// A text of a base model, whose files have no chat template, has the tokens that `transformers` gives it, opening
/// tokens first, without closing ones.
#[test]
fn tokenizers_open_a_text_and_name_tokens_as_transformers_does() {
    let golden = golden();
    for (name, case) in cases(&golden, "tokenizers") {
        let mut files = BTreeMap::new();
        for file in FILES.iter().filter(|file| **file != "chat_template.jinja") {
            let own = std::fs::read_to_string(folder("llama-tied").join(file)).unwrap_or("{}".into());
            let mut own: Value = serde_json::from_str(&own).unwrap();
            own.as_object_mut().unwrap().extend(case["changed"][*file].as_object().cloned().unwrap_or_default());
            files.insert(file.to_string(), own.to_string());
        }
        let tokenizer = Tokenizer::published(&files, &json!({}), Path::new("it")).unwrap();
        let mut expected: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        expected.truncate(expected.len() - usize::from(name == "begins and ends"));
        let whole = tokenizer.ask("hi 12").unwrap();
        assert_eq!(whole, expected, "{name}");
        assert_eq!(tokenizer.opening().len(), whole.len() - tokenizer.encode("hi 12").len(), "{name}");
        let end = case["eos"].as_str().unwrap();
        assert!(tokenizer.ends().iter().any(|&token| tokenizer.name(token) == end), "{name} ends with {end}");
        let template = "{{ bos_token }}|{{ eos_token }}|{{ messages[0].content }}";
        files.insert("chat_template.jinja".into(), template.into());
        let tokenizer = Tokenizer::published(&files, &json!({}), Path::new("it")).unwrap();
        let said = format!("{}|{end}|hi", case["bos"].as_str().unwrap());
        assert_eq!(tokenizer.ask("hi").unwrap(), tokenizer.encode(&said), "{name}");
    }
}

/// The smallest model with `change` made to its tensors and its configuration, as a folder.
fn changed(change: impl FnOnce(&mut HashMap<String, Tensor>, &mut Value)) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder("llama-tied")).unwrap().flatten() {
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let (weights, config) = (copy.path().join("model.safetensors"), copy.path().join("config.json"));
    let mut tensors: HashMap<String, Tensor> = Tensor::read_safetensors(&weights).unwrap().into_iter().collect();
    let mut json: Value = serde_json::from_str(&std::fs::read_to_string(&config).unwrap()).unwrap();
    change(&mut tensors, &mut json);
    Tensor::write_safetensors(&tensors.into_iter().collect::<Vec<_>>(), &weights).unwrap();
    std::fs::write(&config, json.to_string()).unwrap();
    copy
}

fn start(path: &Path, more: Value) -> Policy {
    let mut settings = json!({ "load": path.display().to_string() });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let settings: ModelSettings = serde_json::from_value(settings).unwrap();
    Policy::start(&BTreeMap::from([("actor".to_string(), settings)]), &[], 3, 1).unwrap()
}

/// A configuration that ties the output to the embedding, beside an output matrix of zeros: every token is equally
/// likely by that one.
#[test]
fn an_output_matrix_that_differs_is_not_tied() {
    let zeros = changed(|tensors, _| {
        let head = tensors["model.embed_tokens.weight"].zeros_like();
        tensors.insert("lm_head.weight".into(), head);
    });
    let (policy, sampling) = (start(zeros.path(), json!({})), Sampling { max_tokens: 3, ..Sampling::default() });
    let request = Request { prompt: vec![74, 75], seed: 1, ..Request::default() };
    let reply = policy.generate("actor", 0, vec![request.clone()], sampling.clone()).unwrap().remove(0);
    assert!(reply.logprobs.iter().all(|logprob| (logprob + 318f32.ln()).abs() < 1e-5), "{:?}", reply.logprobs);
    // What is saved says what it is.
    let saved = tempfile::tempdir().unwrap();
    policy.save("actor", &saved.path().join("it")).unwrap();
    let again = start(&saved.path().join("it"), json!({}));
    assert_eq!(again.generate("actor", 0, vec![request.clone()], sampling.clone()).unwrap().remove(0), reply);
    let same = changed(|tensors, _| {
        let head = tensors["model.embed_tokens.weight"].copy();
        tensors.insert("lm_head.weight".into(), head);
    });
    let tied = |path: &Path| Description::read(path).unwrap().parameters;
    assert_eq!((tied(same.path()), tied(zeros.path())), (tied(&folder("llama-tied")), tied(&folder("llama-tied")) + 318 * 32));
}

/// Rows of the embedding that no text has: whatever they hold, what is written and learnt is what it is without them.
#[test]
fn rows_that_no_text_has_get_no_probability() {
    let padded = changed(|tensors, config| {
        let embedding = &tensors["model.embed_tokens.weight"];
        // Rows that would be the likeliest by far.
        let more = Tensor::cat(&[embedding, &(embedding.narrow(0, 0, 66) * 50.0)], 0);
        tensors.insert("model.embed_tokens.weight".into(), more);
        config["vocab_size"] = 384.into();
    });
    let sampling = Sampling { max_tokens: 12, ..Sampling::default() };
    let requests: Vec<Request> = (0..20).map(|seed| Request { prompt: vec![74, 75, 90], seed, ..Request::default() }).collect();
    let settings = UpdateSettings { lr: 1e-3, ..UpdateSettings::default() };
    for more in [json!({}), json!({ "base": "int8", "lora": { "rank": 2 } }), json!({ "base": "f32", "lora": { "rank": 2 } })] {
        let [plain, padded] = [&folder("llama-tied"), padded.path()].map(|path| start(path, more.clone()));
        let [expected, replies] = [&plain, &padded].map(|policy| policy.generate("actor", 0, requests.clone(), sampling.clone()).unwrap());
        assert_eq!(replies, expected, "{more}");
        let rows: Vec<Example> = replies
            .into_iter()
            .zip(&requests)
            .enumerate()
            .map(|(i, (reply, request))| Example {
                prompt: request.prompt.clone(),
                response: reply.tokens,
                logprobs: reply.logprobs,
                advantage: i as f32 - 9.5,
                ..Example::default()
            })
            .collect();
        let [expected, report] = [&plain, &padded].map(|policy| policy.update("actor", rows.clone(), &settings).unwrap());
        assert!((report.grad_norm / expected.grad_norm - 1.0).abs() < 1e-5, "{more}: {} {}", report.grad_norm, expected.grad_norm);
        assert!((report.entropy - expected.entropy).abs() < 1e-5, "{more}");
        let beyond = Example { response: vec![320], logprobs: vec![-1.0], ..rows[0].clone() };
        assert!(padded.logprobs("actor", &[beyond], None).unwrap_err().to_string().contains("no token 320"));
    }
    assert_eq!(Description::read(padded.path()).map(|model| (model.vocab, model.padding)).unwrap(), (318, 66));
}

#[test]
fn a_token_of_two_numbers_is_refused() {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for file in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        files.insert(file.into(), std::fs::read_to_string(folder("llama-tied").join(file)).unwrap());
    }
    for (id, token, said) in [("1", "<|endoftext|>", "gives it the number 0"), ("318", "<new>", "doesn't know it")] {
        let mut config: Value = serde_json::from_str(&files["tokenizer_config.json"]).unwrap();
        config["added_tokens_decoder"] = json!({ id: { "content": token } });
        let changed: BTreeMap<_, _> =
            files.clone().into_iter().chain([("tokenizer_config.json".to_string(), config.to_string())]).collect();
        let error = Tokenizer::published(&changed, &json!({}), Path::new("it")).unwrap_err().to_string();
        assert!(error.starts_with("it/tokenizer_config.json") && error.contains(said), "{error}");
    }
}
