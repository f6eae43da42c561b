//! The losses against `conformance/cases`: worked numbers of every loss shape, made by a reference of its own. A learner
//! that has given log-probabilities takes the place of a model, so all else is an update as it always is.
//!
//! With `FLOW_CONFORMANCE=FILE` the largest difference of each case is written there, for `conformance/run.py`.

use super::given::{Distribution, Given, Numbers};
use crate::update::tracer::Tracer;
use crate::update::update;
use flow_model::{CountedTokens, Example, Objective, UpdateSettings, END};
use serde::Deserialize;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

/// A case, as conformance/README.md describes it.
#[derive(Deserialize)]
struct Case {
    name: String,
    settings: Value,
    rows: Vec<Row>,
    loss: f64,
    dloss_dnew: Vec<Vec<f64>>,
    clipped: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Row {
    new: Vec<f32>,
    old: Vec<f32>,
    acted: Option<Vec<f32>>,
    reference: Option<Vec<f32>>,
    entropy: Option<Vec<f32>>,
    chosen: Option<Vec<u8>>,
    target: Option<Vec<f32>>,
    advantage: Option<Value>,
    part: Vec<u8>,
    trajectory: u64,
}

impl Row {
    /// The row as an update reads it. A token without a part in the loss is one that the choices force.
    fn example(&self, prompt: u32) -> Example {
        let response: Vec<u32> = (0..self.new.len() as u32).map(|token| 10 + token).collect();
        let mut choices = vec![];
        if self.part.contains(&0) {
            choices.push([&response[..], &[END]].concat());
            let others = (0..response.len()).filter(|i| self.part[*i] == 1);
            choices.extend(others.map(|i| [&response[..i], &[9, END]].concat()));
        }
        let number = |value: &Value| value.as_f64().unwrap() as f32;
        let advantage = self.advantage.as_ref();
        Example {
            prompt: vec![prompt],
            response,
            choices,
            logprobs: self.acted.clone().unwrap_or_else(|| self.old.clone()),
            advantage: advantage.filter(|advantage| advantage.is_number()).map_or(0.0, number),
            advantages: advantage.and_then(Value::as_array).map_or(vec![], |each| each.iter().map(number).collect()),
            trajectory: self.trajectory,
            values: self.old.clone(),
            targets: self.target.clone().unwrap_or_default(),
            ..Example::default()
        }
    }
}

fn cases<T: for<'a> Deserialize<'a>>(kind: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/cases").join(kind).with_extension("json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The largest difference of two lists, in units of the largest number of the second.
fn apart(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    found.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs())) / largest.max(1e-6)
}

fn flat<T: Copy + Into<f64>>(lists: &[Vec<T>]) -> impl Iterator<Item = f64> + '_ {
    lists.iter().flatten().map(|x| (*x).into())
}

fn loss(case: &Case) -> f64 {
    let rows = &case.rows;
    let masks = rows.iter().any(|row| row.part.contains(&0));
    let tokens = if masks { CountedTokens::Chosen } else { CountedTokens::All };
    let settings = UpdateSettings { tokens, ..serde_json::from_value(case.settings.clone()).unwrap() };
    let examples: Vec<Example> = rows.iter().zip(2..).map(|(row, prompt)| row.example(prompt)).collect();
    let all = |of: &dyn Fn(&Row) -> Option<Vec<f32>>| rows.iter().map(of).collect::<Option<Vec<Vec<f32>>>>();
    let policy = Numbers::new(rows.iter().map(|row| row.new.clone()).collect(), all(&|row| row.entropy.clone()));
    let reference = all(&|row| row.reference.clone()).map(|reference| Numbers::new(reference, None));
    let covary = if rows[0].chosen.is_some() {
        rows.iter().map(|row| row.chosen.iter().flatten().map(|chosen| *chosen == 1).collect()).collect()
    } else {
        vec![]
    };
    let mut learner = Given {
        start: rows.iter().map(|row| row.old.clone()).collect(),
        covary,
        policy: &policy,
        reference: reference.as_ref().map(|reference| reference as &dyn Tracer),
        clipped: vec![(vec![], vec![]); rows.len()],
    };
    let (_, report) = update("actor", &mut learner, &examples, &settings, 0).unwrap();
    for ((part, clipped), expected) in learner.clipped.iter().zip(&case.clipped) {
        let wrong = part.iter().zip(clipped).zip(expected).any(|((part, found), expected)| *part && found != expected);
        assert!(!wrong, "{}: {clipped:?} is clipped, and not {expected:?}", case.name);
    }
    let found: Vec<f64> = [report.loss].into_iter().chain(flat(&policy.gradients.borrow())).collect();
    let expected: Vec<f64> = [case.loss].into_iter().chain(flat(&case.dloss_dnew)).collect();
    apart(&found, &expected)
}

/// How far the divergence of a case, and its gradient by the logits, are from the case's.
fn divergence(case: &Value) -> f64 {
    let list = |name: &str| case[name].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>();
    let weights = |name| Distribution { shares: list(name).iter().map(|x| *x as f32).collect(), gradient: RefCell::new(vec![]) };
    let (policy, teacher) = (weights("policy"), weights("teacher"));
    let settings = UpdateSettings { objective: Objective::Distill, ..serde_json::from_value(case["settings"].clone()).unwrap() };
    let examples = [Example { prompt: vec![2], response: vec![10], ..Example::default() }];
    let mut learner = Given { start: vec![], covary: vec![], policy: &policy, reference: Some(&teacher), clipped: vec![(vec![], vec![])] };
    let (_, report) = update("actor", &mut learner, &examples, &settings, 0).unwrap();
    let found: Vec<f64> = [report.loss].into_iter().chain(policy.gradient.borrow().iter().map(|x| f64::from(*x))).collect();
    apart(&found, &[vec![case["value"].as_f64().unwrap()], list("by_logits")].concat())
}

#[test]
fn losses_are_those_of_the_reference() {
    let mut found: BTreeMap<String, f64> =
        cases::<Case>("losses").iter().map(|case| (format!("losses/{}", case.name), loss(case))).collect();
    for case in cases::<Value>("divergences") {
        found.insert(format!("divergences/{}", case["name"].as_str().unwrap()), divergence(&case));
    }
    if let Some(path) = std::env::var_os("FLOW_CONFORMANCE") {
        std::fs::write(path, serde_json::to_string(&found).unwrap()).unwrap();
    }
    let wrong: Vec<_> = found.iter().filter(|(_, worst)| **worst > 1e-5).collect();
    assert!(found.len() > 50 && wrong.is_empty(), "{wrong:?}");
}
