//! What can go wrong with a policy. Errors keep their type, and their rows as numbers, until a caller that knows the
//! rows' names describes them.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// The result of a step that may fail with an error of the policy.
pub type Result<T, E = PolicyError> = std::result::Result<T, E>;

/// What can go wrong with a policy. Rows are indices into what the caller handed over; [`PolicyError::describe`] names
/// them. It travels between processes, so it is made of plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PolicyError {
    /// No model has this name.
    NoModel(String),
    /// This version of the weights was dropped, or was never made.
    NoVersion { model: String, version: u64, kept: Vec<u64> },
    /// A model can't be made as described, or doesn't support the operation.
    Model { model: String, fault: ModelFault },
    /// An update can't be made with these settings.
    Update(UpdateFault),
    /// One row can't be read, answered or trained on.
    Row { row: usize, fault: RowFault },
    /// A number that isn't one: a log-probability, the loss, the gradient.
    NotFinite { model: String, what: Cow<'static, str>, rows: Vec<usize> },
    /// A file or folder that can't be read or written.
    File { path: String, fault: FileFault },
    /// An environment variable whose value means nothing.
    Environment(String),
    /// A chat template that refuses a conversation, or a tokenizer that refuses a text.
    Template(String),
    /// More memory is needed than there is, in bytes: at least so much for so many rows of so many tokens.
    Memory { rows: usize, tokens: usize, needs: u64, free: u64 },
    /// A device that was asked for and isn't available, and why.
    Device(String),
    /// A function of the user's own that computes a loss, and what it raised or gave.
    Function(String),
    /// What libtorch says.
    Torch(String),
    /// Another process of the same run, and what is wrong with it.
    Peer(String),
    /// The policy thread has ended.
    Gone,
}

/// What is wrong with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum ModelFault {
    #[error("every size of a model is at least 1")]
    ZeroSize,
    #[error("width {width} is no multiple of twice the {heads} heads")]
    Width { width: usize, heads: usize },
    #[error("{heads} heads are no multiple of {kv_heads} kv_heads")]
    Heads { heads: usize, kv_heads: usize },
    #[error("a head has {head} numbers, and rotary positions need pairs")]
    OddHead { head: usize },
    #[error("a context of {context} places is too long for heads of {head} numbers: the tables of its positions would fill the memory")]
    Context { context: usize, head: usize },
    #[error("its sizes make more numbers than any machine holds")]
    TooLarge,
    #[error("it has a value head and writes nothing")]
    WritesNothing,
    #[error("it is no encoder: write `{{ encode: FOLDER }}`")]
    NoEncoder,
    #[error("it has no value head: give it `head: value`")]
    NoValueHead,
    #[error("the saved model has a value head and writes nothing: it can't be loaded with `head: language`")]
    CriticAsPolicy,
    #[error("the critic has another vocabulary than every policy")]
    CriticVocabulary,
    #[error("it ranks what `{policy}` writes, and has another vocabulary")]
    RankVocabulary { policy: String },
    #[error("it has no matrices called `{target}` for an adapter; there are {}", .known.join(", "))]
    NoTarget { target: String, known: Vec<String> },
    #[error("its adapter can't be made: {what}")]
    Adapter { what: String },
    #[error("its base can't be computed row by row, as `base` asks: {why}")]
    Base { why: String },
    #[error("it can't act row by row, as `act` asks: {why}")]
    Act { why: String },
    #[error("there is no model `{on}` whose base it could adapt")]
    NoBase { on: String },
    #[error("`{on}` has no base of its own: name the model that has it")]
    SharedBase { on: String },
    #[error("the environment has no variable `{variable}` with the key that it is asked with")]
    NoKey { variable: String },
    #[error("the server that runs it gives no answers: {what}")]
    Server { what: String },
    #[error("a server has its weights, and only answers: where it learns or is compared with, name a model with `load`")]
    OnlyAnswers,
    #[error("the server that runs it can't say how likely a choice is ({what}): write `decode: free` where it plays")]
    CantRank { what: String },
    #[error("a server can generate for a published model alone, without a value head: name the model's own folder")]
    NotServed,
    #[error(
        "the server that generates for it didn't load its adapter: {what}; vLLM does when it is started with `--enable-lora` and with \
         VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment, where it can read that folder. A model without `lora` sends all weights, which needs \
         VLLM_SERVER_DEV_MODE=1 in place of both"
    )]
    NotLoaded { what: String },
    #[error(
        "the server that generates for it didn't take its weights: {what}; vLLM does when it is started with VLLM_SERVER_DEV_MODE=1 in its \
         environment, where it can read that folder"
    )]
    NotReplaced { what: String },
    #[error(
        "the server that generates for it didn't take its weights, as it loads adapters: {what}; start it without `--enable-lora` and with \
         VLLM_SERVER_DEV_MODE=1, or give the model `lora`, whose adapter such a server loads"
    )]
    TakesAdapters { what: String },
    #[error("it names no servers that generate for it: `serve: {{ vllm: [\"http://127.0.0.1:8000\"] }}`, or `sglang`, and one of them")]
    NoServers,
    #[error("the server {server} takes all its weights in place of its own, and is named a second time, by `{other}`: give each model servers of its own")]
    SharedServer { server: String, other: String },
    #[error("it names {receivers} receivers for {servers} servers: one for each, in the same order")]
    Receivers { servers: usize, receivers: usize },
    #[error(
        "the server {server} isn't the model that learns: with {weights} its log-probabilities are {gap:.3} from the learner's, and `max_gap` is {max_gap}. \
         {}",
        cause(.beyond)
    )]
    Gap { server: Box<str>, weights: Box<str>, gap: f64, max_gap: f64, beyond: Option<(u32, u32)> },
    #[error(
        "its training has diverged: with version {version} of its weights it computes NaN or infinite numbers; train again from \
         weights before that, with a smaller `lr` or a lower `max_grad_norm`"
    )]
    Diverged { version: u64 },
    #[error(
        "a step at the learning rate {lr:e} made weights that are no numbers (NaN, or infinite), from gradients that are, so nothing was updated: the \
         weights have outgrown their kind; train with a smaller `lr` or more `weight_decay`"
    )]
    NoStep { lr: f64 },
    #[error("it can't be trained in processes of their own, as `train` asks: {why}")]
    Train { why: String },
    #[error("its trainer failed: {what}")]
    Trainer { what: String },
    #[error("its reference `{reference}` has another vocabulary")]
    ReferenceVocabulary { reference: String },
}

/// What may make a server's log-probabilities others; `beyond` has the rows of an output matrix and the fewer tokens of a
/// vocabulary, where these explain it.
fn cause(beyond: &Option<(u32, u32)>) -> String {
    let Some((rows, tokens)) = beyond else {
        return "It may hold another base model, another adapter under that name, or compute in fewer bits".into();
    };
    format!(
        "The difference is log({rows} / {tokens}) nats: the model has {rows} rows of outputs and its tokenizer {tokens} tokens, and the server also \
         gives probability to ids that are no tokens. Take a tokenizer of the model's size, or cut the model's embedding to it"
    )
}

/// What is wrong with an update as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum UpdateFault {
    #[error("an update needs at least one row")]
    NoRows,
    #[error("`{setting}` of an update must be above 0")]
    NotPositive { setting: Cow<'static, str> },
    #[error("the surrogate is a function, and it wasn't prepared")]
    NoFunction,
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum RowFault {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("the response is empty")]
    EmptyResponse,
    #[error("a prompt of {prompt} tokens and an answer of {answer} don't fit the context of {context}")]
    TooLong { prompt: usize, answer: usize, context: usize },
    #[error("there is no token {token} in a vocabulary of {vocab}")]
    UnknownToken { token: u32, vocab: usize },
    #[error("the choice {choice:?} isn't closed by the end token")]
    OpenChoice { choice: Vec<u32> },
    #[error("the response {response:?} isn't one of its choices")]
    NotAChoice { response: Vec<u32> },
    #[error("{tokens} tokens need as many log-probabilities; there are {logprobs}")]
    Logprobs { tokens: usize, logprobs: usize },
    #[error("{tokens} tokens need as many {what}; there are {numbers}")]
    Numbers { what: Cow<'static, str>, tokens: usize, numbers: usize },
    #[error("the temperature is {value}, and must be above 0")]
    Temperature { value: f32 },
    #[error("the {what} is {value}")]
    NotANumber { what: Cow<'static, str>, value: f32 },
    #[error("{what}")]
    Unanswered { cause: Unanswered, what: String },
}

/// Why a server gave no answer to one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unanswered {
    /// It took too long.
    Late,
    /// It refused: there are too many questions, it is out of order, or doesn't answer such questions.
    Refused,
    /// What it said is no answer.
    Malformed,
}

/// What is wrong with a file or folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum FileFault {
    #[error("{0}")]
    Unusable(String),
    #[error("the disk is full: free some space, then resume the run")]
    DiskFull,
    #[error("not the configuration of a model that this version of flow saved")]
    UnknownFormat,
    #[error("there is no such file")]
    Missing,
    #[error("can't be computed here: {0}")]
    Unsupported(String),
    #[error("{0}")]
    Model(#[from] ModelFault),
    #[error("there is no tensor `{tensor}`")]
    NoTensor { tensor: String },
    #[error(
        "there is no tensor `{tensor}`, but `{found}`: all names have another beginning, which wrappers such as DDP (`module.`) and torch.compile \
         (`_orig_mod.`) add and bare models lack; save the model itself, unwrapped"
    )]
    Prefix { tensor: String, found: String },
    #[error("`{tensor}` holds NaN or infinite numbers: these weights can't be used")]
    NotFinite { tensor: String },
    #[error("`{tensor}` has the sizes {size:?}, wanted {wanted:?}")]
    Sizes { tensor: String, size: Vec<i64>, wanted: Vec<i64> },
    #[error("the architecture doesn't know the tensor `{tensor}`, so what it computes would be wrong without it")]
    UnknownTensor { tensor: String },
    #[error("the tokenizer has {tokens} tokens, the model {vocab}")]
    Vocabulary { tokens: usize, vocab: usize },
    #[error(
        "the model that it adapts isn't there: `{base}`, seen from the working folder; put the model there, or write a pipeline that names it with `load` and \
         this folder with `adapter`"
    )]
    NoBase { base: String },
    #[error("the sizes or the vocabulary aren't those of model `{model}`")]
    OtherModel { model: String },
}

/// How many rows an error names; of the others it gives the number.
const NAMED: usize = 5;

impl PolicyError {
    /// The error of doing something with the file at `path`, in the words of the library that reported it.
    pub fn file(path: &Path, error: impl std::fmt::Display) -> PolicyError {
        let what = first_line(&error.to_string());
        // libtorch hands on the system's error as text: no space left, a quota, a limit on files.
        let full = [28, 122, 27].iter().any(|e| what.contains(&format!("(os error {e})")) || what.contains(&format!("code: {e},")));
        PolicyError::at(path, if full { FileFault::DiskFull } else { FileFault::Unusable(what) })
    }

    /// This fault of the file at `path`.
    pub fn at(path: &Path, fault: FileFault) -> PolicyError {
        PolicyError::File { path: path.display().to_string(), fault }
    }

    /// This fault of the model called `model`.
    pub fn model(model: &str, fault: ModelFault) -> PolicyError {
        PolicyError::Model { model: model.into(), fault }
    }

    /// The error in words, with `name` as the name of a row.
    pub fn describe(&self, name: impl Fn(usize) -> String) -> String {
        match self {
            PolicyError::NoModel(model) => format!("there is no model called `{model}`"),
            PolicyError::NoVersion { model, version, kept } => {
                format!("model `{model}`: version {version} of the weights is no longer kept; kept: {kept:?}")
            }
            PolicyError::Model { model, fault } => format!("model `{model}`: {fault}"),
            PolicyError::Update(fault) => fault.to_string(),
            PolicyError::Row { row, fault } => format!("{}: {fault}", name(*row)),
            PolicyError::NotFinite { model, what, rows } => {
                let named: Vec<String> = rows.iter().take(NAMED).map(|&row| name(row)).collect();
                let more = if rows.len() > NAMED { format!("; and {} more", rows.len() - NAMED) } else { String::new() };
                format!(
                    "{what} isn't a number, so `{model}` was not updated and its weights are as they were; rows: {}{more}",
                    named.join("; ")
                )
            }
            PolicyError::File { path, fault } => format!("{path}: {fault}"),
            PolicyError::Template(what) | PolicyError::Environment(what) | PolicyError::Device(what) => what.clone(),
            PolicyError::Memory { rows, tokens, needs, free } => format!(
                "{rows} rows of {tokens} tokens need {} of memory at least, and {} are free: fewer rows at a time take less (`samples`, \
                 `micro_batch`, `micro_tokens`), and so does `base: int8`",
                gigabytes(*needs),
                gigabytes(*free)
            ),
            PolicyError::Function(what) => what.clone(),
            PolicyError::Torch(what) => format!("libtorch: {what}"),
            PolicyError::Peer(what) => what.clone(),
            PolicyError::Gone => "the policy thread has ended".into(),
        }
    }
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe(|row| format!("row {row}")))
    }
}

impl std::error::Error for PolicyError {}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// An error of libtorch carries a C++ stack trace after its first line. That memory ran out is said in words.
pub fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim();
    let asked = line.split_once("you tried to allocate ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
    asked.map_or_else(|| line.to_string(), |bytes| format!("memory ran out where {} more were needed", gigabytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_by_their_names() {
        let name = |row| format!("task a, turn {row}");
        let error = PolicyError::NotFinite { model: "actor".into(), what: "the loss".into(), rows: (3..10).collect() };
        let text = error.describe(name);
        assert!(text.contains("rows: task a, turn 3; ") && text.ends_with("task a, turn 7; and 2 more"), "{text}");
        assert_eq!(PolicyError::Row { row: 4, fault: RowFault::EmptyPrompt }.describe(name), "task a, turn 4: the prompt is empty");
        assert_eq!(PolicyError::Row { row: 4, fault: RowFault::EmptyPrompt }.to_string(), "row 4: the prompt is empty");
    }

    #[test]
    fn that_memory_runs_out_is_told_without_a_trace() {
        let text =
            "\n[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 2500000000 bytes. \
                    Error code 12 (Cannot allocate memory)\nframe #0: c10::ThrowEnforceNotMet";
        assert_eq!(first_line(text), "memory ran out where 2.5 GB more were needed");
        let error = PolicyError::Memory { rows: 128, tokens: 4032, needs: 14_200_000_000, free: 9_040_000_000 };
        assert!(error.to_string().starts_with("128 rows of 4032 tokens need 14.2 GB of memory at least, and 9.0 GB are free"), "{error}");
    }

    #[test]
    fn a_full_disk_is_told_as_one() {
        let error = PolicyError::file(Path::new("weights/3"), "No space left on device (os error 28)\nframe #0");
        assert_eq!(error.to_string(), "weights/3: the disk is full: free some space, then resume the run");
    }
}
