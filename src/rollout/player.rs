//! Who answers in live episodes: the policy, or the environment's expert as if it were the policy.

use super::action::{Decode, Encoder, Response};
use super::agent::Agent;
use super::answers::{answers, answers_by};
use super::context::{Moment, Passage, Source};
use super::conversation::{Now, Teller};
use super::episode::{Episode, Given};
use super::error::RolloutError;
use super::prompt::Prompt;
use super::rank::Ranker;
use super::retry::RetryPolicy;
use super::settings::Actor;
use crate::env::{Cause, Fault, Task, View, Worlds};
use crate::policy::{Policy, Reply, Request, Sampling, Tally, Tokenizer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Who plays, and how.
#[derive(Clone, Debug)]
pub struct Play {
    /// The agent.
    pub agent: Agent,
    /// Who chooses the actions.
    pub actor: Actor,
    /// How responses are sampled.
    pub sampling: Sampling,
    /// An expert's action that isn't among the admissible ones joins them; otherwise it costs its episode.
    pub join: bool,
    /// How often an episode is played before it is given up, and the share of an iteration's episodes that may be.
    pub retry: RetryPolicy,
}

/// Bounds of the time for which further answers are waited for.
const LEAST_PACE: Duration = Duration::from_millis(2);
const MOST_PACE: Duration = Duration::from_secs(1);

/// An episode that waits for an answer.
pub struct Live<'a> {
    /// The sampler's number for it.
    pub number: usize,
    pub episode: &'a Episode,
    pub task: &'a Task,
    /// What it shows.
    pub view: &'a View,
}

impl<'a> Live<'a> {
    fn moment(&self) -> Moment<'a> {
        let crate::env::Seen { observation, state, .. } = &self.view.seen;
        Moment { start: &self.episode.start, observation, state: *state, before: self.episode.turns.last() }
    }
}

/// What the policy is asked in an episode's turn, and what of that comes from a memory; or why it can't be asked.
pub type Asked = Result<(Request, Given), Fault>;

/// Answers in live episodes.
pub struct Player {
    policy: Policy,
    how: Play,
    prompt: Prompt,
    seed: u64,
    encoder: Encoder,
    pace: Duration,
    /// Who ranks the actions beside the policy.
    ranker: Option<Ranker>,
    /// What stands in the prompt besides what is seen.
    sources: Vec<Box<dyn Source>>,
    /// What all turns of an episode have of a source, by the source's place and the episode's number.
    kept: BTreeMap<(usize, usize), Passage>,
}

impl Player {
    /// Seeds follow from `seed`, the run's, and the episodes' names alone. An error if there is no such model, or no such prompt; or if a critic
    /// can't rank what it writes.
    pub fn new(policy: Policy, how: Play, seed: u64) -> Result<Player, RolloutError> {
        let (agent, model) = (&how.agent, &how.agent.model);
        let (encoder, prompt) = (Encoder::new(policy.tokenizer(model)?), Prompt::new(agent)?);
        let settings = agent.rank.clone().unwrap_or_default();
        let by = |critic: &String| Ranker::new(&policy, (model, how.sampling.divisor()), critic, settings);
        let ranker = agent.critic.as_ref().map(by).transpose()?;
        Ok(Player { policy, how, prompt, seed, encoder, pace: LEAST_PACE, ranker, sources: vec![], kept: BTreeMap::new() })
    }

    /// Plays with these sources of context.
    pub fn reading(self, sources: Vec<Box<dyn Source>>) -> Player {
        Player { sources, ..self }
    }

    /// The sources of context that it plays with.
    pub fn sources(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.sources
    }

    /// Forgets what stood in the prompts of episodes.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// How it plays.
    pub fn how(&self) -> &Play {
        &self.how
    }

    /// Whether somebody reads which actions are admissible: the policy where its choice is constrained, or the prompt.
    pub fn listed(&self, attempt: u32) -> bool {
        let chosen = self.how.agent.decode == Decode::Constrained && !self.how.actor.advises(attempt);
        chosen || self.prompt.asks("actions")
    }

    /// The tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.encoder.tokenizer()
    }

    /// How long further worlds are waited for once one has answered: as long as the policy needed last, so that waiting for company costs
    /// no more than it can save.
    pub fn pace(&self) -> Duration {
        self.pace
    }

    /// What the policy is asked in each of these episodes, and what of that comes from a memory. An episode that can't be told has a fault of
    /// its own; an error is one of a world or of the memory.
    pub fn requests(&mut self, live: &[Live], worlds: &mut Worlds) -> Result<Vec<Asked>, RolloutError> {
        let contexts = self.contexts(live)?;
        let asked = self.sources.iter().any(|source| source.asked() == Some(true));
        let mut requests = Vec::with_capacity(live.len());
        for (live, passages) in live.iter().zip(contexts) {
            if self.how.actor.advises(live.episode.start.attempt) {
                passages.iter().filter(|passage| passage.retrieved()).for_each(|passage| worlds.tell(live.number, &passage.text));
            }
            let rules = if self.prompt.asks("rules") { worlds.rules(&live.task.game)? } else { String::new() };
            let constrained = self.how.agent.decode == Decode::Constrained;
            let choices = if constrained { live.view.actions.iter().map(|action| self.encoder.closed(action)).collect() } else { vec![] };
            let seed = live.episode.start.seed(self.seed, live.episode.turn());
            let teller = Teller { agent: &self.how.agent, prompt: &self.prompt, tokenizer: self.encoder.tokenizer(), asked };
            let turn = Now { episode: live.episode, view: live.view, rules: &rules };
            requests.push(teller.ask(&turn, &passages).map(|(prompt, given)| (Request { prompt, seed, choices }, given)));
        }
        Ok(requests)
    }

    /// What the sources of context contribute in each of these episodes, in the sources' order; each is asked about all of them together.
    fn contexts(&mut self, live: &[Live]) -> Result<Vec<Vec<Passage>>, RolloutError> {
        let mut contexts: Vec<Vec<Passage>> = vec![Vec::with_capacity(self.sources.len()); live.len()];
        for (place, source) in self.sources.iter().enumerate() {
            // A try of an episode that is played again begins anew, and has the same.
            let asked: Vec<&Live> = live.iter().filter(|live| !source.once() || live.episode.turn() == 0).collect();
            let moments: Vec<Moment> = asked.iter().map(|live| live.moment()).collect();
            let passages = source.contribute(&moments, self.encoder.tokenizer())?;
            self.kept.extend(asked.iter().map(|live| (place, live.number)).zip(passages));
            for (live, context) in live.iter().zip(&mut contexts) {
                context.push(self.kept.get(&(place, live.number)).cloned().unwrap_or_default());
            }
        }
        Ok(contexts)
    }

    /// The responses, by the policy with the weights that each episode began with, or by the expert. An episode that can't be answered has a
    /// fault of its own; an error is one of the policy's. What was read joins `tokens`.
    pub fn responses(
        &mut self,
        live: &[Live],
        requests: &mut [Request],
        worlds: &mut Worlds,
        tokens: &mut Tally,
    ) -> Result<Vec<Result<Response, Fault>>, RolloutError> {
        let advises = |i: &usize| self.how.actor.advises(live[*i].episode.start.attempt);
        let (advised, own): (Vec<usize>, Vec<usize>) = (0..live.len()).partition(advises);
        let asked: Vec<usize> = advised.iter().map(|&i| live[i].number).collect();
        let advised = advised.into_iter().zip(worlds.expert(&asked)?);
        let mut said: BTreeMap<usize, Result<Response, Fault>> = BTreeMap::new();
        for (i, answer) in advised {
            let response = answer.and_then(|action| self.advised(action, &mut requests[i]));
            said.insert(i, response);
        }
        let mut by_version: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for i in own {
            by_version.entry(live[i].episode.start.version).or_default().push(i);
        }
        let start = Instant::now();
        for (version, which) in by_version {
            let asked: Vec<&Request> = which.iter().map(|&i| &requests[i]).collect();
            let replies = match &self.ranker {
                None => answers(&self.policy, (&self.how.agent.model, version), &asked, &self.how.sampling, tokens)?,
                Some(ranker) => {
                    let turn = |i: &usize| live[which[*i]].episode.turn();
                    answers_by(&asked, tokens, |of, asked| ranker.answer(version, &asked, &of.iter().map(turn).collect::<Vec<_>>()))?
                }
            };
            let tokenizer = self.encoder.tokenizer();
            let told = |reply: Result<Reply, Fault>| reply.map(|reply| Response::replied(reply, &self.how.sampling, tokenizer));
            said.extend(which.into_iter().zip(replies.into_iter().map(told)));
        }
        if !live.is_empty() {
            self.pace = start.elapsed().clamp(LEAST_PACE, MOST_PACE);
        }
        Ok(said.into_values().collect())
    }

    /// An expert's turn as if the policy had written it. An action that isn't among the choices joins them or costs the episode, as the
    /// settings say.
    fn advised(&mut self, action: Option<String>, request: &mut Request) -> Result<Response, Fault> {
        let decode = self.how.agent.decode;
        if decode == Decode::Constrained {
            let Some(action) = &action else { return Err(Fault::new(Cause::Expert, "the expert knows no way on")) };
            let code = self.encoder.closed(action);
            if !request.choices.is_empty() && !request.choices.contains(&code) {
                if !self.how.join {
                    let text = format!(
                        "the expert's action `{action}` is none of the {} admissible ones; `join: true` adds it to them",
                        request.choices.len()
                    );
                    return Err(Fault::new(Cause::Expert, text));
                }
                request.choices.push(code);
            }
        }
        Ok(decode.response(action, &mut self.encoder))
    }
}
