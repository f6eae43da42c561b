//! How many conversations a client that encodes its messages again would learn from in other tokens than were sampled.
//! `make drift` plays them.

use arrow::array::RecordBatch;
use flow_core::row::{lists, texts, u32_list, u32s};
use flow_log::{read, Run};
use flow_text::Tokenizer;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// A call: what was read and sampled, what the program said and got.
struct Call {
    turn: u32,
    read: Vec<u32>,
    sampled: Vec<u32>,
    said: String,
    got: String,
}

fn conversations(rows: &[RecordBatch]) -> Vec<Vec<Call>> {
    let mut all: BTreeMap<(String, u32), Vec<Call>> = BTreeMap::new();
    for rows in rows {
        let (tasks, samples, turns) = (texts(rows, "task").unwrap(), u32s(rows, "sample").unwrap(), u32s(rows, "turn").unwrap());
        let (read, sampled) = (lists(rows, "prompt_tokens").unwrap(), lists(rows, "response_tokens").unwrap());
        let (said, got) = (texts(rows, "observation").unwrap(), texts(rows, "action").unwrap());
        for i in 0..rows.num_rows() {
            let call = Call {
                turn: turns.value(i),
                read: u32_list(read, i),
                sampled: u32_list(sampled, i),
                said: said.value(i).into(),
                got: got.value(i).into(),
            };
            all.entry((tasks.value(i).into(), samples.value(i))).or_default().push(call);
        }
    }
    all.values_mut().for_each(|calls| calls.sort_by_key(|call| call.turn));
    all.into_values().collect()
}

#[test]
#[ignore = "reads a run of `make drift`"]
fn no_conversation_is_encoded_again() {
    let folder = std::env::var("FLOW_DRIFT").expect("FLOW_DRIFT names the run");
    let run = Run::open(Path::new(&folder)).unwrap();
    let vocabulary = Path::new(&folder).join("vocabularies/actor");
    let tokenizer = Tokenizer::saved(&vocabulary, &|path| std::fs::read_to_string(path).ok()).unwrap();
    let all = conversations(&read(&run, "rollout").unwrap());
    let (mut others, mut by_turns): (usize, BTreeMap<u32, [usize; 2]>) = (0, BTreeMap::new());
    for calls in &all {
        let mut messages: Vec<Value> = Vec::new();
        let mut drifted = None;
        for (before, call) in std::iter::once(None).chain(calls.iter().map(Some)).zip(calls) {
            if let Some(before) = before {
                let on = [&before.read[..], &before.sampled].concat();
                others += usize::from(!call.read.starts_with(&on));
            }
            messages.push(json!({ "role": "user", "content": call.said }));
            let again = tokenizer.converse(&messages, &[]).unwrap();
            drifted = drifted.or((again != call.read).then_some(call.turn));
            messages.push(json!({ "role": "assistant", "content": call.got }));
        }
        for turns in [2, 4, 8, 16, 32] {
            if calls.len() >= turns {
                let [count, changed] = by_turns.entry(turns as u32).or_default();
                *count += 1;
                *changed += usize::from(drifted.is_some_and(|turn| (turn as usize) < turns));
            }
        }
    }
    println!("{} conversations, {} calls; {others} don't go on from the tokens before", all.len(), all.iter().map(Vec::len).sum::<usize>());
    for (turns, [count, changed]) in by_turns {
        println!(
            "{turns} turns: {changed} of {count} would be other tokens, encoded again ({:.1}%)",
            100.0 * changed as f64 / count as f64
        );
    }
    assert_eq!(others, 0);
}
