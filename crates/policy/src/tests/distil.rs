//! Distillation: towards another model, behind another prompt, weighed by a column, and towards a mean of the model's
//! own versions.

use crate::tests::{examples, requests, sampling, start, weights};
use crate::*;
use flow_model::*;

/// A policy, and rows that it made.
fn acted(count: usize) -> (Policy, Vec<Example>) {
    let (policy, requests) = (start(2), requests(count));
    let replies = policy.generate("actor", 0, requests.clone(), sampling(1.0)).unwrap();
    (policy, examples(&requests, &replies))
}

fn distil() -> UpdateSettings {
    UpdateSettings { objective: Objective::Distill, reference: Some("other".into()), lr: 0.01, ..Default::default() }
}

/// By any divergence, over all tokens or a few: the policy comes near the teacher, which stays.
#[test]
fn a_policy_becomes_its_teacher() {
    for divergence in [Divergence::ReverseKl, Divergence::ForwardKl, Divergence::Jsd] {
        for top_k in [None, Some(8)] {
            let (policy, rows) = acted(24);
            // A teacher that has something to say.
            let wants = UpdateSettings { lr: 0.03, ..Default::default() };
            policy.update("other", rows.clone(), &wants).unwrap();
            let teacher = policy.logprobs("other", &rows, None).unwrap();
            let settings = UpdateSettings { divergence, top_k, ..distil() };
            let reports: Vec<UpdateReport> = (0..40).map(|_| policy.update("actor", rows.clone(), &settings).unwrap()).collect();
            let (first, last) = (reports[0].kl, reports[39].kl);
            assert!(first > 1e-3 && last < 0.2 * first, "{divergence:?}, {top_k:?}: from {first} to {last}");
            assert!((reports[0].loss - first).abs() < 1e-6, "the loss is the divergence");
            assert_eq!(policy.logprobs("other", &rows, None).unwrap(), teacher);
        }
    }
}

/// Without another model the teacher is the model as it began: behind the same prompt there is nothing to learn, behind
/// another there is. A row that was held to one answer has no other.
#[test]
fn a_teacher_reads_its_own_prompt() {
    let (policy, rows) = acted(24);
    let alone = UpdateSettings { reference: None, ..distil() };
    let report = policy.update("actor", rows.clone(), &UpdateSettings { lr: 0.0, ..alone.clone() }).unwrap();
    assert!(report.kl.abs() < 1e-6 && report.grad_norm < 1e-5, "{report:?}");
    let mut told = rows.clone();
    told.iter_mut().step_by(2).for_each(|row| row.teacher_prompt = [&row.prompt[..], &[9, 9, 9]].concat());
    let forced = Example { response: vec![60, END], choices: vec![vec![60, END]], logprobs: vec![0.0; 2], ..told[0].clone() };
    told.push(forced);
    let (policy, _) = acted(24);
    let report = policy.update("actor", told, &UpdateSettings { lr: 0.0, ..alone }).unwrap();
    let apart: Vec<bool> = report.rows.iter().map(|row| row.kl.abs() > 1e-7).collect();
    assert!((0..24).all(|i| apart[i] == (i % 2 == 0)) && !apart[24], "{apart:?}");
    let long = Example { teacher_prompt: vec![5; 5000], ..rows[0].clone() };
    let error = policy.update("actor", vec![long], &distil()).unwrap_err().to_string();
    assert!(error.contains("5000"), "{error}");
}

/// Weights of a column: 0 learns nothing, and means still count the token. The gradient is that of the other rows, in
/// their share.
#[test]
fn tokens_are_weighed_by_a_column() {
    for objective in [Objective::Distill, Objective::Sft] {
        let weighed = UpdateSettings { objective, weigh_by: Some("token_advantages".into()), ..distil() };
        let (policy, mut rows) = acted(24);
        for (i, row) in rows.iter_mut().enumerate() {
            row.advantage = (i % 2) as f32;
        }
        // Of a free row the first token alone.
        rows[4].advantages = std::iter::once(1.0).chain(vec![0.0; rows[4].response.len() - 1]).collect();
        let report = policy.update("actor", rows.clone(), &weighed).unwrap();
        let learnt = |i: usize| report.rows[i].loss_share != 0.0 || report.rows[i].logit_grad != 0.0;
        assert!((0..24).filter(|i| i % 2 == 0 && *i != 4).all(|i| !learnt(i)) && learnt(4) && learnt(1), "{:?}", report.rows);
        assert_eq!(report.tokens, rows.iter().map(|row| row.response.len()).sum::<usize>());
        // In a step of those rows alone each token weighs as many times more as there are fewer.
        let (other, _) = acted(24);
        let some: Vec<Example> = (0..24).filter(|i| i % 2 == 1 || *i == 4).map(|i| rows[i].clone()).collect();
        let alone = other.update("actor", some, &weighed).unwrap();
        let share = alone.tokens as f64 / report.tokens as f64;
        assert!((alone.loss * share - report.loss).abs() < 1e-5 * report.loss.abs(), "{} {}", alone.loss, report.loss);
    }
}

/// Weights `w` after each update, and a mean that begins as the model did: m1 = 0.9 w0 + 0.1 w1, m2 = 0.9 m1 + 0.1 w2.
/// It is what the divergence is from, it is saved with a version, and a run that was stopped goes on with it. Without
/// it the next update is another one.
#[test]
fn a_reference_follows_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |policy: &Policy, name: &str| {
        policy.save("actor", &folder.path().join(name)).unwrap();
        let read = |file: &str| tch::Tensor::read_safetensors(folder.path().join(name).join(file)).unwrap();
        (read("model.safetensors"), read("optimizer.safetensors"))
    };
    let follows = UpdateSettings { reference: None, reference_ema: Some(0.9), kl: 0.5, lr: 0.02, ..Default::default() };
    let (policy, rows) = acted(24);
    let (begun, _) = saved(&policy, "0");
    let report = policy.update("actor", rows.clone(), &follows).unwrap();
    assert!(report.kl.abs() < 1e-9, "before the first version the reference is the model: {}", report.kl);
    let (one, _) = saved(&policy, "1");
    assert!(policy.update("actor", rows.clone(), &follows).unwrap().kl > 1e-6);
    let (two, moments) = saved(&policy, "2");
    let find = |tensors: &[(String, tch::Tensor)], name: &str| tensors.iter().find(|(own, _)| own == name).unwrap().1.shallow_clone();
    for (name, w0) in &begun {
        let expected = (w0 * 0.9 + find(&one, name) * 0.1) * 0.9 + find(&two, name) * 0.1;
        let mean = find(&moments, &format!("mean.{name}"));
        assert!((mean - expected).abs().max().double_value(&[]) < 1e-6, "{name}");
    }
    policy.update("actor", rows.clone(), &follows).unwrap();
    let again = start(1);
    again.restore("actor", &[folder.path().join("2")]).unwrap();
    again.update("actor", rows.clone(), &follows).unwrap();
    assert!(weights(&again) == weights(&policy), "to the bit, on another number of threads");
    // Versions of an update that keeps none have none.
    let (plain, _) = acted(24);
    plain.update("actor", rows.clone(), &UpdateSettings { reference_ema: None, ..follows.clone() }).unwrap();
    assert!(!saved(&plain, "plain").1.iter().any(|(name, _)| name.starts_with("mean.")));
    // A mean that keeps nothing is the version before.
    let (nearest, _) = acted(24);
    for _ in 0..2 {
        let report = nearest.update("actor", rows.clone(), &UpdateSettings { reference_ema: Some(0.0), ..follows.clone() }).unwrap();
        assert!(report.kl.abs() < 1e-9, "{}", report.kl);
    }
}
