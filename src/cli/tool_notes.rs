//! Notes of `flow check` on agents that programs call: where the tools of a call would stand in the prompt.

use super::model_check::tokenizer;
use crate::ops;
use flow_env::process::ProcessSettings;
use flow_pipeline::{Node, Pipeline};
use flow_rollout::tools::ToolForm;
use flow_text::Tokenizer;
use std::sync::Arc;

/// The notes, each with its node.
pub fn notes(pipeline: &Pipeline) -> Vec<(String, String)> {
    pipeline.all().flat_map(|node| own(node, pipeline).into_iter().map(|note| (node.id.clone(), note))).collect()
}

fn own(node: &Node, pipeline: &Pipeline) -> Vec<String> {
    let Some(agent) = ops::play(node).map(|play| play.agent) else { return vec![] };
    let game = ops::played(node, pipeline);
    // A process may call, too, and doesn't say so beforehand.
    let calls = |program: &ProcessSettings| program.calls || agent.tools != ToolForm::default();
    if !game.as_ref().and_then(|game| game.program()).is_some_and(calls) {
        return vec![];
    }
    let models = std::iter::once(&agent.model).chain(&agent.by_name);
    models.map(|model| note(agent.tools, model, tokenizer(pipeline, model))).collect()
}

fn note(form: ToolForm, model: &str, tokenizer: Option<Arc<Tokenizer>>) -> String {
    let rendered = tokenizer.is_some_and(|tokenizer| !tokenizer.omissions(false).tools);
    match (form, rendered) {
        (ToolForm::Hermes, _) => format!("`{model}` reads the tools of a call in its system message, in the form of Hermes (`tools: hermes`)"),
        (ToolForm::Refuse, _) => "a call with tools is refused with a 400 (`tools: refuse`)".into(),
        (ToolForm::Template, true) => format!("the chat template of `{model}` renders the tools of a call"),
        (ToolForm::Template, false) => format!(
            "`{model}` has no chat template that renders tools, so a call with tools is refused with a 400: `tools: hermes` of the agent writes them into the \
             system message"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_where_tools_are_or_that_they_are_refused() {
        let words = || Some(Arc::new(Tokenizer::bytes()));
        for (form, said) in [
            (ToolForm::Template, "has no chat template that renders tools, so a call with tools is refused"),
            (ToolForm::Hermes, "reads the tools of a call in its system message"),
            (ToolForm::Refuse, "a call with tools is refused with a 400 (`tools: refuse`)"),
        ] {
            assert!([words(), None].into_iter().all(|tokenizer| note(form, "actor", tokenizer).contains(said)), "{form:?}");
        }
    }
}
