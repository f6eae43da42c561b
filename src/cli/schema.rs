//! `flow schema`: the JSON Schema of the pipeline language, of a study's file, or of a verb's answer, for editors and for
//! checks elsewhere.

use super::audit::{AuditAnswer, Figures, Worths};
use super::error::Error;
use super::external::{become_program, STUDY};
use super::output::{finish, CommandResult};
use super::test::{CaseAnswer, TestEnd, TestRow};
use super::{check, diff, doctor, episode, eval, report, seeds, show, summary, top, verify};
use crate::ops;
use clap::Args;
use flow_core::columns::aligned;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};

#[derive(Args)]
pub struct SchemaArgs {
    /// The schema of a study's file, in place of a pipeline's
    #[arg(long)]
    study: bool,
    /// The schema of the verb's answer with `--format json`; without a verb, the list of these verbs
    #[arg(long, value_name = "VERB", num_args = 0..=1, default_missing_value = "", conflicts_with = "study")]
    output: Option<String>,
}

/// A verb with `--format json`: its name, the form of its answer, and the possible schemas of it.
type Output = (&'static str, &'static str, fn(&mut SchemaGenerator) -> Vec<Schema>);

const OUTPUTS: [Output; 15] = [
    ("audit", "an object; --memory: another one", |g| vec![of::<AuditAnswer<&Figures>>(g), of::<AuditAnswer<&Worths>>(g)]),
    ("check", "a list of mistakes; --headroom: an object", |g| vec![of::<Vec<flow_pipeline::Diagnostic>>(g), of::<check::CheckAnswer>(g)]),
    ("diff", "an object", |g| vec![of::<diff::DiffAnswer>(g)]),
    ("doctor", "a list of findings", |g| vec![of::<Vec<doctor::Finding>>(g)]),
    ("eval", "an object", |g| vec![of::<eval::Score>(g)]),
    ("query", "a list of rows", |g| vec![of::<Vec<episode::JsonRow>>(g)]),
    ("replay", "an object", |g| vec![of::<summary::RunAnswer>(g)]),
    ("report", "an object", |g| vec![of::<report::ReportAnswer>(g)]),
    ("resume", "an object", |g| vec![of::<summary::RunAnswer>(g)]),
    ("run", "an object; --seeds, --grid: a list of objects", |g| vec![of::<summary::RunAnswer>(g), of::<Vec<seeds::CaseAnswer>>(g)]),
    ("show", "an object", |g| vec![of::<show::ShowAnswer>(g)]),
    ("tap", "an object a line, one for each row", |g| vec![of::<episode::JsonRow>(g)]),
    ("test", "an object a line: rows, then their test; --invariance: ways", |g| {
        vec![of::<TestRow>(g), of::<TestEnd>(g), of::<CaseAnswer>(g)]
    }),
    ("top", "an object", |g| vec![of::<top::RunSnapshot>(g)]),
    ("verify", "an object", |g| vec![of::<verify::VerifyAnswer>(g)]),
];

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl SchemaArgs {
    pub fn run(self) -> CommandResult {
        let schema = match self.output.as_deref() {
            None if self.study => return become_program(STUDY, &["--schema".into()]),
            None => flow_pipeline::schema(&ops::catalog()),
            Some("") => return finish(&aligned(&OUTPUTS.map(|(verb, form, _)| [verb, form].map(String::from)), &[false; 2]).join("\n")),
            Some(verb) => output(verb)?,
        };
        finish(&serde_json::to_string_pretty(&schema)?)
    }
}

/// The schema of a verb's answer.
fn output(verb: &str) -> Result<serde_json::Value, Error> {
    let Some((_, form, schemas)) = OUTPUTS.iter().find(|(name, ..)| *name == verb) else {
        let verbs: Vec<&str> = OUTPUTS.iter().map(|(name, ..)| *name).collect();
        return Err(Error::Request(format!("`{verb}` has no answer in JSON; these verbs have: {}", verbs.join(", "))));
    };
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let any = schemas(&mut generator);
    Ok(serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "description": format!("The answer of `flow {verb} --format json`: {form}."),
        "anyOf": any,
        "$defs": generator.take_definitions(true),
    }))
}
