//! A model in a trainer against the same one that learns here. `make train-parity` runs what needs PyTorch from PyPI.

use crate::tests::parity::folder;
use crate::trainer::TrainedModel;
use crate::*;
use flow_checkpoint::inspect;
use flow_core::seed::Random;
use flow_model::*;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tch::Tensor;

const ON_CPU: Hardware = Hardware { threads: 1, device: DeviceChoice::Cpu, ranks: None, yields: false };

fn train(settings: TrainSettings, own: &LoadModel) -> ModelSettings {
    ModelSettings::Load(LoadModel { train: Some(Box::new(settings)), ..own.clone() })
}

fn torchrun(ranks: usize) -> TrainSettings {
    serde_json::from_value(serde_json::json!({ "torchrun": ranks })).unwrap()
}

/// How many processes a trainer has here: one and two, or one where there is a single GPU, which is one process's own.
fn numbers_of_ranks() -> Vec<usize> {
    match gpus() {
        1 => vec![1],
        _ => vec![1, 2],
    }
}

fn start(model: ModelSettings) -> Policy {
    Policy::start(&BTreeMap::from([("actor".to_string(), model)]), &[], 3, 1).unwrap()
}

/// Rows that the model wrote: free ones at two temperatures, ones held to choices, prompts that begin alike, advantages
/// of a row and of each token.
fn rows(policy: &Policy) -> Vec<Example> {
    let end = policy.tokenizer("actor").unwrap().end();
    let mut random = Random::new(5);
    let request = |i: usize| {
        let prompt = [vec![20; i % 3], (0..2 + random.below(12)).map(|_| 3 + random.below(250) as u32).collect()].concat();
        let choices = vec![vec![30, 40, end], vec![30, 41, 42, end], vec![50, end]];
        Request {
            prompt,
            seed: random.next(),
            session: Default::default(),
            most: None,
            choices: if i.is_multiple_of(4) { choices } else { vec![] },
        }
    };
    let requests: Vec<Request> = (0..18).map(request).collect();
    let mut rows = Vec::new();
    for (part, temperature) in requests.chunks(9).zip([1.0, 0.7]) {
        let replies = policy.generate("actor", 0, part.to_vec(), Sampling { temperature, max_tokens: 6, ..Default::default() }).unwrap();
        rows.extend(part.iter().zip(replies).map(|(request, reply)| Example {
            prompt: request.prompt.clone(),
            response: reply.tokens,
            logprobs: reply.logprobs,
            choices: request.choices.clone(),
            temperature: Some(temperature as f32),
            ..Default::default()
        }));
    }
    for (i, row) in rows.iter_mut().enumerate() {
        // Another policy wrote them, a little.
        row.logprobs.iter_mut().for_each(|logprob| *logprob += 0.2 * (random.unit() as f32 - 0.5));
        row.advantage = random.unit() as f32 - 0.5;
        row.trajectory = i as u64 / 2;
        if i.is_multiple_of(5) {
            row.advantages = row.response.iter().map(|_| random.unit() as f32 - 0.5).collect();
        }
    }
    rows
}

/// Every objective and aggregation, and each term that a loss may have. Two steps an update.
fn cases() -> Vec<(String, UpdateSettings)> {
    let base = UpdateSettings { lr: 1e-3, eps: 1e-3, micro_batch: 5, epochs: 2, ..Default::default() };
    let mut cases = Vec::new();
    let mut add = |name: &str, settings: UpdateSettings| cases.push((name.to_string(), settings));
    let all = [
        Aggregation::TokenMean,
        Aggregation::SeqMeanTokenSum,
        Aggregation::SeqMeanTokenMean,
        Aggregation::SeqMeanTokenSumNorm,
        Aggregation::TrajectoryMeanTokenMean,
        Aggregation::TrajectoryMeanTurnMean,
    ];
    for aggregation in all {
        for objective in [Objective::PolicyGradient, Objective::Sft] {
            add(&format!("{objective:?}, {aggregation:?}"), UpdateSettings { objective, aggregation, ..base.clone() });
        }
    }
    for aggregation in [Aggregation::SeqMeanTokenSum, Aggregation::SeqMeanTokenMean] {
        let settings = UpdateSettings { objective: Objective::Reinforce, aggregation, ..base.clone() };
        add(&format!("Reinforce, {aggregation:?}, kl"), UpdateSettings { kl: 0.5, ..settings.clone() });
        add(&format!("Reinforce, {aggregation:?}"), settings);
    }
    let gspo = UpdateSettings { ratio: RatioKind::Sequence, aggregation: Aggregation::SeqMeanTokenMean, clip: 0.01, ..base.clone() };
    add("a row's ratio", gspo);
    for kl_kind in [KlKind::K1, KlKind::K2, KlKind::K3] {
        add(&format!("{kl_kind:?}"), UpdateSettings { kl: 0.3, kl_kind, ..base.clone() });
    }
    add("entropy", UpdateSettings { entropy: 0.2, ..base.clone() });
    add("entropy and kl", UpdateSettings { entropy: 0.2, kl: 0.1, ..base.clone() });
    add("dual clip", UpdateSettings { dual_clip: Some(1.01), clip: 0.01, clip_high: Some(0.02), ..base.clone() });
    add("CISPO", UpdateSettings { surrogate: Surrogate::Cispo, clip: 0.01, clip_high: Some(0.02), ..base.clone() });
    add("SAPO", UpdateSettings { surrogate: Surrogate::Sapo, ..base.clone() });
    let rows = Aggregation::SeqMeanTokenMean;
    add("GMPO", UpdateSettings { surrogate: Surrogate::Gmpo, clip: 0.01, aggregation: rows, ..base.clone() });
    add("DPPO", UpdateSettings { surrogate: Surrogate::Dppo, region: TrustRegion::Kl, clip: 0.001, ..base.clone() });
    add("KL-Cov", UpdateSettings { surrogate: Surrogate::KlCov, covary: 0.1, ..base.clone() });
    add("off-policy mask", UpdateSettings { mask_drift: Some(0.001), ..base.clone() });
    add("recomputed", UpdateSettings { old: Some(RatioDenominator::Recomputed), truncate: 1.05, ..base.clone() });
    for (mask_unit, mask_from) in
        [(MaskUnit::Token, MaskFrom::Current), (MaskUnit::Row, MaskFrom::Current), (MaskUnit::Token, MaskFrom::Start)]
    {
        add(
            &format!("{mask_unit:?} masked, {mask_from:?}"),
            UpdateSettings { mask_below: Some(0.01), mask_unit, mask_from, ..base.clone() },
        );
    }
    add("chosen tokens", UpdateSettings { tokens: CountedTokens::Chosen, ..base.clone() });
    let decay = BTreeMap::from([("embed".to_string(), 0.0), ("lora_B".to_string(), 0.5), ("norm".to_string(), 0.3)]);
    let adamw = UpdateSettings { weight_decay: 0.2, weight_decay_of: decay, max_grad_norm: 0.05, betas: [0.5, 0.9], ..base.clone() };
    add("AdamW", UpdateSettings { warmup: 3, ..adamw });
    add("minibatches", UpdateSettings { minibatch: 7, temperature: Some(0.9), micro_tokens: Some(30), max_grad_norm: 0.0, ..base });
    cases
}

/// What is trained, by name.
fn weights(policy: &Policy) -> HashMap<String, Tensor> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w");
    policy.save("actor", &path).unwrap();
    let file = ["adapter_model.safetensors", "model.safetensors"].map(|name| path.join(name)).into_iter().find(|file| file.exists());
    Tensor::read_safetensors(file.unwrap()).unwrap().into_iter().collect()
}

/// The largest difference between the same tensors.
fn apart(a: &HashMap<String, Tensor>, b: &HashMap<String, Tensor>) -> f64 {
    assert!(a.keys().all(|name| b.contains_key(name)) && a.len() == b.len(), "{:?} {:?}", a.keys(), b.keys());
    a.iter().map(|(name, tensor)| (tensor - &b[name]).abs().max().double_value(&[])).fold(0.0, f64::max)
}

/// Every case by `model`, whole and by an adapter, in a trainer of so many ranks.
fn learns_the_same(model: &str, ranks: usize, lora: Option<LoraSettings>) {
    let own = LoadModel { load: folder(model).display().to_string(), lora, ..Default::default() };
    // Under one name, which its random numbers follow from.
    let policies = [ModelSettings::Load(own.clone()), train(torchrun(ranks), &own)].map(start);
    let rows = rows(&policies[0]);
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("start");
    policies[0].save("actor", &begun).unwrap();
    let mut worst = 0f64;
    for (name, settings) in cases() {
        for policy in &policies {
            policy.restore("actor", &[begun.to_path_buf()]).unwrap();
        }
        let before = weights(&policies[0]);
        let [here, there] = policies.each_ref().map(|policy| policy.update("actor", rows.clone(), &settings).unwrap());
        let [ours, theirs] = policies.each_ref().map(weights);
        let (difference, step) = (apart(&ours, &theirs), apart(&before, &ours));
        assert!(
            difference < 1e-5 && step > 1e-4,
            "{model}, {ranks} ranks, {name}: weights differ by {difference:.1e} after steps of {step:.1e}"
        );
        worst = worst.max(difference);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-5 * a.abs().max(1.0);
        let figures = |r: &UpdateReport| [r.loss, r.kl, r.entropy, r.clip_fraction, r.grad_norm, r.gap.unwrap_or(0.0), r.lr];
        let same = figures(&here).into_iter().zip(figures(&there)).all(|(a, b)| close(a, b));
        assert!(same && here.tokens == there.tokens, "{model}, {name}: {:?} {:?}", figures(&here), figures(&there));
        for (a, b) in here.rows.iter().zip(&there.rows) {
            let rows = |r: &RowReport| [r.ratio, r.clip_share, r.loss_share, r.kl, r.logit_grad].map(f64::from);
            assert!(a.used == b.used && rows(a).into_iter().zip(rows(b)).all(|(a, b)| (a - b).abs() < 1e-4), "{name}: {a:?} {b:?}");
        }
    }
    eprintln!("{model}, {ranks} ranks: weights differ by at most {worst:.1e}");
}

#[test]
#[ignore = "needs PyTorch, transformers and peft: make train-parity"]
fn a_trainer_learns_what_libtorch_learns() {
    let lora = LoraSettings { rank: 4, alpha: 8.0, dropout: 0.0, targets: vec!["all-linear".into()] };
    for model in ["llama-tied", "qwen2", "qwen3"] {
        for ranks in numbers_of_ranks() {
            learns_the_same(model, ranks, None);
            learns_the_same(model, ranks, Some(lora.clone()));
        }
    }
}

/// A critic's values before and after two updates, whole and by an adapter, on one rank and on two; and the same from
/// the files that the trainer saved.
#[test]
#[ignore = "needs PyTorch, transformers and peft: make train-parity"]
fn a_critic_in_a_trainer_values_what_libtorch_values() {
    let lora = LoraSettings { rank: 4, alpha: 8.0, dropout: 0.0, targets: vec!["all-linear".into()] };
    let mut random = Random::new(9);
    let mut numbers = |n: usize| (0..n).map(|_| random.unit() as f32 - 0.5).collect::<Vec<f32>>();
    let row = |i: usize| (0..3 + i % 5).map(|j| 3 + (37 * i + 11 * j) as u32 % 250).collect::<Vec<u32>>();
    let rows = (0..12).map(|i| {
        let (prompt, response) = (row(i), row(3 * i));
        let tokens = response.len();
        Example { prompt, response, values: numbers(tokens), targets: numbers(tokens), ..Default::default() }
    });
    let rows: Vec<Example> = rows.collect();
    let asked: Vec<Example> = rows.iter().map(|row| Example { response: vec![], ..row.clone() }).collect();
    for (model, ranks, lora) in [("llama-tied", 1, None), ("qwen2", 2, None), ("qwen3", 1, Some(&lora)), ("llama-tied", 2, Some(&lora))] {
        let ranks = ranks.min(numbers_of_ranks().len());
        let own =
            LoadModel { load: folder(model).display().to_string(), head: Some(Head::Value), lora: lora.cloned(), ..Default::default() };
        let policies = [ModelSettings::Load(own.clone()), train(torchrun(ranks), &own)].map(start);
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("start");
        policies[0].save("actor", &begun).unwrap();
        for policy in &policies {
            policy.restore("actor", &[begun.to_path_buf()]).unwrap();
        }
        let settings = UpdateSettings { objective: Objective::Value, lr: 1e-2, eps: 1e-3, epochs: 2, micro_batch: 5, ..Default::default() };
        for version in 0..2 {
            let [here, there] = policies.each_ref().map(|policy| policy.values("actor", version, asked.clone()).unwrap().concat());
            let difference = here.iter().zip(&there).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let largest = here.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            assert!(
                here.len() == 12 && difference < 1e-5 && (version == 0 || largest > 1e-3),
                "{model}, {version}: {difference:.1e} of {largest}"
            );
            let [ours, theirs] = policies.each_ref().map(|policy| policy.update("actor", rows.clone(), &settings).unwrap());
            assert!((ours.loss - theirs.loss).abs() < 1e-5 && (ours.grad_norm - theirs.grad_norm).abs() < 1e-4, "{model}");
        }
        let difference = apart(&weights(&policies[0]), &weights(&policies[1]));
        assert!(difference < 1e-5, "{model}, {ranks} ranks: {difference:.1e}");
        let saved = folder.path().join("saved");
        policies[1].save("actor", &saved).unwrap();
        policies[0].restore("actor", &[saved]).unwrap();
        assert!(policies[1].generate("actor", 2, vec![Request { prompt: vec![5], ..Default::default() }], Sampling::default()).is_err());
    }
}

/// A run of two ranks goes on with one, and the other way round, from the files that were saved.
#[test]
#[ignore = "needs PyTorch, transformers and peft: make train-parity"]
fn another_number_of_ranks_goes_on() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let start = |ranks| start(train(torchrun(ranks), &own));
    let saved = tempfile::tempdir().unwrap();
    let settings = UpdateSettings { lr: 1e-3, eps: 1e-3, kl: 0.1, ..Default::default() };
    let two = start(numbers_of_ranks().len());
    let rows = rows(&two);
    two.update("actor", rows.clone(), &settings).unwrap();
    let path = saved.path().join("1");
    two.save("actor", &path).unwrap();
    let step = |policy: &Policy| {
        let report = policy.update("actor", rows.clone(), &settings).unwrap();
        (
            report.version,
            weights(policy),
            policy.generate("actor", 2, vec![Request { prompt: vec![5, 6], ..Default::default() }], Sampling::default()).unwrap(),
        )
    };
    let expected = step(&two);
    for ranks in numbers_of_ranks() {
        let other = start(ranks);
        assert_eq!(other.restore("actor", &[path.to_path_buf()]).unwrap(), 1);
        let found = step(&other);
        let difference = apart(&expected.1, &found.1);
        assert!(difference < 1e-6 && found.0 == 2 && found.2[0].tokens == expected.2[0].tokens, "{ranks} ranks: {difference:.1e}");
    }
}

/// A trainer that answers as `answers` says, request by request, and is gone after the last.
fn trainer(answers: Vec<&'static str>) -> TrainSettings {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut line = String::new();
        // The secret, then requests.
        stream.read_line(&mut line).unwrap();
        for answer in answers {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let request: serde_json::Value = serde_json::from_str(&line).unwrap();
            stream.read_exact(&mut vec![0; request["bytes"].as_u64().unwrap() as usize]).unwrap();
            match answer {
                "silence" => std::thread::sleep(Duration::from_secs(3)),
                answer => stream.get_mut().write_all(answer.as_bytes()).unwrap(),
            }
        }
    });
    TrainSettings { torchrun: None, address: Some(address), timeout: 1.0, ..torchrun(1) }
}

#[test]
fn a_trainer_that_fails_is_told_with_the_cause() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let hello = "{\"protocol\": 1}\n";
    let opened = "{\"context\": 256, \"width\": 32, \"parameters\": 10, \"trained\": 9}\n";
    let said = |answers: Vec<&'static str>| {
        let models = BTreeMap::from([("actor".to_string(), train(trainer(answers), &own))]);
        let policy = Policy::start(&models, &[], 3, 1)?;
        assert_eq!((policy.parameters("actor")?, policy.trained("actor")?, policy.versions("actor")?), (10, 9, vec![0]));
        let row = Example { prompt: vec![5, 6], response: vec![7, 8], logprobs: vec![-1.0; 2], advantage: 1.0, ..Default::default() };
        policy.update("actor", vec![row.clone()], &UpdateSettings::default()).map(drop).inspect_err(|_| {
            // What it has computed so far is no version; the model here still acts.
            assert!(policy.generate("actor", 0, vec![Request { prompt: vec![5], ..Default::default() }], Sampling::default()).is_ok());
        })
    };
    let fails = |answers: Vec<&'static str>| said(answers).unwrap_err().to_string();
    assert!(fails(vec!["{\"protocol\": 7}\n"]).contains("it speaks protocol Some(7) and flow speaks 1"));
    assert!(fails(vec![hello, "{\"error\": \"rank 1: no such folder\"}\n"]).contains("rank 1: no such folder (asked to `open`)"));
    assert!(fails(vec![hello, "{\"context\": 256}\n"]).contains("no `width`"));
    assert!(fails(vec![hello, opened]).contains("it ended while it was asked"));
    assert!(fails(vec![hello, opened, "silence"]).contains("it did not answer `zero` in 1 seconds (`timeout` of `train`)"));
    assert!(fails(vec![hello, opened, "{}\n", "{}\n"]).contains("`trace` is an answer with 0 bytes where 24 were asked for"));
    assert!(fails(vec![hello, opened, "{}\n", "what?\n"]).contains("`trace` is an answer that isn't JSON"));
    // Two log-probabilities, entropies and slopes, in f32.
    let figures = "{\"bytes\": 24}\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert!(fails(vec![hello, opened, "{}\n", figures, "{}\n", "{}\n"]).contains("whether the weights are `finite`"));
    let lost = "{\"finite\": false, \"grad_norm\": null}\n";
    assert!(fails(vec![hello, opened, "{}\n", figures, "{}\n", lost]).contains("the gradient isn't a number"));
    let outgrown = "{\"finite\": false, \"grad_norm\": 1.0}\n";
    assert!(fails(vec![hello, opened, "{}\n", figures, "{}\n", outgrown]).contains("made weights that are no numbers"));
}

/// A step waits for a trainer twice: for the outputs, and for its report of the step. This one answers `zero` when it
/// has been sent the rows as well, and `back` with the step.
#[test]
fn a_step_waits_for_a_trainer_twice() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let opened = "{\"context\": 256, \"width\": 32, \"parameters\": 10, \"trained\": 9}\n";
    let figures: &'static str = format!("{{}}\n{{\"bytes\": 24}}\n{}", "\0".repeat(24)).leak();
    let answers = |last| vec!["{\"protocol\": 1}\n", opened, "", figures, "", last];
    let learn = |last| {
        let model = TrainedModel::open("actor", &own, &trainer(answers(last)), None, 3, &ON_CPU).unwrap();
        let row = Example { prompt: vec![5, 6], response: vec![7, 8], logprobs: vec![-1.0; 2], advantage: 1.0, ..Default::default() };
        model.learn(&[row], &UpdateSettings::default(), None).map(|(_, report)| report.grad_norm)
    };
    assert_eq!(learn("{}\n{\"finite\": true, \"grad_norm\": 2.0}\n").unwrap(), 2.0);
    let failed = learn("{\"error\": \"rank 0: out of memory\"}\n").unwrap_err().to_string();
    assert!(failed.contains("rank 0: out of memory (asked to `back`)"), "{failed}");
}

/// A trainer that has log-probabilities alone: figures that are made of entropies are no number, and not 0.
#[test]
fn a_trainer_without_entropies_leaves_out_what_follows_from_them() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let opened = "{\"context\": 256, \"width\": 32, \"entropy\": false}\n";
    let figures = "{\"bytes\": 8}\n\0\0\0\0\0\0\0\0";
    let answers = vec!["{\"protocol\": 1}\n", opened, "{}\n", figures, "{}\n", "{\"finite\": true, \"grad_norm\": 2.0}\n"];
    let model = TrainedModel::open("actor", &own, &trainer(answers), None, 3, &ON_CPU).unwrap();
    let row = Example { prompt: vec![5, 6], response: vec![7, 8], logprobs: vec![-1.0; 2], advantage: 1.0, ..Default::default() };
    let (_, report) = model.learn(&[row], &UpdateSettings::default(), None).unwrap();
    assert!(report.entropy.is_nan() && report.rows[0].logit_grad.is_nan() && report.tokens_of[0].entropies.iter().all(|h| h.is_nan()));
    assert!(report.grad_norm == 2.0 && report.loss.is_finite() && report.rows[0].ratio.is_finite());
}

/// A trainer that ends between two requests is missed at once, while the run generates.
#[test]
fn a_trainer_that_is_gone_is_missed_between_two_requests() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let answers = vec!["{\"protocol\": 1}\n", "{\"context\": 256, \"width\": 32, \"parameters\": 10, \"trained\": 9}\n"];
    let policy = start(train(trainer(answers), &own));
    let (pulse, end) = (policy.pulse(), Instant::now() + Duration::from_secs(60));
    while pulse.fault().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    let why = pulse.fault().unwrap().to_owned();
    assert!(why.contains("it ended while it was asked nothing; its own output says why"), "{why}");
    let row = Example { prompt: vec![5, 6], response: vec![7, 8], logprobs: vec![-1.0; 2], advantage: 1.0, ..Default::default() };
    assert_eq!(policy.update("actor", vec![row], &UpdateSettings::default()).unwrap_err().to_string(), why);
}

/// A rank that is killed between two updates: the trainer is started again from the version that was saved, and what it
/// learns is what it would have learnt.
#[test]
#[ignore = "needs PyTorch, transformers and peft: make train-parity"]
fn a_trainer_that_was_killed_goes_on_from_the_saved_version() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let ranks = numbers_of_ranks().len();
    let policies = [0, 1].map(|_| start(train(torchrun(ranks), &own)));
    let rows = rows(&policies[0]);
    let settings = UpdateSettings { lr: 1e-3, eps: 1e-3, kl: 0.1, ..Default::default() };
    let saved = tempfile::tempdir().unwrap();
    for version in 0..2 {
        for (number, policy) in policies.iter().enumerate() {
            policy.update("actor", rows.clone(), &settings).unwrap();
            policy.save("actor", &saved.path().join(format!("{number}-{version}"))).unwrap();
        }
        // The newest torchrun is the second policy's.
        let torchruns = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let children = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
            let mut all: Vec<i32> =
                children.flat_map(|text| text.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect();
            all.sort();
            all
        };
        let before = torchruns();
        let rank = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", before[1])).unwrap();
        let rank = rustix::process::Pid::from_raw(rank.split_whitespace().last().unwrap().parse().unwrap()).unwrap();
        rustix::process::kill_process(rank, rustix::process::Signal::KILL).unwrap();
        // The second time the next update comes before anybody has looked.
        let end = Instant::now() + Duration::from_secs(120);
        while version == 0 && (torchruns().len() < 2 || torchruns() == before) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(policies[1].pulse().fault().is_none() && (version == 1 || torchruns() != before));
    }
    for policy in &policies {
        policy.update("actor", rows.clone(), &settings).unwrap();
    }
    let difference = apart(&weights(&policies[0]), &weights(&policies[1]));
    assert!(difference < 1e-6, "{difference:.1e}");
}

/// A trainer reads whole sequences, shared prefixes included, and equal ones once.
#[test]
fn the_tokens_that_a_trainer_reads_are_counted() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let opened = "{\"context\": 256, \"width\": 32, \"parameters\": 10, \"trained\": 9}\n";
    // Eight choices with three numbers each.
    let figures: &'static str = format!("{{\"bytes\": 96}}\n{}", "\0".repeat(96)).leak();
    let step = "{\"finite\": true, \"grad_norm\": 1.0}\n";
    let once = || vec!["{}\n", figures, "{}\n", step];
    let answers = [vec!["{\"protocol\": 1}\n", opened], once(), once()].concat();
    let model = TrainedModel::open("actor", &own, &trainer(answers), None, 3, &ON_CPU).unwrap();
    let row = |prompt: &[u32], response: &[u32]| Example {
        prompt: prompt.into(),
        response: response.into(),
        logprobs: vec![-1.0; response.len()],
        advantage: 1.0,
        ..Default::default()
    };
    let rows = [row(&[5, 6, 7], &[8, 9, 10]), row(&[5, 6, 7, 20, 21, 22, 23], &[12, 13]), row(&[5, 6, 7], &[8, 9, 10])];
    let (_, report) = model.learn(&rows, &UpdateSettings { epochs: 2, ..Default::default() }, None).unwrap();
    // Of a sequence all tokens but the last are read, in each of the two steps.
    assert_eq!((report.computed, report.distinct), (2 * (5 + 8), 2 * (5 + 5)));
}

/// What can't be trained there is refused before a run.
#[test]
fn what_cannot_be_trained_there_is_said() {
    let own = LoadModel { load: folder("qwen3").display().to_string(), ..Default::default() };
    let said = |settings: ModelSettings| {
        let models = BTreeMap::from([("actor".to_string(), settings)]);
        inspect("actor", &models).unwrap_err()
    };
    let both = TrainSettings { address: Some("127.0.0.1:1".into()), ..torchrun(2) };
    assert!(said(train(both, &own)).1.to_string().contains("either `torchrun` or `address`"));
    for (setting, model) in [
        ("base", LoadModel { base: Base::Int8, lora: Some(LoraSettings::default()), ..own.clone() }),
        ("act", LoadModel { act: Act::Int8, ..own.clone() }),
    ] {
        let (at, error) = said(train(torchrun(1), &model));
        assert!(at == setting && error.to_string().contains("`train` asks"), "{at}: {error}");
    }
    // On a server of Tinker's protocol adapters learn, which begin there.
    let hosted = |lora: Option<LoraSettings>, adapter: Option<String>, head: Option<Head>| {
        let tinker: TrainSettings = serde_json::from_value(serde_json::json!({ "tinker": "http://127.0.0.1:1" })).unwrap();
        let models = BTreeMap::from([("actor".to_string(), train(tinker, &LoadModel { lora, adapter, head, ..own.clone() }))]);
        inspect("actor", &models).map_or_else(|(at, error)| (at, error.to_string()), |_| ("", String::new()))
    };
    let lora = |dropout, target: &str| Some(LoraSettings { rank: 4, alpha: 32.0, dropout, targets: vec![target.into()] });
    assert_eq!(hosted(lora(0.0, "all-linear"), None, None).0, "");
    let plain = folder("adapters").join("plain").display().to_string();
    for (found, at, why) in [
        (hosted(None, None, None), "train", "trains adapters"),
        (hosted(lora(0.1, "all-linear"), None, None), "lora", "no dropout"),
        (hosted(lora(0.0, "q_proj"), None, None), "lora", "chooses the layers itself"),
        (hosted(None, Some(plain), None), "adapter", "that a run left there"),
        (hosted(lora(0.0, "all-linear"), None, Some(Head::Value)), "head", "no critics"),
    ] {
        assert!(found.0 == at && found.1.contains(why), "{found:?}");
    }
    // Also an adapter that PEFT would compute and a server wouldn't, on a model that only transformers knows.
    let temporary = tempfile::tempdir().unwrap();
    let (base, adapter) = (temporary.path().join("base"), temporary.path().join("adapter"));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        std::fs::create_dir(to).unwrap();
        let files = std::fs::read_dir(from).unwrap().flatten().filter(|file| file.path().is_file());
        files.for_each(|file| assert!(std::fs::copy(file.path(), to.join(file.file_name())).is_ok()));
    };
    let change = |file: std::path::PathBuf, key: &str, value: serde_json::Value| {
        let mut config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        config[key] = value;
        std::fs::write(file, config.to_string()).unwrap();
    };
    copy(&folder("llama-biases"), &base);
    copy(&folder("adapters").join("plain"), &adapter);
    let text = |path: &std::path::Path| path.display().to_string();
    let serve = serde_json::from_value(serde_json::json!({ "vllm": ["http://127.0.0.1:1"] })).unwrap();
    let adapted = LoadModel { load: text(&base), adapter: Some(text(&adapter)), serve: Some(serve), ..Default::default() };
    let checked = || {
        let models = BTreeMap::from([("actor".to_string(), train(torchrun(1), &adapted))]);
        inspect("actor", &models).map(drop).map_err(|(at, error)| (at, error.to_string()))
    };
    assert_eq!(checked(), Ok(()));
    for model_type in ["llama", "gemma3_text"] {
        change(base.join("config.json"), "model_type", model_type.into());
        assert_eq!(checked(), Ok(()), "{model_type}");
        for (field, value) in [("alora_invocation_tokens", serde_json::json!([5, 6])), ("use_dora", true.into())] {
            let before = std::fs::read_to_string(adapter.join("adapter_config.json")).unwrap();
            change(adapter.join("adapter_config.json"), field, value);
            let (at, error) = checked().unwrap_err();
            assert!(at == "adapter" && error.contains(field), "{model_type}: {at}: {error}");
            std::fs::write(adapter.join("adapter_config.json"), before).unwrap();
        }
    }
    let gone = TrainSettings { torchrun: None, address: Some("127.0.0.1:1".into()), ..torchrun(1) };
    let models = BTreeMap::from([("actor".to_string(), train(gone, &own))]);
    let error = Policy::start(&models, &[], 3, 1).err().unwrap().to_string();
    assert!(error.contains("there is none at 127.0.0.1:1") && error.contains("--listen"), "{error}");
}
