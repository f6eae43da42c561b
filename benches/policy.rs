//! The policy against the same transformer in eager PyTorch on the same libtorch: rows a second of generation and of
//! updates, two threads each (`BENCH_THREADS` sets another number). Every prompt is a different one, so nothing is
//! gained by prompts that rows share.
//!
//! `cargo bench --bench policy`; `BENCH_ACT=int8` or `f32` has our side act row by row, and `BENCH_CLOCK=cpu` counts
//! seconds of the CPU.

mod clock;
mod peer;

use clock::Clock;
use flow_core::seed::Random;
use flow_model::{Act, Example, ModelSettings, NewModel, Request, Sampling, UpdateSettings, END};
use flow_policy::Policy;
use peer::{Peer, Runs, RUNS};
use std::collections::BTreeMap;

/// The sizes that `policy_peer.py` has too: a vocabulary of 300 with 42 words, prompts of 90 tokens.
const VOCAB: usize = 300;
const WORDS: usize = 42;
const PROMPT: usize = 90;
/// Tokens of a free answer.
const FREE: usize = 16;
const CHOICES: [u32; 4] = [258, 259, 260, 261];

fn choices(constrained: bool) -> Vec<Vec<u32>> {
    CHOICES.iter().filter(|_| constrained).map(|&word| vec![word, END]).collect()
}

fn prompt(random: &mut Random) -> Vec<u32> {
    (0..PROMPT).map(|_| 2 + random.below(VOCAB - 2) as u32).collect()
}

/// Seconds to answer `rows` prompts, and the tokens that were chosen.
fn generate(policy: &Policy, random: &mut Random, rows: usize, constrained: bool) -> Result<(f64, usize), String> {
    let requests = (0..rows)
        .map(|_| Request { prompt: prompt(random), seed: random.next(), choices: choices(constrained), ..Request::default() })
        .collect();
    let sampling = Sampling { max_tokens: FREE, ..Sampling::default() };
    let version = policy.versions("actor").map_err(|e| e.to_string())?.last().copied().unwrap_or(0);
    let start = Clock::start();
    let replies = policy.generate("actor", version, requests, sampling).map_err(|e| e.to_string())?;
    Ok((start.seconds(), replies.iter().map(|reply| reply.tokens.len()).sum()))
}

/// Seconds of one update from `rows` rows.
fn update(policy: &Policy, random: &mut Random, rows: usize, constrained: bool) -> Result<(f64, usize), String> {
    let examples = (0..rows)
        .map(|_| {
            let text: Vec<u32> = (0..FREE).map(|_| 2 + random.below(VOCAB - 2) as u32).collect();
            let response = if constrained { vec![CHOICES[random.below(4)], END] } else { text };
            let logprobs = if constrained { vec![-1.38, 0.0] } else { vec![-5.7; FREE] };
            let advantage = random.unit() as f32 * 2.0 - 1.0;
            Example { prompt: prompt(random), response, logprobs, choices: choices(constrained), advantage, ..Default::default() }
        })
        .collect();
    let settings = UpdateSettings::default();
    let start = Clock::start();
    let report = policy.update("actor", examples, &settings).map_err(|e| e.to_string())?;
    Ok((start.seconds(), report.tokens))
}

type Measure = fn(&Policy, &mut Random, usize, bool) -> Result<(f64, usize), String>;
/// A name, our side, rows, whether choices hold the answer, the peer's case, and its rows a pass.
type Case = (&'static str, Measure, usize, bool, &'static str, &'static [usize]);

fn main() -> Result<(), String> {
    let words: Vec<String> = (0..WORDS).map(|i| format!("word{i:02}")).collect();
    let act = match std::env::var("BENCH_ACT").unwrap_or_default().as_str() {
        "int8" => Act::Int8,
        "f32" => Act::F32,
        _ => Act::Own,
    };
    let models = BTreeMap::from([("actor".to_string(), ModelSettings::New(NewModel { act, ..NewModel::default() }))]);
    let threads = std::env::var("BENCH_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let policy = Policy::start(&models, &words, 1, threads).map_err(|e| e.to_string())?;
    let mut peer = Peer::start("policy_peer.py")?;
    println!(
        "{} parameters, {threads} thread(s) each; the peer: {}",
        policy.parameters("actor").map_err(|e| e.to_string())?,
        peer.as_ref().map_or("none", |p| &p.hello)
    );
    let mut random = Random::new(1);
    // The peer may read its rows 64 at a time or all at once, and is held to whichever suits it better.
    let cases: [Case; 4] = [
        ("generation, one choice of four actions", generate, 512, true, "choose", &[64, 512]),
        ("generation, 16 free tokens", generate, 256, false, "write", &[64, 256]),
        ("update, one choice of four actions", update, 512, true, "learn-choice", &[64, 512]),
        ("update, 16 free tokens", update, 256, false, "learn-text", &[64, 256]),
    ];
    for (name, ours, rows, constrained, case, sizes) in cases {
        let mut seconds = Vec::new();
        let mut theirs = vec![Vec::new(); sizes.len()];
        let mut tokens = 0;
        // The first round warms both sides up and isn't counted.
        for run in 0..=RUNS {
            let (took, written) = ours(&policy, &mut random, rows, constrained)?;
            tokens = written;
            seconds.extend((run > 0).then_some(rows as f64 / took));
            for (all, size) in theirs.iter_mut().zip(sizes) {
                if let Some(peer) = &mut peer {
                    let took = peer.ask(&format!("{case} {rows} {size}"))?;
                    all.extend((run > 0).then_some(rows as f64 / took));
                }
            }
        }
        let ours = Runs::new(seconds);
        let show = |runs: &Runs| format!("{:.0} rows/s ({:.0} to {:.0})", runs.median(), runs.least(), runs.most());
        println!("{name}: {} of {rows} rows, {tokens} tokens", show(&ours));
        for (all, size) in theirs.into_iter().zip(sizes).filter(|(all, _)| !all.is_empty()) {
            let theirs = Runs::new(all);
            println!("    the peer, {size} rows a pass: {}, ratio {:.2}", show(&theirs), ours.median() / theirs.median());
            let line = serde_json::json!({
                "bench": "policy", "case": name, "pass": size, "ours": ours.median(), "peer": theirs.median(), "ratio": ours.median() / theirs.median()
            });
            println!("{line}");
        }
    }
    Ok(())
}
