//! `gpu-update`: one step of learning from the iteration's rows, wherever the model lives: on a GPU when libtorch
//! sees one, else on the CPU. Emits for each row whether it was used, and the version of the weights it helped to make.

use super::{must, port, schema};
use crate::dataflow::stage::{stage, Stage};
use crate::dataflow::{Context, Edge, Place, Ports, Route};
use crate::log::{Run, WeightsAt};
use crate::pipeline::{Delay, Need, Node, OperatorSpec, Port};
use crate::policy::{Example, Objective, UpdateSettings, END};
use crate::row::{self, RowError};
use arrow::array::{RecordBatch, StringArray, UInt64Array};
use serde_json::{json, Value};
use std::sync::Arc;
use std::time::Instant;
use timely::dataflow::Scope;

const PORTS: &[Port] = &[
    Port {
        name: "rows",
        about: "the rows to learn from",
        needs: &["iteration", "task", "sample", "attempt", "turn", "phase", "prompt_tokens", "response_tokens", "choices", "logprobs"],
        optional: false,
        delay: Delay::Never,
    },
    Port {
        name: "weights",
        about: "another update of the same model that goes first; two updates of one model need an order",
        needs: &["version"],
        optional: true,
        delay: Delay::Either,
    },
];

pub fn spec() -> OperatorSpec {
    OperatorSpec {
        name: "gpu-update",
        about: "learns from the iteration's rows and makes the next version of the weights",
        ports: PORTS,
        keeps: false,
        adds: &["iteration", "task", "sample", "attempt", "turn", "phase", "used", "version"],
        effect: true,
        settings: with_model(schema::<UpdateSettings>()),
        needs,
    }
}

/// The update's settings and, beside them, the model that is updated.
fn with_model(mut schema: Value) -> Value {
    schema["properties"]["model"] = json!({ "type": "string", "description": "The model that learns." });
    schema["required"] = json!(["model"]);
    schema
}

fn needs(with: &Value) -> Vec<Need> {
    if with["objective"] == "sft" {
        return Vec::new();
    }
    vec![Need { port: "rows", column: "advantage".into(), at: vec![] }]
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, String> {
    let policy = ctx.policy.clone().ok_or("needs a model")?;
    let mut with = node.with.clone();
    let model =
        with.as_object_mut().and_then(|w| w.remove("model")).and_then(|m| m.as_str().map(String::from)).ok_or("with: needs `model`")?;
    let mut settings: UpdateSettings = serde_json::from_value(with).map_err(|e| format!("with: {e}"))?;
    settings.keep = ctx.keep;
    let (shared, id, run) = (ctx.shared.clone(), node.id.clone(), ctx.run.clone().filter(|_| ctx.lasting.contains(&node.id)));
    let mut inputs = vec![(must(&ports, "rows")?, Route::One)];
    // Its frontier is all that is asked of it: the weights themselves are on the policy thread.
    inputs.extend(port(&ports, "weights").map(|edge| (edge, Route::One)));
    let shape = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        let Some(rows) = row::sorted(&rows[0]).map_err(|e| e.to_string())? else { return Ok(vec![]) };
        let start = Instant::now();
        let (examples, used) = examples(&rows, settings.objective).map_err(|e| e.to_string())?;
        if examples.is_empty() {
            return Err("no row is left to learn from: each was dropped; see the column `used`".into());
        }
        let count = examples.len();
        let report = policy.update(&model, examples, &settings).map_err(|e| e.to_string())?;
        if let Some(run) = &run {
            let path = Run::version(report.version, &model);
            policy.save(&model, &run.root().join(&path)).map_err(|e| e.to_string())?;
            shared.saved(iteration, WeightsAt { node: id.clone(), model: model.clone(), version: report.version, path });
        }
        let seconds = start.elapsed().as_secs_f64();
        let figures = [
            ("loss", report.loss),
            ("kl", report.kl),
            ("entropy", report.entropy),
            ("clip_fraction", report.clip_fraction),
            ("grad_norm", report.grad_norm),
            ("tokens", report.tokens as f64),
            ("rows", count as f64),
            ("seconds", seconds),
        ];
        for (name, value) in figures {
            shared.measure(iteration, &id, name, value);
        }
        Ok(vec![outcome(&rows, used, report.version).map_err(|e| e.to_string())?])
    }))
}

/// The rows to learn from, in order, and for every row `yes` or the reason why not.
fn examples(rows: &RecordBatch, objective: Objective) -> Result<(Vec<Example>, Vec<String>), RowError> {
    let (prompts, responses, choices, logprobs) = (
        row::lists(rows, "prompt_tokens")?,
        row::lists(rows, "response_tokens")?,
        row::lists(rows, "choices")?,
        row::lists(rows, "logprobs")?,
    );
    let advantages = if objective == Objective::PolicyGradient { Some(row::f32s(rows, "advantage")?) } else { None };
    let why = if advantages.is_some() { row::texts(rows, "used").ok() } else { None };
    let (mut examples, mut used) = (Vec::new(), Vec::new());
    for i in 0..rows.num_rows() {
        let response = row::u32_list(responses, i);
        let reason = match why.map_or("yes", |w| w.value(i)) {
            "yes" if response.is_empty() => "empty",
            reason => reason,
        };
        used.push(reason.to_owned());
        if reason == "yes" {
            examples.push(Example {
                prompt: row::u32_list(prompts, i),
                response,
                logprobs: row::f32_list(logprobs, i),
                choices: split(&row::u32_list(choices, i)),
                advantage: advantages.map_or(1.0, |a| a.value(i)),
            });
        }
    }
    Ok((examples, used))
}

/// The sequences of a `choices` value, each closed by the end token.
fn split(choices: &[u32]) -> Vec<Vec<u32>> {
    choices.split_inclusive(|t| *t == END).map(<[u32]>::to_vec).collect()
}

fn outcome(rows: &RecordBatch, used: Vec<String>, version: u64) -> Result<RecordBatch, RowError> {
    let mut columns = Vec::new();
    for name in row::NAME {
        columns.push((name, rows.column_by_name(name).ok_or_else(|| RowError::Missing(name.into()))?.clone()));
    }
    columns.push(("version", Arc::new(UInt64Array::from(vec![version; used.len()]))));
    columns.push(("used", Arc::new(StringArray::from(used))));
    row::batch(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_split_at_the_end_token() {
        let end = END;
        assert_eq!(split(&[5, end, 6, 7, end]), vec![vec![5, end], vec![6, 7, end]]);
        assert!(split(&[]).is_empty());
    }
}
