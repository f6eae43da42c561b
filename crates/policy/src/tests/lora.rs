//! Adapters: what they compute, what is learnt, and what is saved of them.

use crate::attention::AttentionLayout;
use crate::model::checkpoint;
use crate::model::Net;
use crate::tensors::indices;
use crate::tensors::named_parts;
use crate::tests::parity::{folder, states};
use crate::tests::{examples, requests, sampling, tiny};
use crate::*;
use flow_model::*;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use tch::{Device, Kind, Tensor};

fn lora(targets: &[&str]) -> LoraSettings {
    LoraSettings { rank: 4, alpha: 8.0, targets: targets.iter().map(|target| target.to_string()).collect(), ..Default::default() }
}

fn policy(settings: ModelSettings, threads: usize) -> Result<Policy, PolicyError> {
    Policy::start(&BTreeMap::from([("actor".to_string(), settings)]), &[], 3, threads)
}

fn adapted(threads: usize) -> Policy {
    policy(ModelSettings::New(NewModel { lora: Some(lora(&["all-linear"])), ..tiny() }), threads).unwrap()
}

fn load(path: &Path) -> LoadModel {
    LoadModel { load: path.display().to_string(), ..Default::default() }
}

fn learn() -> UpdateSettings {
    UpdateSettings { lr: 2e-2, kl: 0.1, micro_batch: 16, ..Default::default() }
}

/// Rows that `policy` played.
fn rows(policy: &Policy) -> Vec<Example> {
    let requests = requests(60);
    examples(&requests, &policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap())
}

/// The largest difference between log-probabilities, and whether there is any.
fn apart(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_new_adapter_changes_nothing_and_learns_alone() {
    let (own, plain) = (adapted(1), policy(ModelSettings::New(tiny()), 1).unwrap());
    let rows = rows(&own);
    assert_eq!(
        rows.iter().map(|row| &row.response).collect::<Vec<_>>(),
        self::rows(&plain).iter().map(|row| &row.response).collect::<Vec<_>>()
    );
    let before = plain.logprobs("actor", &rows, None).unwrap();
    assert_eq!(own.logprobs("actor", &rows, None).unwrap(), before);
    assert_eq!(own.parameters("actor").unwrap() - plain.parameters("actor").unwrap(), own.trained("actor").unwrap());
    // Two blocks of q and o 32 by 32, k and v 16 by 32, and three of 32 by 80, each with a rank of 4.
    assert_eq!(own.trained("actor").unwrap(), 2 * 4 * (2 * 64 + 2 * 48 + 3 * 112));
    let report = own.update("actor", rows.clone(), &learn()).unwrap();
    assert!(report.kl.abs() < 1e-6 && report.rows.iter().all(|row| (row.ratio - 1.0).abs() < 1e-4), "the reference is the model itself");
    own.update("actor", rows.clone(), &learn()).unwrap();
    assert!(apart(&own.logprobs("actor", &rows, None).unwrap(), &before) > 0.1, "something was learnt");
    assert_eq!(own.reference_logprobs("actor", None, rows, None).unwrap(), before, "and the reference is where it was, without a copy");
}

#[test]
fn what_was_recorded_is_recomputed_and_depends_on_its_row_alone() {
    let (one_thread, three_threads) = (adapted(1), adapted(3));
    let rows = rows(&one_thread);
    let reports = [&one_thread, &three_threads].map(|policy| policy.update("actor", rows.clone(), &learn()).unwrap());
    assert!(reports[0] == reports[1], "the number of threads");
    let requests = requests(60);
    let all = one_thread.generate("actor", 1, requests.clone(), sampling(1.0)).unwrap();
    assert_eq!(three_threads.generate("actor", 1, requests.clone(), sampling(1.0)).unwrap(), all);
    for (request, reply) in requests.iter().zip(&all).take(16) {
        assert_eq!(one_thread.generate("actor", 1, vec![request.clone()], sampling(1.0)).unwrap()[0], *reply, "the neighbours");
    }
    let again = one_thread.logprobs("actor", &examples(&requests, &all), None).unwrap();
    assert!(apart(&all.iter().map(|reply| reply.logprobs.clone()).collect::<Vec<_>>(), &again) < 1e-5);
}

#[test]
fn dropout_hides_inputs_while_learning_and_never_else() {
    let with = |dropout, threads| {
        let lora = LoraSettings { dropout, ..lora(&["all-linear"]) };
        policy(ModelSettings::New(NewModel { lora: Some(lora), ..tiny() }), threads).unwrap()
    };
    let (plain, one_thread, three_threads) = (with(0.0, 1), with(0.4, 1), with(0.4, 3));
    let rows = rows(&plain);
    assert!(rows == self::rows(&one_thread), "nothing is hidden from one that acts");
    let learn = |policy: &Policy| (0..2).map(|_| policy.update("actor", rows.clone(), &learn()).unwrap()).collect::<Vec<_>>();
    let reports = [&plain, &one_thread, &three_threads].map(learn);
    assert!(reports[1] == reports[2], "the number of threads");
    assert!(reports[0] != reports[1]);
    assert_eq!(one_thread.logprobs("actor", &rows, None).unwrap(), three_threads.logprobs("actor", &rows, None).unwrap());
}

#[test]
fn saved_merged_and_gone_on_with() {
    let temporary = tempfile::tempdir().unwrap();
    let (first, second) = (temporary.path().join("first"), temporary.path().join("second"));
    let own = adapted(1);
    let rows = rows(&own);
    own.save("actor", &first).unwrap();
    (0..3).for_each(|_| drop(own.update("actor", rows.clone(), &learn()).unwrap()));
    own.save("actor", &second).unwrap();
    let logprobs = own.logprobs("actor", &rows, None).unwrap();
    // Loaded as a model it is one without an adapter, whose weights are what the two were together.
    let merged = policy(ModelSettings::Load(load(&second)), 1).unwrap();
    assert_eq!(merged.trained("actor").unwrap(), policy(ModelSettings::New(tiny()), 1).unwrap().parameters("actor").unwrap());
    let difference = apart(&merged.logprobs("actor", &rows, None).unwrap(), &logprobs);
    assert!(difference < 1e-5, "merged weights are {difference} apart from the adapter");
    // Loaded as an adapter it is what it was, to the bit.
    let adapter = |path: &Path| LoadModel { adapter: Some(path.display().to_string()), ..load(path) };
    let again = policy(ModelSettings::Load(adapter(&second)), 1).unwrap();
    assert_eq!(again.logprobs("actor", &rows, None).unwrap(), logprobs);
    // As in a run that is resumed: it begins as the run did and takes the newest weights.
    let resumed = policy(ModelSettings::Load(adapter(&first)), 1).unwrap();
    assert_eq!(resumed.restore("actor", &[second.to_path_buf()]).unwrap(), 3);
    assert_eq!(resumed.update("actor", rows.clone(), &learn()).unwrap(), own.update("actor", rows.clone(), &learn()).unwrap());
    let bytes = |policy: &Policy| {
        policy.save("actor", &temporary.path().join("bytes")).unwrap();
        ["adapter_model.safetensors", "adapter_optimizer.safetensors"]
            .map(|file| fs::read(temporary.path().join("bytes").join(file)).unwrap())
    };
    assert!(bytes(&resumed) == bytes(&own));
    // Another adapter isn't taken for it.
    let other = policy(ModelSettings::New(NewModel { lora: Some(lora(&["q_proj"])), ..tiny() }), 1).unwrap();
    assert!(other.restore("actor", &[second.to_path_buf()]).unwrap_err().to_string().contains("aren't those of model `actor`"));
    assert!(policy(ModelSettings::New(tiny()), 1).unwrap().restore("actor", &[temporary.path().join("none")]).is_err());
}

#[test]
fn gradients_are_those_of_the_merged_matrix() {
    // With W' = W + s B A and G the gradient of W': dA = s B^T G, dB = s G A^T.
    let base = checkpoint::load(&folder("qwen3"), Device::Cpu, Kind::Float).unwrap();
    let plain = Net::new(base.architecture, &base.flat, Kind::Float, base.tokenizer.ends());
    let lora = flow_model::lora::Lora { rank: 3, alpha: 6.0, dropout: 0.0, stabilised: false, targets: vec!["all-linear".into()] };
    let adapter = std::sync::Arc::new(flow_model::lora::Adapter::new(lora, plain.base_layout(), None).unwrap());
    let mut flat = Tensor::from_slice(&adapter.layout().random(5));
    flat += Tensor::from_slice(&adapter.layout().random(6)).roll([7], [0]) * 0.3;
    let own = plain.adapted(&adapter, &flat).unwrap();
    let ids: Vec<i64> = (0..24).map(|i| 7 + 11 * i % 300).collect();
    let gradients = |net: Net| {
        let logits = net.outputs(&states(&net, &ids, AttentionLayout::Packed));
        let loss = -logits.log_softmax(-1, None).select(1, 5).mean(None);
        let gradients = Tensor::run_backward(&[loss], net.leaves(), false, false);
        (logits.detach(), Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0))
    };
    let (ours, low) = gradients(own.share(true));
    let (theirs, whole) = gradients(plain.with(&own.merged(), true));
    let far = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]);
    assert!(far(&ours, &theirs) < 1e-5, "logits differ by {}", far(&ours, &theirs));
    assert!(far(&ours, &gradients(plain.share(true)).0) > 0.1, "the adapter does something");
    let (low, flat): (HashMap<_, _>, HashMap<_, _>) =
        (named_parts(adapter.layout(), &low).collect(), named_parts(adapter.layout(), &flat).collect());
    let mut compared = 0;
    for (name, gradient) in named_parts(plain.base_layout(), &whole) {
        let part = |part: &str| format!("base_model.model.{}.{part}.weight", name.trim_end_matches(".weight"));
        let [a, b] = ["lora_A", "lora_B"].map(part);
        let (Some(a_of), Some(b_of)) = (flat.get(a.as_str()), flat.get(b.as_str())) else { continue };
        let (da, db) = (b_of.tr().matmul(&gradient) * 2.0, gradient.matmul(&a_of.tr()) * 2.0);
        for (name, expected) in [(a, da), (b, db)] {
            let difference = far(&low[name.as_str()], &expected);
            assert!(difference < 1e-5 * expected.abs().max().double_value(&[]).max(1.0), "{name} differs by {difference}");
            compared += 1;
        }
    }
    assert_eq!(compared, 2 * 2 * 7);
}

#[test]
fn adapters_that_can_not_be_used_are_named() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("adapter");
    adapted(1).save("actor", &path).unwrap();
    let error_after = |file: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let file = path.join(file);
        let before = fs::read_to_string(&file).unwrap();
        let mut value = serde_json::from_str(&before).unwrap();
        change(&mut value);
        fs::write(&file, value.to_string()).unwrap();
        let error = policy(ModelSettings::Load(load(&path)), 1).err().map(|error| error.to_string()).unwrap_or_default();
        fs::write(&file, before).unwrap();
        error
    };
    let config = |key: &str, value: serde_json::Value| error_after("adapter_config.json", &|config| config[key] = value.clone());
    assert!(config("use_dora", true.into()).contains("use_dora"));
    assert!(config("alora_invocation_tokens", serde_json::json!([5, 6])).contains("`alora_invocation_tokens: [5,6]`"));
    assert!(config("init_lora_weights", "pissa".into()).contains("`init_lora_weights: \"pissa\"`"));
    assert!(config("exclude_modules", serde_json::json!(["lm_head"])).is_empty(), "its modules are those of its tensors");
    assert!(config("peft_type", "IA3".into()).contains("`IA3`"));
    assert!(config("modules_to_save", serde_json::json!(["lm_head"])).contains("modules_to_save"));
    assert!(config("bias", "all".into()).contains("`bias: \"all\"`"));
    assert!(config("target_modules", serde_json::json!(["q_proj", "x_proj"])).contains("`x_proj`"));
    assert!(config("target_modules", serde_json::json!(["q_proj"])).contains("doesn't know the tensor"));
    assert!(config("r", 5.into()).contains("[5, 32]"));
    assert!(config("r", 0.into()).contains("at least 1"));
    assert!(error_after("adapter_config.json", &|config| *config = serde_json::json!({})).contains("peft_type"));
    fs::remove_file(path.join("config.json")).unwrap();
    let gone = config("base_model_name_or_path", "unknown/nothing".into());
    assert!(gone.contains("`unknown/nothing`") && gone.contains("`load`"), "{gone}");
    fs::remove_file(path.join("adapter_model.safetensors")).unwrap();
    assert!(config("r", 4.into()).contains("adapter_model.safetensors"));
    let nothing = NewModel { lora: Some(lora(&["w"])), ..tiny() };
    assert!(policy(ModelSettings::New(nothing), 1).err().unwrap().to_string().contains("q_proj, k_proj, v_proj, o_proj, gate_proj"));
}

/// Adapters that PEFT saved, computed and merged: tests/golden/models/adapters, made anew by `make parity-models`.
#[test]
fn logits_gradients_and_merged_matrices_are_those_of_peft() {
    for name in ["plain", "stabilised", "one-layer"] {
        let path = folder("adapters").join(name);
        let text = fs::read_to_string(path.join("golden.json")).unwrap();
        let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
        let base_folder = folder(golden["of"].as_str().unwrap());
        let theirs: HashMap<String, Tensor> = Tensor::read_safetensors(path.join("golden.safetensors")).unwrap().into_iter().collect();
        let base: serde_json::Value = serde_json::from_str(&fs::read_to_string(base_folder.join("golden.json")).unwrap()).unwrap();
        let tokens = |key: &str| base[key].as_array().unwrap().iter().map(|token| token.as_i64().unwrap()).collect::<Vec<_>>();
        let (prompt, response) = (tokens("prompt"), tokens("response"));
        let (stored, saved) =
            (flow_checkpoint::stored::open(&path).unwrap(), checkpoint::load(&base_folder, Device::Cpu, Kind::Float).unwrap());
        let (adapter, own) = stored.adapters.last().unwrap();
        let plain = Net::new(saved.architecture, &saved.flat, Kind::Float, saved.tokenizer.ends());
        let net =
            plain.adapted(adapter, &crate::model::adapter_files::read_adapter(own, adapter, Device::Cpu).unwrap()).unwrap().share(true);
        let ids = [prompt.clone(), response.clone()].concat();
        let logits = net.outputs(&states(&net, &ids, AttentionLayout::Packed));
        let far = |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]);
        assert!(far(&logits, &theirs["logits"]) < 1e-4, "{name}: logits differ by {}", far(&logits, &theirs["logits"]));
        println!("{name}: logits differ by {:.1e}", far(&logits, &theirs["logits"]));
        let at = logits.narrow(0, prompt.len() as i64 - 1, response.len() as i64);
        let loss = -at.log_softmax(-1, None).gather(1, &indices(&response, Device::Cpu).unsqueeze(1), false).mean(None);
        assert!((loss.double_value(&[]) - golden["loss"].as_f64().unwrap()).abs() < 1e-5);
        let gradients = Tensor::run_backward(&[loss], net.leaves(), false, false);
        let flat = Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0);
        let compared = named_parts(net.layout(), &flat).map(|(parameter, gradient)| {
            let difference = far(&gradient, &theirs[&format!("gradient.{parameter}")]);
            assert!(difference < 1e-4, "{name}: the gradient of {parameter} differs by {difference}");
        });
        assert_eq!(compared.count(), theirs.keys().filter(|name| name.starts_with("gradient.")).count());
        let merged = net.merged();
        let compared =
            named_parts(plain.base_layout(), &merged).filter(|(name, _)| name.ends_with("_proj.weight")).map(|(parameter, matrix)| {
                let difference = far(&matrix, &theirs[&format!("merged.{parameter}")]);
                assert!(difference < 1e-5, "{name}: {parameter}, merged, differs by {difference}");
            });
        assert_eq!(compared.count(), theirs.keys().filter(|name| name.starts_with("merged.")).count());
        // Our own start is within the bound of theirs, and as wide.
        let start = Tensor::from_slice(&adapter.layout().random(1));
        let ours: HashMap<_, _> = named_parts(adapter.layout(), &start).collect();
        for begins in golden["starts"].as_array().unwrap() {
            let largest = ours[begins["name"].as_str().unwrap()].abs().max().double_value(&[]);
            let (their_largest, bound) = (begins["largest"].as_f64().unwrap(), 1.0 / begins["inputs"].as_f64().unwrap().sqrt());
            assert!(
                largest == 0.0 && their_largest == 0.0
                    || largest <= bound && their_largest <= bound && largest.min(their_largest) > 0.9 * bound
            );
        }
    }
}
