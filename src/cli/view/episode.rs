//! One episode, turn by turn: every column that was logged, and the texts of its tokens.

use super::answers::{self, of_iteration, place, RunTable};
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::Result;
use crate::log::sql::literal;
use crate::policy::Tokenizer;
use serde_json::{json, Value};

/// The episode of a task's sample; `table` is `trajectories`, or the node that played it.
pub fn episode(run: &ServedRun, iteration: u64, table: &str, task: &str, sample: u32) -> Answer {
    let rows = RunTable::of(run, table)?;
    let answer = of_iteration(run, iteration, &sql(&rows, iteration, task, u64::from(sample)))?;
    Ok(read(run, table, answer))
}

/// All episodes of an iteration that were shown to be there: each with its task and its sample.
pub fn episodes(run: &ServedRun, iteration: u64, table: &str) -> Result<Vec<(String, u64, Value)>> {
    let rows = RunTable::of(run, table)?;
    let all = format!("SELECT * FROM {} WHERE iteration = {iteration} ORDER BY task, sample, attempt, turn, phase DESC", rows.name);
    let split = answers::split(run, iteration, &all, &["task", "sample"])?;
    let episode = |(name, mut answer): (Vec<Value>, Value)| {
        let (task, sample) = (name[0].as_str().unwrap_or_default().to_owned(), name[1].as_u64().unwrap_or_default());
        answer["sql"] = json!(sql(&rows, iteration, &task, sample));
        (task, sample, read(run, table, answer))
    };
    Ok(split.into_iter().map(episode).collect())
}

fn sql(rows: &RunTable, iteration: u64, task: &str, sample: u64) -> String {
    let (table, task) = (&rows.name, literal(task));
    format!(
        "SELECT * FROM {table} WHERE iteration = {iteration} AND task = {task} AND sample = {sample} ORDER BY attempt, turn, phase DESC"
    )
}

/// The answer with the texts of its tokens.
fn read(run: &ServedRun, table: &str, mut answer: Value) -> Value {
    let node = if table == "trajectories" { "" } else { table };
    let texts = run.vocabularies().of_node(node).map(|tokenizer| texts(&answer, tokenizer));
    answer["texts"] = json!(texts);
    answer
}

/// By row: the prompt as the model read it, parted where it begins to differ from the row before it, and the answer token by token.
fn texts(answer: &Value, tokenizer: &Tokenizer) -> Vec<Value> {
    let (prompts, responses) = (place(answer, "prompt_tokens"), place(answer, "response_tokens"));
    let mut before: Vec<u32> = Vec::new();
    let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut texts = Vec::with_capacity(rows.len());
    for row in rows {
        let tokens = |at: Option<usize>| at.map(|at| numbers(&row[at])).unwrap_or_default();
        let (prompt, response) = (tokens(prompts), tokens(responses));
        let shared = prompt.iter().zip(&before).take_while(|(a, b)| a == b).count();
        texts.push(json!({
            "shared": tokenizer.transcribe(&prompt[..shared]),
            "rest": tokenizer.transcribe(&prompt[shared..]),
            "pieces": pieces(&response, tokenizer),
        }));
        before = prompt;
        before.extend(response);
    }
    texts
}

fn numbers(list: &Value) -> Vec<u32> {
    list.as_array().into_iter().flatten().filter_map(|token| token.as_u64()?.try_into().ok()).collect()
}

/// What each token adds to the text of those before it, so that the pieces together are the text. A character of several tokens is the
/// last one's.
fn pieces(tokens: &[u32], tokenizer: &Tokenizer) -> Vec<String> {
    // A short context before a token suffices to know whether a space stands before it.
    const CONTEXT: usize = 8;
    (0..tokens.len())
        .map(|i| {
            let from = i.saturating_sub(CONTEXT);
            let (before, with) = (tokenizer.transcribe(&tokens[from..i]), tokenizer.transcribe(&tokens[from..=i]));
            with.strip_prefix(before.trim_end_matches('\u{fffd}')).map_or_else(|| tokenizer.transcribe(&tokens[i..=i]), str::to_owned)
        })
        .collect()
}
