//! `python`: a function of the user's own, in Python, from a table of rows to columns or rows. It says which columns it
//! needs and adds, so it is checked before anything runs, and its rows are logged, replayed and resumed as any others.

mod calls;
mod description;
mod inquiry;
mod inside;
mod join;
pub mod loss;
mod process;
mod settings;
mod trust;

pub use trust::run_code;

use super::memories::buckets::unlogged;
use super::operator::{must, settings as settings_of, Hooks, Operator, Settings};
use calls::{columns, Calls, STATE};
use description::{Description, Form};
use flow_core::row::{self, NAME};
use flow_dataflow::stage::{stage, Place as RunsOn, Stage};
use flow_dataflow::{feed, Context, Edge, Failed, Ports, Route};
use flow_model::FunctionSettings;
use flow_pipeline::{Code, Mistake, Need, Node, Pipeline, Port, Role, With};
use inquiry::description;
use serde_json::Value;
use settings::PythonSettings;
use std::path::PathBuf;
use timely::dataflow::Scope;

/// What the table has of it.
pub const OPERATOR: Operator = Operator {
    name: "python",
    about: "calls a function in Python that adds columns to rows, or keeps, drops, changes or makes rows",
    role: Role::Judges,
    ports: &[Port::rows("turns", &NAME)],
    keeps: true,
    adds: &[],
    settings: Settings::of::<PythonSettings>(),
    outside: render,
    inside: Some(inside::inside),
    hooks: Hooks {
        needs,
        makes,
        unknown,
        kept: |with| inquiry::kept(&with.typed::<PythonSettings>()?.function, with.raw()),
        mistakes,
        remembers: |with| with.typed::<PythonSettings>().and_then(|with| description(&with.function).ok()).is_some_and(|spec| spec.state),
        targets: |with| makes(with).iter().any(|column| column == "value_target"),
        ..Hooks::NONE
    },
};

/// Fails where a function of this pipeline may not run here: before a run is begun with it.
///
/// # Errors
/// Names the node, and says what to do.
pub fn functions_may_run(pipeline: &Pipeline) -> Result<(), String> {
    for node in pipeline.all() {
        let own = node.with.typed::<PythonSettings>().map(|with| with.function.clone());
        for function in own.into_iter().chain(loss::function(&node.with)) {
            trust::allowed(&function).map_err(|why| format!("`{}` of `{}`: {why}", function.call, node.id))?;
        }
    }
    Ok(())
}

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<PythonSettings>() else { return Vec::new() };
    let need = |column: &String, at: Vec<String>| Need { port: "rows".into(), column: column.clone(), at };
    let by = with.by.iter().enumerate().map(|(i, column)| need(column, vec!["by".into(), i.to_string()]));
    let spec = description(&with.function).ok();
    let called = spec.iter().flat_map(|spec| spec.needs().unwrap_or_default()).map(|column| need(column, vec!["call".into()]));
    by.chain(called).collect()
}

/// A function that can't be asked, or whose columns rows can't have.
fn unknown(with: &With) -> Option<Mistake> {
    let with = &with.typed::<PythonSettings>()?.function;
    let of_call = |message: String| Mistake { code: Code::Operator, at: vec!["call".into()], message, help: None };
    let spec = match description(with) {
        Ok(spec) => spec,
        Err(why) => return Some(of_call(with.named(&why))),
    };
    if spec.form == Form::Loss {
        let help = "an update calls it: `surrogate: { call: ... }` of `gpu-update`";
        return Some(of_call(format!("`{}` computes a loss of tokens, and no rows", with.name())).help(help));
    }
    spec.adds.iter().find_map(|(name, kind)| match row::kind(name) {
        _ if NAME.contains(&name.as_str()) => Some(of_call(format!("`{}` adds the column `{name}`, by which rows are named", with.name()))),
        None => {
            let own = match kind.as_str() {
                "utf8" => row::NOTED,
                "list of f32" => row::TOKEN_DERIVED,
                _ => row::DERIVED,
            };
            let help = "a column of your own is called `derived_...` (f32), `noted_...` (utf8) or `token_derived_...` (list of f32)";
            Some(of_call(format!("rows can't have the column `{name}` that `{}` adds: call it `{own}{name}`", with.name())).help(help))
        }
        Some(wanted) if wanted.name() != kind => {
            Some(of_call(format!("`{}` adds `{name}` as {kind}, and the column holds {}", with.name(), wanted.name())))
        }
        Some(_) => None,
    })
}

fn makes(with: &With) -> Vec<String> {
    let Some(with) = with.typed::<PythonSettings>() else { return Vec::new() };
    let Ok(spec) = description(&with.function) else { return Vec::new() };
    let state = spec.state.then(|| STATE.to_string());
    spec.adds.keys().filter(|name| row::kind(name).is_some()).cloned().chain(state).collect()
}

fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings_of::<PythonSettings>(node) else { return Vec::new() };
    let Ok(spec) = description(&with.function) else { return Vec::new() };
    let mut mistakes = settings_mistakes(node, &["with", "settings"], &with.function, &spec);
    if pipeline.around(&node.id).is_some() {
        let lacks = inside::EPISODE.iter().any(|column| !with.by.iter().any(|by| by == column));
        let whole = || {
            Mistake::in_node(
                node,
                &["with", "by"],
                format!("in a loop episodes come one by one, and `{}` would wait for others", with.function.name()),
            )
        };
        mistakes.extend(lacks.then(|| whole().help("write `by: [task, sample]`: it gets each episode by itself")));
    }
    if spec.state {
        mistakes.extend(unlogged(node, pipeline, "keeps a state, and a resumed run reads it in the log"));
        let apart = || {
            Mistake::in_node(
                node,
                &["with", "by"],
                format!("`{}` keeps a state, and its groups would change it in no order", with.function.name()),
            )
        };
        mistakes.extend(
            (!with.by.is_empty()).then(|| apart().help("leave `by` out: it gets all rows of an iteration, and makes groups itself")),
        );
    }
    mistakes
}

/// Settings of a function that it doesn't know, lacks or doesn't take; `at` is where they stand.
fn settings_mistakes(node: &Node, at: &[&str], function: &FunctionSettings, spec: &Description) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, parameter) in spec.parameters() {
        let given = function.settings.get(name);
        let fits = |value| jsonschema::draft201909::new(&parameter.schema).is_ok_and(|schema| schema.is_valid(value));
        match given {
            None if parameter.required => {
                let help = format!("write `settings: {{ {name}: ... }}`");
                mistakes.push(Mistake::in_node(node, at, format!("`{}` needs the setting `{name}`", function.name())).help(help));
            }
            Some(value) if !fits(value) => {
                let wanted = in_words(&parameter.schema);
                let message = format!("`{name}` of `{}` is {value}, and the function takes {wanted}", function.name());
                mistakes.push(Mistake::in_node(node, &[at, &[name.as_str()]].concat(), message));
            }
            _ => {}
        }
    }
    for name in function.settings.keys().filter(|name| !spec.settings.contains_key(*name)) {
        let known: Vec<String> = spec.settings.keys().map(|known| format!("`{known}`")).collect();
        let help = if known.is_empty() { "it has no settings".into() } else { format!("it has {}", known.join(", ")) };
        mistakes.push(
            Mistake::in_node(node, &[at, &[name.as_str()]].concat(), format!("`{}` has no setting `{name}`", function.name())).help(help),
        );
    }
    mistakes
}

/// What a setting may be, of its JSON Schema.
fn in_words(schema: &Value) -> String {
    let name = |kind: &str| match kind {
        "integer" => "an integer".into(),
        "number" => "a number".into(),
        "string" => "a text".into(),
        "boolean" => "true or false".into(),
        "array" => "a list".into(),
        "object" => "a map".into(),
        other => other.to_string(),
    };
    match (&schema["type"], &schema["enum"]) {
        (Value::String(kind), _) => name(kind),
        (Value::Array(kinds), _) => kinds.iter().filter_map(Value::as_str).map(name).collect::<Vec<_>>().join(" or "),
        (_, Value::Array(values)) => values.iter().map(Value::to_string).collect::<Vec<_>>().join(" or "),
        _ => schema.to_string(),
    }
}

/// The file of a run that a node's function prints into.
pub fn prints(node: &str, ctx: &Context) -> Option<PathBuf> {
    ctx.run.as_ref().map(|run| run.root().join(format!("prints-{node}.log")))
}

/// What the function needs goes to the workers of its groups, and what it makes comes back to where the rows stay.
fn render<'s>(node: &Node, ports: Ports<'s>, scope: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let with = settings_of::<PythonSettings>(node)?;
    let spec = description(&with.function).map_err(|why| with.function.named(&why))?;
    let rows = must(&ports, "rows")?;
    let route = match columns(&with, &spec) {
        Some(columns) => Route::Part { columns, by: with.by.clone() },
        None if with.by.is_empty() => Route::One,
        None => Route::By(with.by.clone()),
    };
    let mut inputs = vec![(rows.clone(), route)];
    if spec.state {
        inputs.push((feed::past(&node.id, scope, ctx)?, Route::One));
    }
    let mut added: Vec<String> = spec.adds.keys().cloned().collect();
    added.extend(spec.state.then(|| STATE.to_string()));
    let (form, remembers) = (spec.form, spec.state);
    let mut function = Calls::new(&node.id, with, spec, prints(&node.id, ctx), ctx);
    let calls = Stage { name: format!("{} function", node.id), inputs, begins: false, place: RunsOn::Thread };
    let made = stage(calls, ctx, move |iteration, rows| {
        if remembers {
            function.resume(&rows[1])?;
        }
        function.of(iteration, &rows[0])
    });
    let inputs = vec![(rows, Route::by(&["task"])), (made, Route::by(&["task"]))];
    let joined = Stage { name: node.id.clone(), inputs, begins: false, place: RunsOn::Worker };
    Ok(stage(joined, ctx, move |_, rows| {
        let added: Vec<&str> = added.iter().map(String::as_str).collect();
        match form {
            Form::Columns => join::with_columns(&rows[0], &rows[1], &added),
            Form::Rows | Form::Loss => join::with_rows(&rows[0], &rows[1], &added),
        }
    }))
}
