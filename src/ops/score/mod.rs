//! `score`: how likely a named model finds a text behind another text: a learned reward, a judge, or the posterior of
//! EAPO (q of Eq. 9). One column `score_NAME` a target.

mod columns;
mod likelihood;

use super::checks::templates;
use super::episodes::inputs::newest;
use super::number_source::NumberSource;
use super::operator::{must, port, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use super::trained;
use columns::scores;
use flow_core::row::{View, NAME, SCORE};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_pipeline::{Delay, Mistake, Need, Node, Port, Role, With};
use likelihood::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Instant;
use timely::dataflow::Scope;

/// Settings of `score`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Score {
    /// The model whose probabilities are asked for.
    #[schemars(extend("x-names" = "model"))]
    model: String,
    /// The text before them: a template over the columns of a row (`{{ row.observation }}`), of the turn before it
    /// (`before`) and of the turn after it (`after`), over `observation` and `action` of all turns before it
    /// (`history`), over the task's text (`task`) and its right answer (`gold`), or a file with one. Where the model
    /// has a chat template it is the turn of a user.
    #[schemars(extend("x-names" = "template"))]
    prompt: String,
    /// The texts that are scored, each a template likewise, by the name of its score: `memory` makes the column
    /// `score_memory`.
    // What they begin with in common, the prompt above all, is read once.
    #[schemars(length(min = 1), schema_with = "targets")]
    targets: BTreeMap<String, String>,
    /// How the log-probabilities of a text's tokens become its score.
    #[serde(default)]
    mode: Mode,
    /// The row that a score is taken from: a control for the value of scores.
    #[serde(default)]
    whose: NumberSource,
}

/// The schema of the targets: names that columns can have, and templates.
fn targets(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "propertyNames": { "pattern": "^[a-z][a-z0-9_]{0,31}$" },
        "additionalProperties": { "type": "string", "x-names": "template" },
        "minProperties": 1,
    })
}

const PORTS: &[Port] = &[
    Port::rows("the rows whose texts are scored: whole attempts, where a template uses the turns beside a row", &NAME),
    Port::weights("the update of the model whose weights score; needed where one trains it").optional().delayed(Delay::Either),
];

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "score",
    about: "asks a model how likely texts are behind another text",
    role: Role::Judges,
    ports: PORTS,
    keeps: true,
    adds: &[],
    settings: Settings::of::<Score>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, makes, mistakes: |node, _| mistakes(node), head: |_| Some(RequiredHead::Language), ..Hooks::NONE },
};

impl Score {
    /// Every template, with its place in the settings.
    fn templates(&self) -> impl Iterator<Item = (Vec<&str>, &str)> {
        let targets = self.targets.iter().map(|(name, text)| (vec!["targets", name.as_str()], text.as_str()));
        std::iter::once((vec!["prompt"], self.prompt.as_str())).chain(targets)
    }
}

fn needs(with: &With) -> Vec<Need> {
    with.typed::<Score>().map_or_else(Vec::new, |with| with.templates().flat_map(|(at, text)| templates::needs(&at, text)).collect())
}

fn makes(with: &With) -> Vec<String> {
    with.typed::<Score>().map_or_else(Vec::new, |with| with.targets.keys().map(|name| format!("{SCORE}{name}")).collect())
}

fn mistakes(node: &Node) -> Vec<Mistake> {
    settings::<Score>(node)
        .map_or_else(|_| vec![], |with| with.templates().filter_map(|(at, text)| templates::mistake(node, &at, text)).collect())
}

/// All rows on the first worker: the model is on the policy thread, and one batch gives the same bits on any number of
/// workers.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Score>(node)?;
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let texts = columns::Texts::new(&with.prompt, &with.targets)?;
    let mut inputs = vec![(must(&ports, "rows")?, Route::One)];
    inputs.extend(port(&ports, "weights").map(|edge| (edge, Route::One)));
    let (shared, id, seed) = (ctx.shared.clone(), node.id.clone(), ctx.seed);
    let mut version = 0;
    let learns = trained(&ctx.pipeline, &with.model);
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread }, ctx, move |iteration, rows| {
        version = newest(version, rows.get(1).filter(|_| learns))?;
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let start = Instant::now();
        let mut all = scores(&view, &policy, &with.model, version, &texts, with.mode)?;
        let order = with.whose.order(seed, iteration, &id, view.len());
        all.iter_mut().for_each(|(_, scores)| *scores = order.iter().map(|&i| scores[i]).collect());
        for (name, scores) in &all {
            shared.measure(iteration, &id, name, scores.iter().map(|x| f64::from(*x)).sum::<f64>() / scores.len().max(1) as f64);
        }
        shared.measure(iteration, &id, "seconds", start.elapsed().as_secs_f64());
        Ok(columns::with(&view, all)?)
    }))
}
