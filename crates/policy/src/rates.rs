//! How fast this CPU computes: products of 8 bits, and a model's tokens a second.

use crate::{Hardware, Policy};
use flow_checkpoint::Description;
use flow_core::seed::Random;
use flow_int8::products::dense::StridedRows;
use flow_int8::products::isa::Isa;
use flow_int8::products::matrix::Matrix;
use flow_int8::products::product;
use flow_int8::products::rounded::{round, Rounded};
use flow_model::{Base, Example, LoadModel, LoraSettings, ModelSettings, PolicyError, Request, Result, Sampling, UpdateSettings};
use std::path::Path;
use std::time::Instant;

/// Tokens of a prompt and of an answer, and rows of a step.
const PROMPT: usize = 96;
const ANSWER: usize = 8;
const ROWS: usize = 8;
/// So hot that hardly any answer ends early.
const TEMPERATURE: f64 = 3.0;

/// Work a second, of as many calls of `call` as take `seconds`; it gives how much it did.
fn rate<E>(seconds: f64, mut call: impl FnMut() -> Result<usize, E>) -> Result<f64, E> {
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed().as_secs_f64() < seconds {
        count += call()?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Billions of multiplications and additions a second in 8 bits, of 128 rows with a matrix that the caches hold, on one
/// thread.
pub fn operations() -> f64 {
    let (isa, rows, size) = (Isa::chosen(), 128, 512);
    let number = |i: usize| (i * 7919 % 509) as f32 - 254.0;
    let matrix = Matrix::from_fn(size, size, |output, input| number(output * size + input));
    let x: Vec<f32> = (0..rows * size).map(number).collect();
    let (mut rounded, mut y) = (Rounded::default(), vec![0.0; rows * matrix.stride()]);
    rounded.resize(isa, rows, size);
    let operations = rate(0.1, || {
        round(isa, StridedRows { numbers: &x, stride: size, count: rows }, &mut rounded);
        product(isa, &rounded, &matrix, &mut y);
        Ok::<_, std::convert::Infallible>(2 * rows * size * size)
    });
    operations.map_or(0.0, |operations| operations / 1e9)
}

/// Tokens a second of a model whose base is in 8 bits.
pub struct TokenRates {
    pub reading: f64,
    /// One answer at a time, and 32.
    pub writing: [f64; 2],
    /// With LoRA of all matrices, nothing shared.
    pub learning: f64,
}

/// The rates of the model at `path`, measured for `seconds` each after a first step of each kind that isn't counted.
pub fn tokens(path: &str, hardware: Hardware, seconds: f64) -> Result<TokenRates> {
    const NAME: &str = "actor";
    let Description { context, vocab, .. } = Description::read(Path::new(path))?;
    let prompt = PROMPT.min(context.saturating_sub(ANSWER)).max(2);
    let lora = Some(LoraSettings { targets: vec!["all-linear".into()], ..LoraSettings::default() });
    let load = LoadModel { load: path.into(), lora, base: Base::Int8, ..LoadModel::default() };
    let policy = Policy::start(&[(NAME.to_owned(), ModelSettings::Load(load))].into(), &[], 1, hardware)?;
    let mut random = Random::new(1);
    let mut drawn = |rows: usize, tokens: usize| -> Vec<Vec<u32>> {
        (0..rows).map(|_| (0..tokens).map(|_| random.below(vocab) as u32).collect()).collect()
    };
    let write = |prompts: Vec<Vec<u32>>, max_tokens: usize| {
        let requests = prompts.into_iter().enumerate().map(|(seed, prompt)| Request { prompt, seed: seed as u64, ..Request::default() });
        let version = policy.versions(NAME)?.last().copied().unwrap_or(0);
        let sampling = Sampling { temperature: TEMPERATURE, max_tokens, ..Sampling::default() };
        let replies = policy.generate(NAME, version, requests.collect(), sampling)?;
        Ok::<usize, PolicyError>(replies.iter().map(|reply| reply.tokens.len()).sum())
    };
    let mut read = || write(drawn(1, prompt), 1).map(|_| prompt);
    read()?;
    let reading = rate(seconds, read)?;
    let mut writing = [0.0; 2];
    for (rate_of, rows) in writing.iter_mut().zip([1, 32]) {
        *rate_of = rate(seconds, || write(drawn(rows, 1), ANSWER))?;
    }
    let mut learn = || {
        let prompts = drawn(ROWS, 1);
        let responses = drawn(ROWS, prompt - 1);
        let example = |(prompt, response): (Vec<u32>, Vec<u32>)| Example {
            prompt,
            logprobs: vec![-10.0; response.len()],
            response,
            advantage: 1.0,
            ..Example::default()
        };
        policy.update(NAME, prompts.into_iter().zip(responses).map(example).collect(), &UpdateSettings::default())?;
        Ok::<usize, PolicyError>(ROWS * prompt)
    };
    learn()?;
    let learning = rate(seconds, learn)?;
    Ok(TokenRates { reading, writing, learning })
}
