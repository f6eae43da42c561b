//! Episodes to look at: the first few of each playing node, of its last and its first iteration.

use super::ask::{ask, TypedRows};
use super::chart::number_of;
use super::source::ReportRun;
use crate::cli::error::Result;
use crate::cli::vocabularies::Vocabularies;
use crate::log::sql::{literal, quoted};
use crate::policy::Tokenizer;
use serde_json::{json, Value};
use std::collections::HashMap;

/// Tasks of an iteration, samples of a task.
const TASKS: usize = 4;
const SAMPLES: usize = 2;

/// The most bytes of a page that texts may take, and the most characters of one text.
const BYTES: usize = 1_200_000;
const LONGEST: usize = 6_000;

/// Episodes for the page's browser. Each distinct text is stored once: most observations occur many times.
#[derive(Default)]
pub struct EpisodeBrowser {
    texts: Vec<String>,
    /// Only asked for one text at a time, never walked.
    known: HashMap<String, usize>,
    bytes: usize,
    trips: Vec<Value>,
    left_out: usize,
}

impl EpisodeBrowser {
    pub fn add(&mut self, number: usize, source: &ReportRun) -> Result<()> {
        let vocabularies = Vocabularies::of(&source.run);
        // A page opens on the policy's episodes: those of an expert say nothing of it.
        let (expert, policy): (Vec<_>, Vec<_>) = source.players().partition(|node| source.expert(&node.id));
        for node in policy.into_iter().chain(expert) {
            let table = quoted(&node.id);
            let ends = ask(&source.run, &format!("SELECT min(iteration) AS first, max(iteration) AS last, count(*) AS rows FROM {table}"))?;
            if ends.u64s("rows")?.first() == Some(&0) {
                continue;
            }
            let mut iterations = [ends.u64s("first")?, ends.u64s("last")?].concat();
            iterations.dedup();
            iterations.reverse();
            for iteration in iterations {
                let chosen = ask(
                    &source.run,
                    &format!(
                        "SELECT task, sample FROM (SELECT task, sample, dense_rank() OVER (ORDER BY task) AS t, \
                         row_number() OVER (PARTITION BY task ORDER BY sample) AS s FROM {table} WHERE iteration = {iteration} GROUP BY task, sample) \
                         WHERE t <= {TASKS} AND s <= {SAMPLES} ORDER BY task, sample"
                    ),
                )?;
                for (task, sample) in chosen.texts("task")?.into_iter().flatten().zip(chosen.u64s("sample")?) {
                    self.add_episode(number, source, &vocabularies, &node.id, (iteration, &task, sample))?;
                }
            }
        }
        Ok(())
    }

    fn add_episode(
        &mut self,
        number: usize,
        source: &ReportRun,
        vocabularies: &Vocabularies,
        node: &str,
        (iteration, task, sample): (u64, &str, u64),
    ) -> Result<()> {
        if self.bytes > BYTES {
            self.left_out += 1;
            return Ok(());
        }
        let credit = credited(source, node);
        let join = credit.as_ref().map_or(String::new(), |advantage| {
            format!("LEFT JOIN {} AS c USING (iteration, task, sample, attempt, turn, phase)", quoted(advantage))
        });
        let credit = if credit.is_some() { "c.advantage" } else { "NULL" };
        // Not every log has all columns.
        let logged = |column: &str, without: &str| {
            let there = source.manifest.info.nodes.iter().any(|n| n.id == node && n.columns.iter().any(|c| c == column));
            if there {
                column.to_owned()
            } else {
                format!("{without} AS {column}")
            }
        };
        let (instruction, prompt) = (logged("instruction", "''"), logged("prompt_tokens", "NULL::UINTEGER[]"));
        let rows = ask(
            &source.run,
            &format!(
                "SELECT attempt, turn, phase, {instruction}, {prompt}, observation, response, action, valid, reward, done, won, score, {credit} AS advantage \
                 FROM {} {join} \
                 WHERE iteration = {iteration} AND task = {} AND sample = {sample} ORDER BY attempt, turn, phase",
                quoted(node),
                literal(task)
            ),
        )?;
        let instruction = rows.texts("instruction")?.into_iter().flatten().find(|text| !text.is_empty());
        let instruction = instruction.map(|text| self.number(text));
        let turns = self.turns(&rows, vocabularies.of_node(node))?;
        self.trips.push(json!({
            "run": number, "node": node, "iteration": iteration, "task": task, "sample": sample, "instruction": instruction, "turns": turns,
        }));
        Ok(())
    }

    /// [attempt, turn, phase, observation, response, action, valid, reward, done, won, score, advantage, prompt] of each row, texts by their
    /// numbers; no prompt where the vocabulary isn't known.
    fn turns(&mut self, rows: &TypedRows, tokenizer: Option<&Tokenizer>) -> Result<Vec<Value>> {
        let read = rows.tokens("prompt_tokens")?;
        let prompts: Vec<Option<usize>> = read
            .iter()
            .map(|tokens| tokenizer.filter(|_| !tokens.is_empty()).map(|tokenizer| self.number(tokenizer.transcribe(tokens))))
            .collect();
        let mut texts = |name: &str| -> Result<Vec<usize>> {
            Ok(rows.texts(name)?.into_iter().map(|text| self.number(text.unwrap_or_default())).collect())
        };
        let (observations, responses, actions, phases) = (texts("observation")?, texts("response")?, texts("action")?, texts("phase")?);
        let (attempts, numbers) = (rows.u64s("attempt")?, rows.u64s("turn")?);
        let (valid, done, won) = (rows.u64s("valid")?, rows.u64s("done")?, rows.u64s("won")?);
        let float = |name: &str| rows.f64s(name).map(|v| v.into_iter().map(|x| x.map(number_of)).collect::<Vec<_>>());
        let (reward, score, advantage) = (float("reward")?, float("score")?, float("advantage")?);
        let turn = |i: usize| {
            json!([
                attempts[i],
                numbers[i],
                phases[i],
                observations[i],
                responses[i],
                actions[i],
                valid[i],
                reward[i],
                done[i],
                won[i],
                score[i],
                advantage[i],
                prompts[i]
            ])
        };
        Ok((0..rows.len()).map(turn).collect())
    }

    fn number(&mut self, text: String) -> usize {
        let length = text.chars().count();
        let text = match length > LONGEST {
            true => {
                format!("{}\n[{} more characters: `flow show` has them]", text.chars().take(LONGEST).collect::<String>(), length - LONGEST)
            }
            false => text,
        };
        if let Some(number) = self.known.get(&text) {
            return *number;
        }
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.known.insert(text, self.texts.len() - 1);
        self.texts.len() - 1
    }

    pub fn json(self) -> Value {
        json!({ "texts": self.texts, "trips": self.trips, "left_out": self.left_out })
    }
}

/// The last logged node that made an advantage of this node's rows.
fn credited(source: &ReportRun, node: &str) -> Option<String> {
    let nodes = source.manifest.info.nodes.iter().rev();
    let makes = |n: &&crate::log::NodeInfo| n.columns.iter().any(|c| c == "advantage");
    let reaches = |n: &&crate::log::NodeInfo| n.upstream.iter().any(|u| u == node);
    nodes.filter(makes).find(reaches).map(|n| n.id.clone())
}
