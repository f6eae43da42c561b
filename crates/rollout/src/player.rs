//! Chooses the actions of running episodes: by the policy, or by the environment's expert in its place.

use super::action::{ActionEncoder, Decode, Response};
use super::agent::Agent;
use super::answers::{answers, answers_by, unanswered};
use super::branches::{Brancher, Chosen};
use super::calling::{CallForm, CallWriter};
use super::context::{ContextSource, Moment, Passage};
use super::conversation::{PromptWriter, TurnContext};
use super::episode::Episode;
use super::error::RolloutError;
use super::prompt;
use super::rank::Ranker;
use super::retry::RetryPolicy;
use super::settings::Actor;
use super::template::PromptTemplates;
use super::turn::{Answerer, PromptMemory};
use crossbeam_channel::Sender;
use flow_core::row::RowError;
use flow_core::seed::{mix, text};
use flow_env::{Cause, Environments, EpisodeView, Fault, Task};
use flow_model::{Reply, Request, RowFault, Sampling, Session, Tally};
use flow_policy::Policy;
use flow_serve::{Answered, Ticket};
use flow_text::Tokenizer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The configuration of a player.
#[derive(Clone, Debug)]
pub struct Play {
    /// The agent.
    pub agent: Agent,
    /// The source of actions: the policy, the environment's expert, or both.
    pub actor: Actor,
    /// How responses are sampled.
    pub sampling: Sampling,
    /// Whether an expert's action outside the admissible ones is added to them; otherwise its episode fails.
    pub join: bool,
    /// The tries before an episode is given up, and the share of an iteration's episodes that may be.
    pub retry: RetryPolicy,
}

/// Bounds of the time to wait for further environments.
const LEAST_PACE: Duration = Duration::from_millis(2);
const MOST_PACE: Duration = Duration::from_secs(1);

/// An episode that waits for an answer.
pub struct LiveEpisode<'a> {
    /// The sampler's number for it.
    pub number: usize,
    pub episode: &'a Episode,
    pub task: &'a Task,
    /// What the environment shows.
    pub view: &'a EpisodeView,
}

impl<'a> LiveEpisode<'a> {
    fn moment(&self) -> Moment<'a> {
        let flow_env::TimeStep { observation, state, .. } = &self.view.step;
        Moment { start: &self.episode.start, observation, state: *state, before: self.episode.turns.last() }
    }
}

/// The request for an episode's turn, with the memory entries in its prompt, and why it doesn't go on from the turn
/// before where a program calls; or why there can't be one.
pub type TurnRequest = Result<(Request, PromptMemory, String), Fault>;

/// A model that writes.
struct Writer {
    encoder: ActionEncoder,
    /// How its calls are written.
    calls: CallForm,
    /// Of a model that calls name: the version of its weights.
    version: u64,
}

impl Writer {
    fn new(policy: &Policy, agent: &Agent, model: &str) -> Result<Writer, RolloutError> {
        let encoder = ActionEncoder::new(policy.tokenizer(model)?);
        let calls = CallForm::new(agent, model, encoder.tokenizer());
        Ok(Writer { encoder, calls, version: 0 })
    }

    /// The actions that may be chosen, as tokens.
    fn choices(&mut self, actions: &[String]) -> Result<Vec<Vec<u32>>, String> {
        self.encoder.choices(actions)
    }
}

/// Chooses the actions in running episodes.
pub struct Player {
    policy: Policy,
    /// Its configuration.
    pub play: Play,
    prompt: PromptTemplates,
    seed: u64,
    own: Writer,
    /// The models that answer the calls that name them.
    by_name: BTreeMap<String, Writer>,
    /// How long to wait for further environments once one has answered: as long as the policy's last batch took, so
    /// that waiting costs no more than it can save.
    pub pace: Duration,
    /// The critic that ranks actions, if there is one.
    ranker: Option<Ranker>,
    /// What chooses among several answers of the policy, if there are several.
    brancher: Option<Brancher>,
    /// The sources of context in the prompt besides the observation.
    pub sources: Vec<Box<dyn ContextSource>>,
    /// The passages that stay the same over an episode, by the index of the source and the number of the episode.
    passages: BTreeMap<(usize, usize), Passage>,
}

impl Player {
    /// Seeds follow from `seed`, the run's, and the episodes' names alone. An error if there is no such model, or no
    /// such prompt; or if a critic can't rank what it writes.
    pub fn new(policy: Policy, play: Play, seed: u64) -> Result<Player, RolloutError> {
        let (agent, model) = (&play.agent, &play.agent.model);
        let (own, prompt) = (Writer::new(&policy, agent, model)?, prompt::new(agent)?);
        let named = |name: &String| Ok((name.clone(), Writer::new(&policy, agent, name)?));
        let by_name = agent.by_name.iter().map(named).collect::<Result<_, RolloutError>>()?;
        let settings = agent.rank.clone().unwrap_or_default();
        let by = |critic: &String| Ranker::new(&policy, model, play.sampling.divisor(), critic, settings);
        let ranker = agent.critic.as_ref().map(by).transpose()?;
        let brancher = agent.branches.as_ref().map(|branches| Brancher::new(&policy, model, branches)).transpose()?;
        let (sources, passages) = Default::default();
        Ok(Player { policy, play, prompt, seed, own, by_name, pace: LEAST_PACE, ranker, brancher, sources, passages })
    }

    /// Clears the cached passages.
    pub fn clear(&mut self) {
        self.passages.clear();
    }

    /// Whether the admissible actions are needed: for constrained decoding, or in the prompt.
    pub fn listed(&self, attempt: u32) -> bool {
        let chosen = self.play.agent.decode == Decode::Constrained && !self.play.actor.advises(attempt);
        chosen || self.prompt.asks("actions")
    }

    /// The tokenizer of the agent's model.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.own.encoder.tokenizer()
    }

    /// The tokenizer of the model that answers.
    pub fn tokenizer_of(&self, answerer: &Option<Answerer>) -> &Tokenizer {
        let named = answerer.as_ref().and_then(|(model, _)| self.by_name.get(model));
        named.unwrap_or(&self.own).encoder.tokenizer()
    }

    /// Takes the versions of the weights that models called by name answer with from now on, from the version of each.
    pub fn renew(&mut self, mut newest: impl FnMut(&str, u64) -> Result<u64, RowError>) -> Result<(), RowError> {
        for (name, writer) in &mut self.by_name {
            writer.version = newest(name, writer.version)?;
        }
        Ok(())
    }

    /// The model that answers this episode's call, where there are several.
    pub fn answerer(&self, live: &LiveEpisode) -> Option<Answerer> {
        let call = live.view.extras.call.as_ref().filter(|_| !self.by_name.is_empty())?;
        let named = self.by_name.get_key_value(&call.model).map(|(name, writer)| (name.clone(), writer.version));
        Some(named.unwrap_or_else(|| (self.play.agent.model.clone(), live.episode.start.version)))
    }

    /// The requests for these episodes, with the memory entries in their prompts. An episode whose prompt can't be
    /// built fails alone; an error is one of an environment or of the memory.
    pub fn requests(&mut self, live: &[LiveEpisode], envs: &mut Environments) -> Result<Vec<TurnRequest>, RolloutError> {
        let contexts = self.contexts(live)?;
        let queried = self.sources.iter().any(|source| source.queried() == Some(true));
        let mut requests = Vec::with_capacity(live.len());
        for (live, passages) in live.iter().zip(contexts) {
            if self.play.actor.advises(live.episode.start.attempt) {
                passages.iter().filter(|passage| passage.retrieved()).for_each(|passage| envs.tell(live.number, &passage.text));
            }
            let group = text(&live.episode.start.task);
            let session = Session { group, member: mix(group, u64::from(live.episode.start.sample)) };
            if let Some(call) = &live.view.extras.call {
                let seed = live.episode.start.seed_of_call(self.seed, call.id);
                let answered_by = &self.answerer(live);
                let writes = self.by_name.get_mut(&call.model).unwrap_or(&mut self.own);
                // A call may name the answers that it can have, or the tools.
                let choices = match call.must_call.is_empty() {
                    true => writes.choices(&live.view.actions),
                    false if self.ranker.is_some() => Err("a critic ranks whole answers, so no call of a tool can be forced".into()),
                    false => writes.calls.forced(&call.must_call, writes.encoder.tokenizer()),
                };
                let (agent, tokenizer) = (&self.play.agent, writes.encoder.tokenizer());
                let writer = CallWriter { agent, tokenizer, answered_by, form: &writes.calls, queried };
                let turn = TurnContext { episode: live.episode, view: live.view, rules: "" };
                let asked = writer.ask(&turn, call, &passages).and_then(|asked| {
                    let choices = choices.map_err(|why| Fault::new(Cause::Declined, why))?;
                    Ok((asked, choices))
                });
                requests.push(asked.map(|((prompt, memory, fork), choices)| {
                    (Request { prompt, seed, choices, session, most: call.max_tokens }, memory, fork)
                }));
                continue;
            }
            let rules = if self.prompt.asks("rules") { envs.rules(&live.task.game)? } else { String::new() };
            let constrained = self.play.agent.decode == Decode::Constrained;
            let choices = if constrained { self.own.choices(&live.view.actions) } else { Ok(vec![]) };
            let seed = live.episode.start.seed(self.seed, live.episode.turn());
            let teller = PromptWriter { agent: &self.play.agent, prompt: &self.prompt, tokenizer: self.own.encoder.tokenizer(), queried };
            let turn = TurnContext { episode: live.episode, view: live.view, rules: &rules };
            let asked = teller.ask(&turn, &passages).and_then(|(prompt, prompt_memory)| {
                let choices = choices.map_err(|why| Fault::new(Cause::Prompt, why))?;
                Ok((Request { prompt, seed, choices, session, most: None }, prompt_memory, String::new()))
            });
            requests.push(asked);
        }
        Ok(requests)
    }

    /// The passages of context for these episodes, in the order of the sources; each source is queried once for all
    /// episodes.
    fn contexts(&mut self, live: &[LiveEpisode]) -> Result<Vec<Vec<Passage>>, RolloutError> {
        let mut contexts: Vec<Vec<Passage>> = vec![Vec::with_capacity(self.sources.len()); live.len()];
        for (place, source) in self.sources.iter().enumerate() {
            // A try of an episode that is played again begins anew, and has the same.
            let due: Vec<&LiveEpisode> = live.iter().filter(|live| !source.once() || live.episode.turn() == 0).collect();
            let moments: Vec<Moment> = due.iter().map(|live| live.moment()).collect();
            let passages = source.contribute(&moments, self.own.encoder.tokenizer())?;
            self.passages.extend(due.iter().map(|live| (place, live.number)).zip(passages));
            for (live, context) in live.iter().zip(&mut contexts) {
                context.push(self.passages.get(&(place, live.number)).cloned().unwrap_or_default());
            }
        }
        Ok(contexts)
    }

    /// Begins the answer to an episode's request where servers give answers one by one; `to` will be given it with the
    /// episode's number. Whether it did.
    pub fn begin(&self, live: &LiveEpisode, request: &Request, to: &Sender<Answered>) -> Result<bool, RolloutError> {
        let answerer = self.answerer(live);
        let (model, version) = answerer.as_ref().map_or((&self.play.agent.model, live.episode.start.version), |(m, v)| (m, *v));
        let chosen = !request.choices.is_empty() || self.ranker.is_some() || self.brancher.is_some();
        if chosen || self.play.actor.advises(live.episode.start.attempt) || !self.policy.streams(model) {
            return Ok(false);
        }
        self.policy.begin(model, version, request, &self.play.sampling, Ticket::new(live.number, to))?;
        Ok(true)
    }

    /// Counts the tokens of an answer that a server wrote in the model's own tokens.
    pub fn count(&self, by: &Option<Answerer>, prompt: &[u32], reply: &Result<Reply, RowFault>, tokens: &mut Tally) {
        let model = by.as_ref().map_or(&self.play.agent.model, |(model, _)| model);
        if let Some(reply) = reply.as_ref().ok().filter(|_| self.policy.served(model)) {
            tokens.served(prompt.len(), reply.tokens.len());
        }
    }

    /// The response in an answer of that model.
    pub fn response(&self, reply: Result<Reply, RowFault>, answerer: &Option<Answerer>) -> Result<Response, Fault> {
        let response = |reply| Response::replied(reply, &self.play.sampling, self.tokenizer_of(answerer));
        reply.map(response).map_err(|fault| unanswered(&fault))
    }

    /// Figures of the servers that generate for the agent's model, by name.
    pub fn server_figures(&self) -> Vec<(String, f64)> {
        self.policy.server_figures(&self.play.agent.model)
    }

    /// The responses, by the policy with the weights that each episode began with, or by the expert. An episode that
    /// can't be answered has a fault of its own; an error is one of the policy's. Read tokens are counted in `tokens`.
    pub fn responses(
        &mut self,
        live: &[LiveEpisode],
        requests: &mut [Request],
        envs: &mut Environments,
        tokens: &mut Tally,
    ) -> Result<Vec<Result<Response, Fault>>, RolloutError> {
        let advises = |i: &usize| self.play.actor.advises(live[*i].episode.start.attempt);
        let (advised, own): (Vec<usize>, Vec<usize>) = (0..live.len()).partition(advises);
        let numbers: Vec<usize> = advised.iter().map(|&i| live[i].number).collect();
        let advised = advised.into_iter().zip(envs.expert(&numbers)?);
        let mut responses: BTreeMap<usize, Result<Response, Fault>> = BTreeMap::new();
        for (i, answer) in advised {
            let parts = if self.play.agent.decode == Decode::Free { expert_parts(&self.play.agent, live[i].number, envs) } else { vec![] };
            let response = answer.and_then(|action| self.advised(&parts, action, &mut requests[i]));
            responses.insert(i, response);
        }
        let mut by_weights: BTreeMap<(Option<Answerer>, u64), Vec<usize>> = BTreeMap::new();
        for i in own {
            by_weights.entry((self.answerer(&live[i]), live[i].episode.start.version)).or_default().push(i);
        }
        let start = Instant::now();
        for ((answerer, version), which) in by_weights {
            let batch: Vec<&Request> = which.iter().map(|&i| &requests[i]).collect();
            let agent = &self.play.agent;
            let replies = match (&self.ranker, &self.brancher) {
                (None, None) => {
                    let (model, version) = answerer.as_ref().map_or((&agent.model, version), |(model, version)| (model, *version));
                    answers(&self.policy, model, version, &batch, &self.play.sampling, tokens)?
                }
                (None, Some(brancher)) => {
                    let seen: Vec<&str> = which.iter().map(|&i| live[i].view.step.observation.as_str()).collect();
                    let chosen = brancher.answers((agent, version), &batch, &seen, &self.play.sampling, tokens)?;
                    let taken = |(i, chosen): (&usize, Chosen)| {
                        chosen.map(|(reply, seed)| {
                            requests[*i].seed = seed;
                            reply
                        })
                    };
                    which.iter().zip(chosen).map(taken).collect()
                }
                (Some(ranker), _) => {
                    let turn = |i: &usize| live[which[*i]].episode.turn();
                    answers_by(&batch, tokens, |asked, batch| ranker.answer(version, &batch, &asked.iter().map(turn).collect::<Vec<_>>()))?
                }
            };
            let tokenizer = self.tokenizer_of(&answerer);
            let response = |reply: Result<Reply, Fault>| reply.map(|reply| Response::replied(reply, &self.play.sampling, tokenizer));
            responses.extend(which.into_iter().zip(replies.into_iter().map(response)));
        }
        if !live.is_empty() {
            self.pace = start.elapsed().clamp(LEAST_PACE, MOST_PACE);
        }
        Ok(responses.into_values().collect())
    }

    /// An expert's turn as if the policy had written it. An action that isn't among the choices joins them or costs the
    /// episode, as the settings say.
    fn advised(&mut self, parts: &[(String, String)], action: Option<String>, request: &mut Request) -> Result<Response, Fault> {
        if self.play.agent.decode == Decode::Constrained {
            let Some(action) = &action else { return Err(Fault::new(Cause::Expert, "the expert knows no way on")) };
            let code = self.own.encoder.closed(action).map_err(|why| Fault::new(Cause::Expert, why))?;
            if !request.choices.is_empty() && !request.choices.contains(&code) {
                if !self.play.join {
                    let text = format!(
                        "the expert's action `{action}` isn't one of the {} admissible ones; `join: true` adds it to them",
                        request.choices.len()
                    );
                    return Err(Fault::new(Cause::Expert, text));
                }
                request.choices.push(code);
            }
        }
        let response = Response::of_expert(self.play.agent.tagged(), parts, action, &mut self.own.encoder);
        response.map_err(|why| Fault::new(Cause::Expert, why))
    }
}

/// What the expert of an episode writes in the parts of this agent's answers besides the action, each with its tag;
/// what it has nothing to write in is left out.
fn expert_parts(agent: &Agent, episode: usize, envs: &mut Environments) -> Vec<(String, String)> {
    let tags: Vec<&str> = agent.parts().map(|part| part.tag.as_str()).collect();
    let texts = envs.expert_parts(episode, &tags);
    tags.iter().zip(texts).filter_map(|(tag, text)| Some((tag.to_string(), text?))).collect()
}
