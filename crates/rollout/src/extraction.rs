//! Extracts entries for a memory from the best and the worst episodes of an iteration (SLEA-RL, section 3.4: selective
//! extraction): strategies from the good ones, warnings from the others.
//!
//! Each row that comes out has a list in its column `action`, a line an entry: the kind, a `/`, the level, a colon and
//! the text. A policy writes `level: text` lines on an episode as a whole; a template makes one such line of a turn.
//! Either way the row's score is its episode's: "each extracted experience inherits the episode reward of its source
//! trajectory".

use super::action::Response;
use super::agent::{agent_or_name, Agent, TRAINING_TEMPERATURE};
use super::error::RolloutError;
use super::record::{self, Record};
use super::reflection::Reflector;
use super::retry::FailedEpisode;
use super::settings::{Actor, On, ReflectionSettings};
use super::template::{Placeholders, PromptTemplate, TemplateError, HOLE};
use super::transcript::{transcripts, Transcript};
use super::turn::{Phase, Turn};
use arrow::array::{RecordBatch, StringArray};
use flow_core::defaults::number;
use flow_core::row;
use flow_core::seed;
use flow_credit::memory::{unmarked, Outcomes, Ranked};
use flow_env::process::Programs;
use flow_model::Tally;
use flow_policy::Policy;
use minijinja::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What entries are called that come from episodes that came out well, and those from the others.
pub const KINDS: [&str; 2] = ["strategy", "warning"];

/// How entries are extracted from episodes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ExtractionSettings {
    #[serde(flatten)]
    pub outcomes: Outcomes,
    /// The agent that writes the entries, `level: text` lines, on one episode at a time; its prompt may ask for
    /// `{{ kind }}` and `{{ transcript }}`. All of its answer is read unless it has an `answer`.
    #[serde(default)]
    #[schemars(schema_with = "optional_agent")]
    pub agent: Option<Agent>,
    /// The temperature at which it samples here, if not its own; 0 takes the likeliest.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: Option<f64>,
    /// In place of an agent, for policies that can't write: a template that makes the line `level: text` of a turn. It
    /// may ask for `observation`, `action`, `next` (what the turn led to), `turn` and `turns` (numbers, from 1),
    /// `kind`, `won` and `score`. The turns that are nearest to the end of their episodes come first.
    #[schemars(extend("x-names" = "template"))]
    pub template: Option<String>,
    /// Strategies of an iteration, at most, those of the best episode first.
    #[serde(default = "number::<usize, 10>")]
    #[schemars(range(max = 10_000))]
    pub strategies: usize,
    /// Warnings of an iteration, at most, those of the worst episode first.
    #[serde(default = "number::<usize, 5>")]
    #[schemars(range(max = 10_000))]
    pub warnings: usize,
}

fn optional_agent(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    agent_or_name(generator)
}

/// What a template of a turn can ask for.
pub const PLACES: Placeholders = &[
    ("action", "the action"),
    ("observation", "the observation before it"),
    ("next", "the observation after it"),
    ("turn", "the number of the turn, from 1"),
    ("turns", "how many turns the episode had"),
    ("kind", "`strategy` or `warning`"),
    ("won", "whether the episode was won"),
    ("score", "its score"),
];

/// Extracts entries from episodes.
pub struct Extractor {
    outcomes: Outcomes,
    /// How many entries of each of [`KINDS`] there may be.
    most: [usize; 2],
    writer: Writer,
}

enum Writer {
    Agent(Box<Reflector>),
    Template(Box<PromptTemplate>),
}

impl ExtractionSettings {
    /// The template of a turn, if there is one.
    ///
    /// # Errors
    /// If it can't be read, or uses an unknown name.
    pub fn template(&self) -> Result<Option<PromptTemplate>, TemplateError> {
        let Some(text) = &self.template else { return Ok(None) };
        let template = PromptTemplate::read(text, PLACES)?;
        template.fill(|place| match place {
            "turn" | "turns" | "score" => 1.into(),
            "won" => true.into(),
            place => place.into(),
        })?;
        Ok(Some(template))
    }

    /// The words that the entries' texts may have besides those of the environment, for a vocabulary.
    pub fn words(&self) -> Vec<String> {
        let template = self.template().ok().flatten();
        template.map_or_else(Vec::new, |template| {
            [true, false]
                .into_iter()
                .flat_map(|won| template.words(|place| if place == "won" { won.into() } else { HOLE.into() }))
                .collect()
        })
    }
}

impl Extractor {
    /// Extracts as these settings say; `programs` knows the programs that played.
    ///
    /// # Errors
    /// If a template can't be read, or there is neither an agent nor a template.
    pub fn new(settings: &ExtractionSettings, programs: Programs) -> Result<Extractor, RolloutError> {
        let writer = match (settings.template()?, &settings.agent) {
            (Some(template), _) => Writer::Template(Box::new(template)),
            (None, Some(agent)) => {
                let reflection = ReflectionSettings {
                    agent: Agent { answer: agent.answer.clone().or(Some(vec![])), ..agent.clone() },
                    temperature: settings.temperature,
                    on: On::Always,
                    tries: 1,
                    keep: super::notes::NoteContent::None,
                    budget: 0,
                    actor: Actor::Policy,
                    notes: Default::default(),
                };
                Writer::Agent(Box::new(Reflector::new(&reflection, TRAINING_TEMPERATURE, programs)?))
            }
            (None, None) => return Err(RolloutError::NoWriter),
        };
        Ok(Extractor { outcomes: settings.outcomes.clone(), most: [settings.strategies, settings.warnings], writer })
    }

    /// The rows with the entries extracted from the episodes among `rows`, which are sorted by name; no batch where
    /// there are none. `run` is the run's seed; read tokens are counted in `tokens`, and what a policy could not answer
    /// joins `failed`.
    ///
    /// # Errors
    /// If rows lack a column ([`super::transcript::NEEDS`]), or the policy can't answer.
    pub fn extract(
        &self,
        policy: Option<&Policy>,
        run: u64,
        rows: &RecordBatch,
        tokens: &mut Tally,
        failed: &mut Vec<FailedEpisode>,
    ) -> Result<Vec<RecordBatch>, RolloutError> {
        let episodes = transcripts(rows)?;
        let (well, badly) = self.outcomes.of(&episodes.iter().map(|episode| ranked(run, episode)).collect::<Vec<_>>());
        let mut batches = Vec::new();
        let mut episodes: Vec<Option<Transcript>> = episodes.into_iter().map(Some).collect();
        for ((places, kind), most) in [well, badly].iter().zip(KINDS).zip(self.most) {
            let chosen = places.iter().filter_map(|i| episodes[*i].take());
            let chosen: Vec<Transcript> = chosen.map(|episode| Transcript { kind, ..episode }).collect();
            batches.extend(match &self.writer {
                Writer::Template(template) => filled(template, &chosen, most)?,
                Writer::Agent(reflector) => {
                    let policy = policy.ok_or(RolloutError::NoWriter)?;
                    let written = reflector.reflect_on(policy, run, &chosen, tokens, failed)?;
                    written.map(|rows| limited(&rows, kind, most)).transpose()?
                }
            });
        }
        Ok(batches)
    }
}

/// An episode to be ranked; its draw follows from its name and the run's seed.
fn ranked<'a>(run: u64, episode: &'a Transcript) -> Ranked<'a> {
    let start = &episode.start;
    let name = [start.iteration, seed::text(&start.task), u64::from(start.sample), u64::from(start.attempt)];
    Ranked { task: &start.task, score: episode.score, draw: name.into_iter().fold(run, seed::mix) }
}

/// A row for each of the turns that count: the last of each episode, then those before them, and so on.
fn filled(template: &PromptTemplate, episodes: &[Transcript], most: usize) -> Result<Option<RecordBatch>, RolloutError> {
    let longest = episodes.iter().map(|episode| episode.actions.len()).max().unwrap_or_default();
    let places = (1..=longest).flat_map(|back| (0..episodes.len()).map(move |i| (i, back)));
    let places = places.filter_map(|(i, back)| Some((&episodes[i], episodes[i].actions.len().checked_sub(back)?)));
    let mut turns: Vec<(&Transcript, Turn)> = Vec::new();
    for (episode, i) in places.take(most) {
        let next = episode.observations.get(i + 1).copied().unwrap_or(episode.outcome);
        let line = template.fill(|place| match place {
            "action" => episode.actions[i].into(),
            "observation" => episode.observations[i].into(),
            "next" => next.into(),
            "turn" => (i + 1).into(),
            "turns" => episode.actions.len().into(),
            "kind" => episode.kind.into(),
            "won" => episode.won.into(),
            "score" => episode.score.into(),
            _ => Value::UNDEFINED,
        })?;
        turns.push((episode, turn(episode, i, list(&line.replace('\n', " "), episode.kind, 1))));
    }
    let mut records: Vec<Record> = Vec::with_capacity(turns.len());
    for (episode, turn) in &turns {
        records.push(Record::of(&episode.start, turn));
    }
    Ok(if records.is_empty() { None } else { Some(record::table(&records, &[])?) })
}

/// The turn `i` of an episode with a line about it, as a row of phase `reflect` without sampled tokens.
fn turn(episode: &Transcript, i: usize, line: String) -> Turn {
    let observation = episode.observations[i].to_owned();
    Turn {
        turn: i as u32,
        phase: Phase::Reflect,
        state: seed::mix(seed::text("entry"), seed::text(&observation)),
        observation,
        response: Response::certain(line.clone(), vec![]),
        valid: !line.is_empty(),
        action: line,
        score: episode.score,
        ..Turn::default()
    }
}

/// The same rows, whose lists together have so many lines at most.
fn limited(rows: &RecordBatch, kind: &str, most: usize) -> Result<RecordBatch, RolloutError> {
    let mut left = most;
    let lists = row::texts(rows, "action")?.iter().map(|text| {
        let own = list(text.unwrap_or_default(), kind, left);
        left -= own.lines().count();
        own
    });
    Ok(row::with(rows, "action", Arc::new(StringArray::from_iter_values(lists)))?)
}

/// The first lines of a text as a list of entries of this kind.
fn list(text: &str, kind: &str, most: usize) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(most).map(|line| format!("{kind}/{}", unmarked(line))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::episode::EpisodeStart;
    use super::*;

    fn episode(sample: u32, actions: Vec<&'static str>, score: f32) -> Transcript<'static> {
        let start = EpisodeStart { task: "t".into(), sample, attempt: 0, memory: String::new(), iteration: 0, version: 0 };
        let (turns, observations) = (actions.len() as u32, ["A", "B", "C"][..actions.len()].to_vec());
        Transcript {
            start,
            instruction: "",
            first: "A",
            observations,
            actions,
            outcome: "Z\nend",
            turns,
            won: score > 0.0,
            score,
            kind: "warning",
        }
    }

    fn settings(with: serde_json::Value) -> ExtractionSettings {
        serde_json::from_value(with).unwrap()
    }

    #[test]
    fn the_last_turns_of_all_episodes_come_first() {
        let template = settings(serde_json::json!({ "template": "example: {{ action }} ({{ turn }} of {{ turns }}), then {{ next }}" }));
        let template = template.template().unwrap().unwrap();
        let rows = filled(&template, &[episode(0, vec!["up", "left"], 0.0), episode(1, vec!["down"], 1.0)], 3).unwrap().unwrap();
        let texts = |name| row::texts(&rows, name).unwrap().iter().flatten().map(str::to_owned).collect::<Vec<_>>();
        let expected = ["left (2 of 2), then Z end", "down (1 of 1), then Z end", "up (1 of 2), then B"];
        assert_eq!(texts("action"), expected.map(|text| format!("warning/example: {text}")));
        assert_eq!((texts("observation"), texts("phase")), (vec!["B".into(), "A".into(), "A".into()], vec!["reflect".to_owned(); 3]));
        assert_eq!(row::f32s(&rows, "score").unwrap().values().to_vec(), [0.0, 1.0, 0.0]);
        assert!(filled(&template, &[], 3).unwrap().is_none());
        assert_eq!(filled(&template, &[episode(0, vec!["up", "left"], 0.0)], 1).unwrap().unwrap().num_rows(), 1);
    }

    #[test]
    fn lists_together_have_so_many_lines() {
        let turns: Vec<_> = ["- principle: look first\n\n2. pattern: then go", "example: up\nso far so good"]
            .into_iter()
            .enumerate()
            .map(|(i, text)| (episode(i as u32, vec!["up"], 1.0), turn(&episode(i as u32, vec!["up"], 1.0), 0, text.into())))
            .collect();
        let records: Vec<Record> = turns.iter().map(|(episode, turn)| Record::of(&episode.start, turn)).collect();
        let rows = record::table(&records, &[]).unwrap();
        let lists = |most| {
            let rows = limited(&rows, "strategy", most).unwrap();
            row::texts(&rows, "action").unwrap().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
        };
        let first = "strategy/principle: look first\nstrategy/pattern: then go";
        assert_eq!(lists(9), [first, "strategy/example: up\nstrategy/so far so good"]);
        assert_eq!(lists(3), [first, "strategy/example: up"]);
        assert_eq!(lists(1), ["strategy/principle: look first", ""]);
    }
}
