//! What a list of 1, 30 and 300 actions costs a turn, of a policy that draws one of them and of one that weighs each
//! beside a critic; and what weighing costs row by row, each row with the whole list, where nothing but a pass is
//! shared. Seconds of the CPU with `BENCH_CLOCK=cpu`.
//!
//! `cargo bench --bench rank`

mod clock;

use clock::Clock;
use flow_core::seed::Random;
use flow_model::{Example, Head, ModelSettings, NewModel, Request, Sampling, TokenKind, END};
use flow_policy::Policy;
use std::collections::BTreeMap;

/// Turns that are asked together, tokens of a prompt, and of an action without the one that closes it.
const TURNS: usize = 8;
const PROMPT: usize = 200;
const ACTION: usize = 5;
const LISTS: [usize; 3] = [1, 30, 300];
const RUNS: usize = 3;

type Failed = Box<dyn std::error::Error>;

/// New prompts, so that nothing of them was read before, each with a list of `actions` actions that begin with one of
/// eight tokens.
fn requests(random: &mut Random, actions: usize) -> Vec<Request> {
    let mut tokens = |count: usize, among: usize| (0..count).map(|_| (40 + random.below(among)) as u32).collect::<Vec<_>>();
    let action = |tokens: &mut dyn FnMut(usize, usize) -> Vec<u32>| [tokens(1, 8), tokens(ACTION - 1, 200), vec![END]].concat();
    let request = |i: usize| Request {
        prompt: tokens(PROMPT, 200),
        choices: (0..actions).map(|_| action(&mut tokens)).collect(),
        seed: i as u64,
        ..Request::default()
    };
    (0..TURNS).map(request).collect()
}

fn rows(requests: &[Request]) -> Vec<Example> {
    let row = |request: &Request, response: &Vec<u32>| Example {
        prompt: request.prompt.clone(),
        response: response.clone(),
        choices: request.choices.clone(),
        ..Example::default()
    };
    requests.iter().flat_map(|request| request.choices.iter().map(move |response| row(request, response))).collect()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn main() -> Result<(), Failed> {
    let tiny = NewModel { tokens: TokenKind::Bytes, ..NewModel::default() };
    let critic = NewModel { head: Head::Value, ..tiny.clone() };
    let models = BTreeMap::from([("actor", tiny), ("critic", critic)].map(|(name, model)| (name.to_string(), ModelSettings::New(model))));
    let policy = Policy::start(&models, &[], 1, 1)?;
    println!("{} and {} parameters, {TURNS} turns of {PROMPT} tokens", policy.parameters("actor")?, policy.parameters("critic")?);
    let mut random = Random::new(1);
    for actions in LISTS {
        let mut measured: [Vec<f64>; 3] = Default::default();
        // The first round warms up and isn't counted.
        for run in 0..=RUNS {
            let mut took = [0.0; 3];
            let batch = requests(&mut random, actions);
            let start = Clock::start();
            policy.generate("actor", 0, batch, Sampling::default())?;
            took[0] = start.seconds();
            let batch = requests(&mut random, actions);
            let start = Clock::start();
            policy.likelihoods("actor", 0, batch.clone(), 1.0)?;
            policy.choice_values("critic", 0, batch.clone())?;
            took[1] = start.seconds();
            let batch = rows(&requests(&mut random, actions));
            let start = Clock::start();
            policy.logprobs("actor", &batch, Some(1.0))?;
            policy.values("critic", 0, batch)?;
            took[2] = start.seconds();
            measured.iter_mut().zip(took).filter(|_| run > 0).for_each(|(all, seconds)| all.push(1e3 * seconds / TURNS as f64));
        }
        let [drawn, weighed, apart] = measured.map(median);
        println!("{actions} actions: drawn {drawn:.1} ms a turn, weighed {weighed:.1} ms, row by row {apart:.1} ms");
    }
    Ok(())
}
