//! What rounding a base to 8 bits costs: on text the loss and the divergence from f32, what thirty steps of adapters
//! learn on either, and what an adapter that was learnt on the rounded base says on the base as it was.
//!
//! `flow model fetch smollm2-135m-instruct; cargo bench --bench rounding -- docs/*.md`
//!
//! Rows are the text's tokens, 96 at a time, of which 32 drawn ones are held out; a step takes 16. `FLOW_MODEL` names
//! another model, `BENCH_THREADS` another number of threads than 2, `BENCH_STEPS` of steps than 30, and `BENCH_BASE`
//! (`f32`, `int8`) one of the two alone.

use flow_core::seed::Random;
use flow_model::{Base, Example, LoadModel, LoraSettings, ModelSettings, Objective, PolicyError, Request, Sampling, UpdateSettings};
use flow_policy::Policy;
use std::collections::BTreeMap;
use std::time::Instant;

/// Tokens of a row, rows that are held out, and rows of a step.
const TOKENS: usize = 96;
const HELD: usize = 32;
const STEP: usize = 16;
/// Answers of so many tokens whose chances under two models are compared.
const ANSWERS: usize = 64;
const ANSWER: usize = 48;

type Failed = Box<dyn std::error::Error>;

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A model under the name `actor`.
fn start(load: LoadModel) -> Result<Policy, PolicyError> {
    let models = BTreeMap::from([("actor".to_string(), ModelSettings::Load(load))]);
    Policy::start(&models, &[], 1, number("BENCH_THREADS", 2))
}

/// Each row read from its second token on.
fn examples(rows: &[Vec<u32>]) -> Vec<Example> {
    rows.iter().map(|row| Example { prompt: row[..1].to_vec(), response: row[1..].to_vec(), ..Default::default() }).collect()
}

/// The mean of what the rows' tokens lack of probability 1, in nats.
fn loss(policy: &Policy, rows: &[Vec<u32>]) -> Result<f64, PolicyError> {
    let all = policy.logprobs("actor", &examples(rows), None)?.concat();
    Ok(-all.iter().map(|&x| f64::from(x)).sum::<f64>() / all.len() as f64)
}

/// The divergence of `other` from `one`, in nats a token, over what `one` writes behind the beginnings of `rows`, with
/// its standard error; and the mean distance of log-probabilities. Of each token r - 1 - ln r for the ratio r of the
/// two chances, whose mean is the divergence.
fn divergence(one: &Policy, other: &Policy, rows: &[Vec<u32>]) -> Result<(f64, f64, f64), PolicyError> {
    let prompts = || rows.iter().cycle().take(ANSWERS).map(|row| row[..TOKENS / 2].to_vec());
    let requests =
        prompts().enumerate().map(|(seed, prompt)| Request { prompt, seed: seed as u64, choices: vec![], ..Request::default() }).collect();
    let version = one.versions("actor")?.last().copied().unwrap_or(0);
    let replies = one.generate("actor", version, requests, Sampling { max_tokens: ANSWER, ..Default::default() })?;
    let said: Vec<Example> =
        prompts().zip(replies).map(|(prompt, reply)| Example { prompt, response: reply.tokens, ..Default::default() }).collect();
    let (own, theirs) = (one.logprobs("actor", &said, None)?.concat(), other.logprobs("actor", &said, None)?.concat());
    let apart: Vec<f64> = own.iter().zip(&theirs).map(|(own, theirs)| f64::from(theirs - own)).collect();
    let count = apart.len() as f64;
    let terms: Vec<f64> = apart.iter().map(|d| d.exp() - 1.0 - d).collect();
    let mean = terms.iter().sum::<f64>() / count;
    let variance = terms.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Ok((mean, (variance / count).sqrt(), apart.iter().map(|d| d.abs()).sum::<f64>() / count))
}

fn main() -> Result<(), Failed> {
    let load = std::env::var("FLOW_MODEL").unwrap_or_else(|_| "models/smollm2-135m-instruct".into());
    let files: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let text = files.iter().map(std::fs::read_to_string).collect::<Result<String, _>>()?;
    let lora = LoraSettings { targets: vec!["all-linear".into()], ..Default::default() };
    let of = |base| LoadModel { load: load.clone(), lora: Some(lora.clone()), base, ..LoadModel::default() };
    let plain = start(of(Base::Own))?;
    let tokens = plain.tokenizer("actor")?.encode(&text);
    let mut rows: Vec<Vec<u32>> = tokens.chunks_exact(TOKENS).map(<[u32]>::to_vec).collect();
    if rows.len() < 2 * HELD {
        return Err(format!("{} rows of text are too few: name more files", rows.len()).into());
    }
    let mut random = Random::new(1);
    (1..rows.len()).rev().for_each(|i| rows.swap(i, random.below(i + 1)));
    let (held, learnt) = rows.split_at(HELD);
    println!("{load}: {} rows of {TOKENS} tokens, {HELD} of them held out", rows.len());

    let steps: usize = number("BENCH_STEPS", 30);
    let settings = UpdateSettings { objective: Objective::Sft, lr: 1e-3, micro_batch: STEP, ..Default::default() };
    let folder = std::env::temp_dir().join(format!("flow-rounding-{}", std::process::id()));
    let asked = std::env::var("BENCH_BASE").unwrap_or_default();
    let bases = [("f32", Base::Own), ("int8", Base::Int8)].into_iter().filter(|(name, _)| asked.is_empty() || asked == *name);
    for (_, base) in bases {
        let policy = start(of(base))?;
        let before = loss(&policy, held)?;
        println!("{base:?}: held-out loss {before:.4}, perplexity {:.2}", before.exp());
        if base != Base::Own {
            let (mean, error, apart) = divergence(&plain, &policy, held)?;
            println!("    divergence from f32 {mean:.4} ({error:.4}) nats a token, log-probabilities {apart:.3} apart");
        }
        let began = Instant::now();
        for step in 0..steps {
            let rows: Vec<Vec<u32>> = (0..STEP).map(|i| learnt[(step * STEP + i) % learnt.len()].clone()).collect();
            policy.update("actor", examples(&rows), &settings)?;
            if (step + 1) % 10 == 0 {
                println!("    after {} steps: held-out loss {:.4}, {:.0} s", step + 1, loss(&policy, held)?, began.elapsed().as_secs_f64());
            }
        }
        if base == Base::Int8 {
            policy.save("actor", &folder)?;
            let adapter = Some(folder.display().to_string());
            let beside = start(LoadModel { lora: None, adapter, ..of(Base::Own) })?;
            let merged = start(LoadModel { load: folder.display().to_string(), lora: None, ..of(Base::Own) })?;
            for (name, other) in [("beside", &beside), ("merged into", &merged)] {
                let (mean, error, apart) = divergence(&policy, other, held)?;
                let loss = loss(other, held)?;
                println!(
                    "    that adapter {name} the base in f32: held-out loss {loss:.4}, divergence {mean:.4} ({error:.4}), {apart:.3} apart"
                );
            }
            std::fs::remove_dir_all(&folder)?;
        }
    }
    Ok(())
}
