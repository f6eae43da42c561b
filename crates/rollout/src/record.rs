//! Converts turns of play and reflections to rows.

use super::action::Invalid;
use super::episode::{EpisodeStart, Finished};
use super::turn::Turn;
use arrow::array::*;
use arrow::datatypes::{ArrowPrimitiveType, Field, Float32Type, UInt32Type, UInt64Type};
use flow_core::row::{self, RowError};
use flow_env::EpisodeFacts;
use std::sync::Arc;

/// The source of one row.
pub struct Record<'a> {
    /// The episode that it belongs to.
    pub start: &'a EpisodeStart,
    /// The call of the policy.
    pub turn: &'a Turn,
    /// What the environment says of the episode; nothing in the row of a reflection.
    pub facts: &'a EpisodeFacts,
    /// Whether it is the first turn, which alone has the texts of the task.
    pub first: bool,
    /// The notes for the next attempt; in the last turn only.
    pub next_note: &'a str,
    /// The observation after the last turn of play; in that turn only.
    pub outcome: &'a str,
}

impl<'a> Record<'a> {
    /// A row that has nothing besides its turn.
    pub fn of(start: &'a EpisodeStart, turn: &'a Turn) -> Record<'a> {
        Record { start, turn, facts: EpisodeFacts::NONE, first: false, next_note: "", outcome: "" }
    }

    /// A text that the first turn alone has.
    fn at_first(&self, text: &'a str) -> &'a str {
        if self.first {
            text
        } else {
            ""
        }
    }
}

/// A column's name, and its values in these rows.
type RecordColumn = (&'static str, fn(&[Record]) -> ArrayRef);

/// The columns of a row, in the table's order.
const LIST: [RecordColumn; 40] = [
    ("iteration", |rows| u64s(rows, |r| r.start.iteration)),
    ("task", |rows| texts(rows, |r| &r.start.task)),
    ("sample", |rows| u32s(rows, |r| r.start.sample)),
    ("attempt", |rows| u32s(rows, |r| r.start.attempt)),
    ("turn", |rows| u32s(rows, |r| r.turn.turn)),
    ("phase", |rows| texts(rows, |r| r.turn.phase.name())),
    ("instruction", |rows| texts(rows, |r| r.at_first(&r.facts.instruction))),
    ("type", |rows| texts(rows, |r| &r.facts.kind)),
    ("gold", |rows| texts(rows, |r| r.at_first(&r.facts.gold))),
    ("observation", |rows| texts(rows, |r| &r.turn.observation)),
    ("state", |rows| u64s(rows, |r| r.turn.state)),
    ("prompt_tokens", |rows| lists::<UInt32Type>(rows, |r| &r.turn.prompt_tokens)),
    ("response_tokens", |rows| lists::<UInt32Type>(rows, |r| &r.turn.response.tokens)),
    ("choices", |rows| lists::<UInt32Type>(rows, |r| &r.turn.choices)),
    ("logprobs", |rows| lists::<Float32Type>(rows, |r| &r.turn.response.logprobs)),
    ("temperature", |rows| f32s(rows, |r| r.turn.response.temperature)),
    ("response", |rows| texts(rows, |r| &r.turn.response.text)),
    ("response_cut", |rows| bools(rows, |r| r.turn.response.cut)),
    ("action", |rows| texts(rows, |r| &r.turn.action)),
    ("valid", |rows| bools(rows, |r| r.turn.valid)),
    ("invalid_because", |rows| texts(rows, |r| r.turn.invalid.map_or("", Invalid::name))),
    ("mode", |rows| texts(rows, |r| if r.start.memory.is_empty() && !r.turn.prompt_memory.queried { "plain" } else { "memory" })),
    ("memory", |rows| texts(rows, |r| &r.start.memory)),
    ("retrieved", |rows| lists::<UInt64Type>(rows, |r| &r.turn.prompt_memory.retrieved)),
    ("bare_tokens", |rows| lists::<UInt32Type>(rows, |r| &r.turn.prompt_memory.bare)),
    ("call", |rows| u64s(rows, |r| r.turn.call)),
    ("called", |rows| texts(rows, |r| &r.turn.called)),
    ("parent", |rows| u64s(rows, |r| r.turn.parent)),
    ("fork", |rows| texts(rows, |r| &r.turn.fork)),
    ("left_out", |rows| u32s(rows, |r| r.turn.prompt_memory.left_out)),
    ("kept", |rows| texts(rows, |r| r.next_note)),
    ("outcome", |rows| texts(rows, |r| r.outcome)),
    ("reward", |rows| f32s(rows, |r| r.turn.reward)),
    ("done", |rows| bools(rows, |r| r.turn.done)),
    ("won", |rows| bools(rows, |r| r.turn.won)),
    ("truncated", |rows| texts(rows, |r| r.turn.truncated)),
    ("score", |rows| f32s(rows, |r| r.turn.score)),
    ("info", |rows| texts(rows, |r| &r.turn.info)),
    ("weights", |rows| u64s(rows, |r| r.turn.answered_by.as_ref().map_or(r.start.version, |(_, version)| *version))),
    ("seed", |rows| u64s(rows, |r| r.turn.seed)),
];

/// The names of a row's columns, in the table's order.
pub const COLUMNS: &[&str] = &{
    let mut names = [""; LIST.len()];
    let mut i = 0;
    while i < LIST.len() {
        names[i] = LIST[i].0;
        i += 1;
    }
    names
};

/// The records as one batch of rows, in their order; `parts` are the agent's own columns, and behind them `branch_of`
/// where episodes branch. An error says which column isn't what the row format declares it to be.
pub fn table(records: &[Record], parts: &[String]) -> Result<RecordBatch, RowError> {
    let part = |(i, name): (usize, &'_ String)| {
        if name == row::BRANCH_OF {
            return (name.clone(), u32s(records, |r| r.turn.branch_of.unwrap_or(r.start.sample)));
        }
        let texts = records.iter().map(|record| match &record.turn.answered_by {
            Some((model, _)) if name == row::ANSWERED_BY => model,
            _ => record.turn.parts.get(i).map_or("", String::as_str),
        });
        (name.clone(), Arc::new(StringArray::from_iter_values(texts)) as ArrayRef)
    };
    let parts: Vec<(String, ArrayRef)> = parts.iter().enumerate().map(part).collect();
    let fixed = LIST.iter().map(|(name, values)| (*name, values(records)));
    row::batch(fixed.chain(parts.iter().map(|(name, values)| (name.as_str(), values.clone()))).collect())
}

/// The turns of these episodes as rows, in their order; `notes` are the notes on each for the next attempt, and may be
/// missing; `parts` as for [`table`]. No batch without a turn.
pub fn played(episodes: &[Finished], notes: &[String], parts: &[String]) -> Result<Option<RecordBatch>, RowError> {
    let records = episodes.iter().enumerate().flat_map(|(i, episode)| {
        let note = notes.get(i).map_or("", String::as_str);
        episode.turns.iter().enumerate().map(move |(at, turn)| {
            // What is known at the end stands with the last turn.
            let at_end = |text| if turn.done { text } else { "" };
            Record {
                start: &episode.start,
                turn,
                facts: &episode.facts,
                first: at == 0,
                next_note: at_end(note),
                outcome: at_end(&episode.outcome),
            }
        })
    });
    let records: Vec<Record> = records.collect();
    if records.is_empty() {
        Ok(None)
    } else {
        table(&records, parts).map(Some)
    }
}

fn texts(rows: &[Record], field: for<'a> fn(&'a Record) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(field)))
}

fn u64s(rows: &[Record], field: fn(&Record) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(field)))
}

fn u32s(rows: &[Record], field: fn(&Record) -> u32) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(rows.iter().map(field)))
}

fn f32s(rows: &[Record], field: fn(&Record) -> f32) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(rows.iter().map(field)))
}

fn bools(rows: &[Record], field: fn(&Record) -> bool) -> ArrayRef {
    Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(field(row)))))
}

/// A list a row, without nulls.
fn lists<T: ArrowPrimitiveType>(rows: &[Record], field: for<'a> fn(&'a Record) -> &'a [T::Native]) -> ArrayRef {
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new()).with_field(Field::new("item", T::DATA_TYPE, false));
    for row in rows {
        lists.values().append_slice(field(row));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

#[cfg(test)]
mod tests {
    use super::super::action::Response;
    use super::super::turn::Phase;
    use super::*;

    fn turn(turn: u32, done: bool) -> Turn {
        Turn {
            turn,
            phase: Phase::Play,
            observation: format!("seen {turn}"),
            state: 7,
            prompt_tokens: vec![1, 2],
            prompt_memory: Default::default(),
            response: Response { text: "up".into(), tokens: vec![3, 4], logprobs: vec![-0.5, 0.0], temperature: 0.5, cut: turn == 0 },
            choices: vec![],
            action: "up".into(),
            parts: vec!["so".into()],
            valid: true,
            invalid: None,
            reward: if done { 10.0 } else { -0.1 },
            done,
            won: done,
            truncated: if done { "world" } else { "" },
            score: 0.0,
            info: r#"{"steps":1.0}"#.into(),
            seed: 5,
            call: 0,
            called: String::new(),
            answered_by: None,
            parent: 0,
            fork: String::new(),
            branch_of: None,
        }
    }

    #[test]
    fn what_is_known_at_the_end_stands_with_the_last_turn() {
        let start = EpisodeStart { task: "t".into(), sample: 2, attempt: 1, memory: "Attempt 1\n".into(), iteration: 3, version: 4 };
        let (turns, outcome) = (vec![turn(0, false), turn(1, true)], "the end".into());
        let facts = EpisodeFacts { instruction: "boil water".into(), kind: "hard".into(), gold: "100".into() };
        let over = Finished { number: 0, start, facts, turns, outcome };
        let given_up = Finished { number: 1, turns: vec![], ..over.clone() };
        assert!(played(std::slice::from_ref(&given_up), &[], &[]).unwrap().is_none(), "an episode without a turn has no row");
        let rows = played(&[given_up, over], &["nothing".into(), "kept".into()], &["answer_think".into()]).unwrap().unwrap();
        let names: Vec<&str> = rows.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!((&names[..COLUMNS.len()], &names[COLUMNS.len()..], rows.num_rows()), (COLUMNS, &["answer_think"][..], 2));
        let texts = |name| row::texts(&rows, name).unwrap().iter().flatten().collect::<Vec<_>>();
        assert_eq!((texts("outcome"), texts("kept")), (vec!["", "the end"], vec!["", "kept"]));
        assert_eq!(texts("truncated"), ["", "world"]);
        assert_eq!(row::bools(&rows, "response_cut").unwrap().iter().flatten().collect::<Vec<_>>(), [true, false]);
        assert_eq!((texts("instruction"), texts("answer_think")), (vec!["boil water", ""], vec!["so", "so"]));
        assert_eq!(texts("gold"), ["100", ""]);
        assert_eq!((texts("type"), texts("info")), (vec!["hard", "hard"], vec![r#"{"steps":1.0}"#; 2]));
        assert_eq!((texts("observation"), texts("mode")), (vec!["seen 0", "seen 1"], vec!["memory", "memory"]));
        assert_eq!(row::f32s(&rows, "reward").unwrap().values().to_vec(), [-0.1, 10.0]);
        assert_eq!(row::f32s(&rows, "temperature").unwrap().values().to_vec(), [0.5, 0.5]);
    }
}
