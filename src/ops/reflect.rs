//! `reflect`: asks the policy what it makes of episodes that are over, and emits a row of phase `reflect` for each. In a loop the next
//! attempt is told what `keep` says; such rows are trained like any other (LaMer, section 4).

use super::how::Actor;
use super::memory::Keep;
use super::operator::{checked, schema, settings, Further, Head, Operator, Unfit};
use super::reflecting::{Reflecting, PLACES, TEMPLATE};
use super::turns::COLUMNS;
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::streaming::{streaming, Inputs, Made, Piece, Streaming};
use crate::dataflow::{Attempt, Context, Edge, Failed, Inner, InnerPorts, Place, Ports, Route};
use crate::pipeline::{Carries, Delay, Node, Port, Role, Wrong};
use crate::policy::{Policy, Sampling};
use crate::row;
use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use timely::dataflow::Scope;

/// Settings of `reflect`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reflect {
    /// The model that reflects: the one that played.
    model: String,
    /// A file with the prompt, in which {rules}, {memory}, {attempt}, {first}, {actions} and {last} stand for what they say; the newline that ends it isn't part of it. A short one of our own when left out.
    #[serde(default)]
    #[schemars(extend("x-names" = "file"))]
    prompt: Option<String>,
    /// Which episodes are reflected on.
    #[serde(default)]
    on: On,
    /// What the attempts that follow are told of this one.
    #[serde(default)]
    keep: Keep,
    /// Tokens of what they are told in all, at most; the oldest is forgotten first.
    #[serde(default = "budget")]
    #[schemars(range(min = 0, max = 100_000))]
    budget: usize,
    /// The remark is read from this tag, as <remark>...</remark>; "" takes the whole response.
    #[serde(default = "remark")]
    tag: String,
    /// Who reflects.
    #[serde(default)]
    actor: Actor,
    /// Sampling temperature; 0 takes the likeliest.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 10.0))]
    temperature: f64,
    /// Samples from the smallest set of tokens that has this much probability.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1.0))]
    top_p: f64,
    /// Tokens of a response, at most.
    #[serde(default = "super::rollout::tokens")]
    #[schemars(range(min = 1, max = 100_000))]
    max_tokens: usize,
}

/// How an evaluation reflects after a failure.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thinking {
    /// A file with the prompt; a short one of our own when left out.
    #[serde(default)]
    prompt: Option<String>,
    /// What the attempts that follow are told of this one.
    #[serde(default)]
    keep: Keep,
    /// Tokens of what they are told in all, at most.
    #[serde(default = "budget")]
    #[schemars(range(min = 0, max = 100_000))]
    budget: usize,
    /// The remark is read from this tag; "" takes the whole response.
    #[serde(default = "remark")]
    tag: String,
    /// Tokens of a response, at most.
    #[serde(default = "super::rollout::tokens")]
    #[schemars(range(min = 1, max = 100_000))]
    max_tokens: usize,
}

impl Thinking {
    /// What reflects on failures with `model` at `temperature`, but not after the last of `attempts`.
    pub fn thinker(self, model: String, temperature: f64, policy: Policy, seed: u64, attempts: u64) -> Result<Thinker, String> {
        let Thinking { prompt, keep, budget, tag, max_tokens } = self;
        let (on, actor, top_p) = (On::Failure, Actor::Policy, 1.0);
        let (how, on) = Reflect { model, prompt, on, keep, budget, tag, actor, temperature, top_p, max_tokens }.how()?;
        Ok(Thinker { how, on, policy, seed, last: Some(attempts - 1), pieces: vec![] })
    }
}

/// Which episodes are reflected on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum On {
    /// Those that were not won.
    #[default]
    Failure,
    /// All.
    Always,
}

pub(super) fn budget() -> usize {
    256
}
fn remark() -> String {
    "remark".into()
}
fn one() -> f64 {
    1.0
}

const NEEDS: &[&str] =
    &["iteration", "task", "sample", "attempt", "turn", "phase", "observation", "action", "memory", "outcome", "won", "score", "weights"];

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "reflect",
    about: "asks the policy what it makes of episodes that are over",
    role: Role::Reflects,
    ports: &[Port { name: "rows", about: "whole episodes", carries: Carries::Rows, needs: NEEDS, optional: false, delay: Delay::Never }],
    keeps: false,
    adds: COLUMNS,
    settings: schema::<Reflect>,
    outside: render,
    inside: Some(inside),
    further: Further { wrong: |node, _| wrong(node).into_iter().collect(), head: |_| Some(Head::Language), words, ..Further::NOTHING },
};

impl Reflect {
    fn template(&self) -> Result<String, String> {
        let Some(file) = &self.prompt else { return Ok(TEMPLATE.into()) };
        let mut text = crate::files::text(file.as_ref(), 1 << 20).map_err(|e| format!("prompt: `{file}` can't be read: {e}"))?;
        // An editor ends a file with a newline, which is none of the prompt.
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    fn tag(&self) -> Option<String> {
        Some(self.tag.clone()).filter(|tag| !tag.is_empty())
    }

    fn how(self) -> Result<(Reflecting, On), String> {
        let sampling = Sampling { temperature: self.temperature, top_p: self.top_p, max_tokens: self.max_tokens };
        let (template, tag) = (self.template()?, self.tag());
        let Reflect { model, on, keep, budget, actor, .. } = self;
        Ok((Reflecting { model, template, tag, actor, keep, budget, sampling }, on))
    }
}

/// The words of the node's prompt and of what it keeps, for a vocabulary.
fn words(node: &Node) -> Result<Vec<String>, Wrong> {
    let with: Reflect = checked(node)?;
    let template = with.template().map_err(|message| Wrong::in_node(node, &["with", "prompt"], message))?;
    Ok(super::reflecting::words(&template, with.tag().as_deref()))
}

/// A prompt that isn't there, or that asks for what there isn't.
fn wrong(node: &Node) -> Option<Wrong> {
    let with: Reflect = settings(node).ok()?;
    let at = |message| Wrong::in_node(node, &["with", "prompt"], message);
    let template = match with.template() {
        Ok(template) => template,
        Err(message) => return Some(at(message).help("paths begin in the folder in which `flow` is started")),
    };
    let names = template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let mut words = names.filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let stranger = words.find(|name| PLACES.iter().all(|(place, _)| place != name))?;
    let known: Vec<String> = PLACES.iter().map(|(name, what)| format!("{{{name}}}: {what}")).collect();
    Some(at(format!("the prompt asks for {{{stranger}}}, which there isn't")).help(known.join("; ")))
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let (how, on) = settings::<Reflect>(node)?.how()?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let seed = ctx.seed;
    let rows = ports.into_iter().next().ok_or(Unfit::Input("rows"))?.1;
    let shape = Stage { name: node.id.clone(), inputs: vec![(rows, Route::One)], begins: false, place: Place::Thread };
    Ok(stage(shape, ctx, move |_, rows| {
        let Some(rows) = row::sorted(&rows[0]).map_err(|e| e.to_string())? else { return Ok(vec![]) };
        Ok(how.reflect(&policy, seed, &rows, |won| on == On::Always || !won)?.into_iter().collect())
    }))
}

pub fn inside<'s>(node: &Node, ports: InnerPorts<'s>, _: Scope<'s, Attempt>, ctx: &Context) -> Result<Inner<'s>, Failed> {
    let (how, on) = settings::<Reflect>(node)?.how()?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let last = ctx.trial.map(|trial| trial.attempts - 1);
    let rows = ports.into_iter().next().ok_or(Unfit::Input("rows"))?.1;
    let inputs = Inputs { name: node.id.clone(), rows: vec![(rows, Route::Stay)], gates: vec![] };
    Ok(streaming(inputs, ctx, Thinker { how, on, policy, seed: ctx.seed, last, pieces: vec![] }))
}

/// Reflects on all episodes that have come in meanwhile as one batch.
pub struct Thinker {
    how: Reflecting,
    on: On,
    policy: Policy,
    seed: u64,
    /// Nobody reads what is said after the last attempt.
    last: Option<u64>,
    pieces: Vec<Piece>,
}

impl Streaming for Thinker {
    fn begin(&mut self, _: u64, _: Vec<Vec<RecordBatch>>) -> Result<(), Failed> {
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
        let text = |e: row::RowError| e.to_string();
        let mut made: Vec<Made> = pieces.iter().map(|piece| Made { of: piece.id, rows: vec![], last: true }).collect();
        let mut attempts: Vec<u64> = pieces.iter().map(|piece| piece.attempt).collect();
        attempts.sort_unstable();
        attempts.dedup();
        for attempt in attempts.into_iter().filter(|attempt| Some(*attempt) != self.last) {
            let which: Vec<usize> = (0..pieces.len()).filter(|&i| pieces[i].attempt == attempt).collect();
            let rows: Vec<RecordBatch> = which.iter().map(|&i| pieces[i].rows.clone()).collect();
            let Some(rows) = row::sorted(&rows).map_err(text)? else { continue };
            let said = self.how.reflect(&self.policy, self.seed, &rows, |won| self.on == On::Always || !won)?;
            // Pieces of one attempt have one time, so their rows can leave together.
            made[which[0]].rows.extend(said);
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One newline ends the file; a second one was meant.
    #[test]
    fn a_prompt_is_its_file_without_the_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        for (written, meant) in [("why {last}?\n", "why {last}?"), ("why?\n\n", "why?\n"), ("why?", "why?")] {
            let file = folder.path().join("prompt.txt");
            std::fs::write(&file, written).unwrap();
            let with = serde_json::json!({ "model": "actor", "prompt": file });
            assert_eq!(serde_json::from_value::<Reflect>(with).unwrap().template().unwrap(), meant);
        }
    }
}
