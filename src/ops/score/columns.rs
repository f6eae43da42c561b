//! Scores of rows: their texts, what the model makes of them, and the columns.

use super::likelihood::Mode;
use arrow::array::{ArrayRef, Float32Array, RecordBatch};
use flow_core::row::{RowError, View, SCORE};
use flow_dataflow::Failed;
use flow_model::Example;
use flow_policy::Policy;
use flow_rollout::row_text::RowText;
use flow_rollout::template::TemplateError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The compiled templates of the prompt and of each target.
pub struct Texts {
    prompt: RowText,
    targets: Vec<(String, RowText)>,
}

impl Texts {
    pub fn new(prompt: &str, targets: &BTreeMap<String, String>) -> Result<Texts, TemplateError> {
        let target = |(name, text): (&String, &String)| Ok((name.clone(), RowText::new(text)?));
        Ok(Texts { prompt: RowText::new(prompt)?, targets: targets.iter().map(target).collect::<Result<_, _>>()? })
    }
}

/// For each target its scores, one a row in the view's order. All texts go to the policy in one job, where what they
/// begin with in common is read once.
pub fn scores(
    view: &View,
    policy: &Policy,
    model: &str,
    version: u64,
    texts: &Texts,
    mode: Mode,
) -> Result<Vec<(String, Vec<f32>)>, Failed> {
    let tokenizer = policy.tokenizer(model)?;
    let prompts: Vec<Vec<u32>> = texts.prompt.texts(view)?.iter().map(|text| tokenizer.ask(text)).collect::<Result<_, _>>()?;
    let mut examples: Vec<Example> = Vec::with_capacity(prompts.len() * texts.targets.len());
    for (_, target) in &texts.targets {
        let responses = target.texts(view)?.into_iter().map(|text| tokenizer.encode(&text));
        examples.extend(prompts.iter().zip(responses).map(|(prompt, response)| Example {
            prompt: prompt.clone(),
            response,
            ..Default::default()
        }));
    }
    // Of a text without tokens nothing has to be scored.
    let to_score: Vec<usize> = (0..examples.len()).filter(|&i| !examples[i].response.is_empty()).collect();
    let batch = to_score.iter().map(|&i| examples[i].clone()).collect();
    let mut tokens: Vec<Vec<f32>> = vec![vec![]; examples.len()];
    let scored =
        policy.text_logprobs(model, version, batch).map_err(|error| error.describe(|i| row_name(view, to_score[i] % prompts.len())))?;
    to_score.iter().zip(scored).for_each(|(&i, logprobs)| tokens[i] = logprobs);
    let all = tokens.chunks(prompts.len().max(1)).map(|rows| rows.iter().map(|tokens| mode.score(tokens)).collect());
    Ok(texts.targets.iter().map(|(name, _)| name.clone()).zip(all).collect())
}

/// A row's name for people.
fn row_name(view: &View, i: usize) -> String {
    view.read(&flow_core::row::NAME).map_or_else(|_| format!("row {i}"), |rows| flow_core::row::described(&rows, i))
}

/// The view's rows with the scores.
pub fn with(view: &View, scores: Vec<(String, Vec<f32>)>) -> Result<Vec<RecordBatch>, RowError> {
    let columns: Vec<(String, ArrayRef)> =
        scores.into_iter().map(|(name, scores)| (format!("{SCORE}{name}"), Arc::new(Float32Array::from(scores)) as ArrayRef)).collect();
    view.with(columns.iter().map(|(name, column)| (name.as_str(), column.clone())).collect())
}
