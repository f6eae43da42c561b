//! Plays episodes: all live ones in step, one batch of the policy a turn. An episode that ends leaves the batch.

use super::prompt::{self, Past, Prompt};
use crate::env::{Environment, Seen, Task};
use crate::policy::{Policy, Request, Sampling, Tokenizer, END};
use crate::row::{self, RowError};
use crate::seed;
use arrow::array::*;
use arrow::datatypes::{DataType, Field, Float32Type, UInt32Type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who chooses the actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// The model.
    #[default]
    Policy,
    /// The environment's own solver: demonstrations.
    Expert,
}

/// How a response becomes an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decode {
    /// The response is one of the admissible actions, and nothing else can be written.
    #[default]
    Constrained,
    /// Anything can be written; the action is read from its `<action>` tag.
    Free,
}

/// How episodes are played.
#[derive(Clone, Debug)]
pub struct Play {
    pub model: String,
    pub samples: u32,
    pub max_turns: u32,
    pub sampling: Sampling,
    pub actor: Actor,
    pub decode: Decode,
    pub prompt: Prompt,
    pub history: usize,
}

/// The columns of a played turn, in the table's order.
pub const COLUMNS: &[&str] = &[
    "iteration",
    "task",
    "sample",
    "attempt",
    "turn",
    "phase",
    "observation",
    "state",
    "prompt_tokens",
    "response_tokens",
    "choices",
    "logprobs",
    "response",
    "action",
    "valid",
    "mode",
    "reward",
    "done",
    "won",
    "score",
    "weights",
    "seed",
];

/// What a batch of episodes came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub episodes: usize,
    pub turns: usize,
    pub won: usize,
    pub score: f64,
    pub invalid: usize,
}

struct Episode {
    task: usize,
    sample: u32,
    env: Box<dyn Environment>,
    seen: Seen,
    past: Vec<Past>,
    score: f32,
    over: bool,
}

struct Turn {
    episode: usize,
    turn: u32,
    observation: String,
    state: u64,
    prompt: Vec<u32>,
    response_tokens: Vec<u32>,
    choices: Vec<u32>,
    logprobs: Vec<f32>,
    response: String,
    action: String,
    seed: u64,
    after: Seen,
    score: f32,
}

/// Plays `samples` episodes of each task with the weights `version`. Seeds follow from the names alone.
pub fn play(
    policy: &Policy,
    play: &Play,
    names: &[String],
    iteration: u64,
    version: u64,
    run_seed: u64,
) -> Result<(Vec<RecordBatch>, Tally), String> {
    let tokenizer = policy.tokenizer(&play.model).map_err(|e| e.to_string())?;
    let tasks: Vec<Task> = names.iter().map(|n| Task::parse(n)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let mut episodes = Vec::with_capacity(tasks.len() * play.samples as usize);
    for (index, task) in tasks.iter().enumerate() {
        for sample in 0..play.samples {
            let mut env = task.make().map_err(|e| format!("{}: {e}", names[index]))?;
            let seen = env.reset();
            episodes.push(Episode { task: index, sample, env, seen, past: vec![], score: 0.0, over: false });
        }
    }
    let mut turns: Vec<Turn> = Vec::new();
    let mut codes = Codes { tokenizer: &tokenizer, known: BTreeMap::new() };
    for turn in 0..play.max_turns {
        let live: Vec<usize> = (0..episodes.len()).filter(|e| !episodes[*e].over).collect();
        if live.is_empty() {
            break;
        }
        let mut requests = Vec::with_capacity(live.len());
        for &e in &live {
            let episode = &episodes[e];
            let admissible = episode.env.admissible();
            let from = episode.past.len().saturating_sub(play.history);
            let text = play.prompt.text(&tasks[episode.task].game, &episode.past[from..], &episode.seen.observation, &admissible);
            let name = seed::mix(seed::text(&names[episode.task]), (episode.sample as u64) << 32 | turn as u64);
            let choices = if play.decode == Decode::Constrained { admissible.iter().map(|a| codes.closed(a)).collect() } else { vec![] };
            requests.push(Request { prompt: tokenizer.encode(&text), seed: seed::mix(seed::mix(run_seed, iteration), name), choices });
        }
        let replies = match play.actor {
            Actor::Policy => {
                let replies = policy.generate(&play.model, version, requests.clone(), play.sampling.clone()).map_err(|e| e.to_string())?;
                replies.into_iter().map(|r| (tokenizer.decode(&r.tokens), r.tokens, r.logprobs)).collect::<Vec<_>>()
            }
            Actor::Expert => live.iter().map(|&e| advice(&mut episodes[e], play.decode, &mut codes)).collect(),
        };
        for ((&e, request), (response, tokens, logprobs)) in live.iter().zip(requests).zip(replies) {
            let episode = &mut episodes[e];
            let action = match play.decode {
                Decode::Constrained => response.clone(),
                Decode::Free => prompt::parse(&response).unwrap_or("").to_owned(),
            };
            let before = episode.seen.clone();
            let mut after = episode.env.step(&action);
            episode.score += after.reward;
            episode.over = after.done || turn + 1 == play.max_turns;
            after.done = episode.over;
            episode.past.push((before.observation.clone(), action.clone()));
            episode.seen = after.clone();
            turns.push(Turn {
                episode: e,
                turn,
                observation: before.observation,
                state: before.state,
                prompt: request.prompt,
                response_tokens: tokens,
                choices: request.choices.concat(),
                logprobs,
                response,
                action,
                seed: request.seed,
                after,
                score: episode.score,
            });
        }
    }
    let tally = Tally {
        episodes: episodes.len(),
        turns: turns.len(),
        won: turns.iter().filter(|t| t.after.won).count(),
        score: episodes.iter().map(|e| e.score as f64).sum(),
        invalid: turns.iter().filter(|t| !t.after.valid).count(),
    };
    let rows = table(&turns, &episodes, names, iteration, version).map_err(|e| e.to_string())?;
    Ok((rows, tally))
}

/// The expert's turn as if a policy had written it. An expert that knows no way on says nothing, which is invalid.
fn advice(episode: &mut Episode, decode: Decode, codes: &mut Codes) -> (String, Vec<u32>, Vec<f32>) {
    let action = episode.env.expert().unwrap_or_default();
    let response = if decode == Decode::Free { prompt::tagged(&action) } else { action };
    let tokens = codes.closed(&response);
    let logprobs = vec![0.0; tokens.len()];
    (response, tokens, logprobs)
}

/// Texts as tokens with the end token, each encoded once.
struct Codes<'a> {
    tokenizer: &'a Tokenizer,
    known: BTreeMap<String, Vec<u32>>,
}

impl Codes<'_> {
    fn closed(&mut self, text: &str) -> Vec<u32> {
        if let Some(code) = self.known.get(text) {
            return code.clone();
        }
        let mut code = self.tokenizer.encode(text);
        code.push(END);
        self.known.insert(text.into(), code.clone());
        code
    }
}

fn table(turns: &[Turn], episodes: &[Episode], names: &[String], iteration: u64, version: u64) -> Result<Vec<RecordBatch>, RowError> {
    if turns.is_empty() {
        return Ok(vec![]);
    }
    let n = turns.len();
    let text = |f: &dyn Fn(&Turn) -> String| Arc::new(StringArray::from_iter_values(turns.iter().map(f))) as ArrayRef;
    let u64s = |f: &dyn Fn(&Turn) -> u64| Arc::new(UInt64Array::from_iter_values(turns.iter().map(f))) as ArrayRef;
    let u32s = |f: &dyn Fn(&Turn) -> u32| Arc::new(UInt32Array::from_iter_values(turns.iter().map(f))) as ArrayRef;
    let f32s = |f: &dyn Fn(&Turn) -> f32| Arc::new(Float32Array::from_iter_values(turns.iter().map(f))) as ArrayRef;
    let bools = |f: &dyn Fn(&Turn) -> bool| Arc::new(BooleanArray::from_iter(turns.iter().map(|t| Some(f(t))))) as ArrayRef;
    let lists = |f: &dyn Fn(&Turn) -> &[u32]| {
        let mut lists = ListBuilder::new(PrimitiveBuilder::<UInt32Type>::new()).with_field(Field::new("item", DataType::UInt32, false));
        for turn in turns {
            lists.values().append_slice(f(turn));
            lists.append(true);
        }
        Arc::new(lists.finish()) as ArrayRef
    };
    let mut logprobs = ListBuilder::new(PrimitiveBuilder::<Float32Type>::new()).with_field(Field::new("item", DataType::Float32, false));
    for turn in turns {
        logprobs.values().append_slice(&turn.logprobs);
        logprobs.append(true);
    }
    let rows = row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![iteration; n]))),
        ("task", text(&|t| names[episodes[t.episode].task].clone())),
        ("sample", u32s(&|t| episodes[t.episode].sample)),
        ("attempt", u32s(&|_| 0)),
        ("turn", u32s(&|t| t.turn)),
        ("phase", text(&|_| "play".into())),
        ("observation", text(&|t| t.observation.clone())),
        ("state", u64s(&|t| t.state)),
        ("prompt_tokens", lists(&|t| &t.prompt)),
        ("response_tokens", lists(&|t| &t.response_tokens)),
        ("choices", lists(&|t| &t.choices)),
        ("logprobs", Arc::new(logprobs.finish())),
        ("response", text(&|t| t.response.clone())),
        ("action", text(&|t| t.action.clone())),
        ("valid", bools(&|t| t.after.valid)),
        ("mode", text(&|_| "plain".into())),
        ("reward", f32s(&|t| t.after.reward)),
        ("done", bools(&|t| t.after.done)),
        ("won", bools(&|t| t.after.won)),
        ("score", f32s(&|t| t.score)),
        ("weights", u64s(&|_| version)),
        ("seed", u64s(&|t| t.seed)),
    ])?;
    Ok(vec![rows])
}

impl Tally {
    /// Takes in what further episodes came to.
    pub fn add(&mut self, more: &Tally) {
        self.episodes += more.episodes;
        self.turns += more.turns;
        self.won += more.won;
        self.score += more.score;
        self.invalid += more.invalid;
    }
    /// The figures that progress and `metrics` show.
    pub fn figures(&self) -> [(&'static str, f64); 4] {
        let episodes = self.episodes.max(1) as f64;
        [
            ("success", self.won as f64 / episodes),
            ("return", self.score / episodes),
            ("turns", self.turns as f64),
            ("invalid", self.invalid as f64 / self.turns.max(1) as f64),
        ]
    }
}
