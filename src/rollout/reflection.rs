//! Asks the policy about an episode that is over (LaMer, section 4: self-reflection), and makes a row of what it says.

use super::action::Response;
use super::advice::lesson;
use super::answers::answers;
use super::episode::{Given, Phase, Start, Turn};
use super::error::RolloutError;
use super::exchange::Whose;
use super::notes::{self, Keep};
use super::recall::{Place, Recall, Shown, Told};
use super::record::{self, Record};
use super::retry::FailedEpisode;
use super::settings::{Actor, On, ReflectionSettings};
use super::template::Template;
use super::transcript::{transcripts, Transcript};
use super::{question, tags};
use crate::env::process::Outside;
use crate::env::{Cause, EnvError, Fault, Game, Task};
use crate::policy::{Message, Policy, Reply, Request, Sampling, Tally, Tokenizer};
use crate::seed;
use arrow::array::RecordBatch;
use std::collections::{BTreeMap, BTreeSet};

/// Reflects on episodes.
#[derive(Clone)]
pub struct Reflector {
    /// The model that reflects.
    model: String,
    /// What knows the rules of worlds that are programs.
    outside: Outside,
    /// What it reads.
    question: Template,
    /// The tag that the remark stands in; without one the whole response is the remark.
    tag: Option<String>,
    on: On,
    actor: Actor,
    /// Whose game the expert's notes are about.
    notes: Whose,
    keep: Keep,
    /// Tokens of what the next attempt is told, at most.
    budget: usize,
    sampling: Sampling,
    /// What is remembered while it reflects.
    recall: Option<Recall>,
}

impl Reflector {
    /// Reflects with `model`, at `temperature` where the settings give none; `outside` knows the programs that played. An error if there
    /// is no such prompt.
    pub fn new(model: String, settings: &ReflectionSettings, temperature: f64, outside: Outside) -> Result<Reflector, RolloutError> {
        let ReflectionSettings { on, keep, budget, actor, notes, .. } = *settings;
        let (question, tag) = (question::question(settings)?, settings.tag().map(str::to_owned));
        let sampling = settings.sampling.sampling(temperature);
        Ok(Reflector { model, outside, question, tag, on, actor, notes, keep, budget, sampling, recall: None })
    }

    /// Reflects with this memory.
    pub fn recalling(self, recall: Option<Recall>) -> Reflector {
        Reflector { recall, ..self }
    }

    /// The memory that it reflects with.
    pub fn recall(&mut self) -> Option<&mut Recall> {
        self.recall.as_mut()
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
        let tokenizer = policy.tokenizer(&self.model)?;
        let over: Vec<Transcript> = transcripts(rows)?.into_iter().filter(|episode| self.on.wants(episode.won)).collect();
        if over.is_empty() {
            return Ok(None);
        }
        let told = self.told(&over, &tokenizer)?;
        let requests = over.iter().zip(told).map(|(episode, told)| self.request(&tokenizer, run, episode, told));
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
        let records = records.map(|((episode, turn), kept)| Record { start: &episode.start, turn, instruction: "", kept, outcome: "" });
        Ok(Some(record::table(&records.collect::<Vec<_>>())?))
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
            let replies = answers(policy, (&self.model, version), &asked, &self.sampling, tokens)?;
            let told = |reply: Result<Reply, Fault>| reply.map(|reply| Response::replied(reply, &self.sampling, tokenizer));
            said.extend(which.into_iter().zip(replies.into_iter().map(told)));
        }
        Ok(said.into_values().collect())
    }

    /// What the expert says; nothing where it has nothing to say.
    fn advise(&self, tokenizer: &Tokenizer, episode: &Transcript) -> Result<Response, RolloutError> {
        let lesson = lesson(episode, self.notes)?;
        let text = self.tag.as_ref().map_or(lesson.clone(), |tag| tags::write(tag, &lesson));
        let mut tokens = tokenizer.encode(&text);
        tokens.push(tokenizer.end());
        Ok(Response::certain(text, tokens))
    }

    /// What is told from the memory, if there is one, on each of these episodes: what they ended with is what is seen.
    fn told(&self, over: &[Transcript], tokenizer: &Tokenizer) -> Result<Vec<Told>, RolloutError> {
        let Some(recall) = &self.recall else { return Ok(vec![Told::default(); over.len()]) };
        let ends = over.iter().map(|episode| (&episode.start, Shown { observation: episode.outcome, state: state(episode) }));
        let ends: Vec<(&Start, Shown)> = ends.collect();
        Ok(recall.tell(&ends, tokenizer)?)
    }

    /// What is asked about the episode, and what of it comes from the memory.
    fn request(&self, tokenizer: &Tokenizer, run: u64, episode: &Transcript, told: Told) -> Result<(Request, Given), RolloutError> {
        let memory = &episode.start.memory;
        let text = self.prompt(episode, memory)?;
        let bare = tokenizer.ask(&text)?;
        let apart = self.recall.as_ref().is_some_and(|recall| recall.settings.place == Place::System);
        let (prompt, bare) = if told.text.is_empty() {
            (bare, vec![])
        } else if apart {
            let message = |role: &str, content: &str| Message { role: role.into(), content: content.into() };
            (tokenizer.chat(&[message("system", &told.text), message("user", &text)])?, bare)
        } else {
            (tokenizer.ask(&self.prompt(episode, &format!("{memory}{}", told.text))?)?, bare)
        };
        let seed = seed::mix(episode.start.seed(run, episode.turns), seed::text("reflect"));
        let asked = self.recall.as_ref().is_some_and(Recall::on);
        Ok((Request { prompt, seed, choices: vec![] }, Given { asked, retrieved: told.ids, bare, left_out: 0 }))
    }

    fn prompt(&self, episode: &Transcript, memory: &str) -> Result<String, RolloutError> {
        let rules = match self.question.asks("rules") {
            true => self.rules(&Task::parse(&episode.start.task)?.game)?,
            false => String::new(),
        };
        Ok(question::ask(&self.question, episode, &rules, memory)?)
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
        let remark = self.remark(&response.text).map(str::to_owned);
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
            reward: 0.0,
            done: false,
            won: false,
            score: episode.score,
            seed: request.seed,
        }
    }

    /// What the response says: all of it, or what stands in the last closed tag.
    fn remark<'a>(&self, response: &'a str) -> Option<&'a str> {
        match &self.tag {
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
    use super::super::points::{Pointer, Points};
    use super::*;
    use crate::memory::{Change, Entry};
    use crate::row::Name;

    fn reflector(keep: Keep, tag: Option<&str>) -> Reflector {
        Reflector {
            model: "actor".into(),
            outside: Outside::default(),
            question: Template::read(question::SHORT, question::PLACES).unwrap(),
            tag: tag.map(String::from),
            on: On::Failure,
            actor: Actor::Policy,
            notes: Whose::Own,
            keep,
            budget: 100,
            sampling: Sampling::default(),
            recall: None,
        }
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
        let told = reflector(Keep::Both, None).prompt(&episode(), &episode().start.memory).unwrap();
        assert_eq!(told, "{first}\nA\nAttempt 2: up; left\nZ\nReflect:");
    }

    /// What an episode ended with is looked for, and what is found is told where the prompt has its memory.
    #[test]
    fn a_reflection_is_told_what_is_remembered() {
        let source = Name { iteration: 0, task: "t".into(), sample: 0, attempt: 0, turn: 1, phase: "reflect".into() };
        let (key, embedding, text) = ("Z".to_owned(), crate::memory::words("Z"), "turn back".to_owned());
        let entry = Entry { id: 7, bucket: crate::memory::bucket("t"), key, embedding, score: 0.0, text, source };
        let tokenizer = Tokenizer::bytes();
        let asked = |place: &str| {
            let settings = serde_json::from_value(serde_json::json!({ "place": place })).unwrap();
            let mut recall = Recall::new(settings, Pointer::new(Points::Words, None, None));
            recall.begin(vec![Change { iteration: 0, change: 1, entry: entry.clone() }], 1);
            let reflector = reflector(Keep::Both, None).recalling(Some(recall));
            let told = reflector.told(&[episode()], &tokenizer).unwrap().remove(0);
            let (request, given) = reflector.request(&tokenizer, 1, &episode(), told).unwrap();
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
