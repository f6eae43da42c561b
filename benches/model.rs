//! A published model against `transformers` and PEFT reading the same file: tokens a second of prefill, of decoding at several batch sizes and
//! of a training step with LoRA, and the most memory that each side took. Two threads each (`BENCH_THREADS` sets another number).
//!
//! `flow model fetch smollm2-135m-instruct; make .venv-parity/made-from; BENCH_PYTHON=.venv-parity/bin/python cargo bench --bench model`
//!
//! `cargo bench --bench model -- decode` measures the cases alone whose names hold that. On a machine that others use as well, one thread each and
//! `BENCH_CLOCK=cpu`, the seconds of the processor in place of the clock's, say most.

mod clock;
mod peer;

use clock::Clock;
use flow::policy::{Example, LoadModel, LoraSettings, ModelSettings, Policy, Request, Sampling, UpdateSettings};
use flow::seed::Random;
use peer::{Peer, Runs, RUNS};
use std::collections::BTreeMap;

/// Tokens of a prompt that is only read, of one that is answered, and of an answer.
const READ: usize = 256;
const PROMPT: usize = 64;
const ANSWER: usize = 32;
/// Tokens of a row that is learnt from.
const LEARNT: usize = 96;
/// Tokens of one whose prompt it shares with others, and how many do: the samples of a task.
const SHARED: usize = 160;
const SAMPLES: usize = 8;
/// So hot that hardly any answer ends early.
const TEMPERATURE: f64 = 3.0;

type Failed = Box<dyn std::error::Error>;

fn prompts(random: &mut Random, vocab: usize, rows: usize, tokens: usize) -> Vec<Vec<u32>> {
    (0..rows).map(|_| (0..tokens).map(|_| (100 + random.below(vocab - 100)) as u32).collect()).collect()
}

/// Seconds to write `tokens` tokens behind each of `prompts`, and the tokens that were written.
fn write(policy: &Policy, random: &mut Random, prompts: Vec<Vec<u32>>, tokens: usize) -> Result<(f64, usize), Failed> {
    let requests = prompts.into_iter().map(|prompt| Request { prompt, seed: random.next(), choices: vec![] }).collect();
    let sampling = Sampling { temperature: TEMPERATURE, max_tokens: tokens, ..Sampling::default() };
    let start = Clock::start();
    let replies = policy.generate("plain", 0, requests, sampling)?;
    Ok((start.seconds(), replies.iter().map(|reply| reply.tokens.len()).sum()))
}

/// Seconds of one update of the adapters from `rows` rows of `tokens` tokens, of which `samples` in a row share their prompt.
fn learn(policy: &Policy, random: &mut Random, vocab: usize, (rows, tokens, samples): (usize, usize, usize)) -> Result<f64, Failed> {
    let row = |prompt: Vec<u32>, response: Vec<u32>| {
        let logprobs = vec![-10.0; response.len()];
        Example { prompt, response, logprobs, advantage: 1.0, ..Default::default() }
    };
    let (read, said) = (prompts(random, vocab, rows / samples, tokens - ANSWER), prompts(random, vocab, rows, ANSWER));
    let examples = said.into_iter().enumerate().map(|(i, response)| row(read[i / samples].clone(), response)).collect();
    let settings = UpdateSettings { micro_batch: 16, ..UpdateSettings::default() };
    let start = Clock::start();
    policy.update("adapted", examples, &settings)?;
    Ok(start.seconds())
}

fn pairs(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

/// The most memory that this process has had, in MB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default() / 1024.0
}

fn main() -> Result<(), Failed> {
    let path = std::env::var("FLOW_MODEL").unwrap_or_else(|_| "models/smollm2-135m-instruct/model.gguf".into());
    let load = |lora| ModelSettings::Load(LoadModel { load: path.clone(), lora, ..LoadModel::default() });
    let models = BTreeMap::from([("plain".to_string(), load(None)), ("adapted".to_string(), load(Some(LoraSettings::default())))]);
    let threads = std::env::var("BENCH_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let policy = Policy::start(&models, &[], 1, threads)?;
    let mut peer = Peer::start("model_peer.py")?;
    println!("{path}, {threads} thread(s) each; the peer: {}", peer.as_ref().map_or("none", |peer| &peer.hello));
    let vocab = policy.tokenizer("plain")?.vocab_size();
    let mut random = Random::new(1);
    // A name, the peer's case, rows, tokens of a prompt (of a row that is learnt from), tokens that are written, rows of one prompt.
    let cases = [
        ("prefill, 8 prompts of 256", "read", 8, READ, 1, 1),
        ("decode, batch 1", "write", 1, PROMPT, ANSWER, 1),
        ("decode, batch 8", "write", 8, PROMPT, ANSWER, 1),
        ("decode, batch 32", "write", 32, PROMPT, ANSWER, 1),
        ("decode, batch 128", "write", 128, PROMPT, ANSWER, 1),
        ("training step with LoRA, 32 rows of 96", "learn", 32, LEARNT, ANSWER, 1),
        ("training step with LoRA, 32 rows of 160, 8 of each prompt", "learn", 32, SHARED, ANSWER, SAMPLES),
    ];
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(RUNS);
    // What cargo adds of its own begins with dashes.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    for (name, case, rows, tokens, written, samples) in cases.into_iter().filter(|(name, ..)| asked(name)) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round warms both sides up and isn't counted.
        for run in 0..=runs {
            let (seconds, count) = match case {
                "learn" => (learn(&policy, &mut random, vocab, (rows, tokens, samples))?, rows * tokens),
                _ => {
                    let asked = prompts(&mut random, vocab, rows, tokens);
                    write(&policy, &mut random, asked, written)?
                }
            };
            let count = if case == "read" { rows * tokens } else { count };
            ours.extend((run > 0).then_some(count as f64 / seconds));
            if let Some(peer) = &mut peer {
                let seconds = peer.ask(&format!("{case} {rows} {tokens} {written} {samples}"))?;
                let count = if case == "write" { rows * written } else { rows * tokens };
                theirs.extend((run > 0).then_some(count as f64 / seconds));
            }
        }
        let show = |runs: &Runs| format!("{:.0} tokens/s ({:.0} to {:.0})", runs.median(), runs.least(), runs.most());
        if theirs.is_empty() {
            println!("{name}: {}", show(&Runs::new(ours)));
        } else {
            // Of runs that followed one another, so that whatever else the machine does weighs on both.
            let ratios = Runs::new(pairs(&ours, &theirs));
            let (ours, theirs) = (Runs::new(ours), Runs::new(theirs));
            println!("{name}: {}", show(&ours));
            println!("    the peer: {}, ratio {:.2} ({:.2} to {:.2})", show(&theirs), ratios.median(), ratios.least(), ratios.most());
            let (ours, theirs, ratio) = (ours.median(), theirs.median(), ratios.median());
            println!("{}", serde_json::json!({ "bench": "model", "case": name, "ours": ours, "peer": theirs, "ratio": ratio }));
        }
    }
    println!("most memory: {:.0} MB with two copies of the model", memory());
    if let Some(peer) = &mut peer {
        println!("    the peer: {:.0} MB with one", peer.ask("memory 0 0 0 1")?);
    }
    Ok(())
}
