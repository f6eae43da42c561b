//! Plays episodes: all live ones in step, one batch of the policy a turn. An episode that ends leaves the batch; one that
//! fails is started again beside the others or given up, and leaves no turn behind that isn't of a whole episode.

use super::prompt::{self, Past, Prompt};
use super::tries::{GivenUp, Patience, Tries};
use super::turns::{table, Played, Turn};
use crate::dataflow::{Figure, Lost};
use crate::env::{Cause, Fault, Task, View, Worlds};
use crate::policy::{Policy, Request, Sampling, Tokenizer, END};
use crate::seed;
use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    pub patience: Patience,
}

/// What a batch of episodes came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All that were to be played, with those that were given up.
    pub episodes: usize,
    pub failed: usize,
    /// Tries that failed and were followed by another.
    pub retried: usize,
    pub turns: usize,
    pub won: usize,
    pub score: f64,
    pub invalid: usize,
}

/// The rows of the whole episodes, the figures, and the episodes that were given up.
#[derive(Default)]
pub struct Outcome {
    pub rows: Vec<RecordBatch>,
    pub tally: Tally,
    pub lost: Vec<Lost>,
}

impl Outcome {
    /// Takes in further episodes.
    pub fn add(&mut self, more: Outcome) {
        self.rows.extend(more.rows);
        self.tally.add(&more.tally);
        self.lost.extend(more.lost);
    }
}

struct Episode {
    task: usize,
    sample: u32,
    /// What is seen while it is being played.
    view: Option<View>,
    past: Vec<Past>,
    turns: Vec<Turn>,
    score: f32,
}

impl Episode {
    fn begin(&mut self, view: Option<View>) {
        *self = Episode { task: self.task, sample: self.sample, view, past: vec![], turns: vec![], score: 0.0 };
    }
}

/// What the player of a turn said: the text, its tokens, and their log-probabilities.
type Said = (String, Vec<u32>, Vec<f32>);

/// Plays `samples` episodes of each task with the weights `version`. Seeds follow from the names alone.
pub fn play(
    policy: &Policy,
    play: &Play,
    worlds: &mut Worlds,
    names: &[String],
    iteration: u64,
    version: u64,
    run_seed: u64,
) -> Result<Outcome, String> {
    let tokenizer = policy.tokenizer(&play.model).map_err(|e| e.to_string())?;
    let tasks: Vec<Task> = names.iter().map(|n| Task::parse(n)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    worlds.clear();
    let each = (0..tasks.len()).flat_map(|task| (0..play.samples).map(move |sample| (task, sample)));
    let mut episodes: Vec<Episode> =
        each.map(|(task, sample)| Episode { task, sample, view: None, past: vec![], turns: vec![], score: 0.0 }).collect();
    let mut tries = Tries::new(play.patience, episodes.len());
    let mut codes = Codes { tokenizer: &tokenizer, known: BTreeMap::new() };
    let mut live: Vec<usize> = Vec::new();
    loop {
        let starts: Vec<(usize, &Task)> = tries.start(live.is_empty()).into_iter().map(|e| (e, &tasks[episodes[e].task])).collect();
        if live.is_empty() && starts.is_empty() {
            break;
        }
        for ((e, _), view) in starts.iter().zip(worlds.reset(&starts)?) {
            match view.and_then(|view| playable(view, play)) {
                Ok(view) => episodes[*e].begin(Some(view)),
                Err(fault) => tries.failed(*e, 0, fault),
            }
        }
        live = (0..episodes.len()).filter(|e| episodes[*e].view.is_some()).collect();
        let mut requests = Vec::with_capacity(live.len());
        for &e in &live {
            let episode = &episodes[e];
            let Some(view) = &episode.view else { continue };
            let from = episode.past.len().saturating_sub(play.history);
            let rules = if play.prompt == Prompt::Full { worlds.rules(&tasks[episode.task].game)? } else { String::new() };
            let text = play.prompt.text(&rules, &episode.past[from..], &view.seen.observation, &view.actions);
            let name = seed::mix(seed::text(&names[episode.task]), (episode.sample as u64) << 32 | episode.turns.len() as u64);
            let choices = if play.decode == Decode::Constrained { view.actions.iter().map(|a| codes.closed(a)).collect() } else { vec![] };
            requests.push(Request { prompt: tokenizer.encode(&text), seed: seed::mix(seed::mix(run_seed, iteration), name), choices });
        }
        let said: Vec<Result<Said, Fault>> = match play.actor {
            _ if live.is_empty() => vec![],
            Actor::Policy => {
                let replies = policy.generate(&play.model, version, requests.clone(), play.sampling.clone()).map_err(|e| e.to_string())?;
                replies.into_iter().map(|r| Ok((tokenizer.decode(&r.tokens), r.tokens, r.logprobs))).collect()
            }
            Actor::Expert => worlds.expert(&live)?.into_iter().map(|a| a.map(|a| advice(a, play.decode, &mut codes))).collect(),
        };
        let mut moves = Vec::with_capacity(live.len());
        for ((&e, request), said) in live.iter().zip(requests).zip(said) {
            match said {
                Ok(said) => moves.push((e, request, action(&said.0, play.decode), said)),
                Err(fault) => fail(&mut episodes[e], e, fault, &mut tries),
            }
        }
        let actions: Vec<(usize, &str)> = moves.iter().map(|m| (m.0, m.2.as_str())).collect();
        let views = worlds.step(&actions)?;
        for ((e, request, action, said), view) in moves.into_iter().zip(views) {
            let episode = &mut episodes[e];
            let last = episode.turns.len() + 1 == play.max_turns as usize;
            match view.and_then(|view| if last { Ok(view) } else { playable(view, play) }) {
                Ok(view) => episode.took(request, action, said, view, last),
                Err(fault) => fail(episode, e, fault, &mut tries),
            }
        }
        live.retain(|e| episodes[*e].view.is_some());
        if tries.too_many() {
            return Err(too_many(play, &lost(&tries.given_up, &episodes, names), episodes.len()));
        }
    }
    let whole: Vec<Played> = episodes.iter().map(|e| Played { task: &names[e.task], sample: e.sample, turns: &e.turns }).collect();
    let turns = || episodes.iter().flat_map(|e| &e.turns);
    let tally = Tally {
        episodes: episodes.len(),
        failed: tries.given_up.len(),
        retried: tries.retried,
        turns: turns().count(),
        won: turns().filter(|t| t.after.won).count(),
        score: episodes.iter().map(|e| e.score as f64).sum(),
        invalid: turns().filter(|t| !t.after.valid).count(),
    };
    let rows = table(&whole, iteration, version).map_err(|e| e.to_string())?;
    let lost = lost(&tries.given_up, &episodes, names);
    Ok(Outcome { rows, tally, lost })
}

impl Episode {
    /// Takes in a turn and what came of it.
    fn took(&mut self, request: Request, action: String, (response, response_tokens, logprobs): Said, view: View, last: bool) {
        let Some(before) = self.view.take() else { return };
        let mut after = view.seen.clone();
        after.done |= last;
        self.score += after.reward;
        self.past.push((before.seen.observation.clone(), action.clone()));
        if !after.done {
            self.view = Some(view);
        }
        self.turns.push(Turn {
            turn: self.turns.len() as u32,
            observation: before.seen.observation,
            state: before.seen.state,
            prompt: request.prompt,
            response_tokens,
            choices: request.choices.concat(),
            logprobs,
            response,
            action,
            seed: request.seed,
            after,
            score: self.score,
        });
    }
}

/// A view that a turn can follow on, if the episode isn't over.
fn playable(view: View, play: &Play) -> Result<View, Fault> {
    if play.decode == Decode::Constrained && !view.seen.done && view.actions.is_empty() {
        return Err(Fault::new(Cause::Malformed, "it names no admissible action though the episode isn't over; `decode: free` needs none"));
    }
    Ok(view)
}

fn fail(episode: &mut Episode, number: usize, fault: Fault, tries: &mut Tries) {
    tries.failed(number, episode.turns.len() as u32, fault);
    episode.begin(None);
}

/// The episodes that were given up, as the table `errors` has them, in the order of their names.
fn lost(given_up: &[GivenUp], episodes: &[Episode], names: &[String]) -> Vec<Lost> {
    let one = |g: &GivenUp| Lost {
        task: names[episodes[g.episode].task].clone(),
        sample: episodes[g.episode].sample,
        attempt: 0,
        turn: g.turn,
        phase: "play",
        node: String::new(),
        cause: g.fault.cause.name(),
        error: g.fault.text.clone(),
        tries: g.tries,
    };
    let mut lost: Vec<Lost> = given_up.iter().map(one).collect();
    lost.sort();
    lost
}

/// Why a run stops: how many failed, how many may, and the first of them.
fn too_many(play: &Play, lost: &[Lost], episodes: usize) -> String {
    let Patience { tries, max_failed, .. } = play.patience;
    let first = lost.first().map(|l| format!("{}, sample {}, turn {} ({}): {}", l.task, l.sample, l.turn, l.cause, l.error));
    let (verb, which) = if lost.len() == 1 { ("has", "it is") } else { ("have", "the first is") };
    format!(
        "{} of {episodes} episodes {verb} failed after {tries} tries, more than `max_failed: {max_failed}` allows; {which} {}",
        lost.len(),
        first.unwrap_or_default()
    )
}

fn action(response: &str, decode: Decode) -> String {
    match decode {
        Decode::Constrained => response.to_owned(),
        Decode::Free => prompt::parse(response).unwrap_or("").to_owned(),
    }
}

/// The expert's turn as if a policy had written it. An expert that knows no way on says nothing, which is invalid.
fn advice(action: Option<String>, decode: Decode, codes: &mut Codes) -> Said {
    let action = action.unwrap_or_default();
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

impl Tally {
    /// Takes in what further episodes came to.
    fn add(&mut self, more: &Tally) {
        self.episodes += more.episodes;
        self.failed += more.failed;
        self.retried += more.retried;
        self.turns += more.turns;
        self.won += more.won;
        self.score += more.score;
        self.invalid += more.invalid;
    }

    /// The figures that progress and `metrics` show. An episode that failed is not won, and has no return.
    pub fn figures(&self) -> [(&'static str, Figure); 6] {
        [
            ("success", Figure::share(self.won as f64, self.episodes)),
            ("return", Figure::share(self.score, self.episodes - self.failed)),
            ("turns", Figure::Sum(self.turns as f64)),
            ("invalid", Figure::share(self.invalid as f64, self.turns)),
            ("failed", Figure::Sum(self.failed as f64)),
            ("retried", Figure::Sum(self.retried as f64)),
        ]
    }
}
