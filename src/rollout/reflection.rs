//! Asks the policy about an episode that is over (LaMer, section 4: self-reflection), and makes a row of what it says.

use super::action::Response;
use super::advice::lesson;
use super::agent::Agent;
use super::answers::answers;
use super::context::{self, words, Alone, Moment, Passage, Slot, Source};
use super::conversation::standing;
use super::episode::{Given, Phase, Turn};
use super::error::RolloutError;
use super::exchange::Whose;
use super::notes::{self, Keep};
use super::question::Question;
use super::record::{self, Record};
use super::retry::FailedEpisode;
use super::settings::{Actor, On, ReflectionSettings};
use super::tags;
use super::transcript::{transcripts, Transcript};
use crate::env::process::Outside;
use crate::env::{Cause, EnvError, Fault, Game, Task};
use crate::policy::{Policy, Reply, Request, Sampling, Tally, Tokenizer};
use crate::seed;
use arrow::array::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};

/// Reflects on episodes.
pub struct Reflector {
    agent: Agent,
    /// What knows the rules of worlds that are programs.
    outside: Outside,
    /// What it reads.
    question: Question,
    on: On,
    actor: Actor,
    /// Whose game the expert's notes are about.
    notes: Whose,
    keep: Keep,
    /// Tokens of what the next attempt is told, at most.
    budget: usize,
    sampling: Sampling,
    /// What stands in the prompt besides the episode.
    sources: Vec<Box<dyn Source>>,
}

impl Reflector {
    /// Reflects as these settings say, at `temperature` where they give none; `outside` knows the programs that played. An error if there
    /// is no such prompt.
    pub fn new(settings: &ReflectionSettings, temperature: f64, outside: Outside) -> Result<Reflector, RolloutError> {
        let ReflectionSettings { on, keep, budget, actor, notes, .. } = *settings;
        let agent = settings.agent.clone();
        let (question, sampling) = (Question::new(&agent)?, agent.sampling(settings.temperature, temperature));
        let sources = context::open(&agent, &Alone);
        Ok(Reflector { agent, outside, question, on, actor, notes, keep, budget, sampling, sources })
    }

    /// Reflects with these sources of context.
    pub fn reading(self, sources: Vec<Box<dyn Source>>) -> Reflector {
        Reflector { sources, ..self }
    }

    /// The sources of context that it reflects with.
    pub fn sources(&mut self) -> &mut [Box<dyn Source>] {
        &mut self.sources
    }

    /// Reflects on those episodes among `rows`, sorted by name, that the settings ask for; a row each, or no batch without any.
    /// `run` is the run's seed; what was read joins `tokens`. Where the prompt is too long or a server gives no answer nothing is said, and the
    /// reflection joins `failed`.
    /// An error if rows lack a column ([`super::transcript::NEEDS`]), or the policy can't answer.
    pub fn reflect(
        &self,
        policy: &Policy,
        run: u64,
        rows: &RecordBatch,
        (tokens, failed): (&mut Tally, &mut Vec<FailedEpisode>),
    ) -> Result<Option<RecordBatch>, RolloutError> {
        let tokenizer = policy.tokenizer(&self.agent.model)?;
        let over: Vec<Transcript> = transcripts(rows)?.into_iter().filter(|episode| self.on.wants(episode.won)).collect();
        if over.is_empty() {
            return Ok(None);
        }
        let contexts = self.contexts(&over, &tokenizer)?;
        let requests = over.iter().zip(contexts).map(|(episode, passages)| self.request(&tokenizer, run, episode, &passages));
        let (requests, given): (Vec<Request>, Vec<Given>) = requests.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let responses = match self.actor {
            Actor::Policy => self.ask(policy, &tokenizer, &over, &requests, tokens)?,
            Actor::Expert | Actor::Rescue => {
                over.iter().map(|episode| self.advise(&tokenizer, episode).map(Ok)).collect::<Result<_, _>>()?
            }
        };
        let turns = over.iter().zip(requests.into_iter().zip(given)).zip(responses);
        let turns = turns.map(|((episode, (request, given)), response)| match response {
            Ok(response) => self.turn(episode, request, given, response),
            Err(fault) => {
                // What was too long to read is too long to train on: its last token stands for it.
                let unread = if fault.cause == Cause::Prompt { request.prompt.len().saturating_sub(1) } else { 0 };
                let request = Request { prompt: request.prompt[unread..].to_vec(), ..request };
                failed.push(lost(episode, fault));
                let nothing = Response::certain(String::new(), vec![tokenizer.end()]);
                Turn { valid: false, ..self.turn(episode, request, given, nothing) }
            }
        });
        let turns: Vec<Turn> = turns.collect();
        let kept: Vec<String> = over.iter().zip(&turns).map(|(episode, turn)| self.kept(episode, turn, &tokenizer)).collect();
        let records = over.iter().zip(&turns).zip(&kept);
        let records = records.map(|((episode, turn), kept)| Record { start: &episode.start, turn, instruction: "", kind: "", kept, outcome: "" });
        Ok(Some(record::table(&records.collect::<Vec<_>>(), &self.agent.columns())?))
    }

    /// What the policy says, with the weights that played.
    fn ask(
        &self,
        policy: &Policy,
        tokenizer: &Tokenizer,
        over: &[Transcript],
        requests: &[Request],
        tokens: &mut Tally,
    ) -> Result<Vec<Result<Response, Fault>>, RolloutError> {
        let versions: BTreeSet<u64> = over.iter().map(|episode| episode.start.version).collect();
        let mut said: BTreeMap<usize, Result<Response, Fault>> = BTreeMap::new();
        for version in versions {
            let which: Vec<usize> = (0..over.len()).filter(|&i| over[i].start.version == version).collect();
            let asked: Vec<&Request> = which.iter().map(|&i| &requests[i]).collect();
            let replies = answers(policy, (&self.agent.model, version), &asked, &self.sampling, tokens)?;
            let told = |reply: Result<Reply, Fault>| reply.map(|reply| Response::replied(reply, &self.sampling, tokenizer));
            said.extend(which.into_iter().zip(replies.into_iter().map(told)));
        }
        Ok(said.into_values().collect())
    }

    /// What the expert says; nothing where it has nothing to say.
    fn advise(&self, tokenizer: &Tokenizer, episode: &Transcript) -> Result<Response, RolloutError> {
        let lesson = lesson(episode, self.notes)?;
        let text = self.agent.remark().map_or(lesson.clone(), |tag| tags::write(tag, &lesson));
        let mut tokens = tokenizer.encode(&text);
        tokens.push(tokenizer.end());
        Ok(Response::certain(text, tokens))
    }

    /// What the sources contribute on each of these episodes: what they ended with is what is seen.
    fn contexts(&self, over: &[Transcript], tokenizer: &Tokenizer) -> Result<Vec<Vec<Passage>>, RolloutError> {
        let mut moments: Vec<Moment> = Vec::with_capacity(over.len());
        for episode in over {
            moments.push(Moment { start: &episode.start, observation: episode.outcome, state: state(episode), before: None });
        }
        let mut contexts: Vec<Vec<Passage>> = vec![Vec::new(); over.len()];
        for source in &self.sources {
            let passages = source.contribute(&moments, tokenizer)?;
            contexts.iter_mut().zip(passages).for_each(|(context, passage)| context.push(passage));
        }
        Ok(contexts)
    }

    /// What is asked about the episode, and what of it comes from a memory.
    fn request(
        &self,
        tokenizer: &Tokenizer,
        run: u64,
        episode: &Transcript,
        passages: &[Passage],
    ) -> Result<(Request, Given), RolloutError> {
        let rules = match self.question.asks("rules") {
            true => self.rules(&Task::parse(&episode.start.task)?.game)?,
            false => String::new(),
        };
        let messages =
            |passages: &[Passage]| self.question.messages(episode, &rules, &words(passages, Slot::Context), &words(passages, Slot::System));
        let whole = messages(passages)?;
        let text: String = whole.iter().map(|message| message.content.as_str()).collect();
        let retrieved = standing(passages, &text);
        let plain: Vec<Passage> = passages.iter().filter(|passage| !passage.retrieved()).cloned().collect();
        let bare = if retrieved.is_empty() { vec![] } else { tokenizer.chat(&messages(&plain)?)? };
        let seed = seed::mix(episode.start.seed(run, episode.turns), seed::text("reflect"));
        let asked = self.sources.iter().any(|source| source.asked() == Some(true));
        let request = Request { prompt: tokenizer.chat(&whole)?, seed, choices: vec![] };
        Ok((request, Given { asked, retrieved, bare, left_out: 0, message: None }))
    }

    /// The rules of a game; a program has said its own when it was greeted.
    fn rules(&self, game: &Game) -> Result<String, EnvError> {
        match game.program() {
            Some(program) => Ok(self.outside.hello(&program.name)?.rules),
            None => Ok(game.rules()),
        }
    }

    /// A turn more, in which nothing is earned.
    fn turn(&self, episode: &Transcript, request: Request, given: Given, response: Response) -> Turn {
        let (remark, parts) = (self.remark(&response.text).map(str::to_owned), self.agent.read(&response.text));
        Turn {
            turn: episode.turns,
            phase: Phase::Reflect,
            observation: episode.outcome.to_owned(),
            state: state(episode),
            prompt_tokens: request.prompt,
            given,
            response,
            choices: vec![],
            valid: remark.is_some(),
            action: remark.unwrap_or_default(),
            parts,
            reward: 0.0,
            done: false,
            won: false,
            score: episode.score,
            info: String::new(),
            seed: request.seed,
        }
    }

    /// What the response says: all of it, or what stands in the last closed tag.
    fn remark<'a>(&self, response: &'a str) -> Option<&'a str> {
        match self.agent.remark() {
            Some(tag) => tags::read(tag, response),
            None => Some(response.trim()),
        }
    }

    /// What the next attempt is told.
    fn kept(&self, episode: &Transcript, said: &Turn, tokenizer: &Tokenizer) -> String {
        let attempt = episode.start.attempt;
        let mut entry = String::new();
        if [Keep::History, Keep::Both].contains(&self.keep) {
            entry += &notes::history(attempt, &episode.actions, episode.outcome);
        }
        if said.valid && [Keep::Reflection, Keep::Both].contains(&self.keep) {
            entry += &notes::reflection(attempt, &said.action);
        }
        notes::grown(&episode.start.memory, &entry, self.budget, tokenizer)
    }
}

/// A reflection that failed, as one of the episode's turns.
fn lost(episode: &Transcript, fault: Fault) -> FailedEpisode {
    let start = &episode.start;
    FailedEpisode {
        task: start.task.clone(),
        sample: start.sample,
        attempt: start.attempt,
        turn: episode.turns,
        cause: fault.cause.name(),
        error: fault.text,
        tries: 1,
    }
}

/// A reflection's state says after which end it was asked.
fn state(episode: &Transcript) -> u64 {
    seed::mix(seed::text("reflect"), seed::text(episode.outcome))
}

#[cfg(test)]
mod tests {
    use super::super::context::Remembered;
    use super::super::episode::Start;
    use super::super::points::{Pointer, Points};
    use super::*;
    use crate::memory::{Change, Entry};
    use crate::row::Name;
    use serde_json::json;

    fn reflector(keep: Keep, tag: Option<&str>) -> Reflector {
        let answer = tag.map_or(json!([]), |tag| json!([{ "tag": tag, "required": true }]));
        let settings = json!({ "agent": { "model": "actor", "answer": answer }, "keep": keep, "budget": 100 });
        Reflector::new(&serde_json::from_value(settings).unwrap(), 1.0, Outside::default()).unwrap()
    }

    fn asked(reflector: &Reflector) -> (Request, Given) {
        let contexts = reflector.contexts(&[episode()], &Tokenizer::bytes()).unwrap();
        reflector.request(&Tokenizer::bytes(), 1, &episode(), &contexts[0]).unwrap()
    }

    fn episode() -> Transcript<'static> {
        let start = Start { task: "t".into(), sample: 0, attempt: 1, memory: "{first}\n".into(), iteration: 0, version: 0 };
        Transcript { start, instruction: "", first: "A", actions: vec!["up", "left"], outcome: "Z", turns: 2, won: false, score: 1.0 }
    }

    fn said(reflector: &Reflector, text: &str) -> Turn {
        let response = Response::certain(text.into(), vec![]);
        reflector.turn(&episode(), Request::default(), Given::default(), response)
    }

    #[test]
    fn a_prompt_tells_the_episode() {
        let (request, _) = asked(&reflector(Keep::Both, None));
        assert_eq!(Tokenizer::bytes().decode(&request.prompt), "{first}\nA\nAttempt 2: up; left\nZ\nReflect:");
    }

    /// What an episode ended with is looked for, and what is found is told where the prompt has its memory.
    #[test]
    fn a_reflection_is_told_what_is_remembered() {
        let source = Name { iteration: 0, task: "t".into(), sample: 0, attempt: 0, turn: 1, phase: "reflect".into() };
        let (key, embedding, text) = ("Z".to_owned(), crate::memory::words("Z"), "turn back".to_owned());
        let (ordinal, kind, level) = Default::default();
        let entry = Entry { id: 7, bucket: crate::memory::bucket("t"), key, embedding, score: 0.0, text, source, ordinal, kind, level };
        let tokenizer = Tokenizer::bytes();
        let asked = |place: &str| {
            let settings = serde_json::from_value(json!({ "memory": "memory", "place": place })).unwrap();
            let mut memory = Remembered::new(settings, Pointer::new(Points::Words, None, None));
            memory.begin(vec![Change { iteration: 0, change: 1, entry: entry.clone() }], 1);
            let mut reflector = reflector(Keep::Both, None);
            reflector.sources.push(Box::new(memory));
            let (request, given) = asked(&reflector);
            (tokenizer.decode(&request.prompt), given.asked, given.retrieved, tokenizer.decode(&given.bare))
        };
        let bare = "{first}\nA\nAttempt 2: up; left\nZ\nReflect:";
        let told = bare.replacen("A\n", "Remembered:\n- turn back\nA\n", 1);
        assert_eq!(asked("before"), (told, true, vec![7], bare.into()));
        assert_eq!(asked("system").0, format!("Remembered:\n- turn back\n{bare}"));
    }

    #[test]
    fn the_remark_is_what_the_tag_holds_or_everything() {
        let tagged = reflector(Keep::Both, Some("remark"));
        let (turn, none) = (said(&tagged, "so <remark> go up </remark>."), said(&tagged, "go up"));
        assert_eq!((turn.action.as_str(), turn.valid, turn.turn, turn.phase), ("go up", true, 2, Phase::Reflect));
        assert_eq!((none.action.as_str(), none.valid), ("", false));
        assert_eq!(said(&reflector(Keep::Both, None), " go up\n").action, "go up");
    }

    #[test]
    fn what_is_kept_is_what_is_declared() {
        let tokenizer = Tokenizer::bytes();
        let kept = |keep| {
            let reflector = reflector(keep, None);
            reflector.kept(&episode(), &said(&reflector, "go up"), &tokenizer)
        };
        assert_eq!(kept(Keep::None), "{first}\n");
        assert_eq!(kept(Keep::Reflection), "{first}\nAttempt 2, noted: go up\n");
        assert_eq!(kept(Keep::History), "{first}\nAttempt 2: up; left\nZ\n");
        assert_eq!(kept(Keep::Both), "{first}\nAttempt 2: up; left\nZ\nAttempt 2, noted: go up\n");
    }
}
