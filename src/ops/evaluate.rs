//! `evaluate`: plays a frozen panel of tasks every few iterations. At iteration t it measures the weights that t
//! updates made, so 0 is the untrained policy and the last one is what the run leaves behind. An episode that fails is
//! not won. Each process plays its share of the panel.

use super::checks::agents;
use super::episodes::attempts::{Attempts, IterationProgress};
use super::episodes::by_name;
use super::episodes::inputs::newest;
use super::games::unmeasurable;
use super::memories::reading;
use super::operator::{port, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use super::reflect::Reflections;
use arrow::array::{RecordBatch, StringArray, UInt64Array};
use flow_core::defaults::number;
use flow_core::row::{self, RowError};
use flow_dataflow::context::TrialLimits;
use flow_dataflow::source;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::streaming::Streaming;
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_env::{Environments, Game, Panel};
use flow_pipeline::{Delay, Mistake, Need, Node, Pipeline, Port, Role, Until, With};
use flow_rollout::agent::EVALUATION_TEMPERATURE;
use flow_rollout::exchange::NotesOwner;
use flow_rollout::notes::words as memory_words;
use flow_rollout::player::Play;
use flow_rollout::record::COLUMNS;
use flow_rollout::reflection::Reflector;
use flow_rollout::retry::RetryPolicy;
use flow_rollout::sampler::Sampler;
use flow_rollout::settings::{Actor, PlaySettings, ReflectionSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `evaluate`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Evaluate {
    #[serde(flatten)]
    play: PlaySettings,
    /// The file of a frozen panel.
    #[schemars(extend("x-names" = "file"))]
    panel: String,
    /// Measures at iterations 0, `every`, 2 * `every` and, where an update gives the weights, at the end.
    #[serde(default = "number::<u64, 10>")]
    #[schemars(range(min = 1))]
    every: u64,
    /// Trajectories a task.
    #[serde(default = "number::<u32, 1>")]
    #[schemars(range(min = 1, max = 10_000))]
    samples: u32,
    /// Attempts at a task, until one succeeds: pass@1 up to pass@k.
    #[serde(default = "number::<u32, 1>")]
    #[schemars(range(min = 1, max = 100))]
    attempts: u32,
    /// With several attempts, how those before are reflected on, at the temperature of this evaluation unless given
    /// another; without it, there is no reflection.
    reflect: Option<ReflectionSettings>,
    /// The seed of its random numbers: the same for every run unless given, so that two runs are measured with the same
    /// numbers.
    #[serde(default)]
    seed: u64,
}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "evaluate",
    about: "plays a frozen panel of tasks every few iterations",
    role: Role::Measures,
    ports: &[
        Port::weights("the update whose weights are measured; needed where one trains the model").optional().delayed(Delay::Always),
        reading::PORT,
    ],
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<Evaluate>(),
    outside: render,
    inside: None,
    hooks: Hooks {
        needs,
        mistakes,
        head: |_| Some(RequiredHead::Language),
        game: |node| game(node).map(Some),
        makes,
        words,
        notes,
        ..Hooks::NONE
    },
};

fn needs(with: &With) -> Vec<Need> {
    with.typed::<Evaluate>().map_or_else(Vec::new, |with| reading::needs(&with.play.agent))
}

/// The parts of the answers: of the agent that plays, and of the one that reflects.
fn makes(with: &With) -> Vec<String> {
    with.typed::<Evaluate>().map_or_else(Vec::new, |with| with.parts())
}

impl Evaluate {
    fn parts(&self) -> Vec<String> {
        let reflected = self.reflect.iter().flat_map(|reflect| reflect.agent.columns());
        let mut parts: Vec<String> = self.play.agent.columns().into_iter().chain(reflected).collect();
        parts.sort();
        parts.dedup();
        parts
    }
}

fn panel(node: &Node, with: &Evaluate) -> Result<Panel, Mistake> {
    Panel::load(Path::new(&with.panel)).map_err(|e| Mistake::in_node(node, &["with", "panel"], format!("panel: {e}")))
}

/// A panel that isn't there, or that can't be played; a memory that can't be read, or only by chance.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let unplayable = match game(node) {
        Ok(game) => unmeasurable(node, &game, pipeline),
        Err(mistake) => Some(mistake),
    };
    let mut mistakes: Vec<Mistake> = unplayable.into_iter().collect();
    let Ok(with) = settings::<Evaluate>(node) else { return mistakes };
    mistakes.extend(agents::mistakes(node, pipeline, &with.play.agent, Actor::Policy, with.attempts > 1));
    mistakes.extend(with.reflect.as_ref().and_then(|reflect| agents::question(node, &["reflect"], &reflect.agent).err()));
    mistakes.extend(reading::mistakes(node, pipeline, &with.play.agent, &["weights"]));
    if with.reflect.is_some() && !with.play.agent.by_name.is_empty() {
        let message = "attempts of several models are not reflected on: the version that would reflect isn't known";
        mistakes.push(Mistake::in_node(node, &["with", "reflect"], message).help("leave `reflect` out, or `by_name`"));
    }
    mistakes
}

/// The game of the node's panel.
fn game(node: &Node) -> Result<Game, Mistake> {
    let with = settings::<Evaluate>(node)?;
    let at = |message: String| Mistake::in_node(node, &["with", "panel"], message);
    let tasks = panel(node, &with)?.tasks;
    tasks.into_iter().next().map(|task| task.game).ok_or_else(|| at(format!("panel `{}` has no tasks", with.panel)))
}

/// What an evaluation plays, as its settings say.
pub struct Measurement {
    /// The names of the panel's tasks, where the file can be read.
    pub tasks: Option<Vec<String>>,
    /// Trajectories a task.
    pub samples: u32,
    every: u64,
    /// Whether it measures weights that a node trains.
    trained: bool,
}

impl Measurement {
    /// What this node plays; none if it isn't an evaluation.
    pub fn of(node: &Node) -> Option<Measurement> {
        let with = node.with.typed::<Evaluate>()?;
        let weights = |port: &str| port == "weights" || with.play.agent.by_name.iter().any(|name| name == port);
        let trained = node.inputs.iter().any(|input| weights(&input.port));
        let tasks = panel(node, &with).ok().map(|panel| panel.tasks.iter().map(|task| task.name()).collect());
        Some(Measurement { tasks, samples: with.samples, every: with.every, trained })
    }

    /// Whether it plays in an iteration of a run of so many: the weights of the last update are measured once they are
    /// over, and untrained ones have been measured by then.
    pub fn due(&self, iteration: u64, iterations: u64) -> bool {
        if iteration >= iterations {
            self.trained
        } else {
            iteration.is_multiple_of(self.every)
        }
    }
}

/// The words of notes for a further attempt, and of the node's own prompt.
fn words(node: &Node) -> Result<Vec<String>, Mistake> {
    let with = settings::<Evaluate>(node)?;
    let mut words = if with.attempts > 1 { memory_words() } else { vec![] };
    words.extend(agents::words(node, &with.play.agent)?);
    words.extend(reading::words(node, &with.play.agent));
    Ok(words)
}

/// What a conversation costs, and which memories of its agent are read where it trains and not here.
fn notes(node: &Node, pipeline: &Pipeline) -> Vec<String> {
    let Ok(with) = settings::<Evaluate>(node) else { return vec![] };
    let agent = &with.play.agent;
    let mut notes = agents::notes(node, agent);
    let reads = |node: &Node, port: &str| node.inputs.iter().any(|input| input.port == port);
    for memory in agent.memories().filter(|memory| !reads(node, &memory.memory)) {
        if pipeline.all().any(|other| reads(other, &memory.memory)) {
            notes.push(format!(
                "it has no input `{0}`, so its agent retrieves nothing from that memory: it is measured without it",
                memory.memory
            ));
        }
    }
    notes
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Evaluate>(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let tasks = panel(node, &with)?.tasks;
    let PlaySettings { agent, temperature, tries } = &with.play;
    let (agent, notes) = (agent.measured(), agent.notes());
    // Notes change hands within one process.
    let share = if notes.notes == NotesOwner::Another { 1 } else { ctx.team.processes };
    let names: Vec<String> = tasks.iter().enumerate().filter(|(i, _)| i % share == ctx.team.process).map(|(_, t)| t.name()).collect();
    let panel = row::batch(vec![("task", Arc::new(StringArray::from(names)))])?;
    let trial = TrialLimits { attempts: with.attempts.into(), until: Until::Won };
    let sampling = agent.sampling(*temperature, EVALUATION_TEMPERATURE);
    let (programs, seed) = (ctx.shared.programs.clone(), with.seed);
    let reflector = |reflect: &ReflectionSettings| {
        let learns = super::trained(&ctx.pipeline, &reflect.agent.model);
        Reflector::new(reflect, sampling.temperature, programs.clone()).map(|reflector| reflector.learning(learns))
    };
    let reflector = with.reflect.as_ref().map(reflector).transpose()?;
    let reports = (ctx.shared.clone(), node.id.clone());
    let reflecting = |reflector| Reflections::new(reflector, policy.clone(), seed, Some(trial.attempts - 1), reports).uncounted();
    let mut reflections = reflector.map(reflecting);
    // Whatever fails is not won, and that is the measure.
    let retry = RetryPolicy { tries: *tries, max_failed: 1.0 };
    let parts = with.parts();
    let schema = row::schema(&COLUMNS.iter().copied().chain(parts.iter().map(String::as_str)).collect::<Vec<_>>())?;
    let sources = reading::sources(node, &agent, ctx);
    let play = Play { agent, actor: Actor::Policy, sampling, join: false, retry };
    let (shared, id, last) = (ctx.shared.clone(), node.id.clone(), ctx.iterations);
    let weights = port(&ports, "weights");
    let (names, named) = by_name::edges(&with.play.agent, &ports);
    let (weighed, at_memory) = (weights.is_some(), 1 + named.len());
    let trained = weighed || !named.is_empty();
    let learns = super::trained(&ctx.pipeline, &with.play.agent.model);
    // Where nothing is trained, iterations come by themselves.
    let clock = || source::iterations(&format!("the iterations of {}", node.id), scope, ctx, tick);
    let first = (weights.unwrap_or_else(clock), Route::All);
    let further: Vec<_> = named.into_iter().chain(reading::edges(&sources, &ports)).map(|edge| (edge, Route::All)).collect();
    let mut attempts = Attempts {
        sampler: Sampler::new(policy, play, Environments::new(programs), seed)?.reading(sources),
        samples: with.samples,
        notes,
        trial,
        node: id.clone(),
        shared: shared.clone(),
        learns,
        version: 0,
        // Sampled with the same numbers each time, so that curves move by the weights alone.
        drawn: Some(0),
        now: IterationProgress::default(),
    };
    let mut version = 0;
    let inputs = std::iter::once(first).chain(further).collect();
    let shape = Stage { name: node.id.clone(), inputs, begins: true, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        version = newest(version, rows.first().filter(|_| weighed && learns))?;
        by_name::renew(&mut attempts.sampler, &names, &rows[1..at_memory])?;
        reading::begin(&mut attempts.sampler.player.sources, &rows[at_memory..], seed)?;
        // The weights of the last update are there once iterations are over; untrained ones have been measured by then.
        let over = iteration >= last;
        let due = if over { trained } else { iteration % with.every == 0 };
        if !due {
            return Ok(vec![]);
        }
        attempts.begin(iteration, vec![])?;
        if let Some(reflections) = &mut reflections {
            reflections.begin(iteration, vec![])?;
        }
        attempts.version = version;
        let played = attempts.play_all(panel.clone(), reflections.as_mut().map(|machine| machine as &mut dyn Streaming))?;
        // Turns and reflections have the parts of different agents.
        let rows_played = played.iter().map(|rows| row::shaped(rows, &schema)).collect::<Result<Vec<_>, _>>()?;
        shared.measure(iteration, &id, "panel", panel.num_rows() as f64);
        let Some(rows) = row::sorted(&rows_played)? else { return Ok(vec![]) };
        Ok(vec![stamped(&rows, iteration)?])
    }))
}

/// A row that says which iteration it is.
fn tick(iteration: u64) -> Result<Vec<RecordBatch>, Failed> {
    Ok(vec![row::batch(vec![("iteration", Arc::new(UInt64Array::from(vec![iteration])))])?])
}

/// The rows with the iteration of their measurement.
fn stamped(rows: &RecordBatch, iteration: u64) -> Result<RecordBatch, RowError> {
    let iterations = UInt64Array::from(vec![iteration; rows.num_rows()]);
    row::with(rows, "iteration", Arc::new(iterations))
}
