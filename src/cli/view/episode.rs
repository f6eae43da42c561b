//! One episode, turn by turn: every column that was logged, and the texts of its tokens.

use super::answers::{episode_name, split, RunTable, MOST};
use super::audit;
use super::cells;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use flow_core::row::{self, Kind};
use flow_log::sql::literal;
use flow_log::QueryResult;
use flow_text::Tokenizer;
use serde_json::{json, Value};

/// The episode of a task's sample, from its row `from` on; `table` is `trajectories`, or the node that played it.
pub fn episode(run: &ServedRun, iteration: u64, table: &str, (task, sample): (&str, u64), from: u64) -> Answer {
    let rows = RunTable::of(run, table)?;
    let whole = sql(&rows, iteration, task, sample);
    let sql = format!("{whole} LIMIT {} OFFSET {from}", MOST + 1);
    let mut answer = read(run, table, &sql, &flow_log::query_within(&run.run, iteration..=iteration, &sql)?)?;
    answer["audited"] = audit::tried(run, iteration, table)?.remove(&(task.to_owned(), sample)).into();
    Ok(answer)
}

/// All episodes of an iteration, each with its task and its sample.
pub fn episodes(run: &ServedRun, iteration: u64, table: &str) -> Result<Vec<(String, u64, Answer)>> {
    let rows = RunTable::of(run, table)?;
    let all = format!("SELECT task, sample, * EXCLUDE (task, sample) FROM {} WHERE iteration = {iteration} ORDER BY task, sample, attempt, turn, phase DESC", rows.name);
    let mut tried = audit::tried(run, iteration, table)?;
    let episode = |(name, part): (Vec<Value>, QueryResult)| {
        let (task, sample) = episode_name(&name);
        let mut answer = read(run, table, &sql(&rows, iteration, &task, sample), &part);
        if let Ok(answer) = &mut answer {
            answer["audited"] = tried.remove(&(task.clone(), sample)).into();
        }
        (task, sample, answer)
    };
    Ok(split(run, iteration, &all, 2)?.into_iter().map(episode).collect())
}

fn sql(rows: &RunTable, iteration: u64, task: &str, sample: u64) -> String {
    let (table, task) = (&rows.name, literal(task));
    format!(
        "SELECT * FROM {table} WHERE iteration = {iteration} AND task = {task} AND sample = {sample} ORDER BY attempt, turn, phase DESC"
    )
}

/// The text of the prompt of one row, which an episode's answer leaves out where it is long and known from the row
/// before.
pub fn prompt(run: &ServedRun, iteration: u64, table: &str, name: &[(&str, &str)]) -> Answer {
    let rows = RunTable::of(run, table)?;
    let condition: String = name.iter().map(|(column, value)| format!(" AND {column} = {}", literal(value))).collect();
    let sql = format!("SELECT prompt_tokens FROM {} WHERE iteration = {iteration}{condition}", rows.name);
    let answer = flow_log::query_within(&run.run, iteration..=iteration, &sql)?;
    let lists = answer.batches.first().map(|batch| cast(batch.column(0), &Kind::U32List.arrow())).transpose()?;
    let tokens = lists.filter(|lists| lists.len() == 1).map_or(Vec::new(), |lists| row::u32_list(lists.as_list(), 0));
    let text = vocabulary(run, table).map(|tokenizer| tokenizer.transcribe(&tokens));
    Ok(json!({ "sql": sql, "text": text }))
}

/// The vocabulary with which the rows of a table are read.
fn vocabulary<'a>(run: &'a ServedRun, table: &str) -> Option<&'a Tokenizer> {
    run.vocabularies().of_node(if table == "trajectories" { "" } else { table })
}

/// The most tokens of a prompt's common beginning with the row before it that are part of the answer.
const SHARED: usize = 2000;

/// The answer with the texts of its tokens.
fn read(run: &ServedRun, table: &str, sql: &str, rows: &QueryResult) -> Answer {
    let mut answer = cells::table(sql, rows, MOST)?;
    answer["texts"] = match vocabulary(run, table) {
        Some(tokenizer) => texts(&rows.batches, tokenizer)?.into(),
        None => Value::Null,
    };
    Ok(answer)
}

/// By row: the prompt as the model read it, parted where it begins to differ from the row before it, what a memory
/// added to it, and the answer token by token.
fn texts(batches: &[RecordBatch], tokenizer: &Tokenizer) -> Result<Vec<Value>> {
    let mut before: Vec<u32> = Vec::new();
    let mut texts = Vec::new();
    for rows in batches {
        let tokens = |name: &str| {
            let column = rows.column_by_name(name).map(|column| cast(column, &Kind::U32List.arrow())).transpose()?;
            Ok::<_, Error>(move |i: usize| {
                column.as_ref().filter(|lists| lists.is_valid(i)).map_or(Vec::new(), |lists| row::u32_list(lists.as_list(), i))
            })
        };
        let (prompts, bare, responses) = (tokens("prompt_tokens")?, tokens("bare_tokens")?, tokens("response_tokens")?);
        for i in 0..rows.num_rows().min(MOST - texts.len()) {
            let (prompt, response) = (prompts(i), responses(i));
            let shared = prompt.iter().zip(&before).take_while(|(a, b)| a == b).count();
            texts.push(json!({
                "shared": (shared <= SHARED).then(|| tokenizer.transcribe(&prompt[..shared])),
                "shared_tokens": shared,
                "rest": tokenizer.transcribe(&prompt[shared..]),
                "told": added(&prompt, &bare(i), |tokens| tokenizer.transcribe(tokens)),
                "pieces": pieces(&response, tokenizer),
            }));
            before = prompt;
            before.extend(response);
        }
    }
    Ok(texts)
}

/// What a prompt has and the bare one hasn't; nothing where there is no bare one. The ends are compared as texts: a word
/// may be other tokens behind a memory than at the beginning of a line.
fn added(prompt: &[u32], bare: &[u32], transcribe: impl Fn(&[u32]) -> String) -> String {
    if bare.is_empty() || bare.len() >= prompt.len() {
        return String::new();
    }
    let start = prompt.iter().zip(bare).take_while(|(a, b)| a == b).count();
    let (mut rest, behind) = (transcribe(&prompt[start..]), transcribe(&bare[start..]));
    let same =
        rest.chars().rev().zip(behind.trim_start().chars().rev()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum::<usize>();
    rest.truncate(rest.len() - same);
    rest
}

/// What each token adds to the text of those before it, so that the pieces together are the text. A character of
/// several tokens is the last one's.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_memory_added_stands_between_what_both_prompts_have() {
        let spelt = |tokens: &[u32]| tokens.iter().map(|token| ["", "a", "b", "c", " c"][*token as usize]).collect::<String>();
        let added = |prompt: &[u32], bare: &[u32]| added(prompt, bare, spelt);
        assert_eq!(added(&[1, 2, 1, 1, 3], &[1, 2, 3]), "aa");
        assert_eq!(added(&[1, 2, 2, 3], &[1, 2, 3]), "b");
        assert_eq!(added(&[1, 2, 4], &[1, 3]), "b ", "the same word as another token");
        assert_eq!(added(&[1, 2, 3], &[]), "");
        assert_eq!(added(&[1, 2, 3], &[1, 2, 3]), "");
    }
}
