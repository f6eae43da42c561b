//! What it is worth that no token is computed twice: the same rows with what they share and, each marked as one of its
//! own, without it. GRPO's samples of a long prompt, and episodes told as one conversation; seconds of generation and
//! of the update, and how many tokens were computed for each one that there was. A new model of the default sizes, one
//! thread (`BENCH_THREADS` sets another number).
//!
//! `cargo bench --bench sharing`, or `cargo bench --bench sharing -- conversations` for the cases alone whose names
//! hold that. `FLOW_MODEL=FOLDER` measures a published model with an adapter in place of the new one, its base as
//! `BENCH_BASE` says (`int8`, `f32`). `BENCH_ALONE=1` leaves out the rows that share nothing, and the first round,
//! which warms up: what is computed for each token is the same in every round.

mod clock;

use clock::Clock;
use flow_core::seed::Random;
use flow_model::{Base, Example, LoadModel, LoraSettings, ModelSettings, NewModel, Request, Sampling, Tally, UpdateSettings};
use flow_policy::Policy;
use std::collections::BTreeMap;

/// Tokens that texts are made of here.
const VOCAB: usize = 250;
/// GRPO: tasks, samples of each, and for each case the tokens of a prompt and of an answer. The second and third have
/// the proportions of which others have published what sharing gains (16,000 and 1,000 tokens, 8,000 and 4,000).
const TASKS: usize = 4;
const SAMPLES: usize = 8;
const GRPO: [(usize, usize); 3] = [(1000, 32), (1024, 64), (1024, 512)];
/// Conversations: episodes, turns, tokens of an observation, tokens of an answer.
const EPISODES: [usize; 3] = [4, 16, 32];
const TURNS: usize = 30;
const OBSERVATION: usize = 32;
const ANSWER: usize = 8;
/// So hot that hardly any answer ends early.
const TEMPERATURE: f64 = 3.0;
/// Tokens of one pass of an update.
const PASS: usize = 4096;

type Failed = Box<dyn std::error::Error>;

/// Seconds and tokens of playing and of the update.
struct Measurement {
    played: f64,
    learnt: f64,
    generation: Tally,
    /// Of the update: computed, and how many there were.
    update: (usize, usize),
}

/// Some rows in the making, of a model whose weights change after each lot.
struct Play<'a> {
    policy: &'a Policy,
    random: Random,
    /// Whether prompts share what they begin with; if not, each is marked as one of its own.
    shared: bool,
    rows: Vec<Example>,
    seconds: f64,
    tokens: Tally,
}

impl Play<'_> {
    fn text(&mut self, tokens: usize) -> Vec<u32> {
        (0..tokens).map(|_| 2 + self.random.below(VOCAB) as u32).collect()
    }

    /// Answers `prompts`, and keeps the rows.
    fn answer(&mut self, prompts: &[Vec<u32>], tokens: usize) -> Result<Vec<Vec<u32>>, Failed> {
        let (shared, first) = (self.shared, self.rows.len());
        let marked = |(i, prompt): (usize, &Vec<u32>)| {
            let mut prompt = prompt.clone();
            if !shared {
                // A token of its own, as far as there are so many, and all that follows it is its own.
                (prompt[0], prompt[1]) = (2 + ((first + i) % VOCAB) as u32, 2 + ((first + i) / VOCAB) as u32);
            }
            prompt
        };
        let prompts: Vec<Vec<u32>> = prompts.iter().enumerate().map(marked).collect();
        let requests = prompts
            .iter()
            .map(|prompt| Request { prompt: prompt.clone(), seed: self.random.next(), choices: vec![], ..Request::default() })
            .collect();
        let sampling = Sampling { temperature: TEMPERATURE, max_tokens: tokens, ..Sampling::default() };
        let version = self.policy.versions("actor")?.last().copied().unwrap_or(0);
        let clock = Clock::start();
        let answers = self.policy.answer("actor", version, requests, sampling)?;
        self.seconds += clock.seconds();
        self.tokens.add(&answers.tokens);
        let mut responses = Vec::new();
        for (prompt, reply) in prompts.into_iter().zip(answers.replies) {
            let reply = reply.map_err(|fault| fault.to_string())?;
            responses.push(reply.tokens.clone());
            let advantage = if self.random.below(2) == 0 { 1.0 } else { -1.0 };
            let temperature = Some(TEMPERATURE as f32);
            self.rows.push(Example {
                prompt,
                response: reply.tokens,
                logprobs: reply.logprobs,
                advantage,
                temperature,
                ..Default::default()
            });
        }
        Ok(responses)
    }

    fn learn(self) -> Result<Measurement, Failed> {
        let settings = UpdateSettings { micro_tokens: Some(PASS), ..UpdateSettings::default() };
        let clock = Clock::start();
        let report = self.policy.update("actor", self.rows, &settings)?;
        Ok(Measurement {
            played: self.seconds,
            learnt: clock.seconds(),
            generation: self.tokens,
            update: (report.computed, report.distinct),
        })
    }
}

/// GRPO: every task's prompt is answered so many times.
fn samples(mut play: Play, prompt: usize, answer: usize) -> Result<Measurement, Failed> {
    let prompts: Vec<Vec<u32>> = (0..TASKS).map(|_| play.text(prompt)).collect();
    let prompts: Vec<Vec<u32>> = prompts.into_iter().flat_map(|prompt| vec![prompt; SAMPLES]).collect();
    play.answer(&prompts, answer)?;
    play.learn()
}

/// Conversations: a turn's prompt is the conversation so far and its new observation.
fn conversations(mut play: Play, episodes: usize) -> Result<Measurement, Failed> {
    let mut prompts: Vec<Vec<u32>> = vec![vec![]; episodes];
    for _ in 0..TURNS {
        for prompt in &mut prompts {
            prompt.extend(play.text(OBSERVATION));
        }
        let responses = play.answer(&prompts, ANSWER)?;
        prompts.iter_mut().zip(responses).for_each(|(prompt, response)| prompt.extend(response));
    }
    play.learn()
}

fn main() -> Result<(), Failed> {
    let set = |name: &str| std::env::var(name).ok();
    let model = match set("FLOW_MODEL") {
        Some(load) => {
            let base = match set("BENCH_BASE").as_deref() {
                Some("int8") => Base::Int8,
                Some("f32") => Base::F32,
                _ => Base::Own,
            };
            ModelSettings::Load(LoadModel { load, lora: Some(LoraSettings::default()), base, ..LoadModel::default() })
        }
        None => ModelSettings::New(NewModel { context: 2048, ..NewModel::default() }),
    };
    let threads = set("BENCH_THREADS").and_then(|n| n.parse().ok()).unwrap_or(1);
    let policy = Policy::start(&BTreeMap::from([("actor".into(), model)]), &[], 1, threads)?;
    println!("{} weights, {threads} thread(s)", policy.parameters("actor")?);
    let runs = set("BENCH_RUNS").and_then(|n| n.parse().ok()).unwrap_or(3);
    let alone = set("BENCH_ALONE").is_some();
    let each = |(computed, distinct): (usize, usize)| computed as f64 / distinct.max(1) as f64;
    let generation = |taken: &Measurement| each((taken.generation.computed, taken.generation.distinct()));
    type Case = Box<dyn Fn(Play) -> Result<Measurement, Failed>>;
    let mut cases: Vec<(String, Case)> = Vec::new();
    for (prompt, answer) in GRPO {
        let name = format!("{TASKS} tasks, {SAMPLES} samples of {answer} tokens behind a prompt of {prompt}");
        cases.push((name, Box::new(move |play| samples(play, prompt, answer))));
    }
    for episodes in EPISODES {
        let name = format!("{episodes} conversations of {TURNS} turns");
        cases.push((name, Box::new(move |play| conversations(play, episodes))));
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, case) in cases.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| name.contains(only))) {
        println!("{name}");
        // The first round warms up and isn't counted.
        for run in 0..=runs {
            let round = |shared| {
                let random = Random::new(run as u64);
                case(Play { policy: &policy, random, shared, rows: vec![], seconds: 0.0, tokens: Tally::default() })
            };
            if alone && run > 0 {
                let on = round(true)?;
                println!(
                    "    played in {:.2} s; computed for each token {:.3} of {}",
                    on.played,
                    generation(&on),
                    on.generation.distinct()
                );
                println!("    learnt in {:.2} s; computed for each token {:.3} of {}", on.learnt, each(on.update), on.update.1);
            }
            if alone {
                continue;
            }
            let (on, off) = (round(true)?, round(false)?);
            if run == 0 {
                continue;
            }
            println!(
                "    played in {:.2} s, without sharing {:.2}: {:.2} times; computed for each token {:.2}, without {:.2}",
                on.played,
                off.played,
                off.played / on.played,
                generation(&on),
                off.generation.computed as f64 / on.generation.distinct().max(1) as f64,
            );
            println!(
                "    learnt in {:.2} s, without sharing {:.2}: {:.2} times; computed for each token {:.2}, without {:.2}",
                on.learnt,
                off.learnt,
                off.learnt / on.learnt,
                each(on.update),
                off.update.0 as f64 / on.update.1.max(1) as f64,
            );
        }
    }
    Ok(())
}
