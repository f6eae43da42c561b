//! `flow explain`: what a kind of mistake is, and what mends it.

use super::error::Error;
use super::output::{finish, CommandResult};
use clap::Args;
use flow_core::columns::aligned;
use flow_pipeline::{Code, Diagnostic};

#[derive(Args)]
pub struct ExplainArgs {
    /// The kind, as `flow check` names it; without one, all kinds
    kind: Option<String>,
}

/// Each kind and its explanation.
fn kinds() -> Vec<(String, String)> {
    let schema = schemars::schema_for!(Code).to_value();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|kind| (text(&kind["const"]), text(&kind["description"]).replace('\n', " ")))
        .collect()
}

/// The kinds of these mistakes, each once, as a command that explains them.
pub fn hint(mistakes: &[Diagnostic]) -> String {
    let name = |mistake: &Diagnostic| serde_json::to_value(mistake.code).ok()?.as_str().map(String::from);
    let mut names: Vec<String> = mistakes.iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    names.iter().map(|name| format!("`flow explain {name}`")).collect::<Vec<_>>().join(", ")
}

impl ExplainArgs {
    pub fn run(self) -> CommandResult {
        let kinds = kinds();
        let Some(kind) = self.kind else {
            let first = |text: &str| text.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned();
            let rows: Vec<[String; 2]> = kinds.into_iter().map(|(name, text)| [name, first(&text)]).collect();
            return finish(&aligned(&rows, &[false; 2]).join("\n"));
        };
        match kinds.iter().find(|(name, _)| *name == kind) {
            Some((_, text)) => finish(text),
            None => Err(Error::Request(format!("there is no kind of mistakes `{kind}`: `flow explain` lists them"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn every_kind_is_explained() {
        let kinds = kinds();
        assert!(kinds.len() > 20 && kinds.iter().all(|(name, text)| !name.is_empty() && text.ends_with('.')), "{kinds:?}");
    }

    /// One mistake of each of these kinds.
    #[test]
    fn mistakes_have_their_kinds() {
        let good = include_str!("../../pipelines/quickstart.yaml");
        let found = |text: &str, sets: &[&str], code: Code| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            let mistakes = flow_pipeline::parse("x", text, &sets, &ops::catalog()).unwrap_err();
            assert!(mistakes.0.iter().any(|mistake| mistake.code == code), "{code:?}: {mistakes:?}");
        };
        found("", &[], Code::File);
        found("flow: [a\n", &[], Code::Yaml);
        found("like: nowhere.yaml\n", &[], Code::Like);
        found(good, &["seed"], Code::Set);
        found(good, &["iterations=0"], Code::Key);
        found(good, &["nodes.update.op=gpu"], Code::Node);
        found(good, &["nodes.update.with.lr=fast"], Code::Setting);
        found(good, &["nodes.advantage.inputs=update"], Code::Order);
        found(good, &["nodes.advantage.inputs=rollout"], Code::Column);
        found(good, &["models.actor.width=7"], Code::Size);
        let named = hint(&flow_pipeline::parse("x", good, &["iterations=0".into()], &ops::catalog()).unwrap_err().0);
        assert_eq!(named, "`flow explain key`");
    }
}
