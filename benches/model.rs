//! A published model against `transformers` and PEFT reading the same file: tokens a second of prefill, of decoding at
//! several batch sizes and of a training step with LoRA, and the most memory that each side took. Two threads each
//! (`BENCH_THREADS` sets another number).
//!
//! `flow model fetch smollm2-135m-instruct; make .venv-parity/made-from; BENCH_PYTHON=.venv-parity/bin/python cargo bench --bench model`
//!
//! `cargo bench --bench model -- decode` measures the cases alone whose names hold that. On a machine that others use
//! as well, one thread each and `BENCH_CLOCK=cpu`, the seconds of the CPU in place of the clock's, say most.
//! `BENCH_DTYPE=bf16` computes both sides in bf16, `BENCH_BASE=int8` keeps the base of our side in 8 bits, `f32`
//! computes it row by row: then what writes has an adapter, too. `BENCH_ACT=int8` or `f32` has what writes act row by
//! row, of a model that is trained whole; and `BENCH_SCALE=gpu` measures sizes that keep a GPU busy (benches/gpu.py
//! does that for models of three sizes). `BENCH_PEER=llama_peer.py` measures against llama.cpp, in the cases that don't
//! learn.
//!
//! Long rows are measured where they are named, one a process, because the memory that is told is the most that the
//! process has had: `cargo bench --bench model -- 'one row of 1031'`, `'one row of 2031'`, `'one row of 4031'`,
//! `'one row of 8000'`, `'128 samples of one prompt'`. `BENCH_ALONE=1` leaves the peer out.

mod clock;
mod peer;

use clock::Clock;
use flow_core::seed::Random;
use flow_model::{Act, Base, Dtype, Example, LoadModel, LoraSettings, ModelSettings, Request, Sampling, UpdateSettings};
use flow_policy::Policy;
use peer::{Peer, Runs, RUNS};
use std::collections::BTreeMap;

/// Tokens of a prompt that is only read, of one that is answered, and of an answer.
const READ: usize = 256;
const PROMPT: usize = 64;
const ANSWER: usize = 32;
/// How many rows of one task share their prompt.
const SAMPLES: usize = 8;
/// Rows that are in memory at a time when a model learns.
const MICRO_BATCH: usize = 16;

/// Sizes that keep a CPU, or a GPU, busy.
struct Scale {
    /// How many answers are written at a time.
    batches: &'static [usize],
    /// Rows of a training step, and tokens of each, where no two share a prompt and where eight do.
    learnt: [(usize, usize); 2],
}

const CPU: Scale = Scale { batches: &[1, 8, 32, 128], learnt: [(32, 96), (32, 160)] };
const GPU: Scale = Scale { batches: &[1, 16, 64, 256], learnt: [(32, 1024), (64, 1024)] };
/// So hot that hardly any answer ends early.
const TEMPERATURE: f64 = 3.0;

type Failed = Box<dyn std::error::Error>;

fn prompts(random: &mut Random, vocab: usize, rows: usize, tokens: usize) -> Vec<Vec<u32>> {
    (0..rows).map(|_| (0..tokens).map(|_| (100 + random.below(vocab - 100)) as u32).collect()).collect()
}

/// Seconds to write `tokens` tokens behind each of `prompts`, and the tokens that were written.
fn write(policy: &Policy, model: &str, random: &mut Random, prompts: Vec<Vec<u32>>, tokens: usize) -> Result<(f64, usize), Failed> {
    let requests =
        prompts.into_iter().map(|prompt| Request { prompt, seed: random.next(), choices: vec![], ..Request::default() }).collect();
    let sampling = Sampling { temperature: TEMPERATURE, max_tokens: tokens, ..Sampling::default() };
    let start = Clock::start();
    let replies = policy.generate(model, 0, requests, sampling)?;
    Ok((start.seconds(), replies.iter().map(|reply| reply.tokens.len()).sum()))
}

/// Seconds of one update of the adapters from `rows` rows of `tokens` tokens, of which `samples` in a row share their
/// prompt.
fn learn(policy: &Policy, random: &mut Random, vocab: usize, (rows, tokens, samples): (usize, usize, usize)) -> Result<f64, Failed> {
    let row = |prompt: Vec<u32>, response: Vec<u32>| {
        let logprobs = vec![-10.0; response.len()];
        Example { prompt, response, logprobs, advantage: 1.0, ..Default::default() }
    };
    let (read, responses) = (prompts(random, vocab, rows / samples, tokens - ANSWER), prompts(random, vocab, rows, ANSWER));
    let examples = responses.into_iter().enumerate().map(|(i, response)| row(read[i / samples].clone(), response)).collect();
    let settings = UpdateSettings { micro_batch: MICRO_BATCH, ..UpdateSettings::default() };
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

/// A case: its name, what the peer calls it, rows, tokens of a prompt (of a row that is learnt from), tokens that are
/// written, rows of one prompt.
type Case = (String, &'static str, usize, usize, usize, usize);

fn cases(scale: &Scale) -> Vec<Case> {
    let [(rows, apart), (shared, together)] = scale.learnt;
    let mut cases = vec![("prefill, 8 prompts of 256".to_string(), "read", 8, READ, 1, 1)];
    cases.extend(scale.batches.iter().map(|&batch| (format!("decode, batch {batch}"), "write", batch, PROMPT, ANSWER, 1)));
    cases.push((format!("training step with LoRA, {rows} rows of {apart}"), "learn", rows, apart, ANSWER, 1));
    let name = format!("training step with LoRA, {shared} rows of {together}, {SAMPLES} of each prompt");
    cases.push((name, "learn", shared, together, ANSWER, SAMPLES));
    cases
}

/// What is measured only where it is named: rows so long that their memory is what matters.
fn long_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [1031, 2031, 4031, 8000]
        .into_iter()
        .map(|tokens| (format!("learning one row of {tokens}"), "learn", 1, tokens, ANSWER, 1))
        .collect();
    cases.push(("128 samples of one prompt of 4000".into(), "write", 128, 4000, ANSWER, 128));
    cases
}

fn main() -> Result<(), Failed> {
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    let scale = if set("BENCH_SCALE") == "gpu" { GPU } else { CPU };
    // What cargo adds of its own begins with dashes.
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let named = |name: &str| filters.iter().any(|part| name.contains(part.as_str()));
    let mut cases: Vec<Case> = cases(&scale).into_iter().filter(|(name, ..)| filters.is_empty() || named(name)).collect();
    cases.extend(long_cases().into_iter().filter(|(name, ..)| named(name)));
    let path = std::env::var("FLOW_MODEL").unwrap_or_else(|_| "models/smollm2-135m-instruct".into());
    let dtype = if set("BENCH_DTYPE") == "bf16" { Dtype::Bf16 } else { Dtype::F32 };
    let base = match set("BENCH_BASE").as_str() {
        "int8" => Base::Int8,
        "f32" => Base::F32,
        _ => Base::Own,
    };
    let act = match set("BENCH_ACT").as_str() {
        "int8" => Act::Int8,
        "f32" => Act::F32,
        _ => Act::Own,
    };
    let load = |lora: Option<LoraSettings>| {
        let act = if lora.is_none() { act } else { Act::Own };
        ModelSettings::Load(LoadModel { load: path.clone(), lora, dtype, base, act, ..LoadModel::default() })
    };
    let packed = base != Base::Own;
    // A copy of the model for those cases alone that need it.
    let needed = |adapted: bool| cases.iter().any(|(_, case, ..)| (*case == "learn" || packed) == adapted);
    let copies = [("plain", needed(false), None), ("adapted", needed(true), Some(LoraSettings::default()))];
    let copies = copies.into_iter().filter(|(_, needed, _)| *needed).map(|(name, _, lora)| (name.to_string(), load(lora)));
    let models: BTreeMap<String, ModelSettings> = copies.collect();
    let Some(any) = models.keys().next() else { return Err("no case has such a name".into()) };
    let threads = set("BENCH_THREADS").parse().unwrap_or(2);
    // Packed there is one model: an adapter that hasn't learnt yet adds nothing to what it writes, but its time.
    let writes = if packed { "adapted" } else { "plain" };
    let policy = Policy::start(&models, &[], 1, threads)?;
    let script = std::env::var("BENCH_PEER").unwrap_or_else(|_| "model_peer.py".into());
    let mut peer = if set("BENCH_ALONE").is_empty() { Peer::start(&script)? } else { None };
    println!("{path}, {threads} thread(s) each; the peer: {}", peer.as_ref().map_or("none", |peer| &peer.hello));
    let vocab = policy.tokenizer(any)?.vocab_size();
    let mut random = Random::new(1);
    let runs = set("BENCH_RUNS").parse().unwrap_or(RUNS);
    for (name, case, rows, tokens, written, samples) in cases {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round warms both sides up and isn't counted.
        for run in 0..=runs {
            let (seconds, count) = match case {
                "learn" => (learn(&policy, &mut random, vocab, (rows, tokens, samples))?, rows * tokens),
                _ => {
                    let batch = prompts(&mut random, vocab, rows / samples, tokens);
                    let batch = (0..rows).map(|i| batch[i / samples].clone()).collect();
                    write(&policy, writes, &mut random, batch, written)?
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
    println!("most memory: {:.0} MB with {} of the model", memory(), if models.len() == 1 { "one copy" } else { "two copies" });
    if let Some(peer) = &mut peer {
        println!("    the peer: {:.0} MB with one", peer.ask("memory 0 0 0 1")?);
    }
    Ok(())
}
