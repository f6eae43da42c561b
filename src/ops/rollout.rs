//! `rollout`: plays episodes of the iteration's tasks with the policy (or the expert) and emits their turns: of all
//! tasks, or, with dynamic sampling, of as many as it takes until enough of them have trajectories with different
//! returns.
//!
//! The tasks of an iteration are distributed over the processes; each plays its own on its first worker, as one batch:
//! the policy is one thread however many workers there are. An episode depends on its name and the weights alone, so it
//! is the same wherever it is played. With `groups` the first process plays them all, since which tasks are played
//! depends on the results of others.

use super::checks::agents;
use super::checks::placement::{self, RolloutNeeds};
use super::checks::trees;
use super::episodes::attempts::{Attempts, IterationProgress};
use super::episodes::by_name;
use super::episodes::figures;
use super::episodes::inputs::{names, newest};
use super::episodes::reward_chain::{weighed, weighing};
use super::memories::reading;
use super::operator::{must, port, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use super::trained;
use arrow::array::RecordBatch;
use flow_core::defaults::{hundredths, number};
use flow_core::row::BRANCH_OF;
use flow_core::seed::{mix, text};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::streaming::{streaming, StreamingInputs};
use flow_dataflow::{Attempt, Context, Edge, Failed, Figure, Inner, InnerPorts, Place, Ports, Route};
use flow_env::Environments;
use flow_pipeline::{Carries, Delay, Mistake, Need, Node, Pipeline, Port, Role, With};
use flow_rollout::agent::TRAINING_TEMPERATURE;
use flow_rollout::batch::play;
use flow_rollout::context::Alone;
use flow_rollout::dynamic_sampling::{resample, Sampled};
use flow_rollout::error::RolloutError;
use flow_rollout::exchange::NotesOwner;
use flow_rollout::player::Play;
use flow_rollout::record::COLUMNS;
use flow_rollout::retry::RetryPolicy;
use flow_rollout::sampler::Sampler;
use flow_rollout::settings::{Actor, PlaySettings};
use flow_rollout::sources;
use flow_rollout::summary::Summary;
use flow_rollout::tree::Branching;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use timely::dataflow::Scope;

/// Settings of `rollout`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Rollout {
    #[serde(flatten)]
    play: PlaySettings,
    /// Trajectories a task.
    #[serde(default = "number::<u32, 8>")]
    #[schemars(range(min = 1, max = 10_000))]
    samples: u32,
    /// Plays tasks, in their order, until this many have returns that are not all equal; all of them when left out. A
    /// return is what an episode earns by the rewards that are compared: as a `reward` node downstream weighs them
    /// (without its `kl`). DAPO's dynamic sampling: give `tasks` a larger batch. The tasks that are left over stay
    /// unplayed. Of several processes the first one then plays alone.
    #[schemars(range(min = 1))]
    groups: Option<u32>,
    /// The source of actions: the policy, the environment's expert, or both.
    #[serde(default)]
    actor: Actor,
    /// An expert's action that isn't among the admissible ones joins them; otherwise it costs its episode.
    #[serde(default)]
    join: bool,
    /// Copies episodes at chosen turns, and plays on from there: trees of episodes (AT2PO, arXiv 2601.04767; ARPO). A
    /// copy, a branch, is a further sample of its task, whose rows begin with the turn that it answers anew; makes the
    /// column `branch_of`. Compare the answers to one prompt by `group` with `by: [task, branch_of, turn]`, and take
    /// what was played behind each into account by `of: tree_return` of `advantage`. What is made over an episode
    /// (`visitation_depth`, `history`, `over turns`) sees a branch's own rows. Figures such as `success` and `return`
    /// count the `samples` alone, so that a task counts the same however often it is copied; `turns`, `failed` and
    /// tokens count branches, too. Needs an environment that plays a task alike each time.
    branch: Option<Branching>,
    /// The share of an iteration's episodes that may fail; the run stops when more do. Of several processes each judges
    /// the episodes that it plays.
    #[serde(default = "hundredths::<f64, 10>")]
    #[schemars(range(min = 0.0, max = 1.0))]
    max_failed: f64,
}

/// The port of notes for the next attempt.
const MEMORY: &str = "memory";

const PORTS: &[Port] = &[
    Port::new("tasks", "the tasks to play", Carries::Tasks, &["iteration", "task"]),
    Port::weights("the update whose weights act; needed where one trains the model").optional().delayed(Delay::Always),
    Port::new(
        MEMORY,
        "in a loop: what begins the next attempt, with the notes on the attempts before",
        Carries::Memory,
        &["task", "sample"],
    )
    .optional()
    .delayed(Delay::Always),
    reading::PORT,
];

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "rollout",
    about: "plays episodes and emits their turns",
    role: Role::Plays,
    ports: PORTS,
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<Rollout>(),
    outside: render,
    inside: Some(inside),
    hooks: Hooks {
        needs,
        mistakes,
        head: |_| Some(RequiredHead::Language),
        expert: |with| with.typed::<Rollout>().is_some_and(|with| with.actor == Actor::Expert),
        makes,
        words,
        notes: |node, _| settings::<Rollout>(node).map_or_else(|_| vec![], |with| agents::notes(node, &with.play.agent)),
        ..Hooks::NONE
    },
};

/// How the node plays.
pub fn played(node: &Node) -> Option<Play> {
    node.with.typed::<Rollout>().map(|with| with.play_settings())
}

/// Trajectories a task.
pub fn samples(node: &Node) -> Option<u32> {
    node.with.typed::<Rollout>().map(|with| with.samples)
}

/// Whether the node plays some of its tasks alone.
pub fn chooses_tasks(node: &Node) -> bool {
    node.with.typed::<Rollout>().is_some_and(|with| with.groups.is_some())
}

/// Whether the node plays each task once.
pub fn one_sample(node: &Node) -> bool {
    node.with.typed::<Rollout>().is_some_and(|with| with.samples == 1 && with.branch.is_none())
}

/// Why all episodes of a task have one return, where that follows from the settings.
pub fn equal_samples(node: &Node) -> Option<&'static str> {
    let with = node.with.typed::<Rollout>()?;
    if with.samples == 1 && with.branch.is_none() {
        return Some("`samples: 1` plays one episode of a task");
    }
    let agent = &with.play.agent;
    let differ = agent.memories().next().is_some() || agent.branches.is_some() || with.actor != Actor::default();
    equal_draws(&with).filter(|_| !differ)
}

/// Why all answers to a prompt are equal, where that follows from the settings.
fn equal_draws(with: &Rollout) -> Option<&'static str> {
    let draws = with.play.agent.sampling(with.play.temperature, TRAINING_TEMPERATURE).temperature > 0.0;
    (!draws).then_some("at `temperature: 0` all samples of a task are equal (unless its environment itself draws)")
}

/// What the node asks for in vain.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<Rollout>(node) else { return vec![] };
    let differ = with.actor != Actor::Expert && with.samples > 1;
    let mut mistakes = placement::mistakes(node, pipeline, &RolloutNeeds { groups: with.groups, differ, agent: &with.play.agent });
    mistakes.extend(agents::mistakes(node, pipeline, &with.play.agent, with.actor, node.inputs.iter().any(|input| input.port == MEMORY)));
    mistakes.extend(with.branch.iter().flat_map(|branch| trees::mistakes(node, pipeline, branch, equal_draws(&with))));
    mistakes
}

fn needs(with: &With) -> Vec<Need> {
    with.typed::<Rollout>().map_or_else(Vec::new, |with| reading::needs(&with.play.agent))
}

fn makes(with: &With) -> Vec<String> {
    let own = |with: &Rollout| with.branch.iter().map(|_| BRANCH_OF.to_owned()).collect::<Vec<_>>();
    with.typed::<Rollout>().map_or_else(Vec::new, |with| [with.play.agent.columns(), own(&with)].concat())
}

/// The words that introduce its context, and the words of its own prompt.
fn words(node: &Node) -> Result<Vec<String>, Mistake> {
    let with = settings::<Rollout>(node)?;
    let mut words = reading::words(node, &with.play.agent);
    words.extend(agents::words(node, &with.play.agent)?);
    Ok(words)
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Rollout>(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let (samples, branch, groups, expert) = (with.samples, with.branch.clone(), with.groups, with.actor == Actor::Expert);
    let (dealt, broadcast) = if groups.is_some() { (Route::One, Route::One) } else { (Route::Deal, Route::All) };
    let mut inputs = vec![(must(&ports, "tasks")?, dealt)];
    let weights = port(&ports, "weights").map(|edge| (edge, broadcast.clone()));
    let (models, named) = by_name::edges(&with.play.agent, &ports);
    let (at_weights, at_named) = (1, 1 + usize::from(weights.is_some()));
    let at_memory = at_named + named.len();
    let named = named.into_iter().map(|edge| (edge, broadcast.clone()));
    let sources = reading::sources(node, &with.play.agent, ctx);
    let memories = reading::edges(&sources, &ports).into_iter().map(|edge| (edge, broadcast.clone()));
    inputs.extend(weights.into_iter().chain(named).chain(memories));
    let (shared, seed, id) = (ctx.shared.clone(), ctx.seed, node.id.clone());
    let mut sampler =
        Sampler::new(policy, with.play_settings(), Environments::new(shared.programs.clone()), draws(node, ctx))?.reading(sources);
    let weighing: Vec<Node> = weighing(node, &ctx.pipeline).into_iter().cloned().collect();
    let weigh = move |rows: &[RecordBatch]| weighed(&weighing, rows).map_err(|e| RolloutError::Weighed(e.to_string()));
    let mut version = 0;
    let learns = trained(&ctx.pipeline, &with.play.agent.model);
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        version = newest(version, rows.get(at_weights).filter(|_| learns && at_named > at_weights))?;
        by_name::renew(&mut sampler, &models, &rows[at_named..at_memory])?;
        reading::begin(&mut sampler.player.sources, &rows[at_memory..], mix(mix(seed, iteration), text(&id)))?;
        if let Some(queried) = reading::figure(&sampler.player.sources) {
            shared.measure(iteration, &id, "memory", queried);
        }
        let names = names(&rows[0])?;
        if names.is_empty() {
            return Ok(vec![]);
        }
        let start = Instant::now();
        let mut before = Summary::default();
        let mut play = |names: &[String]| {
            let batch = play(&mut sampler, samples, branch.as_ref(), names, iteration, version, &before);
            let mut batch = batch.map_err(|error| figures::noted(error, &shared, iteration, &id))?;
            before.add(&batch.summary);
            shared.lose(iteration, figures::lost(&id, std::mem::take(&mut batch.failed)));
            Ok::<_, RolloutError>(batch)
        };
        let batch = match groups {
            None => play(&names)?,
            Some(groups) => {
                let Sampled { played, telling, rounds } = resample(&names, groups as usize, play, &weigh)?;
                shared.measure(iteration, &id, "groups", telling as f64);
                shared.measure(iteration, &id, "rounds", rounds as f64);
                played
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        for (name, figure) in figures::figures(&batch.summary) {
            // An expert's success is not the policy's, and must not be read as it.
            let name = if expert && !["turns", "failed", "retried"].contains(&name.as_str()) { format!("expert_{name}") } else { name };
            shared.measure(iteration, &id, &name, figure);
        }
        shared.measure(iteration, &id, "seconds", Figure::Most(seconds));
        Ok(batch.rows)
    }))
}

/// What the node's draws follow from: two rollouts of one pipeline draw other numbers, even on equal tasks.
fn draws(node: &Node, ctx: &Context) -> u64 {
    mix(ctx.seed, text(&node.id))
}

impl Rollout {
    fn play_settings(&self) -> Play {
        let PlaySettings { agent, temperature, tries } = &self.play;
        let retry = RetryPolicy { tries: *tries, max_failed: self.max_failed };
        let sampling = agent.sampling(*temperature, TRAINING_TEMPERATURE);
        Play { agent: agent.clone(), actor: self.actor, sampling, join: self.join, retry }
    }
}

pub fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let with = settings::<Rollout>(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let trial = ctx.trial.ok_or(Unfit::Loop)?;
    let port = |name: &str, route| ports.iter().find(|(n, _)| n == name).map(|(_, edge)| (edge.clone(), route));
    // A trial stays in the process that its task was dealt to; notes change hands within one.
    let notes = with.play.agent.notes();
    let dealt = if notes.notes == NotesOwner::Another { Route::One } else { Route::Deal };
    let tasks = port("tasks", dealt).ok_or(Unfit::Input("tasks"))?;
    let rows = std::iter::once(tasks).chain(port(MEMORY, Route::Stay)).collect();
    let inputs = StreamingInputs { name: node.id.clone(), rows, gates: port("weights", Route::All).into_iter().collect() };
    let samples = with.samples;
    let envs = Environments::new(ctx.shared.programs.clone());
    let sampler = Sampler::new(policy, with.play_settings(), envs, draws(node, ctx))?.reading(sources::open(&with.play.agent, &Alone));
    let (node, shared, now) = (node.id.clone(), ctx.shared.clone(), IterationProgress::default());
    let learns = trained(&ctx.pipeline, &with.play.agent.model);
    Ok(streaming(inputs, ctx, Attempts { sampler, samples, notes, trial, node, shared, learns, version: 0, drawn: None, now }))
}
