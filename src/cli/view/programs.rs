//! Questions that this program answers in processes of their own: they can be ended, and have the bounds of
//! `flow query`.

use super::answers::MOST;
use super::runs::ServedRun;
use super::Answer;
use crate::cli::error::{Error, Result};
use serde_json::{json, Map, Value};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long after a question the process for the next one is started.
const REST: Duration = Duration::from_millis(300);

/// The most bytes of an answer.
const LONGEST: u64 = 256 << 20;

/// Anybody's SQL. The process is ended as soon as there are as many rows as a page shows.
pub async fn sql(run: &ServedRun, sql: &str) -> Answer {
    let (mut child, output) = asked(run, sql).await?;
    let mut lines = BufReader::new(output.take(LONGEST)).lines();
    let mut rows: Vec<Map<String, Value>> = Vec::new();
    // An array with a line for each row.
    let read = async {
        while let Some(line) = lines.next_line().await? {
            if line.starts_with('{') {
                rows.push(serde_json::from_str(line.trim_end_matches(','))?);
            }
            if rows.len() > MOST {
                return Ok(());
            }
        }
        Ok::<_, Error>(())
    };
    timeout(PATIENCE, read).await.map_err(|_| too_long())??;
    let more = rows.len() > MOST;
    if !more {
        ended(child).await?;
    } else if let Err(error) = child.start_kill() {
        return Err(error.into());
    }
    let columns: Vec<String> = rows.first().map(|row| row.keys().cloned().collect()).unwrap_or_default();
    let rows: Vec<Vec<Value>> = rows.into_iter().take(MOST).map(|row| row.into_iter().map(|(_, value)| value).collect()).collect();
    Ok(json!({ "sql": sql, "columns": columns, "rows": rows, "more": more }))
}

/// The process that answers a question. One may have been started before, and wait: a program of this size takes longer
/// to start than most answers take.
async fn asked(run: &ServedRun, sql: &str) -> Result<(Child, ChildStdout)> {
    let mut waiting = run.waiting.lock().take();
    // One that has ended, for whatever reason, answers nothing.
    if !waiting.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None))) {
        waiting = None;
    }
    let (mut child, output) = waiting.map_or_else(|| questioned(run), Ok)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(sql.as_bytes()).await?;
    }
    Ok((child, output))
}

/// Starts a process for the next question a little after this one, when most pages are drawn: on a small machine the two
/// would be in each other's way.
pub async fn prepare(run: Arc<ServedRun>) {
    sleep(REST).await;
    let mut waiting = run.waiting.lock();
    if waiting.is_none() {
        // Without one that waits the next question starts its own.
        *waiting = questioned(&run).ok();
    }
}

/// A process that reads a question from its standard input and answers it.
fn questioned(run: &ServedRun) -> Result<(Child, ChildStdout)> {
    start(&["query", &run.folder, "-", "--format", "json"], Stdio::piped())
}

/// All rows of an answer as a file.
pub async fn file(run: &ServedRun, sql: &str, format: &str) -> Result<Vec<u8>> {
    if !["csv", "parquet"].contains(&format) {
        return Err(Error::request("an answer is saved as csv or as parquet"));
    }
    read_output(&["query", &run.folder, sql, "--format", format]).await
}

/// What `flow diff` says of two runs.
pub async fn diff(run: &ServedRun, other: &ServedRun) -> Answer {
    let answer = read_output(&["diff", &run.folder, &other.folder, "--format", "json"]).await?;
    Ok(json!({ "with": other.folder, "diff": serde_json::from_slice::<Value>(&answer)? }))
}

/// All that the program answers.
async fn read_output(arguments: &[&str]) -> Result<Vec<u8>> {
    let (child, output) = start(arguments, Stdio::null())?;
    let mut bytes = Vec::new();
    timeout(PATIENCE, output.take(LONGEST).read_to_end(&mut bytes)).await.map_err(|_| too_long())??;
    if bytes.len() as u64 == LONGEST {
        return Err(Error::Request(format!("the answer is longer than {} MB: ask for less, or ask `flow query` itself", LONGEST >> 20)));
    }
    // `flow diff` ends with 1 where runs differ.
    match ended(child).await {
        Err(_) if arguments[0] == "diff" && !bytes.is_empty() => Ok(bytes),
        ended => ended.map(|()| bytes),
    }
}

fn start(arguments: &[&str], input: Stdio) -> Result<(Child, ChildStdout)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or_else(|| Error::request("the question has no output"))?;
    Ok((child, output))
}

/// Waits for the end of a process, and passes on its error.
async fn ended(child: Child) -> Result<()> {
    let output = timeout(PATIENCE, child.wait_with_output()).await.map_err(|_| too_long())??;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::Request(String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned())),
    }
}

fn too_long() -> Error {
    Error::Request(format!("the question took more than {} s and was ended", PATIENCE.as_secs()))
}
