//! Asks the policy to reflect on a finished episode (LaMer, section 4: self-reflection), and makes a row of the answer.

use super::action::{Invalid, Response};
use super::advice::lesson;
use super::agent::Agent;
use super::answers::answers;
use super::context::{words, Alone, ContextSource, Moment, Passage, PassageSlot};
use super::conversation::standing;
use super::episode::EpisodeStart;
use super::error::RolloutError;
use super::exchange::NotesOwner;
use super::notes::{self, NoteContent};
use super::question;
use super::record::{self, Record};
use super::retry::FailedEpisode;
use super::settings::{Actor, On, ReflectionSettings};
use super::sources;
use super::tags;
use super::template::PromptTemplates;
use super::transcript::{transcripts, Transcript};
use super::turn::{Phase, PromptMemory, Turn};
use arrow::array::RecordBatch;
use flow_core::seed;
use flow_env::process::Programs;
use flow_env::{Cause, EnvError, Fault, Game, Task};
use flow_model::{Reply, Request, Sampling, Tally};
use flow_policy::Policy;
use flow_text::Tokenizer;
use std::collections::BTreeMap;

/// Reflects on episodes.
pub struct Reflector {
    agent: Agent,
    /// Access to the rules of environments that run as programs.
    programs: Programs,
    /// The transcripts it reads.
    question: PromptTemplates,
    on: On,
    actor: Actor,
    /// How often it is asked until its answer can be read.
    tries: u32,
    /// Whether the expert's notes are about the episode's own task or another's.
    notes: NotesOwner,
    keep: NoteContent,
    /// The token limit of the notes for the next attempt.
    budget: usize,
    sampling: Sampling,
    /// Whether an update trains its model; else version 0 acts, whatever version played.
    learns: bool,
    /// The sources of context in the prompt besides the episode.
    sources: Vec<Box<dyn ContextSource>>,
}

impl Reflector {
    /// Reflects as these settings say, at `temperature` where they give none; `programs` knows the programs that
    /// played. An error if there is no such prompt.
    pub fn new(settings: &ReflectionSettings, temperature: f64, programs: Programs) -> Result<Reflector, RolloutError> {
        let ReflectionSettings { on, keep, budget, actor, notes, tries, .. } = *settings;
        let agent = settings.agent.clone();
        let (question, sampling) =
            (question::tried(&agent).map_err(|(_, error)| error)?, agent.sampling(settings.temperature, temperature));
        let sources = sources::open(&agent, &Alone);
        Ok(Reflector { agent, programs, question, on, actor, tries, notes, keep, budget, sampling, learns: true, sources })
    }

    /// The same of a model that an update trains, or that nothing does.
    pub fn learning(self, learns: bool) -> Reflector {
        Reflector { learns, ..self }
    }

    /// The version that reflects on an episode.
    fn version(&self, episode: &Transcript) -> u64 {
        if self.learns {
            episode.start.version
        } else {
            0
        }
    }

    /// The same with these sources of context.
    pub fn reading(self, sources: Vec<Box<dyn ContextSource>>) -> Reflector {
        Reflector { sources, ..self }
    }

    /// The sources of context that it reflects with.
    pub fn sources(&mut self) -> &mut [Box<dyn ContextSource>] {
        &mut self.sources
    }

    /// Reflects on those episodes among `rows`, sorted by name, that the settings ask for; a row each, or no batch
    /// without any. `run` is the run's seed; read tokens are counted in `tokens`. Where the prompt is too long or a
    /// server gives no answer nothing is said, and the reflection joins `failed`. An error if rows lack a column
    /// ([`super::transcript::NEEDS`]), or the policy can't answer.
    pub fn reflect(
        &self,
        policy: &Policy,
        run: u64,
        rows: &RecordBatch,
        tokens: &mut Tally,
        failed: &mut Vec<FailedEpisode>,
    ) -> Result<Option<RecordBatch>, RolloutError> {
        let over: Vec<Transcript> = transcripts(rows)?.into_iter().filter(|episode| self.on.wants(episode.won)).collect();
        self.reflect_on(policy, run, &over, tokens, failed)
    }

    /// The same for these very episodes, in whatever order.
    pub fn reflect_on(
        &self,
        policy: &Policy,
        run: u64,
        over: &[Transcript],
        tokens: &mut Tally,
        failed: &mut Vec<FailedEpisode>,
    ) -> Result<Option<RecordBatch>, RolloutError> {
        if over.is_empty() {
            return Ok(None);
        }
        let tokenizer = policy.tokenizer(&self.agent.model)?;
        let contexts = self.contexts(over, &tokenizer)?;
        let requests = over.iter().zip(contexts).map(|(episode, passages)| self.request(&tokenizer, run, episode, &passages));
        let (mut requests, prompt_memories): (Vec<Request>, Vec<PromptMemory>) =
            requests.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let responses = match self.actor {
            Actor::Policy => self.ask(policy, &tokenizer, over, &mut requests, tokens)?,
            Actor::Expert | Actor::Rescue => {
                over.iter().map(|episode| self.advise(&tokenizer, episode).map(Ok)).collect::<Result<_, _>>()?
            }
        };
        let turns = over.iter().zip(requests.into_iter().zip(prompt_memories)).zip(responses);
        let turns = turns.map(|((episode, (request, prompt_memories)), response)| match response {
            Ok(response) => {
                let unread = Invalid::unread(&response);
                let turn = self.turn(episode, request, prompt_memories, response);
                Turn { invalid: (!turn.valid).then_some(unread), ..turn }
            }
            Err(fault) => {
                // A prompt too long to read is too long to train on: its last token represents it.
                let unread = if fault.cause.name() == Cause::Prompt.name() { request.prompt.len().saturating_sub(1) } else { 0 };
                let request = Request { prompt: request.prompt[unread..].to_vec(), ..request };
                failed.push(lost(episode, fault));
                let nothing = Response::certain(String::new(), vec![tokenizer.end()]);
                Turn { valid: false, ..self.turn(episode, request, prompt_memories, nothing) }
            }
        });
        let turns: Vec<Turn> = turns.collect();
        let notes: Vec<String> = over.iter().zip(&turns).map(|(episode, turn)| self.next_note(episode, turn, &tokenizer)).collect();
        let starts = over.iter().map(|episode| EpisodeStart { version: self.version(episode), ..episode.start.clone() });
        let starts: Vec<EpisodeStart> = starts.collect();
        let records = starts.iter().zip(&turns).zip(&notes);
        let records = records.map(|((start, turn), next_note)| Record { next_note, ..Record::of(start, turn) });
        Ok(Some(record::table(&records.collect::<Vec<_>>(), &self.agent.columns())?))
    }

    /// The policy's responses, with the weights that played. One that can't be read is asked for again, as often as the
    /// settings say, by a seed of its own, which its request then has.
    fn ask(
        &self,
        policy: &Policy,
        tokenizer: &Tokenizer,
        over: &[Transcript],
        requests: &mut [Request],
        tokens: &mut Tally,
    ) -> Result<Vec<Result<Response, Fault>>, RolloutError> {
        let mut responses: BTreeMap<usize, Result<Response, Fault>> = BTreeMap::new();
        let unread = |response: &Result<Response, Fault>| response.as_ref().is_ok_and(|said| self.agent.remarked(&said.text).is_none());
        for again in 0..u64::from(self.tries) {
            let mut by_version: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
            for i in (0..over.len()).filter(|i| responses.get(i).is_none_or(unread)) {
                if again > 0 {
                    requests[i].seed = seed::mix(requests[i].seed, again);
                }
                by_version.entry(self.version(&over[i])).or_default().push(i);
            }
            for (version, which) in by_version {
                let batch: Vec<&Request> = which.iter().map(|&i| &requests[i]).collect();
                let replies = answers(policy, &self.agent.model, version, &batch, &self.sampling, tokens)?;
                let response = |reply: Result<Reply, Fault>| reply.map(|reply| Response::replied(reply, &self.sampling, tokenizer));
                responses.extend(which.into_iter().zip(replies.into_iter().map(response)));
            }
        }
        Ok(responses.into_values().collect())
    }

    /// The expert's response; empty where it has none.
    fn advise(&self, tokenizer: &Tokenizer, episode: &Transcript) -> Result<Response, RolloutError> {
        let lesson = lesson(episode, self.notes)?;
        let text = self.agent.remark().map_or(lesson.clone(), |tag| tags::write(tag, &lesson));
        let mut tokens = tokenizer.encode(&text);
        tokens.push(tokenizer.end());
        Ok(Response::certain(text, tokens))
    }

    /// The passages of context for each of these episodes; its final observation is the query.
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

    /// The request about the episode, and the memory entries in its prompt.
    fn request(
        &self,
        tokenizer: &Tokenizer,
        run: u64,
        episode: &Transcript,
        passages: &[Passage],
    ) -> Result<(Request, PromptMemory), RolloutError> {
        let rules = match self.question.asks("rules") {
            true => self.rules(&Task::parse(&episode.start.task)?.game)?,
            false => String::new(),
        };
        let messages = |passages: &[Passage]| {
            let (memory, above) = (words(passages, PassageSlot::Context), words(passages, PassageSlot::System));
            self.question.messages(&above, |place| question::place(place, episode, &rules, &memory))
        };
        let whole = messages(passages)?;
        let text: String = whole.iter().map(|message| message.content.as_str()).collect();
        let retrieved = standing(passages, &text);
        let plain: Vec<Passage> = passages.iter().filter(|passage| !passage.retrieved()).cloned().collect();
        let bare = if retrieved.is_empty() { vec![] } else { tokenizer.chat(&messages(&plain)?)? };
        let seed = seed::mix(episode.start.seed(run, episode.turns), seed::text("reflect"));
        let queried = self.sources.iter().any(|source| source.queried() == Some(true));
        let request = Request { prompt: tokenizer.chat(&whole)?, seed, choices: vec![], ..Request::default() };
        Ok((request, PromptMemory { queried, retrieved, bare, left_out: 0, message: None }))
    }

    /// The rules of a game; a program reports its own in the handshake.
    fn rules(&self, game: &Game) -> Result<String, EnvError> {
        match game.program() {
            Some(program) => Ok(self.programs.hello(&program.name)?.rules),
            None => Ok(game.rules()),
        }
    }

    /// The reflection as a further turn, with reward 0.
    fn turn(&self, episode: &Transcript, request: Request, prompt_memory: PromptMemory, response: Response) -> Turn {
        let (remark, parts) = (self.agent.remarked(&response.text).map(str::to_owned), self.agent.read(&response.text));
        Turn {
            turn: episode.turns,
            phase: Phase::Reflect,
            observation: episode.outcome.to_owned(),
            state: state(episode),
            prompt_tokens: request.prompt,
            prompt_memory,
            response,
            valid: remark.is_some(),
            action: remark.unwrap_or_default(),
            parts,
            score: episode.score,
            seed: request.seed,
            ..Turn::default()
        }
    }

    /// The notes for the next attempt.
    fn next_note(&self, episode: &Transcript, turn: &Turn, tokenizer: &Tokenizer) -> String {
        let attempt = episode.start.attempt;
        let mut entry = String::new();
        if [NoteContent::History, NoteContent::Both].contains(&self.keep) {
            entry += &notes::history(attempt, &episode.actions, episode.outcome);
        }
        if turn.valid && [NoteContent::Reflection, NoteContent::Both].contains(&self.keep) {
            entry += &notes::reflection(attempt, &turn.action);
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
        number: 0,
    }
}

/// The state of a reflection: a hash of the episode's end.
fn state(episode: &Transcript) -> u64 {
    seed::mix(seed::text("reflect"), seed::text(episode.outcome))
}

#[cfg(test)]
mod tests {
    use super::super::context::{rows, MemoryRecall};
    use super::super::episode::EpisodeStart;
    use super::super::points::{Pointer, Points};
    use super::*;
    use flow_core::row::Name;
    use flow_credit::memory::{Change, Entry};
    use serde_json::json;

    fn reflector(keep: NoteContent, tag: Option<&str>) -> Reflector {
        let answer = tag.map_or(json!([]), |tag| json!([{ "tag": tag, "required": true }]));
        let settings = json!({ "agent": { "model": "actor", "answer": answer }, "keep": keep, "budget": 100 });
        Reflector::new(&serde_json::from_value(settings).unwrap(), 1.0, Programs::default()).unwrap()
    }

    fn queried(reflector: &Reflector) -> (Request, PromptMemory) {
        let contexts = reflector.contexts(&[episode()], &Tokenizer::bytes()).unwrap();
        reflector.request(&Tokenizer::bytes(), 1, &episode(), &contexts[0]).unwrap()
    }

    fn episode() -> Transcript<'static> {
        let start = EpisodeStart { task: "t".into(), sample: 0, attempt: 1, memory: "{first}\n".into(), iteration: 0, version: 0 };
        let (observations, actions) = (vec!["A", "B"], vec!["up", "left"]);
        Transcript { start, instruction: "", first: "A", observations, actions, outcome: "Z", turns: 2, won: false, score: 1.0, kind: "" }
    }

    fn turn_of(reflector: &Reflector, text: &str) -> Turn {
        let response = Response::certain(text.into(), vec![]);
        reflector.turn(&episode(), Request::default(), PromptMemory::default(), response)
    }

    #[test]
    fn a_prompt_tells_the_episode() {
        let (request, _) = queried(&reflector(NoteContent::Both, None));
        assert_eq!(Tokenizer::bytes().decode(&request.prompt), "{first}\nA\nAttempt 2: up; left\nZ\nReflect:");
    }

    /// What an episode ended with is looked for, and what is found is told where the prompt has its memory.
    #[test]
    fn a_reflection_is_told_what_is_remembered() {
        let source = Name { iteration: 0, task: "t".into(), sample: 0, attempt: 0, turn: 1, phase: "reflect".into() };
        let (key, embedding, text) = ("Z".to_owned(), flow_credit::memory::words("Z"), "turn back".to_owned());
        let (ordinal, kind, level) = Default::default();
        let entry =
            Entry { id: 7, bucket: flow_credit::memory::bucket("t"), key, embedding, score: 0.0, text, source, ordinal, kind, level };
        let tokenizer = Tokenizer::bytes();
        let queried = |place: &str| {
            let settings = serde_json::from_value(json!({ "memory": "memory", "place": place })).unwrap();
            let mut memory = MemoryRecall::new(settings, Pointer::new(Points::Words, None, None));
            memory.begin(&rows(&[Change { iteration: 0, change: 1, entry: entry.clone() }]), 1).unwrap();
            let mut reflector = reflector(NoteContent::Both, None);
            reflector.sources.push(Box::new(memory));
            let (request, prompt_memory) = queried(&reflector);
            (tokenizer.decode(&request.prompt), prompt_memory.queried, prompt_memory.retrieved, tokenizer.decode(&prompt_memory.bare))
        };
        let bare = "{first}\nA\nAttempt 2: up; left\nZ\nReflect:";
        let expected = bare.replacen("A\n", "Remembered:\n- turn back\nA\n", 1);
        assert_eq!(queried("before"), (expected, true, vec![7], bare.into()));
        assert_eq!(queried("system").0, format!("Remembered:\n- turn back\n{bare}"));
    }

    #[test]
    fn the_remark_is_what_the_tag_holds_or_everything() {
        let tagged = reflector(NoteContent::Both, Some("remark"));
        let (turn, none) = (turn_of(&tagged, "so <remark> go up </remark>."), turn_of(&tagged, "go up"));
        assert_eq!((turn.action.as_str(), turn.valid, turn.turn, turn.phase), ("go up", true, 2, Phase::Reflect));
        assert_eq!((none.action.as_str(), none.valid), ("", false));
        assert_eq!(turn_of(&reflector(NoteContent::Both, None), " go up\n").action, "go up");
    }

    #[test]
    fn what_is_kept_is_what_is_declared() {
        let tokenizer = Tokenizer::bytes();
        let note = |keep| {
            let reflector = reflector(keep, None);
            reflector.next_note(&episode(), &turn_of(&reflector, "go up"), &tokenizer)
        };
        assert_eq!(note(NoteContent::None), "{first}\n");
        assert_eq!(note(NoteContent::Reflection), "{first}\nAttempt 2, noted: go up\n");
        assert_eq!(note(NoteContent::History), "{first}\nAttempt 2: up; left\nZ\n");
        assert_eq!(note(NoteContent::Both), "{first}\nAttempt 2: up; left\nZ\nAttempt 2, noted: go up\n");
    }
}
