//! `reflect`: asks the policy to reflect on finished episodes, and emits a row of phase `reflect` for each. In a loop
//! `keep` sets what the next attempt's prompt has; such rows are trained on like any other (LaMer, section 4).

use super::checks::agents;
use super::episodes::{figures, tokens};
use super::memories::reading;
use super::operator::{must, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use super::trained;
use arrow::array::RecordBatch;
use flow_core::row;
use flow_core::seed::{mix, text};
use flow_dataflow::context::RunState;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::streaming::{streaming, InputPiece, OutputPiece, Streaming, StreamingInputs};
use flow_dataflow::{Attempt, Context, Edge, Failed, Inner, InnerPorts, Place, Ports, Route};
use flow_model::Tally;
use flow_pipeline::{Mistake, Need, Node, Pipeline, Port, Role, With};
use flow_policy::Policy;
use flow_rollout::agent::TRAINING_TEMPERATURE;
use flow_rollout::error::RolloutError;
use flow_rollout::record::COLUMNS;
use flow_rollout::reflection::Reflector;
use flow_rollout::settings::ReflectionSettings;
use flow_rollout::{question, transcript};
use timely::dataflow::Scope;

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "reflect",
    about: "has the policy write a reflection on finished episodes",
    role: Role::Reflects,
    ports: &[Port::rows("whole episodes", transcript::NEEDS), reading::PORT],
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<ReflectionSettings>(),
    outside: render,
    inside: Some(inside),
    hooks: Hooks { needs, mistakes, head: |_| Some(RequiredHead::Language), makes, words, ..Hooks::NONE },
};

fn needs(with: &With) -> Vec<Need> {
    with.typed::<ReflectionSettings>().map_or_else(Vec::new, |with| reading::needs(&with.agent))
}

fn makes(with: &With) -> Vec<String> {
    with.typed::<ReflectionSettings>().map_or_else(Vec::new, |with| with.agent.columns())
}

/// The words of the node's prompt, its notes and its context, for a vocabulary.
fn words(node: &Node) -> Result<Vec<String>, Mistake> {
    let with = settings::<ReflectionSettings>(node)?;
    let mut words = question::words(&agents::question(node, &[], &with.agent)?, with.agent.remark());
    words.extend(reading::words(node, &with.agent));
    Ok(words)
}

/// Checks the prompt, its placeholder for memories, and the memories that are read.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<ReflectionSettings>(node) else { return vec![] };
    let mut mistakes = Vec::new();
    if with.tries > 1 && with.temperature.or(with.agent.temperature) == Some(0.0) {
        let message = "at temperature 0 the answer is the same each time, so that `tries` asks in vain";
        mistakes.push(Mistake::in_node(node, &["with", "tries"], message).help("give it a temperature above 0, or leave `tries` out"));
    }
    match agents::question(node, &[], &with.agent) {
        Err(mistake) => mistakes.push(mistake),
        Ok(question) => mistakes.extend(reading::unplaced(node, &with.agent, question.asks("memory"), false)),
    }
    match pipeline.around(&node.id) {
        None => mistakes.extend(reading::mistakes(node, pipeline, &with.agent, &["rows"])),
        Some(around) => {
            for input in node.inputs.iter().filter(|input| input.port != "rows") {
                let message =
                    format!("`{}` has no meaning in the loop `{}`, where attempts read notes on earlier ones", input.port, around.id);
                mistakes.push(Mistake::in_node(node, &["inputs", &input.port], message).help("leave it out"));
            }
        }
    }
    mistakes
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<ReflectionSettings>(node)?;
    let mut reflector = reflector(&with, ctx)?.reading(reading::sources(node, &with.agent, ctx));
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let (seed, draws, shared, id) = (ctx.seed, mix(ctx.seed, text(&node.id)), ctx.shared.clone(), node.id.clone());
    let mut inputs = vec![(must(&ports, "rows")?, Route::One)];
    inputs.extend(reading::edges(reflector.sources(), &ports).into_iter().map(|edge| (edge, Route::One)));
    let shape = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        reading::begin(reflector.sources(), &rows[1..], mix(mix(seed, iteration), text(&id)))?;
        if let Some(queried) = reading::figure(reflector.sources()) {
            shared.measure(iteration, &id, "memory", queried);
        }
        let Some(rows) = row::sorted(&rows[0])? else { return Ok(vec![]) };
        let (mut tokens, mut failed) = (Tally::default(), Vec::new());
        let reflections = reflector.reflect(&policy, draws, &rows, &mut tokens, &mut failed)?;
        tokens::measure(&shared, iteration, &id, &tokens);
        shared.lose(iteration, figures::lost_reflections(&id, failed));
        Ok(reflections.into_iter().collect())
    }))
}

fn reflector(with: &ReflectionSettings, ctx: &Context) -> Result<Reflector, RolloutError> {
    let learns = trained(&ctx.pipeline, &with.agent.model);
    Ok(Reflector::new(with, TRAINING_TEMPERATURE, ctx.shared.programs.clone())?.learning(learns))
}

pub fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let reflector = reflector(&*settings::<ReflectionSettings>(node)?, ctx)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let last = ctx.trial.map(|trial| trial.attempts - 1);
    let rows = ports.into_iter().next().ok_or(Unfit::Input("rows"))?.1;
    let inputs = StreamingInputs { name: node.id.clone(), rows: vec![(rows, Route::Stay)], gates: vec![] };
    Ok(streaming(
        inputs,
        ctx,
        Reflections::new(reflector, policy, mix(ctx.seed, text(&node.id)), last, (ctx.shared.clone(), node.id.clone())),
    ))
}

/// Reflects on all episodes that have arrived as one batch.
pub struct Reflections {
    reflector: Reflector,
    policy: Policy,
    seed: u64,
    /// The last attempt, which needs no reflection.
    last: Option<u64>,
    /// Where failures and token counts are reported, and for which node.
    reporting: (RunState, String),
    /// Whether the tokens are reported here.
    counts: bool,
    iteration: u64,
    tokens: Tally,
    pieces: Vec<InputPiece>,
}

impl Reflections {
    /// Reflects with `policy` in a run of this seed, except on the attempt `last`, counted from 0. `reporting`: where
    /// failures and token counts are reported, and for which node.
    pub fn new(reflector: Reflector, policy: Policy, seed: u64, last: Option<u64>, reporting: (RunState, String)) -> Reflections {
        Reflections { reflector, policy, seed, last, reporting, counts: true, iteration: 0, tokens: Tally::default(), pieces: vec![] }
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

    fn take(&mut self, piece: InputPiece) -> Result<(), Failed> {
        self.pieces.push(piece);
        Ok(())
    }

    fn idle(&self) -> bool {
        self.pieces.is_empty()
    }

    fn work(&mut self) -> Result<Vec<OutputPiece>, Failed> {
        let pieces = std::mem::take(&mut self.pieces);
        let mut output: Vec<OutputPiece> = pieces.iter().map(|piece| OutputPiece { input: piece.id, rows: vec![], last: true }).collect();
        let mut attempts: Vec<u64> = pieces.iter().map(|piece| piece.attempt).collect();
        attempts.sort_unstable();
        attempts.dedup();
        for attempt in attempts.into_iter().filter(|attempt| Some(*attempt) != self.last) {
            let which: Vec<usize> = (0..pieces.len()).filter(|&i| pieces[i].attempt == attempt).collect();
            let rows: Vec<RecordBatch> = which.iter().map(|&i| pieces[i].rows.clone()).collect();
            let Some(rows) = row::sorted(&rows)? else { continue };
            let mut failed = Vec::new();
            let reflections = self.reflector.reflect(&self.policy, self.seed, &rows, &mut self.tokens, &mut failed)?;
            let (shared, node) = &self.reporting;
            shared.lose(self.iteration, figures::lost_reflections(node, failed));
            // Pieces of one attempt have one time, so their rows can leave together.
            output[which[0]].rows.extend(reflections);
        }
        // Before the rows leave: a later message may commit the iteration.
        if self.counts {
            let (shared, node) = &self.reporting;
            tokens::measure(shared, self.iteration, node, &self.tokens);
        }
        Ok(output)
    }
}
