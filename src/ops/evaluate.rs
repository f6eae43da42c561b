//! `evaluate`: plays a frozen panel of tasks every few iterations. At iteration t it measures the weights that t
//! updates made, so 0 is the untrained policy and the last one is what the run leaves behind. An episode that fails is not won.
//! Each process plays its share of the panel.

use super::attempts::{Attempts, Iteration};
use super::games::unmeasurable;
use super::incoming::newest;
use super::operator::{must, port, settings, Further, Head, Operator, Settings, Unfit};
use super::ranked;
use super::recall;
use super::reflect::Reflections;
use super::rollout::{self, Rollout};
use super::templates;
use crate::dataflow::context::Trial;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::streaming::Streaming;
use crate::dataflow::{Context, Edge, Failed, Place, Ports, Route};
use crate::env::{Game, Panel, Worlds};
use crate::pipeline::{Carries, Delay, Need, Node, Pipeline, Port, Role, Until, With, Wrong};
use crate::rollout::exchange::Whose;
use crate::rollout::notes::words as memory_words;
use crate::rollout::player::Play;
use crate::rollout::prompt::Prompt;
use crate::rollout::recall::{Place as Told, RecallSettings};
use crate::rollout::record::COLUMNS;
use crate::rollout::reflection::Reflector;
use crate::rollout::sampler::Sampler;
use crate::rollout::settings::{Actor, PlaySettings, ReflectionSettings, SamplingSettings, EVALUATION_SEED, EVALUATION_TEMPERATURE};
use crate::row::{self, RowError};
use arrow::array::{RecordBatch, StringArray, UInt64Array};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::path::Path;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `evaluate`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Evaluate {
    /// The model that plays.
    model: String,
    /// The file of a frozen panel.
    panel: String,
    /// Measures at iterations 0, `every`, 2 * `every` and at the end.
    #[serde(default = "ten")]
    #[schemars(range(min = 1))]
    every: u64,
    /// Trajectories a task.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    samples: u32,
    #[serde(flatten)]
    play: PlaySettings,
    #[serde(flatten)]
    sampling: SamplingSettings,
    /// Attempts at a task, until one succeeds: pass@1 up to pass@k.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    attempts: u32,
    /// With several attempts, how the model reflects on those before, at the temperature at which it plays unless given another;
    /// without it, it doesn't.
    #[serde(default)]
    reflect: Option<ReflectionSettings>,
    /// How the memory at the port `memory` is read; it is asked in every measurement.
    #[serde(default)]
    retrieve: Option<RecallSettings>,
    /// The encoder, of `models`, of a memory whose `points` are an encoder's.
    #[serde(default)]
    encoder: Option<String>,
}

fn ten() -> u64 {
    10
}
fn one() -> u32 {
    1
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "evaluate",
    about: "plays a frozen panel of tasks every few iterations",
    role: Role::Measures,
    ports: &[
        Port {
            name: "weights",
            about: "the update whose weights are measured",
            carries: Carries::Weights,
            needs: &["version"],
            optional: false,
            delay: Delay::Always,
        },
        Port {
            name: recall::PORT,
            about: "the memory that `retrieve` reads, as it is when the weights are measured",
            carries: Carries::Memory,
            needs: &[],
            optional: true,
            delay: Delay::Always,
        },
    ],
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<Evaluate>(),
    outside: render,
    inside: None,
    further: Further { needs, wrong, head: |_| Some(Head::Language), game: |node| game(node).map(Some), words, notes, ..Further::NOTHING },
};

fn needs(with: &With) -> Vec<Need> {
    with.typed::<Evaluate>().map_or_else(Vec::new, |with| recall::needs(with.retrieve.as_ref()))
}

fn panel(node: &Node, with: &Evaluate) -> Result<Panel, Wrong> {
    Panel::load(Path::new(&with.panel)).map_err(|e| Wrong::in_node(node, &["with", "panel"], format!("panel: {e}")))
}

/// A panel that isn't there, or that can't be played; a memory that can't be read, or only by chance.
fn wrong(node: &Node, pipeline: &Pipeline) -> Vec<Wrong> {
    let wrong = match game(node) {
        Ok(game) => game.program().and_then(|program| unmeasurable(node, program, pipeline)),
        Err(wrong) => Some(wrong),
    };
    let mut wrong: Vec<Wrong> = wrong.into_iter().collect();
    let Ok(with) = settings::<Evaluate>(node) else { return wrong };
    let told = with.retrieve.as_ref().is_some_and(|retrieve| retrieve.place == Told::Before);
    wrong.extend(templates::played(node, &with.play, with.attempts > 1 || told));
    wrong.extend(ranked::wrong(node, pipeline, &with.play, Actor::Policy));
    wrong.extend(with.reflect.as_ref().and_then(|how| templates::reflected(node, &["reflect"], how).err()));
    wrong.extend(recall::wrong(node, pipeline, with.retrieve.as_ref().map(|retrieve| retrieve.retrieval.by)));
    if with.retrieve.as_ref().is_some_and(|retrieve| retrieve.chance < 1.0) {
        let message = "`evaluate` measures with the memory or without it, and not by chance";
        wrong.push(Wrong::in_node(node, &["with", "retrieve", "chance"], message).help("leave `chance` out, or `retrieve`"));
    }
    wrong
}

/// The game of the node's panel.
fn game(node: &Node) -> Result<Game, Wrong> {
    let with = settings::<Evaluate>(node)?;
    let at = |message: String| Wrong::in_node(node, &["with", "panel"], message);
    let tasks = panel(node, &with)?.tasks;
    tasks.into_iter().next().map(|task| task.game).ok_or_else(|| at(format!("panel `{}` has no tasks", with.panel)))
}

/// The words of what a further attempt is told, and those of a prompt of its own.
fn words(node: &Node) -> Result<Vec<String>, Wrong> {
    let with = settings::<Evaluate>(node)?;
    let mut words = if with.attempts > 1 { memory_words() } else { vec![] };
    words.extend(templates::words(node, &with.play)?);
    words.extend(recall::words(with.retrieve.as_ref()));
    Ok(words)
}

/// That it plays in another way than every rollout from which its model learns.
fn notes(node: &Node, pipeline: &Pipeline) -> Vec<String> {
    let Ok(with) = settings::<Evaluate>(node) else { return vec![] };
    let own = way(&with.play, &with.sampling);
    let mut found = Vec::new();
    for other in pipeline.all().filter(|n| n.op == rollout::OPERATOR.name) {
        let Ok(rollout) = settings::<Rollout>(other) else { continue };
        if rollout.model != with.model || rollout.actor != Actor::Policy {
            continue;
        }
        let theirs = way(&rollout.play, &rollout.sampling);
        let differ: Vec<_> = own.iter().zip(&theirs).filter(|(here, there)| here != there).collect();
        if differ.is_empty() {
            return vec![];
        }
        let here: Vec<String> = differ.iter().map(|(here, _)| format!("`{here}`")).collect();
        let there: Vec<String> = differ.iter().map(|(_, there)| format!("`{there}`")).collect();
        let (here, there) = (here.join(", "), there.join(", "));
        found.push(format!("it plays with {here} where `{}` trains with {there}: what is measured isn't what is trained", other.id));
    }
    found
}

/// The settings that decide what a policy is shown and how it answers.
fn way(play: &PlaySettings, sampling: &SamplingSettings) -> Vec<String> {
    let retells = Prompt::new(play).is_ok_and(|prompt| prompt.asks("history"));
    let shown = if retells { play.history } else { 0 };
    let told = |name: &str, value: Value| format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), String::from));
    vec![
        told("prompt", json!(play.prompt)),
        told("system", json!(play.system)),
        told("layout", json!(play.layout)),
        told("history", json!(shown)),
        told("prompt_tokens", json!(play.prompt_tokens)),
        told("decode", json!(play.decode)),
        told("critic", json!(play.critic)),
        told("rank", json!(play.rank)),
        told("max_tokens", json!(sampling.max_tokens)),
    ]
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Evaluate>(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let tasks = panel(node, &with)?.tasks;
    let whose = with.play.notes;
    // Notes change hands within one process.
    let share = if whose == Whose::Another { 1 } else { ctx.team.processes };
    let names: Vec<String> = tasks.iter().enumerate().filter(|(i, _)| i % share == ctx.team.process).map(|(_, t)| t.name()).collect();
    let panel = row::batch(vec![("task", Arc::new(StringArray::from(names)))])?;
    let trial = Trial { attempts: with.attempts.into(), until: Until::Won };
    let sampling = with.sampling.sampling(EVALUATION_TEMPERATURE);
    let outside = ctx.shared.outside.clone();
    let reflector = with.reflect.as_ref().map(|how| Reflector::new(with.model.clone(), how, sampling.temperature, outside)).transpose()?;
    let told = (ctx.shared.clone(), node.id.clone());
    let reflecting = |how| Reflections::new(how, policy.clone(), EVALUATION_SEED, Some(trial.attempts - 1), told).uncounted();
    let mut reflections = reflector.map(reflecting);
    let (keep, budget) = (with.play.keep, with.play.budget);
    // Whatever fails is not won, and that is the measure.
    let how = Play { model: with.model.clone(), actor: Actor::Policy, sampling, settings: with.play.clone(), max_failed: 1.0 };
    let (shared, id, last) = (ctx.shared.clone(), node.id.clone(), ctx.iterations);
    let recalled = recall::reader(node, with.retrieve.as_ref(), with.encoder.as_deref(), ctx);
    let mut attempts = Attempts {
        sampler: Sampler::new(policy, how, Worlds::new(ctx.shared.outside.clone()), EVALUATION_SEED)?.recalling(recalled),
        samples: with.samples,
        keep,
        budget,
        whose,
        trial,
        node: id.clone(),
        shared: shared.clone(),
        version: 0,
        // Sampled with the same numbers each time, so that curves move by the weights alone.
        drawn: Some(0),
        now: Iteration::default(),
    };
    let mut version = 0;
    let mut inputs = vec![(must(&ports, "weights")?, Route::All)];
    inputs.extend(port(&ports, recall::PORT).map(|edge| (edge, Route::All)));
    let shape = Stage { name: node.id.clone(), inputs, begins: true, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        version = newest(version, rows.first())?;
        if let Some(memory) = attempts.sampler.recall() {
            recall::begin(memory, rows.get(1), EVALUATION_SEED)?;
        }
        if iteration % with.every != 0 && iteration < last {
            return Ok(vec![]);
        }
        attempts.begin(iteration, vec![])?;
        if let Some(reflections) = &mut reflections {
            reflections.begin(iteration, vec![])?;
        }
        attempts.version = version;
        let made = attempts.whole(panel.clone(), reflections.as_mut().map(|machine| machine as &mut dyn Streaming))?;
        shared.measure(iteration, &id, "panel", panel.num_rows() as f64);
        let Some(rows) = row::sorted(&made)? else { return Ok(vec![]) };
        Ok(vec![stamped(&rows, iteration)?])
    }))
}

/// The rows with the iteration in which they were measured.
fn stamped(rows: &RecordBatch, iteration: u64) -> Result<RecordBatch, RowError> {
    let iterations = UInt64Array::from(vec![iteration; rows.num_rows()]);
    row::with(rows, "iteration", Arc::new(iterations))
}
