//! `rollout`: plays episodes of the iteration's tasks with the policy (or the expert) and emits their turns: of all tasks,
//! or of as many as it takes until enough of them tell good from bad.
//!
//! The tasks of an iteration are dealt out to the processes; each plays its own on its first worker, as one batch: the policy
//! is one thread however many workers there are. An episode depends on its name and the weights alone, so it is the same
//! wherever it is played. With `groups` the first process plays them all, since which tasks are played turns on how others went.

use super::attempts::{Attempts, Iteration};
use super::how::{Actor, Play};
use super::incoming::{names, newest};
use super::memory::Unwritten;
use super::misplaced;
use super::operator::{must, port, schema, settings, Further, Head, Operator, Unfit};
use super::play::play;
use super::player::Player;
use super::prompt::Prompt;
use super::reflect::budget;
use super::resample::{resample, Sampled};
use super::said::Decode;
use super::tries::Patience;
use super::turns::COLUMNS;

use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::streaming::{streaming, Inputs};
use crate::dataflow::{Attempt, Context, Edge, Failed, Figure, Inner, InnerPorts, Lost, Place, Ports, Route};
use crate::env::Worlds;
use crate::pipeline::{Carries, Delay, Node, Port, Role};
use crate::policy::Sampling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use timely::dataflow::Scope;

/// Settings of `rollout`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollout {
    /// The model that acts, or whose tokens an expert's actions are written in.
    model: String,
    /// Trajectories a task.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) samples: u32,
    /// Plays tasks, in their order, until this many have returns that are not all equal; all of them when left out.
    /// DAPO's dynamic sampling: give `tasks` a larger batch. The tasks that are left over stay unplayed. Of several processes
    /// the first one then plays alone.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(super) groups: Option<u32>,
    /// Turns after which an episode is cut.
    #[schemars(range(min = 1, max = 10_000))]
    max_turns: u32,
    /// Who chooses the actions.
    #[serde(default)]
    pub(super) actor: Actor,
    /// How a response becomes an action.
    #[serde(default)]
    decode: Decode,
    /// How much the prompt tells.
    #[serde(default)]
    prompt: Prompt,
    /// Earlier turns that a full prompt retells.
    #[serde(default = "two")]
    history: usize,
    /// Sampling temperature; 0 takes the likeliest.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 10.0))]
    temperature: f64,
    /// Samples from the smallest set of tokens that has this much probability.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1.0))]
    top_p: f64,
    /// Tokens of a response, at most.
    #[serde(default = "tokens")]
    #[schemars(range(min = 1, max = 100_000))]
    max_tokens: usize,
    /// How often an episode is played before it is given up as failed. A later try that succeeds gives the rows that the first would have given.
    #[serde(default = "tries")]
    #[schemars(range(min = 1, max = 100))]
    tries: u32,
    /// The share of an iteration's episodes that may fail; the run stops when more do. Of several processes each judges the
    /// episodes that it plays.
    #[serde(default = "max_failed")]
    #[schemars(range(min = 0.0, max = 1.0))]
    max_failed: f64,
    /// In a loop: what the attempts that follow are told of one where no `reflect` says it.
    #[serde(default)]
    keep: Unwritten,
    /// In a loop: tokens of what they are told in all, at most; the oldest is forgotten first.
    #[serde(default = "budget")]
    #[schemars(range(min = 0, max = 100_000))]
    budget: usize,
}

fn eight() -> u32 {
    8
}
fn two() -> usize {
    2
}
fn one() -> f64 {
    1.0
}
pub(super) fn tokens() -> usize {
    32
}
pub(super) fn tries() -> u32 {
    2
}
fn max_failed() -> f64 {
    0.1
}

const PORTS: &[Port] = &[
    Port {
        name: "tasks",
        about: "the tasks to play",
        carries: Carries::Tasks,
        needs: &["iteration", "task"],
        optional: false,
        delay: Delay::Never,
    },
    Port {
        name: "weights",
        about: "the update whose weights act; the untrained ones without it",
        carries: Carries::Weights,
        needs: &["version"],
        optional: true,
        delay: Delay::Always,
    },
    Port {
        name: "memory",
        about: "in a loop: what begins the next attempt, with what it is told of those before",
        carries: Carries::Memory,
        needs: &["task", "sample", "kept"],
        optional: true,
        delay: Delay::Always,
    },
];

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "rollout",
    about: "plays episodes and emits their turns",
    role: Role::Plays,
    ports: PORTS,
    keeps: false,
    adds: COLUMNS,
    settings: schema::<Rollout>,
    outside: render,
    inside: Some(inside),
    further: Further { wrong: misplaced::wrong, head: |_| Some(Head::Language), ..Further::NOTHING },
};

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with: Rollout = settings(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let (samples, groups, expert) = (with.samples, with.groups, with.actor == Actor::Expert);
    let how = with.how();
    let patience = how.patience;
    let (dealt, told) = if groups.is_some() { (Route::One, Route::One) } else { (Route::Deal, Route::All) };
    let mut inputs = vec![(must(&ports, "tasks")?, dealt)];
    inputs.extend(port(&ports, "weights").map(|edge| (edge, told)));
    let (shared, seed, id) = (ctx.shared.clone(), ctx.seed, node.id.clone());
    let mut player = Player::new(policy, how, Worlds::new(shared.outside.clone()), seed)?;
    let mut version = 0;
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        version = newest(version, rows.get(1))?;
        let names = names(&rows[0])?;
        if names.is_empty() {
            return Ok(vec![]);
        }
        let start = Instant::now();
        let mut patience = patience;
        let mut play = |names: &[String]| {
            let made = play(&mut player, samples, names, iteration, version, patience)?;
            patience.episodes += made.tally.episodes;
            patience.failed += made.tally.failed;
            Ok::<_, String>(made)
        };
        let played = match groups {
            None => play(&names)?,
            Some(groups) => {
                let Sampled { made, telling, rounds } = resample(&names, groups as usize, play)?;
                shared.measure(iteration, &id, "groups", telling as f64);
                shared.measure(iteration, &id, "rounds", rounds as f64);
                made
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        for (name, figure) in played.tally.figures() {
            // An expert's success is not the policy's, and must not be read as it.
            let name = if expert && ["success", "return", "invalid"].contains(&name) { format!("expert_{name}") } else { name.to_owned() };
            shared.measure(iteration, &id, &name, figure);
        }
        shared.measure(iteration, &id, "seconds", Figure::Most(seconds));
        shared.lose(iteration, played.lost.into_iter().map(|lost| Lost { node: id.clone(), ..lost }));
        Ok(played.rows)
    }))
}

impl Rollout {
    fn how(self) -> Play {
        Play {
            model: self.model,
            samples: self.samples,
            max_turns: self.max_turns,
            sampling: Sampling { temperature: self.temperature, top_p: self.top_p, max_tokens: self.max_tokens },
            actor: self.actor,
            decode: self.decode,
            prompt: self.prompt,
            history: self.history,
            patience: Patience::new(self.tries, self.max_failed),
        }
    }
}

pub fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let with: Rollout = settings(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let trial = ctx.trial.ok_or(Unfit::Loop)?;
    let port = |name: &str, route| ports.iter().find(|(n, _)| n == name).map(|(_, edge)| (edge.clone(), route));
    // A trial stays in the process that its task was dealt to.
    let tasks = port("tasks", Route::Deal).ok_or(Unfit::Input("tasks"))?;
    let rows = std::iter::once(tasks).chain(port("memory", Route::Stay)).collect();
    let inputs = Inputs { name: node.id.clone(), rows, gates: port("weights", Route::All).into_iter().collect() };
    let (samples, keep, budget) = (with.samples, with.keep, with.budget);
    let how = with.how();
    let patience = how.patience;
    let player = Player::new(policy, how, Worlds::new(ctx.shared.outside.clone()), ctx.seed)?;
    let (node, shared, now) = (node.id.clone(), ctx.shared.clone(), Iteration::default());
    Ok(streaming(inputs, ctx, Attempts { player, samples, patience, keep, budget, trial, node, shared, version: 0, drawn: None, now }))
}
