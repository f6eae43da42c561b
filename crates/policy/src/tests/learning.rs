//! The policy learns, and how fast.

use crate::tests::{examples, sampling, start};
use crate::*;
use flow_core::seed::Random;
use flow_model::*;
use std::collections::BTreeMap;

#[test]
fn a_rewarded_choice_becomes_likely() {
    let policy = start(2);
    let choices: Vec<Vec<u32>> = (10..14).map(|token| vec![token, END]).collect();
    let settings = UpdateSettings { lr: 3e-3, keep: 0, ..Default::default() };
    let (mut first, mut last) = (0, 0);
    for iteration in 0..25u64 {
        let request = |i: u64| Request { prompt: vec![5, 6, 7], seed: iteration * 64 + i, choices: choices.clone(), ..Request::default() };
        let requests: Vec<_> = (0..64).map(request).collect();
        let replies = policy.generate("actor", iteration, requests.clone(), sampling(1.0)).unwrap();
        let mut rows = examples(&requests, &replies);
        rows.iter_mut().for_each(|row| row.advantage = if row.response[0] == 12 { 1.0 } else { -0.3 });
        last = rows.iter().filter(|row| row.response[0] == 12).count();
        if iteration == 0 {
            first = last;
        }
        policy.update("actor", rows, &settings).unwrap();
    }
    assert!(first < 40 && last > 58, "{first} then {last} of 64");
}

#[test]
fn supervised_learning_fits_a_mapping() {
    let policy = start(2);
    let row = |i: u32| Example {
        prompt: vec![20 + i % 8, 30, 40 + i / 8],
        response: vec![50 + (i * 5) % 16, 90 + i % 3, END],
        ..Default::default()
    };
    let rows: Vec<_> = (0..32).map(row).collect();
    let settings = UpdateSettings { objective: Objective::Sft, lr: 5e-3, keep: 0, ..Default::default() };
    let losses: Vec<f64> = (0..80).map(|_| policy.update("actor", rows.clone(), &settings).unwrap().loss).collect();
    assert!(losses[0] > 4.0 && losses[79] < 0.1, "{} to {}", losses[0], losses[79]);
    let request = |row: &Example| Request { prompt: row.prompt.clone(), seed: 0, choices: vec![], ..Request::default() };
    let replies = policy.generate("actor", 80, rows.iter().map(request).collect(), sampling(0.0)).unwrap();
    assert!(rows.iter().zip(&replies).all(|(row, reply)| row.response == reply.tokens));
}

/// Two texts behind one prompt, worth 1 and 0. Where nothing is worth anything the divergence keeps q where it began.
#[test]
fn a_posterior_prefers_what_was_worth_more() {
    let row =
        |token: u32, worth: f32| Example { prompt: vec![5, 6, 7], response: vec![token, END], advantage: worth, ..Default::default() };
    let settings = UpdateSettings {
        objective: Objective::Reinforce,
        aggregation: Aggregation::SeqMeanTokenSum,
        kl: 0.5,
        lr: 3e-3,
        keep: 0,
        ..Default::default()
    };
    let preference = |worth: f32| {
        let policy = start(1);
        let rows = vec![row(12, worth), row(13, 0.0)];
        let of = |version| {
            let logprobs = policy.text_logprobs("actor", version, rows.clone()).unwrap();
            let [good, bad] = [0, 1].map(|i: usize| logprobs[i].iter().sum::<f32>());
            good - bad
        };
        let before = of(0);
        assert_eq!(policy.text_logprobs("actor", 0, rows.clone()).unwrap(), policy.logprobs("actor", &rows, None).unwrap());
        (0..40).for_each(|_| drop(policy.update("actor", rows.clone(), &settings).unwrap()));
        assert!(policy.text_logprobs("actor", 0, rows.clone()).is_err(), "that version is no longer kept");
        of(40) - before
    };
    let (worth, nothing) = (preference(1.0), preference(0.0));
    assert!(worth > 1.0 && nothing.abs() < 0.3, "{worth} and {nothing} nats");
}

/// Steps far too large leave finite weights with infinite logits: the error comes when they first generate.
#[test]
fn a_diverged_model_is_told_as_one() {
    let policy = start(2);
    let rows: Vec<_> = (0..4).map(|i| Example { prompt: vec![20 + i, 30], response: vec![50 + i, END], ..Default::default() }).collect();
    let settings = UpdateSettings { objective: Objective::Sft, lr: 1e30, weight_decay: 0.0, keep: 0, ..Default::default() };
    policy.update("actor", rows, &settings).unwrap();
    // Tokens that no row had, so that what the network reads is as it was and what it computes of it overflows.
    let request = Request { prompt: vec![60, 61], seed: 0, choices: vec![], ..Request::default() };
    for choices in [vec![], vec![vec![10, END], vec![11, END]]] {
        let error = policy.generate("actor", 1, vec![Request { choices, ..request.clone() }], sampling(1.0)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("model `actor`: its training has diverged: with version 1 of its weights"), "{message}");
    }
}

/// With a text that ends answers each is what it was without, up to the token that completes the text.
#[test]
fn a_text_ends_an_answer() {
    let models = BTreeMap::from([("actor".to_string(), ModelSettings::New(NewModel { tokens: TokenKind::Bytes, ..Default::default() }))]);
    let policy = Policy::start(&models, &[], 3, 2).unwrap();
    let tokenizer = policy.tokenizer("actor").unwrap();
    let requests: Vec<Request> =
        (0..20).map(|seed| Request { prompt: vec![74, 75], seed: flow_core::seed::mix(seed, 1), ..Request::default() }).collect();
    let whole = policy.generate("actor", 0, requests.clone(), Sampling { max_tokens: 12, ..Sampling::default() }).unwrap();
    // What the sixth byte of an answer says, which others may say, too.
    let stop = whole
        .iter()
        .map(|reply| tokenizer.decode(&reply.tokens[5.min(reply.tokens.len() - 1)..][..1]))
        .find(|text| text.is_ascii() && !text.is_empty());
    let stop = vec![stop.unwrap()];
    let ended = policy.generate("actor", 0, requests, Sampling { max_tokens: 12, stop: stop.clone(), ..Sampling::default() }).unwrap();
    let has = |tokens: &[u32]| tokenizer.decode(tokens).contains(&stop[0]);
    for (whole, ended) in whole.iter().zip(&ended) {
        let first = (1..=whole.tokens.len()).find(|&count| has(&whole.tokens[..count])).unwrap_or(whole.tokens.len());
        assert_eq!((&ended.tokens[..], &ended.logprobs[..]), (&whole.tokens[..first], &whole.logprobs[..first]));
    }
    assert!(ended.iter().any(|reply| reply.tokens.len() < 12 && has(&reply.tokens)));
}

/// Figures for the documentation: `cargo test --release -p flow-policy --lib -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn speed() {
    for threads in [1, 2] {
        let models =
            BTreeMap::from([("actor".to_string(), ModelSettings::New(NewModel { tokens: TokenKind::Bytes, ..Default::default() }))]);
        let policy = Policy::start(&models, &[], 3, threads).unwrap();
        let mut random = Random::new(5);
        let choices: Vec<Vec<u32>> = (10..14).map(|token| vec![token, END]).collect();
        let request = |_| Request {
            prompt: (0..48).map(|_| 2 + random.below(250) as u32).collect(),
            seed: 1,
            choices: choices.clone(),
            ..Request::default()
        };
        let requests: Vec<_> = (0..512).map(request).collect();
        let rate = |work: &mut dyn FnMut()| {
            work();
            let clock = std::time::Instant::now();
            let mut runs = 0;
            while clock.elapsed().as_secs_f64() < 2.0 {
                work();
                runs += 1;
            }
            (512.0 * runs as f64 / clock.elapsed().as_secs_f64()) as usize
        };
        let mut replies = Vec::new();
        let constrained = rate(&mut || replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap());
        let rows = examples(&requests, &replies);
        let free: Vec<_> = requests.iter().map(|r| Request { choices: vec![], ..r.clone() }).collect();
        let free = rate(&mut || drop(policy.generate("actor", 0, free.clone(), Sampling { max_tokens: 16, ..sampling(1.0) }).unwrap()));
        let update = rate(&mut || drop(policy.update("actor", rows.clone(), &UpdateSettings::default()).unwrap()));
        println!("{threads} threads: {constrained} rows/s held to choices, {free} rows/s of 16 free tokens, {update} rows/s of update");
    }
}
