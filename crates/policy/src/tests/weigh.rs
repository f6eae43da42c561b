//! Choices that are weighed: the same numbers as row by row, and no token twice however long the list is.

use crate::tests::*;
use flow_core::seed::Random;
use flow_model::*;
use std::collections::BTreeMap;

fn policy() -> Policy {
    let tiny = NewModel { tokens: TokenKind::Bytes, layers: 2, width: 32, heads: 4, kv_heads: 2, context: 400, ..Default::default() };
    let critic = NewModel { head: Head::Value, ..tiny.clone() };
    let models = BTreeMap::from([("actor", tiny), ("critic", critic)].map(|(name, model)| (name.to_string(), ModelSettings::New(model))));
    let policy = Policy::start(&models, &[], 3, 1).unwrap();
    // A new head is near 0 everywhere.
    let row = |response: Vec<u32>, target: f32| {
        let n = response.len();
        Example { prompt: vec![70, 71], response, values: vec![0.0; n], targets: vec![target; n], ..Default::default() }
    };
    let rows = || (0..6).map(|i| row(vec![60 + i, 61, END], i as f32)).collect::<Vec<_>>();
    for objective in [Objective::Value, Objective::Sft] {
        let (model, settings) =
            (if objective == Objective::Value { "critic" } else { "actor" }, UpdateSettings { objective, lr: 1e-2, ..Default::default() });
        (0..5).for_each(|_| drop(policy.update(model, rows(), &settings).unwrap()));
    }
    policy
}

/// Some prompts (two begin alike), with lists of choices that begin alike, end within one another, stand alone or come
/// twice.
fn requests(count: usize) -> Vec<Request> {
    let mut random = Random::new(4);
    let mut more = |n: usize| (0..n).map(|_| 60 + random.below(3) as u32).collect::<Vec<_>>();
    let rules = more(41);
    let prompts = [[&rules[..], &more(9)].concat(), [&rules[..], &more(30)].concat(), more(5)];
    let lists = |i: usize| {
        let mut lists: Vec<Vec<u32>> = (0..[count, 7, 1][i]).map(|n| [more(1 + n % 6), vec![END]].concat()).collect();
        lists.push(lists[0].clone());
        lists
    };
    let lists: Vec<_> = (0..3).map(lists).collect();
    prompts.into_iter().zip(lists).map(|(prompt, choices)| Request { prompt, choices, seed: 1, ..Request::default() }).collect()
}

#[test]
fn choices_weigh_what_their_rows_do() {
    let policy = policy();
    let requests = requests(80);
    let likely = policy.likelihoods("actor", 5, requests.clone(), 0.7).unwrap();
    let choice_values = policy.choice_values("critic", 5, requests.clone()).unwrap();
    for (i, request) in requests.iter().enumerate() {
        let row = |response: &Vec<u32>| Example {
            prompt: request.prompt.clone(),
            response: response.clone(),
            choices: request.choices.clone(),
            ..Default::default()
        };
        let rows: Vec<Example> = request.choices.iter().map(row).collect();
        let logprobs = policy.logprobs("actor", &rows, Some(0.7)).unwrap();
        let values = policy.values("critic", 5, rows).unwrap();
        for c in 0..request.choices.len() {
            let sum = logprobs[c].iter().map(|x| f64::from(*x)).sum::<f64>();
            assert!((likely.choices[i][c] - sum).abs() < 1e-5, "{i} {c}: {} {sum}", likely.choices[i][c]);
            let value = f64::from(*values[c].last().unwrap());
            assert!((choice_values.choices[i][c] - value).abs() < 1e-5, "{i} {c}: {} {value}", choice_values.choices[i][c]);
        }
        let alone = policy.likelihoods("actor", 5, vec![request.clone()], 0.7).unwrap();
        assert_eq!(alone.choices[0], likely.choices[i], "the same bits in any company");
    }
    assert!(likely.choices[0].iter().any(|x| (x - likely.choices[0][0]).abs() > 0.1), "they differ");
    assert!(choice_values.choices[0].iter().any(|x| (x - choice_values.choices[0][0]).abs() > 0.01), "they differ");
    assert_eq!(likely.choices[2], [0.0, 0.0], "where nothing is left to choose");
}

/// A pass of the prompts and one of the choices after them: each computes the last token before it again.
#[test]
fn a_long_list_reads_its_prompt_once() {
    let requests = requests(200);
    for weighed in [policy().likelihoods("actor", 5, requests.clone(), 1.0), policy().choice_values("critic", 5, requests.clone())] {
        let tokens = weighed.unwrap().tokens;
        let (computed, distinct) = (tokens.computed, tokens.distinct());
        assert!(distinct > 140 && computed < distinct + distinct / 2 + 4 * PAD_TO, "{computed} places for {distinct} tokens");
    }
    let wrong = |request: Request| policy().likelihoods("actor", 5, vec![requests[0].clone(), request], 1.0).err().unwrap();
    let open = Request { prompt: vec![60], choices: vec![vec![61], vec![62, END]], seed: 0, ..Request::default() };
    assert!(matches!(wrong(open), PolicyError::Row { row: 1, fault: RowFault::OpenChoice { .. } }));
    let long = Request { prompt: vec![60; 399], choices: vec![vec![61, END], vec![62, END]], seed: 0, ..Request::default() };
    assert!(matches!(wrong(long), PolicyError::Row { row: 1, fault: RowFault::TooLong { .. } }));
}
