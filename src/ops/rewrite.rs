//! `rewrite`: replaces a row's prompt and response by your own, so that a model learns another text than the one that
//! was sampled: what a posterior should find likely (EAPO, Eq. 8), an instruction with its answer (Eq. 11).

use super::checks::templates;
use super::operator::{must, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use arrow::array::{ArrayRef, Float32Array, StringArray};
use flow_core::defaults::yes;
use flow_core::row::{f32_lists, u32_lists, View, NAME};
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_model::PolicyError;
use flow_pipeline::{Mistake, Need, Node, Port, Role, With};
use flow_rollout::row_text::RowText;
use flow_text::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use timely::dataflow::Scope;

/// Settings of `rewrite`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rewrite {
    /// The model whose tokens the texts are written in: the one that learns from them.
    #[schemars(extend("x-names" = "model"))]
    model: String,
    /// The prompt: a template over the columns of a row (`{{ row.observation }}`), of the turn before it (`before`) and
    /// of the turn after it (`after`), over `observation` and `action` of all turns before it (`history`), over the
    /// task's text (`task`) and its right answer (`gold`), or a file with one. Where the model has a chat template it
    /// is the turn of a user.
    #[schemars(extend("x-names" = "template"))]
    prompt: String,
    /// The response to learn, a template likewise. A row for which it comes to nothing has no response, and isn't
    /// learnt from.
    #[schemars(extend("x-names" = "template"))]
    response: String,
    /// Whether the response is closed by the end token, as an answer is. A text whose likelihood `score` measures
    /// isn't.
    #[serde(default = "yes")]
    closed: bool,
}

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "rewrite",
    about: "replaces the prompts and responses of rows by your own",
    role: Role::Judges,
    ports: &[Port::rows("the rows to rewrite: whole attempts, where a template uses the turns beside a row", &NAME)],
    keeps: true,
    adds: &["prompt_tokens", "response_tokens", "choices", "logprobs", "temperature", "response"],
    settings: Settings::of::<Rewrite>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, mistakes: |node, _| mistakes(node), head: |_| Some(RequiredHead::Language), ..Hooks::NONE },
};

impl Rewrite {
    /// Both templates, with the setting that each stands in.
    fn templates(&self) -> [(&'static str, &str); 2] {
        [("prompt", &self.prompt), ("response", &self.response)]
    }
}

fn needs(with: &With) -> Vec<Need> {
    let all = |with: Arc<Rewrite>| with.templates().iter().flat_map(|(at, text)| templates::needs(&[at], text)).collect();
    with.typed::<Rewrite>().map_or_else(Vec::new, all)
}

fn mistakes(node: &Node) -> Vec<Mistake> {
    let all = |with: Arc<Rewrite>| with.templates().iter().filter_map(|(at, text)| templates::mistake(node, &[at], text)).collect();
    settings::<Rewrite>(node).map_or_else(|_| vec![], all)
}

/// Whole attempts stand where their task is.
pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings::<Rewrite>(node)?;
    let tokenizer = ctx.policy.as_ref().ok_or(Unfit::Model)?.tokenizer(&with.model)?;
    let (prompt, response) = (RowText::new(&with.prompt)?, RowText::new(&with.response)?);
    let closed = with.closed;
    let inputs = vec![(must(&ports, "rows")?, Route::by(&["task"]))];
    Ok(stage(Stage { name: node.id.clone(), inputs, begins: false, place: Place::Worker }, ctx, move |_, rows| {
        let Some(view) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let (prompts, responses) = (prompt.texts(&view)?, response.texts(&view)?);
        Ok(view.with(columns(&tokenizer, &prompts, responses, closed)?)?)
    }))
}

/// The columns of prompt and response; nothing was sampled, so every token has probability 1.
fn columns(
    tokenizer: &Tokenizer,
    prompts: &[String],
    responses: Vec<String>,
    closed: bool,
) -> Result<Vec<(&'static str, ArrayRef)>, PolicyError> {
    let read: Vec<Vec<u32>> = prompts.iter().map(|text| tokenizer.ask(text)).collect::<Result<_, _>>()?;
    let end = |text: &str| (closed && !text.is_empty()).then(|| tokenizer.end());
    let encoded: Vec<Vec<u32>> = responses.iter().map(|text| tokenizer.encode(text).into_iter().chain(end(text)).collect()).collect();
    let certain: Vec<Vec<f32>> = encoded.iter().map(|tokens| vec![0.0; tokens.len()]).collect();
    Ok(vec![
        ("prompt_tokens", u32_lists(read.iter().map(Vec::as_slice))),
        ("response_tokens", u32_lists(encoded.iter().map(Vec::as_slice))),
        ("choices", u32_lists(prompts.iter().map(|_| &[][..]))),
        ("logprobs", f32_lists(certain.iter().map(Vec::as_slice))),
        ("temperature", Arc::new(Float32Array::from(vec![1.0; prompts.len()]))),
        ("response", Arc::new(StringArray::from(responses))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::row;

    #[test]
    fn a_response_is_closed_where_it_is_an_answer() {
        let tokenizer = Tokenizer::bytes();
        let of = |response: &str, closed| {
            let columns = columns(&tokenizer, &["hall".into()], vec![response.into()], closed).unwrap();
            let rows = row::batch(columns).unwrap();
            (row::u32_list(row::lists(&rows, "response_tokens").unwrap(), 0), row::f32_list(row::lists(&rows, "logprobs").unwrap(), 0))
        };
        let red = tokenizer.encode("red");
        assert_eq!(of("red", false), (red.clone(), vec![0.0; 3]));
        assert_eq!(of("red", true), ([red, vec![tokenizer.end()]].concat(), vec![0.0; 4]));
        assert_eq!(of("", true), (vec![], vec![]), "nothing is said, and nothing learnt");
    }
}
