//! One episode: which it is, what has come of it so far, and what decides its draws.

use super::action::Response;
use crate::env::View;
use crate::policy::Request;
use crate::seed;
use std::collections::BTreeMap;

/// Which episode is to be played, with which weights, and what the prompt tells of earlier attempts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The task's name.
    pub task: String,
    /// Which of the task's trajectories this is, from 0.
    pub sample: u32,
    /// Which attempt at the task within the trajectory, from 0.
    pub attempt: u32,
    /// What the prompt tells of earlier attempts; empty in the first.
    pub memory: String,
    /// The iteration whose random numbers are drawn.
    pub iteration: u64,
    /// The version of the weights that act.
    pub version: u64,
}

impl Start {
    /// The seed of a turn: from the run's seed and the turn's name. A first attempt's is that of a rollout without attempts.
    pub fn seed(&self, run: u64, turn: u32) -> u64 {
        let name = seed::mix(seed::text(&self.task), u64::from(self.sample) << 32 | u64::from(turn));
        let name = if self.attempt == 0 { name } else { seed::mix(name, u64::from(self.attempt)) };
        seed::mix(seed::mix(run, self.iteration), name)
    }
}

/// What a call of the policy is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A turn of play.
    #[default]
    Play,
    /// What is made of an episode that is over.
    Reflect,
}

impl Phase {
    /// As the column `phase` has it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Play => "play",
            Phase::Reflect => "reflect",
        }
    }
}

/// What stands in a prompt from a memory, and what it had to leave out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Whether a memory was asked.
    pub asked: bool,
    /// The entries, by id.
    pub retrieved: Vec<u64>,
    /// The prompt without them; empty where there are none.
    pub bare: Vec<u32>,
    /// How many of the last turns it leaves out, so as not to be too long.
    pub left_out: u32,
    /// Its last message, where it is one of a conversation.
    pub message: Option<Box<Message>>,
}

/// A message of a conversation, and what is needed to tell the conversation anew under another system message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// The turn with which the conversation begins.
    pub since: usize,
    /// What the message says.
    pub text: String,
    /// The same without what came from a memory.
    pub bare: String,
    /// The entries that stand in this message and in those above it.
    pub entries: Vec<u64>,
}

/// One call of the policy in an episode, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Its index in the episode, from 0; a reflection counts on from the last turn of play.
    pub turn: u32,
    /// What the policy was called for.
    pub phase: Phase,
    /// What was seen before it.
    pub observation: String,
    /// Hash of the environment's canonical state before it.
    pub state: u64,
    /// What the policy read.
    pub prompt_tokens: Vec<u32>,
    /// What of it came from a memory, and what it left out.
    pub given: Given,
    /// What was said: text, tokens and their log-probabilities.
    pub response: Response,
    /// The tokens of the responses that were allowed, each closed by the end token, one after another; empty where all were.
    pub choices: Vec<u32>,
    /// What the response was taken for.
    pub action: String,
    /// The texts of its other tagged parts, in the order of the agent's answer.
    pub parts: Vec<String>,
    /// Whether the action could be carried out.
    pub valid: bool,
    /// What the action earned.
    pub reward: f32,
    /// Whether the episode ended with it, be it by the turn limit.
    pub done: bool,
    /// Whether it ended well.
    pub won: bool,
    /// Where the episode stands on the world's own scale; the sum of its rewards so far where the world has none.
    pub score: f32,
    /// The small figures that the world gave with what it led to, as a JSON object; empty where it gave none.
    pub info: String,
    /// What the draw of the response followed from.
    pub seed: u64,
}

/// An episode that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Its index among those that were begun since the sampler was cleared.
    pub number: usize,
    /// Which it is.
    pub start: Start,
    /// The task's own text, where the observations don't say it; else empty.
    pub instruction: String,
    /// The kind of task, as the world names it; else empty.
    pub kind: String,
    /// Its turns of play; none if it was given up.
    pub turns: Vec<Turn>,
    /// What was seen after the last turn.
    pub outcome: String,
}

impl Finished {
    /// Whether it was won.
    pub fn won(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.won)
    }
}

/// What was done in a turn.
pub struct Move {
    /// What the policy was asked.
    pub request: Request,
    /// What of that came from a memory, and what was left out.
    pub given: Given,
    /// What the response was taken for.
    pub action: String,
    /// The texts of its other tagged parts.
    pub parts: Vec<String>,
    /// What was said.
    pub response: Response,
}

/// Figures as a JSON object, in the order of their names; nothing of none.
fn figures(info: &BTreeMap<String, f64>) -> String {
    if info.is_empty() {
        return String::new();
    }
    serde_json::json!(info).to_string()
}

/// An episode that is being played, or waits to be.
pub struct Episode {
    /// Which it is.
    pub start: Start,
    /// What is seen while it is being played.
    pub view: Option<View>,
    /// The task's own text, where the observations don't say it; else empty.
    pub instruction: String,
    /// The kind of task, as the world names it; else empty.
    pub kind: String,
    /// The turns so far.
    pub turns: Vec<Turn>,
    /// The sum of the rewards so far.
    pub score: f32,
}

impl Episode {
    /// An episode that waits.
    pub fn new(start: Start) -> Episode {
        Episode { start, view: None, instruction: String::new(), kind: String::new(), turns: vec![], score: 0.0 }
    }

    /// Starts it over with the world's first view; without one it waits for that. All turns so far are dropped.
    pub fn begin(&mut self, view: Option<View>) {
        let first = view.as_ref().map(|view| &view.extras);
        self.instruction = first.and_then(|first| first.instruction.clone()).unwrap_or_default();
        self.kind = first.and_then(|first| first.kind.clone()).unwrap_or_default();
        (self.view, self.turns, self.score) = (view, vec![], 0.0);
    }

    /// The index of the turn to come.
    pub fn turn(&self) -> u32 {
        self.turns.len() as u32 // `max_turns` is a u32
    }

    /// Records a turn: what was asked, what was said and what the world showed then. Where the episode is over with it, by itself or because
    /// this was the `last` turn allowed, returns the final observation.
    pub fn took(&mut self, made: Move, view: View, last: bool) -> Option<String> {
        let Move { request, given, action, parts, response } = made;
        let before = self.view.take()?;
        let after = &view.seen;
        let done = after.done || last;
        self.score += after.reward;
        self.turns.push(Turn {
            turn: self.turn(),
            phase: Phase::Play,
            observation: before.seen.observation,
            state: before.seen.state,
            prompt_tokens: request.prompt,
            given,
            response,
            choices: request.choices.concat(),
            action,
            parts,
            valid: after.valid,
            reward: after.reward,
            done,
            won: after.won,
            score: view.extras.score.unwrap_or(self.score),
            info: figures(&view.extras.info),
            seed: request.seed,
        });
        if done {
            return Some(view.seen.observation);
        }
        self.view = Some(view);
        None
    }
}
