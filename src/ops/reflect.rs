//! `reflect`: asks the policy what it makes of episodes that are over, and emits a row of phase `reflect` for each. In a loop the next
//! attempt is told what `keep` says; such rows are trained like any other (LaMer, section 4).

use super::operator::{must, port, settings, Further, Head, Operator, Settings, Unfit};
use super::{played, recall, templates, tokens};
use crate::dataflow::context::Shared;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::streaming::{streaming, Inputs, Made, Piece, Streaming};
use crate::dataflow::{Attempt, Context, Edge, Failed, Figure, Inner, InnerPorts, Place, Ports, Route};
use crate::pipeline::{Carries, Delay, Need, Node, Pipeline, Port, Role, With, Wrong};
use crate::policy::{Policy, Tally};
use crate::rollout::error::RolloutError;
use crate::rollout::recall::{Place as Told, RecallSettings};
use crate::rollout::record::COLUMNS;
use crate::rollout::reflection::Reflector;
use crate::rollout::settings::{ReflectionSettings, TRAINING_TEMPERATURE};
use crate::rollout::{question, transcript};
use crate::row;
use crate::seed::{mix, text};
use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use timely::dataflow::Scope;

/// Settings of `reflect`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Reflect {
    /// The model that reflects: the one that played.
    model: String,
    #[serde(flatten)]
    reflection: ReflectionSettings,
    /// Outside of a loop: how the memory at the port `memory` is read. What an episode ended with is what is seen.
    #[serde(default)]
    retrieve: Option<RecallSettings>,
    /// The encoder, of `models`, of a memory whose `points` are an encoder's.
    #[serde(default)]
    encoder: Option<String>,
}

impl Reflect {
    fn reflector(&self, ctx: &Context) -> Result<Reflector, RolloutError> {
        Reflector::new(self.model.clone(), &self.reflection, TRAINING_TEMPERATURE, ctx.shared.outside.clone())
    }
}

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "reflect",
    about: "asks the policy what it makes of episodes that are over",
    role: Role::Reflects,
    ports: &[
        Port {
            name: "rows",
            about: "whole episodes",
            carries: Carries::Rows,
            needs: transcript::NEEDS,
            optional: false,
            delay: Delay::Never,
        },
        Port {
            name: recall::PORT,
            about: "outside of a loop: the memory that `retrieve` reads",
            carries: Carries::Memory,
            needs: &[],
            optional: true,
            delay: Delay::Always,
        },
    ],
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<Reflect>(),
    outside: render,
    inside: Some(inside),
    further: Further { needs, wrong, head: |_| Some(Head::Language), words, ..Further::NOTHING },
};

fn needs(with: &With) -> Vec<Need> {
    with.typed::<Reflect>().map_or_else(Vec::new, |with| recall::needs(with.retrieve.as_ref()))
}

/// The words of the node's prompt, of what it keeps and of what it is told, for a vocabulary.
fn words(node: &Node) -> Result<Vec<String>, Wrong> {
    let with = settings::<Reflect>(node)?;
    let mut words = question::words(&templates::reflected(node, &[], &with.reflection)?, with.reflection.tag());
    words.extend(recall::words(with.retrieve.as_ref()));
    Ok(words)
}

/// A prompt that can't be made, or that has no place for what is remembered; a memory that can't be read.
fn wrong(node: &Node, pipeline: &Pipeline) -> Vec<Wrong> {
    let Ok(with) = settings::<Reflect>(node) else { return vec![] };
    let mut found = Vec::new();
    let told = with.retrieve.as_ref().is_some_and(|retrieve| retrieve.place == Told::Before);
    match templates::reflected(node, &[], &with.reflection) {
        Err(wrong) => found.push(wrong),
        Ok(template) if told && !template.asks("memory") => {
            let message = format!("`{}` is told of a memory, and its prompt doesn't say it", node.id);
            let help = "put `{{ memory }}` into the template, or `place: system` into `retrieve`";
            found.push(Wrong::in_node(node, &["with", "prompt"], message).help(help));
        }
        Ok(_) => {}
    }
    let by = with.retrieve.as_ref().map(|retrieve| retrieve.retrieval.by);
    match pipeline.around(&node.id) {
        None => found.extend(recall::wrong(node, pipeline, by)),
        Some(around) => {
            let read = [("with", "retrieve", by.is_some()), ("inputs", recall::PORT, node.inputs.iter().any(|i| i.port == recall::PORT))];
            for (part, name, _) in read.into_iter().filter(|(.., given)| *given) {
                let message = format!("`{name}` has no meaning in the loop `{}`, where attempts are told of one another", around.id);
                found.push(Wrong::in_node(node, &[part, name], message).help("leave it out"));
            }
        }
    }
    found
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Reflect>(node)?;
    let mut reflector = with.reflector(ctx)?.recalling(recall::reader(node, with.retrieve.as_ref(), with.encoder.as_deref(), ctx));
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let (seed, shared, id) = (ctx.seed, ctx.shared.clone(), node.id.clone());
    let mut inputs = vec![(must(&ports, "rows")?, Route::One)];
    inputs.extend(port(&ports, recall::PORT).map(|edge| (edge, Route::One)));
    let shape = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        if let Some(memory) = reflector.recall() {
            recall::begin(memory, rows.get(1), mix(mix(seed, iteration), text(&id)))?;
            shared.measure(iteration, &id, "memory", Figure::Most(f64::from(u8::from(memory.on()))));
        }
        let Some(rows) = row::sorted(&rows[0])? else { return Ok(vec![]) };
        let (mut tokens, mut failed) = (Tally::default(), Vec::new());
        let said = reflector.reflect(&policy, seed, &rows, (&mut tokens, &mut failed))?;
        tokens::measure(&shared, iteration, &id, &tokens);
        shared.lose(iteration, played::unsaid(&id, failed));
        Ok(said.into_iter().collect())
    }))
}

pub fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let reflector = settings::<Reflect>(node)?.reflector(ctx)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let last = ctx.trial.map(|trial| trial.attempts - 1);
    let rows = ports.into_iter().next().ok_or(Unfit::Input("rows"))?.1;
    let inputs = Inputs { name: node.id.clone(), rows: vec![(rows, Route::Stay)], gates: vec![] };
    Ok(streaming(inputs, ctx, Reflections::new(reflector, policy, ctx.seed, last, (ctx.shared.clone(), node.id.clone()))))
}

/// Reflects on all episodes that have come in meanwhile as one batch.
pub struct Reflections {
    reflector: Reflector,
    policy: Policy,
    seed: u64,
    /// Nobody reads what is said after the last attempt.
    last: Option<u64>,
    /// Where it says what failed and how many tokens were read, and under which name.
    told: (Shared, String),
    /// Whether nobody else counts the tokens of that node.
    counts: bool,
    iteration: u64,
    tokens: Tally,
    pieces: Vec<Piece>,
}

impl Reflections {
    /// Reflects with `policy` in a run of this seed, except on the attempt `last`, counted from 0. `told`: where is told what failed and how
    /// many tokens were read, and for which node.
    pub fn new(reflector: Reflector, policy: Policy, seed: u64, last: Option<u64>, told: (Shared, String)) -> Reflections {
        Reflections { reflector, policy, seed, last, told, counts: true, iteration: 0, tokens: Tally::default(), pieces: vec![] }
    }

    /// The same for a node whose tokens are counted where it plays.
    pub fn uncounted(self) -> Reflections {
        Reflections { counts: false, ..self }
    }
}

impl Streaming for Reflections {
    fn begin(&mut self, iteration: u64, _: Vec<Vec<RecordBatch>>) -> Result<(), Failed> {
        (self.iteration, self.tokens) = (iteration, Tally::default());
        Ok(())
    }

    fn take(&mut self, piece: Piece) -> Result<(), Failed> {
        self.pieces.push(piece);
        Ok(())
    }

    fn idle(&self) -> bool {
        self.pieces.is_empty()
    }

    fn work(&mut self) -> Result<Vec<Made>, Failed> {
        let pieces = std::mem::take(&mut self.pieces);
        let mut made: Vec<Made> = pieces.iter().map(|piece| Made { of: piece.id, rows: vec![], last: true }).collect();
        let mut attempts: Vec<u64> = pieces.iter().map(|piece| piece.attempt).collect();
        attempts.sort_unstable();
        attempts.dedup();
        for attempt in attempts.into_iter().filter(|attempt| Some(*attempt) != self.last) {
            let which: Vec<usize> = (0..pieces.len()).filter(|&i| pieces[i].attempt == attempt).collect();
            let rows: Vec<RecordBatch> = which.iter().map(|&i| pieces[i].rows.clone()).collect();
            let Some(rows) = row::sorted(&rows)? else { continue };
            let mut failed = Vec::new();
            let said = self.reflector.reflect(&self.policy, self.seed, &rows, (&mut self.tokens, &mut failed))?;
            let (shared, node) = &self.told;
            shared.lose(self.iteration, played::unsaid(node, failed));
            // Pieces of one attempt have one time, so their rows can leave together.
            made[which[0]].rows.extend(said);
        }
        // Before the rows leave: what comes after them may commit the iteration.
        if self.counts {
            let (shared, node) = &self.told;
            tokens::measure(shared, self.iteration, node, &self.tokens);
        }
        Ok(made)
    }
}
