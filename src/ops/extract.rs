//! `extract`: entries for a memory from the best and the worst episodes of an iteration, which a policy writes or a
//! template makes (SLEA-RL, section 3.4: selective extraction). Its rows go to a `memory-update` with `list`, and to no
//! other node.

use super::checks::agents;
use super::episodes::{figures, tokens};
use super::operator::{must, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use flow_core::row;
use flow_core::seed::{mix, text};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_model::Tally;
use flow_pipeline::{Mistake, Node, Pipeline, Port, Role, With};
use flow_rollout::extraction::{ExtractionSettings, Extractor};
use flow_rollout::record::COLUMNS;
use flow_rollout::{question, transcript};
use timely::dataflow::Scope;

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "extract",
    about: "extracts entries for a memory from the best and the worst episodes: strategies and warnings",
    role: Role::Reflects,
    ports: &[Port::rows("whole episodes", transcript::NEEDS)],
    keeps: false,
    adds: COLUMNS,
    settings: Settings::of::<ExtractionSettings>(),
    outside: render,
    inside: None,
    hooks: Hooks { mistakes, head, makes, words, ..Hooks::NONE },
};

/// A model is needed where one writes.
fn head(with: &With) -> Option<RequiredHead> {
    with.typed::<ExtractionSettings>()?.agent.as_ref().map(|_| RequiredHead::Language)
}

fn makes(with: &With) -> Vec<String> {
    with.typed::<ExtractionSettings>().and_then(|with| with.agent.as_ref().map(|agent| agent.columns())).unwrap_or_default()
}

fn words(node: &Node) -> Result<Vec<String>, Mistake> {
    let with = settings::<ExtractionSettings>(node)?;
    let mut words = with.words();
    if let Some(agent) = &with.agent {
        words.extend(question::words(&agents::question(node, &[], agent)?, agent.remark()));
    }
    Ok(words)
}

/// Checks the prompt or the template: there must be exactly one of them.
fn mistakes(node: &Node, _: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<ExtractionSettings>(node) else { return vec![] };
    let mut mistakes = Vec::new();
    if let Err(error) = with.template() {
        mistakes.push(Mistake::in_node(node, &["with", "template"], format!("template: {error}")).help(error.help()));
    }
    match (&with.agent, &with.template) {
        (None, None) => {
            let message = format!("`{}` has neither an agent nor a template to extract with", node.id);
            let help = "name an `agent` that writes the entries, or give a `template` that makes them of turns";
            mistakes.push(Mistake::in_node(node, &["with"], message).help(help));
        }
        (Some(_), Some(_)) => {
            let message = "entries are written by the `agent` or made by the `template`".to_owned();
            mistakes.push(Mistake::in_node(node, &["with", "template"], message).help("leave one of the two out"));
        }
        (Some(agent), None) => mistakes.extend(agents::question(node, &[], agent).err()),
        (None, Some(_)) => {
            if with.temperature.is_some() {
                let message = "a template is filled, and nothing is sampled".to_owned();
                mistakes.push(Mistake::in_node(node, &["with", "temperature"], message).help("leave it out"));
            }
        }
    }
    mistakes
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<ExtractionSettings>(node)?;
    let extractor = Extractor::new(&with, ctx.shared.programs.clone())?;
    let policy = ctx.policy.clone();
    if with.agent.is_some() && policy.is_none() {
        return Err(Unfit::Model.into());
    }
    let (draws, shared, id) = (mix(ctx.seed, text(&node.id)), ctx.shared.clone(), node.id.clone());
    let shape = Stage { name: node.id.clone(), inputs: vec![(must(&ports, "rows")?, Route::One)], begins: false, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        let Some(rows) = row::sorted(&rows[0])? else { return Ok(vec![]) };
        let (mut tally, mut failed) = (Tally::default(), Vec::new());
        let batches = extractor.extract(policy.as_ref(), draws, &rows, &mut tally, &mut failed)?;
        if policy.is_some() && tally.distinct() > 0 {
            tokens::measure(&shared, iteration, &id, &tally);
        }
        shared.lose(iteration, figures::lost_reflections(&id, failed));
        Ok(batches)
    }))
}
