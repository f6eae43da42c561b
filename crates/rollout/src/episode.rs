//! One episode: its identity, its turns so far, and the seeds of its draws.

use super::action::{Invalid, Response};
use super::calls::Calls;
use super::turn::{Answerer, PromptMemory, Turn};
use flow_core::seed;
use flow_env::{Act, Cause, EpisodeFacts, EpisodeView, Fault};
use flow_model::Request;
use std::collections::BTreeMap;

/// What identifies an episode: the task, the attempt, the weights, and the notes on earlier attempts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpisodeStart {
    /// The task's name.
    pub task: String,
    /// Which of the task's trajectories this is, from 0.
    pub sample: u32,
    /// Which attempt at the task within the trajectory, from 0.
    pub attempt: u32,
    /// The notes on earlier attempts in the prompt; empty in the first.
    pub memory: String,
    /// The iteration that seeds the random numbers.
    pub iteration: u64,
    /// The version of the weights that act.
    pub version: u64,
}

impl EpisodeStart {
    /// The seed of a turn: from the run's seed and the turn's name. A first attempt's is that of a rollout without
    /// attempts.
    pub fn seed(&self, run: u64, turn: u32) -> u64 {
        let name = seed::mix(seed::text(&self.task), u64::from(self.sample) << 32 | u64::from(turn));
        self.seed_of(run, name)
    }

    /// The seed of a call: from the run's seed, the episode's name and the call's. So it is the same in whatever order
    /// calls come.
    pub fn seed_of_call(&self, run: u64, call: u64) -> u64 {
        let name = seed::mix(seed::text(&self.task), u64::from(self.sample) << 32);
        self.seed_of(run, seed::mix(name, call))
    }

    fn seed_of(&self, run: u64, name: u64) -> u64 {
        let name = if self.attempt == 0 { name } else { seed::mix(name, u64::from(self.attempt)) };
        seed::mix(seed::mix(run, self.iteration), name)
    }
}

/// A finished episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// Its index among the episodes begun since the sampler was cleared.
    pub number: usize,
    /// Its identity.
    pub start: EpisodeStart,
    /// What its environment says of it.
    pub facts: EpisodeFacts,
    /// Its turns of play; none if it was given up.
    pub turns: Vec<Turn>,
    /// The observation after the last turn.
    pub outcome: String,
}

impl Finished {
    /// Whether it was won.
    pub fn won(&self) -> bool {
        self.turns.last().is_some_and(|turn| turn.won)
    }
}

/// The action of a turn, before the environment has answered.
pub struct Move {
    /// The request to the policy.
    pub request: Request,
    /// The memory entries in the prompt, and the turns left out.
    pub prompt_memory: PromptMemory,
    /// The action that was parsed from the response; empty where there is none, which no environment takes for a valid
    /// one.
    pub action: String,
    /// Why the response has no action.
    pub unread: Option<Invalid>,
    /// Why the prompt doesn't go on from the tokens of the turn before, where a program calls.
    pub fork: String,
    /// As of [`Turn`].
    pub answered_by: Option<Answerer>,
    /// The texts of its other tagged parts.
    pub parts: Vec<String>,
    /// The response.
    pub response: Response,
}

impl Move {
    /// The message to the environment; `calls`: the answer to a program's call.
    pub fn act(&self, calls: bool) -> Act<'_> {
        if !calls {
            return Act::Action(&self.action);
        }
        let tokens = [self.request.prompt.len(), self.response.tokens.len()];
        Act::Answer { text: &self.action, cut: self.response.cut, tokens }
    }
}

/// Figures as a JSON object, in the order of their names; nothing of none.
fn figures(info: &BTreeMap<String, f64>) -> String {
    if info.is_empty() {
        return String::new();
    }
    serde_json::json!(info).to_string()
}

/// An episode in progress, or waiting to start.
#[derive(Default)]
pub struct Episode {
    /// Its identity.
    pub start: EpisodeStart,
    /// The environment's current view.
    pub view: Option<EpisodeView>,
    /// What its environment says of it.
    pub facts: EpisodeFacts,
    /// The turns so far.
    pub turns: Vec<Turn>,
    /// The sum of the rewards so far.
    pub score: f32,
    /// What a program said of its calls.
    calls: Calls,
    /// How many calls were refused since they were too long.
    pub refused: u32,
}

impl Episode {
    /// An episode that hasn't started.
    pub fn new(start: EpisodeStart) -> Episode {
        Episode { start, ..Episode::default() }
    }

    /// Restarts it with the environment's first view; without a view it waits for one. All turns so far are dropped.
    pub fn begin(&mut self, view: Option<EpisodeView>) {
        self.facts = view.as_ref().map(|view| view.extras.facts.clone()).unwrap_or_default();
        (self.view, self.turns, self.score, self.calls, self.refused) = (view, vec![], 0.0, Calls::default(), 0);
    }

    /// The index of the next turn.
    pub fn turn(&self) -> u32 {
        self.turns.len() as u32 // `max_turns` is a u32
    }

    /// Records a turn: prompt, response and the environment's answer. Where the episode is over with it, by itself or
    /// because this was the `last` turn allowed, returns the final observation. `parallel`: a program's calls may
    /// overlap.
    ///
    /// # Errors
    /// If a program calls once more after the last turn allowed, or rewards a call that it didn't make: no reward
    /// follows from a failure.
    pub fn record(&mut self, step: Move, view: EpisodeView, last: bool, parallel: bool) -> Result<Option<String>, Fault> {
        let Move { request, prompt_memory, action, unread, fork, answered_by, parts, response } = step;
        let Some(before) = self.view.take() else { return Ok(None) };
        let after = &view.step;
        // What a program's episode ends with is its last turn's, whichever that is.
        let ends = |call: u64| call != 0 && after.done;
        let (call, called, parent) = before.extras.call.map_or((0, String::new(), 0), |call| (call.id, call.model, call.on.unwrap_or(0)));
        self.turns.push(Turn {
            turn: self.turn(),
            observation: before.step.observation,
            state: before.step.state,
            prompt_tokens: request.prompt,
            prompt_memory,
            response,
            choices: request.choices.concat(),
            action,
            parts,
            // An answer that can't be read has no action, also where the environment takes an empty one.
            valid: after.valid && unread.is_none(),
            invalid: unread.or((!after.valid).then_some(Invalid::NotAdmissible)),
            reward: if ends(call) { 0.0 } else { after.reward },
            score: if ends(call) { self.score } else { view.extras.score.unwrap_or(self.score + after.reward) },
            info: if ends(call) { String::new() } else { figures(&view.extras.info) },
            seed: request.seed,
            call,
            called,
            answered_by,
            parent,
            fork,
            ..Turn::default()
        });
        self.shown(view, last, parallel)
    }

    /// Ends an episode whose next prompt is longer than the model can read, after its last turn; its final observation.
    /// None where there is no turn yet.
    pub fn outgrown(&mut self) -> Option<String> {
        let end = self.turns.last_mut()?;
        (end.done, end.truncated) = (true, "context");
        self.view.take().map(|view| view.step.observation)
    }

    /// What the environment shows now, after a turn or after a call that was refused; where the episode is over with
    /// it, the final observation.
    ///
    /// # Errors
    /// As of [`Episode::record`].
    pub fn shown(&mut self, view: EpisodeView, last: bool, parallel: bool) -> Result<Option<String>, Fault> {
        self.score += view.step.reward;
        self.calls.tell(&view.extras);
        let over = view.step.done;
        if !over && !last {
            self.view = Some(view);
            return Ok(None);
        }
        if view.extras.call.is_some() {
            return Err(Fault::new(Cause::Limit, format!("it asks for more than the {} answers of `max_turns`", self.turns.len())));
        }
        for reward in std::mem::take(&mut self.calls).settle(&mut self.turns, parallel)? {
            self.score += reward;
        }
        let Some(end) = self.turns.last_mut() else {
            return Err(Fault::new(Cause::Malformed, "its episode is over, and no call of it was answered"));
        };
        if end.call != 0 {
            end.reward += view.step.reward;
            (end.score, end.info) = (view.extras.score.unwrap_or(self.score), figures(&view.extras.info));
        }
        (end.done, end.won) = (true, view.step.won);
        end.truncated = match (over, view.extras.truncated) {
            (true, true) => "world",
            (false, _) => "max_turns",
            _ => "",
        };
        Ok(Some(view.step.observation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_env::TimeStep;

    /// An environment may take any text, an empty one too; an answer without its tag is invalid all the same.
    #[test]
    fn an_answer_that_cannot_be_read_is_invalid_in_every_environment() {
        let view = |observation: &str| EpisodeView {
            step: TimeStep { observation: observation.into(), state: 0, reward: 0.0, done: false, won: false, valid: true },
            actions: vec![],
            extras: Default::default(),
        };
        let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
        let mut episode = Episode::new(start);
        episode.begin(Some(view("first")));
        for unread in [Some(Invalid::CutOff), None] {
            let (response, request) = (Response::default(), Request { prompt: vec![], seed: 0, choices: vec![], ..Request::default() });
            let step = Move {
                request,
                prompt_memory: PromptMemory::default(),
                action: String::new(),
                unread,
                fork: String::new(),
                answered_by: None,
                parts: vec![],
                response,
            };
            episode.record(step, view("next"), false, false).unwrap();
            let turn = episode.turns.last().unwrap();
            assert_eq!((turn.valid, turn.invalid), (unread.is_none(), unread));
        }
    }
}
