//! The policy as a whole: what is recorded is what is recomputed, nothing depends on neighbours, and what is saved
//! comes back.

mod bf16;
mod broken;
mod conformance;
mod critic;
mod distil;
mod encoder;
mod engine;
mod files;
mod given;
mod int8;
mod learning;
mod lora;
mod parity;
mod remote;
mod shared;
mod splits;
mod trainer;
mod updating;
mod weigh;

use crate::*;
use flow_core::seed::Random;
use flow_model::*;
use std::collections::BTreeMap;

pub fn tiny() -> NewModel {
    NewModel { tokens: TokenKind::Bytes, layers: 2, width: 32, heads: 4, kv_heads: 2, context: 128, ..Default::default() }
}

pub fn start(threads: usize) -> Policy {
    let models = BTreeMap::from([
        ("actor".to_string(), ModelSettings::New(tiny())),
        ("other".to_string(), ModelSettings::New(NewModel { tied: true, layers: 1, ..tiny() })),
    ]);
    Policy::start(&models, &[], 3, threads).unwrap()
}

/// Requests of many lengths: free ones, ones held to single tokens, and ones held to longer answers that share
/// beginnings.
pub fn requests(count: usize) -> Vec<Request> {
    let mut random = Random::new(1);
    let request = |i: usize| {
        let length = 1 + random.below(40);
        let prompt = (0..length).map(|_| 2 + random.below(250) as u32).collect();
        let choices = match i % 4 {
            0 => vec![],
            1 => vec![vec![100, END], vec![101, END], vec![102, END]],
            2 => vec![vec![50, 100, END], vec![50, 101, 7, END], vec![50, 101, END], vec![50, END]],
            _ => vec![vec![60, 61, 62, END], vec![60, 61, 63, 64, END], vec![70, END]],
        };
        Request { prompt, seed: random.next(), choices, ..Request::default() }
    };
    (0..count).map(request).collect()
}

pub fn sampling(temperature: f64) -> Sampling {
    Sampling { temperature, max_tokens: 6, ..Default::default() }
}

pub fn examples(requests: &[Request], replies: &[Reply]) -> Vec<Example> {
    let example = |(i, (request, reply)): (usize, (&Request, &Reply))| Example {
        prompt: request.prompt.clone(),
        response: reply.tokens.clone(),
        logprobs: reply.logprobs.clone(),
        choices: request.choices.clone(),
        advantage: [1.0, -0.5, 0.25][i % 3],
        ..Default::default()
    };
    requests.iter().zip(replies).enumerate().map(example).collect()
}

/// Bits of the weights after an update, through a file.
pub fn weights(policy: &Policy) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    policy.save("actor", &folder.path().join("w")).unwrap();
    ["model.safetensors", "optimizer.safetensors"]
        .iter()
        .flat_map(|file| std::fs::read(folder.path().join("w").join(file)).unwrap())
        .collect()
}

#[test]
fn recorded_is_recomputed() {
    let policy = start(1);
    let requests = requests(60);
    for temperature in [1.0, 0.7, 1.5] {
        let replies = policy.generate("actor", 0, requests.clone(), sampling(temperature)).unwrap();
        let again = policy.logprobs("actor", &examples(&requests, &replies), Some(temperature as f32)).unwrap();
        for ((request, reply), again) in requests.iter().zip(&replies).zip(&again) {
            assert_eq!(reply.tokens.len(), again.len());
            if !request.choices.is_empty() {
                assert!(request.choices.contains(&reply.tokens), "{:?} is no choice", reply.tokens);
            }
            for (a, b) in reply.logprobs.iter().zip(again) {
                assert!((a - b).abs() < 1e-5, "{a} was recorded, {b} recomputed at temperature {temperature}");
            }
        }
        let other = policy.generate("other", 0, requests.clone(), sampling(temperature)).unwrap();
        let again = policy.logprobs("other", &examples(&requests, &other), Some(temperature as f32)).unwrap();
        let flat = |lists: Vec<Vec<f32>>| lists.into_iter().flatten().collect::<Vec<_>>();
        let (other, again) = (flat(other.into_iter().map(|reply| reply.logprobs).collect()), flat(again));
        assert!(other.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-5), "one layer, tied");
        assert!(replies.iter().any(|reply| reply.logprobs.iter().filter(|&&x| x < 0.0).count() > 2), "some replies need several choices");
    }
}

#[test]
fn greedy_and_truncated_replies_record_the_whole_distribution() {
    let policy = start(1);
    let requests = requests(32);
    for sampling in [sampling(0.0), Sampling { top_p: 0.3, ..sampling(1.0) }] {
        let replies = policy.generate("actor", 0, requests.clone(), sampling).unwrap();
        let again = policy.logprobs("actor", &examples(&requests, &replies), None).unwrap();
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(replies.iter().zip(&again).all(|(reply, again)| close(&reply.logprobs, again)));
    }
}

#[test]
fn a_row_depends_on_itself_alone() {
    for shape in [tiny(), NewModel { tokens: TokenKind::Bytes, ..Default::default() }] {
        alone(shape);
    }
}

fn alone(shape: NewModel) {
    let requests = requests(150);
    let models = BTreeMap::from([("actor".to_string(), ModelSettings::New(shape))]);
    let start = |threads| Policy::start(&models, &[], 3, threads).unwrap();
    let all = start(1).generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    let policy = start(3);
    assert_eq!(policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap(), all, "the number of threads");
    let backwards: Vec<_> = requests.iter().rev().cloned().collect();
    let mut turned = policy.generate("actor", 0, backwards, sampling(1.0)).unwrap();
    turned.reverse();
    assert_eq!(turned, all, "the order");
    for (request, reply) in requests.iter().zip(&all).take(24) {
        assert_eq!(policy.generate("actor", 0, vec![request.clone()], sampling(1.0)).unwrap()[0], *reply, "the neighbours");
    }
}

#[test]
fn an_update_gives_the_same_bits_on_any_number_of_threads() {
    let requests = requests(70);
    let settings = UpdateSettings { lr: 1e-2, micro_batch: 16, epochs: 2, minibatch: 40, kl: 0.1, ..Default::default() };
    let run = |threads| {
        let policy = start(threads);
        let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
        let reports: Vec<_> = (0..2).map(|_| policy.update("actor", examples(&requests, &replies), &settings).unwrap()).collect();
        (weights(&policy), reports)
    };
    let (bits, reports) = run(1);
    assert!((bits, reports) == run(2));
}

#[test]
fn the_first_step_has_ratio_one() {
    let policy = start(1);
    let requests = requests(30);
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    let rows = examples(&requests, &replies);
    let tokens: usize = rows.iter().map(|row| row.response.len()).sum();
    let report = policy.update("actor", rows.clone(), &UpdateSettings { lr: 0.0, kl: 0.5, ..Default::default() }).unwrap();
    assert_eq!((report.version, report.tokens, report.clip_fraction), (1, tokens, 0.0));
    assert!(report.rows.iter().all(|row| (row.ratio - 1.0).abs() < 1e-4) && report.kl.abs() < 1e-6);
    let expected = -rows.iter().map(|row| row.advantage as f64 * row.response.len() as f64).sum::<f64>() / tokens as f64;
    assert!((report.loss - expected).abs() < 1e-5, "{} is not {expected}", report.loss);
}

#[test]
fn saved_and_loaded_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let settings = UpdateSettings { lr: 1e-2, kl: 0.1, ..Default::default() };
    let (requests, policy) = (requests(20), start(1));
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    policy.save("actor", &path).unwrap();
    policy.update("actor", examples(&requests, &replies), &settings).unwrap();
    policy.save("actor", &path).unwrap();
    let other = start(1);
    assert_eq!(other.restore("actor", &[path.to_path_buf()]).unwrap(), 1);
    assert_eq!(weights(&other), weights(&policy));
    let next = |policy: &Policy| policy.update("actor", examples(&requests, &replies), &settings).unwrap();
    assert_eq!(next(&policy), next(&other), "the moments and the frozen start, too");
    assert_eq!(weights(&other), weights(&policy));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
    assert!(matches!(start(1).restore("other", &[path.to_path_buf()]), Err(PolicyError::File { .. })));
    let load =
        BTreeMap::from([("actor".to_string(), ModelSettings::Load(LoadModel { load: path.display().to_string(), ..Default::default() }))]);
    assert_eq!(Policy::start(&load, &[], 0, 1).unwrap().versions("actor").unwrap(), [0]);
}

#[test]
fn old_versions_stay_as_long_as_asked() {
    let (policy, requests) = (start(1), requests(8));
    let first = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    let rows = examples(&requests, &first);
    policy.update("actor", rows.clone(), &UpdateSettings { lr: 0.1, ..Default::default() }).unwrap();
    assert_eq!(policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap(), first);
    assert_ne!(policy.generate("actor", 1, requests.clone(), sampling(1.0)).unwrap(), first);
    policy.update("actor", rows, &UpdateSettings::default()).unwrap();
    assert_eq!(policy.versions("actor").unwrap(), [1, 2]);
    let error = policy.generate("actor", 0, requests, sampling(1.0)).unwrap_err();
    assert!(matches!(error, PolicyError::NoVersion { version: 0, .. }));
}

#[test]
fn bad_rows_are_named_and_change_nothing() {
    let policy = start(2);
    let requests = requests(40);
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    let before = weights(&policy);
    let rows = examples(&requests, &replies);
    let update = |change: &dyn Fn(&mut Vec<Example>)| {
        let mut rows = rows.clone();
        change(&mut rows);
        policy.update("actor", rows, &UpdateSettings::default()).unwrap_err()
    };
    assert!(matches!(update(&|rows| rows[7].advantage = f32::NAN), PolicyError::Row { row: 7, .. }));
    assert!(matches!(update(&|rows| rows[5].response = vec![99, END]), PolicyError::Row { row: 5, .. }));
    assert!(matches!(update(&|rows| rows[4].response = vec![]), PolicyError::Row { row: 4, .. }));
    assert!(matches!(update(&|rows| rows[4].prompt = vec![9999]), PolicyError::Row { row: 4, .. }));
    assert!(matches!(update(&|rows| rows.clear()), PolicyError::Update(_)));
    let error = update(&|rows| {
        rows[9].advantage = f32::MAX;
        rows[9].logprobs.iter_mut().for_each(|x| *x = -50.0);
    });
    assert!(matches!(&error, PolicyError::NotFinite { rows, .. } if rows == &[9]), "{error}");
    assert_eq!(weights(&policy), before);
    assert_eq!(policy.versions("actor").unwrap(), [0]);
    let long = Request { prompt: vec![5; 125], ..Default::default() };
    assert!(matches!(policy.generate("actor", 0, vec![long], sampling(1.0)), Err(PolicyError::Row { row: 0, .. })));
    assert!(matches!(policy.parameters("unknown"), Err(PolicyError::NoModel(_))));
}
