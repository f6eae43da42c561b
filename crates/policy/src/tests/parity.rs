//! Real architectures against what `transformers` computes: tests/golden/models, made anew by `make parity-models`.

use crate::attention::AttentionLayout;
use crate::model::checkpoint;
use crate::model::reading::TrieTensors;
use crate::model::saved::SavedModel;
use crate::model::Net;
use crate::tensors::named_parts;
use crate::tensors::{indices, values};
use crate::*;
use flow_int8::trie::Trie;
use flow_model::*;
use flow_text::Message;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};

const MODELS: [&str; 5] = ["llama-tied", "llama3-scaled", "llama-biases", "qwen2", "qwen3"];

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models").join(name)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn tokens(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
}

fn load(name: &str) -> SavedModel {
    checkpoint::load(&folder(name), Device::Cpu, Kind::Float).unwrap()
}

/// The largest difference between two tensors of the same sizes, and the largest number of the second.
fn apart(ours: &Tensor, theirs: &Tensor) -> (f64, f64) {
    assert_eq!(ours.size(), theirs.size());
    ((ours - theirs).abs().max().double_value(&[]), theirs.abs().max().double_value(&[]))
}

/// The final states `[tokens, width]` of all tokens of a sequence.
pub fn states(net: &Net, ids: &[i64], cut: AttentionLayout) -> Tensor {
    let mut trie = Trie::default();
    let nodes = trie.add(&ids.iter().map(|&token| token as u32).collect::<Vec<_>>()).to_vec();
    let known = vec![false; trie.len()];
    net.read(&TrieTensors::new(&trie, &known, &nodes, cut, Device::Cpu), &[]).0.narrow(0, 0, nodes.len() as i64)
}

#[test]
fn logits_and_gradients_are_those_of_transformers() {
    for name in MODELS {
        let saved = load(name);
        let golden = json(&folder(name).join("golden.json"));
        let tensors: HashMap<String, Tensor> =
            Tensor::read_safetensors(folder(name).join("golden.safetensors")).unwrap().into_iter().collect();
        let net = Net::new(saved.architecture, &saved.flat, Kind::Float, saved.tokenizer.ends()).share(true);
        let (prompt, response) = (tokens(&golden["prompt"]), tokens(&golden["response"]));
        let ids: Vec<i64> = prompt.iter().chain(&response).map(|&token| token.into()).collect();
        let all: Vec<i64> = (0..ids.len() as i64).collect();
        for states in [states(&net, &ids, AttentionLayout::Packed), states(&net, &ids, AttentionLayout::PerSequence)] {
            let logits = net.outputs(&states);
            let (difference, largest) = apart(&logits, &tensors["logits"]);
            assert!(difference < 1e-4 && largest > 1.0, "{name}: logits up to {largest} differ by {difference}");
            let at = all[prompt.len() - 1..ids.len() - 1].to_vec();
            let targets = indices(&ids[prompt.len()..], Device::Cpu).unsqueeze(1);
            let loss = -logits.index_select(0, &indices(&at, Device::Cpu)).log_softmax(-1, None).gather(1, &targets, false).mean(None);
            assert!((loss.double_value(&[]) - golden["loss"].as_f64().unwrap()).abs() < 1e-5);
            let gradients = Tensor::run_backward(&[loss], net.leaves(), false, false);
            let flat = Tensor::cat(&gradients.iter().map(|gradient| gradient.reshape([-1])).collect::<Vec<_>>(), 0);
            for (parameter, gradient) in named_parts(net.layout(), &flat) {
                let theirs = &tensors[&format!("gradient.{parameter}")];
                let (difference, largest) = apart(&gradient, theirs);
                assert!(
                    difference < 1e-4 && largest > 1e-4,
                    "{name}: the gradient of {parameter}, up to {largest}, differs by {difference}"
                );
            }
        }
        assert_eq!(net.layout().parameters.len() + 1, tensors.len(), "{name}: every gradient was compared");
    }
}

fn start(name: &str) -> Policy {
    let load = ModelSettings::Load(LoadModel { load: folder(name).display().to_string(), ..Default::default() });
    Policy::start(&BTreeMap::from([("actor".to_string(), load)]), &[], 3, 1).unwrap()
}

#[test]
fn sixty_four_greedy_tokens_are_those_of_transformers() {
    for name in MODELS {
        let golden = json(&folder(name).join("golden.json"));
        let policy = start(name);
        let expected = tokens(&golden["greedy"]);
        let ends = tokens(&golden["ends"]);
        assert_eq!(policy.tokenizer("actor").unwrap().ends(), ends);
        let until = expected.iter().position(|token| ends.contains(token)).map_or(64, |at| at + 1);
        let request = Request { prompt: tokens(&golden["prompt"]), ..Default::default() };
        let sampling = Sampling { temperature: 0.0, max_tokens: 64, ..Default::default() };
        let reply = policy.generate("actor", 0, vec![request.clone()], sampling).unwrap().remove(0);
        assert_eq!(reply.tokens, expected[..until], "{name}");
        // What is recorded is what an update computes, and with a cache what is computed without one.
        let row = Example { prompt: request.prompt, response: reply.tokens, logprobs: reply.logprobs, ..Default::default() };
        let again = policy.logprobs("actor", std::slice::from_ref(&row), None).unwrap().remove(0);
        assert!(row.logprobs.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-4), "{name}");
    }
}

#[test]
fn texts_have_the_tokens_of_transformers() {
    for name in MODELS {
        let tokenizer = load(name).tokenizer;
        for text in json(&folder(name).join("golden.json"))["texts"].as_array().unwrap() {
            let (input, expected) = (text["text"].as_str().unwrap(), tokens(&text["tokens"]));
            assert_eq!(tokenizer.encode(input), expected, "{input:?}");
            assert_eq!(tokenizer.decode(&expected), text["decoded"].as_str().unwrap());
        }
    }
}

#[test]
fn ten_conversations_are_those_of_apply_chat_template() {
    let tokenizer = load("qwen3").tokenizer;
    let chats = json(&folder("chats.json"));
    assert_eq!(chats.as_array().unwrap().len(), 10);
    for chat in chats.as_array().unwrap() {
        let messages: Vec<Message> = serde_json::from_value(chat["messages"].clone()).unwrap();
        assert_eq!(tokenizer.chat(&messages).unwrap(), tokens(&chat["tokens"]), "{}", chat["text"]);
    }
    let refused = tokenizer.chat(&[Message { role: "tool".into(), content: String::new() }]).unwrap_err();
    assert!(refused.to_string().contains("no such role: tool"), "{refused}");
}

/// What is read next is what the template makes of the whole conversation, whether the answer closed itself or was cut
/// off.
#[test]
fn a_conversation_goes_on_as_the_template_writes_it() {
    let tokenizer = load("qwen3").tokenizer;
    let say = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
    let first = tokenizer.chat(&[say("user", "Where is the key?")]).unwrap();
    let whole = tokenizer.chat(&[say("user", "Where is the key?"), say("assistant", "Under the mat."), say("user", "Take it.")]).unwrap();
    let cut = tokenizer.encode("Under the mat.");
    assert!(whole.starts_with(&[first.as_slice(), &cut].concat()), "the template leaves the answer as it is");
    let closed = [cut.as_slice(), &whole[first.len() + cut.len()..][..1]].concat();
    assert!(tokenizer.ends().contains(&closed[closed.len() - 1]), "an answer ends as the template closes it");
    assert_eq!(tokenizer.follow(&first, &cut, "Take it.").unwrap(), whole);
    assert_eq!(tokenizer.follow(&first, &closed, "Take it.").unwrap(), whole);
}

/// A published model learns like any other, and is saved as a folder that it can be loaded from again, by others as
/// well.
#[test]
fn a_published_model_learns_and_is_saved_as_it_came() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("saved");
    let policy = start("qwen2");
    let tokenizer = policy.tokenizer("actor").unwrap();
    let row = |text: &str| Example {
        prompt: tokenizer.ask(text).unwrap(),
        response: [tokenizer.encode("up"), vec![tokenizer.end()]].concat(),
        ..Default::default()
    };
    let rows = vec![row("# _ #"), row("_ # _")];
    let settings = UpdateSettings { objective: Objective::Sft, lr: 1e-2, ..Default::default() };
    policy.save("actor", &path).unwrap();
    assert!(!path.join("optimizer.safetensors").exists(), "it was never trained");
    let losses: Vec<f64> = (0..10).map(|_| policy.update("actor", rows.clone(), &settings).unwrap().loss).collect();
    assert!(losses[9] < 0.5 * losses[0], "{losses:?}");
    policy.save("actor", &path).unwrap();
    for file in ["config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja", "model.safetensors"] {
        assert!(path.join(file).exists(), "{file}");
    }
    let again = start("qwen2");
    assert_eq!(again.restore("actor", &[path.to_path_buf()]).unwrap(), 10);
    assert_eq!(again.logprobs("actor", &rows, None).unwrap(), policy.logprobs("actor", &rows, None).unwrap());
    let (continued, reloaded) = (policy.update("actor", rows.clone(), &settings).unwrap(), again.update("actor", rows, &settings).unwrap());
    assert!(continued == reloaded, "the moments came back, too");
    let saved = checkpoint::load(&path, Device::Cpu, Kind::Float).unwrap();
    assert_eq!(values(&saved.moments.first).len(), saved.flat.numel());
}

/// SmolLM2-135M in the folder that `FLOW_SMOLLM2` names, against what `make parity-models` found in the GGUF file that
/// it was converted from (`FLOW_GOLDEN`).
#[test]
#[ignore = "needs a model of 540 MB"]
fn smollm2_from_gguf() {
    let name = |variable| PathBuf::from(std::env::var_os(variable).expect(variable));
    let golden = json(&name("FLOW_GOLDEN"));
    let saved = checkpoint::load(&name("FLOW_SMOLLM2"), Device::Cpu, Kind::Float).unwrap();
    for text in golden["texts"].as_array().unwrap() {
        assert_eq!(saved.tokenizer.encode(text["text"].as_str().unwrap()), tokens(&text["tokens"]), "{text}");
    }
    for chat in golden["chats"].as_array().unwrap() {
        let messages: Vec<Message> = serde_json::from_value(chat["messages"].clone()).unwrap();
        assert_eq!(saved.tokenizer.chat(&messages).unwrap(), tokens(&chat["tokens"]), "{}", chat["text"]);
    }
    let net = Net::new(saved.architecture, &saved.flat, Kind::Float, saved.tokenizer.ends()).share(true);
    let (prompt, response) = (tokens(&golden["prompt"]), tokens(&golden["response"]));
    let ids: Vec<i64> = prompt.iter().chain(&response).map(|&token| token.into()).collect();
    let all: Vec<i64> = (0..ids.len() as i64).collect();
    let logits = net.outputs(&states(&net, &ids, AttentionLayout::Packed));
    let last: Vec<f64> = golden["logits"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    let ours = values(&logits.select(0, -1));
    let difference = ours.iter().zip(&last).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    println!("{} logits differ by {difference:.1e}", last.len());
    assert!(ours.len() == last.len() && difference < 1e-3);
    let at = all[prompt.len() - 1..ids.len() - 1].to_vec();
    let targets = indices(&ids[prompt.len()..], Device::Cpu).unsqueeze(1);
    let loss = -logits.index_select(0, &indices(&at, Device::Cpu)).log_softmax(-1, None).gather(1, &targets, false).mean(None);
    println!("loss {} and {}", loss.double_value(&[]), golden["loss"]);
    let gradients = Tensor::run_backward(&[loss], net.leaves(), false, false);
    let flat = Tensor::cat(&gradients.iter().map(|gradient| gradient.reshape([-1])).collect::<Vec<_>>(), 0);
    // A gradient's norm, against the norm of all: some are small differences of large numbers, which f32 rounds.
    let theirs = |parameter: &str| golden["norms"][parameter].as_f64().unwrap();
    let whole = net.layout().parameters.iter().map(|p| theirs(&p.name).powi(2)).sum::<f64>().sqrt();
    let apart = named_parts(net.layout(), &flat).map(|(parameter, gradient)| {
        let (ours, theirs) = (gradient.norm().double_value(&[]), theirs(parameter));
        ((ours - theirs).abs() / whole, (ours / theirs - 1.0).abs(), parameter)
    });
    let apart: Vec<_> = apart.collect();
    let most = |by: fn(&(f64, f64, &str)) -> f64| apart.iter().max_by(|a, b| by(a).total_cmp(&by(b))).unwrap();
    println!("norms of gradients differ by {:?} of all, by {:?} of themselves", most(|a| a.0), most(|a| a.1));
    assert!(most(|a| a.0).0 < 1e-4 && most(|a| a.1).1 < 1e-2);
    // Each of 64 tokens is the likeliest after those before it, also where our own answer would have ended.
    let expected = tokens(&golden["greedy"]);
    let ids: Vec<i64> = prompt.iter().chain(&expected).map(|&token| token.into()).collect();
    let likeliest = tch::no_grad(|| net.outputs(&states(&net, &ids, AttentionLayout::Packed)).argmax(-1, false));
    let likeliest = Vec::<i64>::try_from(&likeliest).unwrap()[prompt.len() - 1..ids.len() - 1].to_vec();
    assert_eq!((expected.len(), likeliest), (64, ids[prompt.len()..].to_vec()));
    let load = ModelSettings::Load(LoadModel { load: name("FLOW_SMOLLM2").display().to_string(), ..Default::default() });
    let policy = Policy::start(&BTreeMap::from([("actor".to_string(), load)]), &[], 3, 1).unwrap();
    let sampling = Sampling { temperature: 0.0, max_tokens: 64, ..Default::default() };
    let request = Request { prompt, ..Default::default() };
    let reply = policy.generate("actor", 0, vec![request], sampling).unwrap().remove(0);
    println!("{:?}", policy.tokenizer("actor").unwrap().decode(&reply.tokens));
    assert_eq!(reply.tokens, expected[..reply.tokens.len()]);
}
