//! The columns: every name that a row can carry, its type and its meaning. Nothing else names a column first.
//!
//! A row is one call of the policy: one turn of one episode. `(iteration, task, sample, attempt, turn, phase)`
//! names it, so rows can be joined and sorted without ever relying on where they arrived.

mod cell;
mod key;
pub mod lines;
mod name;
mod order;
mod view;

pub use cell::{Cell, CellError};
pub use key::keys;
pub use name::Name;
pub use view::{Lists, View};

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float32Builder, Int32Array, ListArray, ListBuilder, RecordBatch, RecordBatchOptions,
    StringArray, UInt32Array, UInt32Builder, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A hash, a seed, a version or a long count.
    U64,
    /// A short count.
    U32,
    /// A reward, a return or another measure.
    F32,
    /// Yes or no.
    Bool,
    /// UTF-8.
    Text,
    /// A change: a count that may be below 0.
    I32,
    /// Hashes.
    U64List,
    /// Tokens.
    U32List,
    /// A measure a token.
    F32List,
}

impl Kind {
    /// As a person reads it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::U64 => "u64",
            Kind::U32 => "u32",
            Kind::F32 => "f32",
            Kind::Bool => "bool",
            Kind::Text => "utf8",
            Kind::I32 => "i32",
            Kind::U64List => "list of u64",
            Kind::U32List => "list of u32",
            Kind::F32List => "list of f32",
        }
    }

    /// As Arrow keeps it; the items of a list are never null.
    pub fn arrow(self) -> DataType {
        let list = |inner| DataType::List(Arc::new(Field::new("item", inner, false)));
        match self {
            Kind::U64 => DataType::UInt64,
            Kind::U32 => DataType::UInt32,
            Kind::F32 => DataType::Float32,
            Kind::Bool => DataType::Boolean,
            Kind::Text => DataType::Utf8,
            Kind::I32 => DataType::Int32,
            Kind::U64List => list(DataType::UInt64),
            Kind::U32List => list(DataType::UInt32),
            Kind::F32List => list(DataType::Float32),
        }
    }
}

/// One column: its name, its type, what it means.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in YAML, SQL and Parquet: a promise.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// What it means, in a line.
    pub about: &'static str,
}

const fn column(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, about }
}

/// Every column, in the order of tables.
pub const COLUMNS: &[Column] = &[
    column("iteration", Kind::U64, "the training iteration, from 0"),
    column("task", Kind::Text, "the task's name, made from its content: environment, settings, seed"),
    column("sample", Kind::U32, "which of the trajectories of the task"),
    column("attempt", Kind::U32, "which attempt at the task, from 0"),
    column("turn", Kind::U32, "the turn in the episode, from 0"),
    column("phase", Kind::Text, "play or reflect"),
    column("branch_of", Kind::U32, "where episodes branch: the sample whose turn the row answers: with the first row of a branch the one that it was copied from, else its own `sample`; so rows of one `task`, `branch_of` and `turn` answer one prompt"),
    column("instruction", Kind::Text, "with the first turn of an episode: the task's own text; empty where observations say it"),
    column("type", Kind::Text, "the kind of task, as the environment names it, with every turn of play; empty where it names none"),
    column("gold", Kind::Text, "with the first turn of an episode: the task's right answer, where the environment says it; no prompt has it, and templates over rows may"),
    column("observation", Kind::Text, "what the environment showed before the turn"),
    column("state", Kind::U64, "hash of the environment's canonical state before the turn"),
    column("prompt_tokens", Kind::U32List, "the tokens the policy read"),
    column("response_tokens", Kind::U32List, "the tokens the policy wrote, the end token with them"),
    column("choices", Kind::U32List, "the token sequences decoding was held to, each closed by the end token, or by 4294967295 where the answer went on freely after it; empty when it was free"),
    column("logprobs", Kind::F32List, "log-probability of each response token under the policy that acted; where a critic ranks the actions, of the choice among the scores"),
    column("temperature", Kind::F32, "what the logits were divided by for `logprobs`: the sampling temperature; 1 where the likeliest token was taken or an expert acted"),
    column("response", Kind::Text, "the response as text"),
    column("response_cut", Kind::Bool, "whether the response was cut by `max_tokens`, before its end token"),
    column("action", Kind::Text, "the action parsed from the response"),
    column("valid", Kind::Bool, "whether the action could be carried out"),
    column("invalid_because", Kind::Text, "why not: `no_tag` (the answer lacks a required tag), `cut_off` (the same, and it ended at `max_tokens`) or `not_admissible` (the environment refused it); empty of a valid one"),
    column("mode", Kind::Text, "plain, or memory where the prompt has retrieved entries or notes besides the observation, or could have had"),
    column("memory", Kind::Text, "the notes on earlier attempts in the prompt; empty in mode plain"),
    column("retrieved", Kind::U64List, "the entries of a memory in the prompt, by `id`, in their order there"),
    column("bare_tokens", Kind::U32List, "the prompt's tokens without retrieved entries; empty where nothing was retrieved"),
    column("teacher_tokens", Kind::U32List, "the prompt that a teacher reads in place of `prompt_tokens`, by `derive`; empty: the same one"),
    column("call", Kind::U64, "the call of an agent program that the row answers: its name within the episode, a hash of its parent call and its new messages; 0 in rows that answer no call"),
    column("called", Kind::Text, "the model that an agent program named in its call; empty unless a program calls"),
    column("answered_by", Kind::Text, "the model that answered, where calls of an agent program may name several (`by_name`); empty in rows of other nodes"),
    column("parent", Kind::U64, "the call that this one goes on from, token by token; 0 where it begins a conversation"),
    column("fork", Kind::Text, "why a call doesn't go on from the one before, or goes on from one that another goes on from: edited, compacted, sub_agent, again, or retokenised (the template writes earlier messages anew, or another model answered the one before); else empty"),
    column("left_out", Kind::U32, "how many of the oldest turns the prompt's history leaves out to have no more than `prompt_tokens`; of a conversation, how many it has begun anew without"),
    column("kept", Kind::Text, "with the last turn of an attempt and with its reflection: the note for the next attempt's prompt"),
    column("outcome", Kind::Text, "with the last turn of an episode: what the environment showed after it"),
    column("rollback", Kind::Text, "an action that takes the turn back: from the state that it led to, to the one before it; empty where none was found"),
    column("reward", Kind::F32, "the reward of the turn"),
    column("token_rewards", Kind::F32List, "what each response token earned besides the turn's reward: its divergence from the reference, by `reward` with `kl_per: token`"),
    column("done", Kind::Bool, "whether the episode ended with this turn"),
    column("won", Kind::Bool, "whether the episode was won with this turn"),
    column("truncated", Kind::Text, "with the last turn of an episode that was cut before its own end: world (by a limit of the environment), max_turns (of the agent) or context (its next prompt is longer than the model reads); else empty"),
    column("score", Kind::F32, "the sum of the episode's rewards up to and with this turn, or where the environment has a score of its own, that"),
    column("info", Kind::Text, "the small figures that the environment gave after the turn, as a JSON object: `(info->>'steps')::int`; where it gave none, NULL in a query and empty in the files"),
    column("weights", Kind::U64, "version of the weights that acted"),
    column("seed", Kind::U64, "the seed the turn was sampled with"),
    column("value", Kind::F32, "what the critic expected after the prompt: the return from this turn on"),
    column("token_values", Kind::F32List, "what the critic expected before each response token, by `value` with `per: token`"),
    column("visitation_depth", Kind::U32, "how many earlier turns of the same trajectory were in the same state"),
    column("cluster", Kind::U64, "the cluster of the observation before the turn: a hash of the name of the row that founded it; 0 for a reflection"),
    column("prototype", Kind::Text, "with the row that founded a cluster: what later rows are compared with; else empty"),
    column("linked", Kind::U64List, "the entries of a memory in the turn's prompt that no earlier turn of its cluster had been given: from then on they belong to the cluster"),
    column("group", Kind::U64, "the group the row is compared in: a hash of its values in the grouping columns and, with `similar`, of the text of the first row"),
    column("group_size", Kind::U32, "rows in the group"),
    column("return", Kind::F32, "the value that the advantage compares: a return, a reward, an estimate by a critic, or an advantage made upstream"),
    column("baseline", Kind::F32, "the number subtracted from the return"),
    column("scale", Kind::F32, "what the difference was divided by"),
    column("running", Kind::F32, "the running mean of the group after the iteration, by `baseline: ema`"),
    column("advantage", Kind::F32, "the advantage"),
    column("value_target", Kind::F32, "what the critic should have expected, by `of: gae`: the estimate in `return`, plus `value`"),
    column("token_advantages", Kind::F32List, "the advantage of each response token, by `of: token_gae`, `token_return` or `iql`; empty where the row's own counts for all of them"),
    column("token_targets", Kind::F32List, "what the critic should have expected before each response token, by `of: token_gae` or `iql`"),
    column("used", Kind::Text, "yes, or why the row was not trained on: one of the reasons below"),
    column("version", Kind::U64, "version of the weights that the update made; the one before where no row was used"),
    column("ratio", Kind::F32, "mean over the row's tokens of the ratio that is clipped, in the update's last pass over it; 1 if unused"),
    column("clip_share", Kind::F32, "share of the row's tokens for which the clip decided, in that pass; 0 if unused"),
    column("loss_share", Kind::F32, "what the row added to the loss of its optimiser step in that pass: a step's rows add up to its loss; 0 if unused"),
    column("logit_grad", Kind::F32, "norm of the gradient of that step's loss by the logits of the row's tokens, in that pass: how much the row moved the policy; of a critic by its values; before `max_grad_norm`; 0 if unused, null where a trainer has log-probabilities alone"),
    column("row_kl", Kind::F32, "mean over the row's tokens of the divergence from the reference, in nats, in that pass; without a KL term from the policy that acted; 0 if unused"),
    column("token_ratios", Kind::F32List, "of each response token the ratio that is clipped, in that pass, by `token_figures`; empty if unused"),
    column("token_entropies", Kind::F32List, "of each response token the entropy of the distribution that it was drawn from, in nats, under the weights of that pass, by `token_figures`; null where a trainer has log-probabilities alone"),
    column("token_grads", Kind::F32List, "of each response token its part of `logit_grad`, by `token_figures`; 0 of one that took no part, null as that"),
    column("like", Kind::U64, "the distinct state that the state after the turn is like (before it, by `of: state`): a hash of the name of the row that came to it first"),
    column("seen", Kind::U32, "how many states up to the end of the iteration were like that one: the same for all its rows; 0 for a reflection"),
    column("exploration", Kind::F32, "what the turn's exploration was worth, before its weight in the reward: R_explore of EAPO, Eq. 9"),
    column("novelty", Kind::F32, "1 / `seen`; 0 where that is 0"),
    column("tips", Kind::Text, "what an update made of the retrieved texts: none (there were none), kept, or removed from the prompt"),
    column("id", Kind::U64, "an entry of a memory: a hash of the name of the row that it came from, and of its number there"),
    column("change", Kind::I32, "1 where the entry came into the memory, -1 where it left"),
    column("bucket", Kind::U64, "where in the memory the entry lives: 0 in a memory for all, a hash of the task's name in one by task, the id of the first entry of its cluster in one by cluster"),
    column("key", Kind::Text, "what the entry is found by"),
    column("embedding", Kind::F32List, "the key as a point of the unit sphere; empty where keys are compared as they are"),
    column("text", Kind::Text, "the text of the entry"),
    column("source", Kind::U64, "the iteration of the row that the entry came from; the rest of that row's name stands beside it"),
    column("ordinal", Kind::U32, "which of the entries of that row it is, from 0"),
    column("kind", Kind::Text, "what the entry is, such as warning; empty in a memory without kinds"),
    column("level", Kind::Text, "how general the entry is, such as principle; empty in a memory without levels"),
    column("function_state", Kind::Text, "with the first row of an iteration in the order of names: what a function of `python` keeps for the next iteration, as JSON; else empty"),
    column("node", Kind::Text, "the node that played the episode that failed"),
    column("cause", Kind::Text, "how its environment failed: panic, error (which its program reported), timeout, crash, malformed, expert, prompt (too long, or none by its template), limit (more answers than `max_turns`) or replay (played again, its environment showed something else); too_long for a text that a memory refused, unreadable for a list with a line that is no entry"),
    column("error", Kind::Text, "the environment's last message, or what it did"),
    column("tries", Kind::U32, "how often the episode was tried before it was given up"),
];

/// Why a row was not trained on: the values of column `used` besides `yes`, with their meanings. Credit gives the first
/// two, the update the others, and the first reason stands.
pub const REASONS: &[(&str, &str)] = &[
    ("singleton", "no row to compare it with (`singleton: drop`)"),
    ("dropped_equal_rewards", "its group's values are all equal, so that nothing can be learnt from comparing them (`equal: drop`)"),
    ("other_model", "another model answered it, and learns from it (`by_name` of the agent)"),
    ("empty", "its response has no token"),
    ("invalid", "its action could not be carried out (`invalid: drop`)"),
    ("truncated", "a turn of an episode that was cut before its end (`truncated: drop`)"),
    ("too_stale", "made by weights more than `max_staleness` versions behind"),
    ("side_call", "a call that an agent program made to a model of `side`"),
    ("earlier_attempt", "a turn of an attempt that is only there to be learnt from later (`from_attempt`)"),
    (
        "masked_low_probability",
        "every token that was chosen in it is masked (`mask_below`); by `mask_from: current` in its last pass, and no divergence counts it",
    ),
    ("forced", "nothing in it was chosen among several (`tokens: chosen`)"),
    ("remainder", "drawn into no full minibatch (`remainder: drop`)"),
];

/// The columns that name a row, in sorting order.
pub const NAME: [&str; 6] = ["iteration", "task", "sample", "attempt", "turn", "phase"];

/// A row's name for people, of rows with the columns of [`NAME`].
pub fn described(rows: &RecordBatch, i: usize) -> String {
    let number = |column| u32s(rows, column).map_or(0, |values| values.value(i));
    let task = texts(rows, "task").map_or("", |tasks| tasks.value(i));
    format!("task {task}, sample {}, attempt {}, turn {}", number("sample"), number("attempt"), number("turn"))
}

/// The columns of the table `errors`: one row for each episode that was given up.
pub const ERRORS: [&str; 10] = ["iteration", "task", "sample", "attempt", "turn", "phase", "node", "cause", "error", "tries"];

/// What the name of a column begins with that has a tagged part of an answer: the tag follows. Which there are an agent
/// says.
pub const PART: &str = "answer_";

/// The column that says whose turn a row answers, where episodes branch.
pub const BRANCH_OF: &str = "branch_of";

/// The column that says which of several models answered.
pub const ANSWERED_BY: &str = "answered_by";

/// What the name of a column begins with that has the score of a text: the target's name follows. Which there are
/// `score` says.
pub const SCORE: &str = "score_";

/// What the name of a column begins with that is a number of the pipeline's own. Which there are `derive` and `python`
/// say.
pub const DERIVED: &str = "derived_";

/// What the name of a column begins with that is a text of the pipeline's own. Which there are `python` says.
pub const NOTED: &str = "noted_";

/// What the name of a column begins with that is a list of numbers of the pipeline's own, one for each token. Which there
/// are `python` says.
pub const TOKEN_DERIVED: &str = "token_derived_";

/// How an expression names a number of its own from an earlier iteration: `last_derived_x`.
pub const LAST: &str = "last_";

/// The type of the column called `name`, if there can be one.
pub fn kind(name: &str) -> Option<Kind> {
    let own = |kind: Kind| move |begins: &&str| name.starts_with(begins).then_some(kind);
    let text = || [PART, NOTED].iter().find_map(own(Kind::Text));
    let number = || [SCORE, DERIVED].iter().find_map(own(Kind::F32));
    let numbers = || [TOKEN_DERIVED].iter().find_map(own(Kind::F32List));
    find(name).map(|column| column.kind).or_else(text).or_else(number).or_else(numbers)
}

/// These columns in the table's order, parts of answers, scores and numbers of the pipeline's own behind all others.
pub fn in_order(names: &[String]) -> Vec<String> {
    let place = |name: &String| COLUMNS.iter().position(|column| column.name == name).unwrap_or(COLUMNS.len());
    let mut names: Vec<String> = names.to_vec();
    names.sort_by_key(place);
    names.dedup();
    names
}

/// The column called `name` among the columns that every row has, if there is one.
pub fn find(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|c| c.name == name)
}

/// What can be wrong with rows.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// A column that is asked for isn't there, or isn't in the table.
    #[error("there is no column `{0}` in these rows")]
    Missing(String),
    /// A column isn't of the type that the table says.
    #[error("column `{name}` holds {actual}, expected {expected}")]
    Type {
        /// The column.
        name: String,
        /// What it holds.
        actual: DataType,
        /// What the table says.
        expected: DataType,
    },
    /// A column that must be known is null somewhere.
    #[error("column `{0}` is null where a trainer has log-probabilities alone (`train: {{ tinker: ... }}`), and this needs it")]
    Unknown(String),
    /// Arrow refused: columns of different lengths, or a batch too large.
    #[error("{0}")]
    Arrow(#[from] arrow::error::ArrowError),
}

/// The columns that are null where a trainer has log-probabilities alone.
const UNKNOWN: [&str; 3] = ["logit_grad", "token_entropies", "token_grads"];

/// The schema of rows with these columns, in this order. Fails with [`RowError::Missing`] for a column outside the
/// table.
pub fn schema(names: &[&str]) -> Result<SchemaRef, RowError> {
    let nullable = |name: &str| UNKNOWN.contains(&name);
    let field = |name: &&str| {
        kind(name).map(|kind| Field::new(*name, kind.arrow(), nullable(name))).ok_or_else(|| RowError::Missing(name.to_string()))
    };
    Ok(Arc::new(Schema::new(names.iter().map(field).collect::<Result<Vec<_>, _>>()?)))
}

/// Rows from columns of one length. Fails where a column isn't in the table, or isn't of its type.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, RowError> {
    let names: Vec<&str> = columns.iter().map(|c| c.0).collect();
    Ok(RecordBatch::try_new(schema(&names)?, columns.into_iter().map(|c| c.1).collect())?)
}

/// `rows` with the column `name` put in place of the one of that name, or added at the end. The other columns are
/// shared, not copied.
pub fn with(rows: &RecordBatch, name: &str, values: ArrayRef) -> Result<RecordBatch, RowError> {
    with_all(rows, vec![(name, values)])
}

/// [`with`] for several columns, added in this order.
pub fn with_all(rows: &RecordBatch, added: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, RowError> {
    let schema = rows.schema();
    let unchanged = schema.fields().iter().zip(rows.columns()).filter(|(field, _)| added.iter().all(|(name, _)| field.name() != name));
    let unchanged: Vec<(&str, ArrayRef)> = unchanged.map(|(field, column)| (field.name().as_str(), column.clone())).collect();
    batch(unchanged.into_iter().chain(added).collect())
}

/// `rows` with the columns of `schema`, in its order. A text that they lack is empty; another column must be there.
///
/// # Errors
/// [`RowError::Missing`] for a column that isn't a text, and that the rows lack.
pub fn shaped(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, RowError> {
    if rows.schema_ref().fields() == schema.fields() {
        return Ok(rows.clone());
    }
    let empty = || Arc::new(StringArray::from_iter_values(std::iter::repeat_n("", rows.num_rows()))) as ArrayRef;
    let column = |field: &Arc<Field>| match rows.column_by_name(field.name()) {
        Some(column) => Ok(column.clone()),
        None if *field.data_type() == DataType::Utf8 => Ok(empty()),
        None => Err(RowError::Missing(field.name().clone())),
    };
    let columns = schema.fields().iter().map(column).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

macro_rules! typed {
    ($name:ident, $array:ty, $kind:expr) => {
        #[doc = concat!("The column `name` as `", stringify!($array), "`.")]
        pub fn $name<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a $array, RowError> {
            let array = rows.column_by_name(name).ok_or_else(|| RowError::Missing(name.into()))?;
            if array.null_count() > 0 {
                return Err(RowError::Unknown(name.into()));
            }
            array.as_any().downcast_ref().ok_or_else(|| RowError::Type {
                name: name.into(),
                actual: array.data_type().clone(),
                expected: $kind.arrow(),
            })
        }
    };
}
typed!(u64s, UInt64Array, Kind::U64);
typed!(u32s, UInt32Array, Kind::U32);
typed!(i32s, Int32Array, Kind::I32);
typed!(f32s, Float32Array, Kind::F32);
typed!(bools, BooleanArray, Kind::Bool);
typed!(texts, StringArray, Kind::Text);
typed!(lists, ListArray, Kind::U32List);

/// Row `i` of a list column of `u32`.
pub fn u32_list(lists: &ListArray, i: usize) -> Vec<u32> {
    let values = lists.value(i);
    values.as_any().downcast_ref::<UInt32Array>().map(|v| v.values().to_vec()).unwrap_or_default()
}

/// Row `i` of a list column of `u64`.
pub fn u64_list(lists: &ListArray, i: usize) -> Vec<u64> {
    let values = lists.value(i);
    values.as_any().downcast_ref::<UInt64Array>().map(|v| v.values().to_vec()).unwrap_or_default()
}

/// Row `i` of a list column of `f32`.
pub fn f32_list(lists: &ListArray, i: usize) -> Vec<f32> {
    let values = lists.value(i);
    values.as_any().downcast_ref::<Float32Array>().map(|v| v.values().to_vec()).unwrap_or_default()
}

/// A list column of `u32`, a slice a row.
pub fn u32_lists<'a>(lists: impl Iterator<Item = &'a [u32]>) -> ArrayRef {
    let mut column = ListBuilder::new(UInt32Builder::new()).with_field(Field::new("item", DataType::UInt32, false));
    for list in lists {
        column.values().append_slice(list);
        column.append(true);
    }
    Arc::new(column.finish())
}

/// A list column of `f32`, a slice a row.
pub fn f32_lists<'a>(lists: impl Iterator<Item = impl Into<Option<&'a [f32]>>>) -> ArrayRef {
    let mut column = ListBuilder::new(Float32Builder::new()).with_field(Field::new("item", DataType::Float32, false));
    for list in lists {
        let list: Option<&[f32]> = list.into();
        column.values().append_slice(list.unwrap_or_default());
        column.append(list.is_some());
    }
    Arc::new(column.finish())
}

/// All batches as one, in the order of the rows' names. `None` when there are no batches. Every column is copied unless
/// one batch is in order already, so it's for those who need all of them in one piece; a stage that reads some columns
/// takes a [`View`].
pub fn sorted(batches: &[RecordBatch]) -> Result<Option<RecordBatch>, RowError> {
    View::sorted(batches)?.map(|view| view.batch()).transpose()
}
