//! The policy: a transformer that writes actions and is trained on their outcomes. The only code that knows libtorch.
//!
//! [`Policy`] is a handle on one thread that owns every tensor: [`Policy::generate`] answers prompts,
//! [`Policy::update`] makes the next version of the weights. Both compute a token's log-probability in the same way:
//! `log_softmax(logits / temperature)` over the whole vocabulary, or over the tokens that the row's choices allow at
//! that place. The temperature is the row's own: the one that it was drawn at. Truncation by `top_k` and `top_p` takes
//! part in the drawing only, never in the recorded value, and greedy decoding (temperature 0) records the value at
//! temperature 1. Where the choices leave exactly one token its log-probability is 0 and no forward pass is spent on
//! it. A model with a value head is a critic: [`Policy::values`] asks it for the return to expect after a prompt, which
//! an update teaches it.
//!
//! What a row gets depends on the row alone. Prompts are read as a trie: equal tokens after equal prefixes are one
//! node: each is computed once and kept until the weights change, and since attention is cut at fixed places, what a
//! token becomes follows from the tokens before it alone. What is written goes on from there, prompts of one padded
//! length together, in batches padded to a multiple of [`PAD_TO`] rows; a token is drawn from a hash of the row's seed
//! and the token's index. An update reads its rows as tries, too: what it computes depends on all its rows, and on
//! nothing else. Threads share the work by whole batches, each computed on one thread, and gradients are summed in a
//! fixed order, so the number of threads changes no bit. Processes that learn together ([`Peers`]) share an update in
//! the same way, and their number changes none either.
//!
//! All of it is computed on one device ([`DeviceChoice`]): the processor, or a GPU, where the same code runs, tokens
//! are drawn beside the logits, batches are as large as the memory allows, and a row's last digits may follow from its
//! neighbours.
//!
//! An encoder only reads: [`Policy::embed`] gives the vector of a text. A model that a server runs only answers
//! ([`RemoteModel`]), and servers may answer for one that learns here ([`ServeSettings`]); none of these promises holds
//! for a server's results.
//!
//! A base that stands still beside an adapter can be computed outside of libtorch ([`Base::Int8`], [`Base::F32`]), row
//! by row, so that nothing of it is padded and written tokens are kept as well: rooms `engine` (the decoder, its keys
//! and values, and its gradient) and `products` (of 8 bits and of f32, by the processor's instructions). [`Act`] has
//! them act for a model that is trained whole, while libtorch learns.
//!
//! Four rooms more: `model` (architectures, parameters by name, checkpoints), `generate` (answers), `update` (what is
//! learnt and how), `remote` (answers of a server).
mod acting;
mod choices;
mod device;
mod encode;
mod engine;
mod error;
mod generate;
mod inspect;
mod learner;
mod model;
mod pause;
pub mod products;
pub mod rates;
mod remote;
mod remote_settings;
mod room;
mod sampling;
mod sequence;
mod settings;
mod state;
mod tally;
mod tensors;
#[cfg(test)]
mod tests;
mod thread;
mod threads;
mod tokenizer;
mod trainer;
mod trie;
mod update;
mod versions;

pub use acting::row_by_row_is_quick;
pub use choices::OPEN;
pub use device::{gpus, libtorch, DeviceChoice, FoundDevice, Hardware};
pub use encode::EncoderDescription;
pub use error::{FileFault, ModelFault, PolicyError, Result, RowFault, Unanswered, UpdateFault};
pub use generate::weigh::ChoiceScores;
pub use inspect::{inspect, Inspected};
pub use model::adapter::{is_adapter_folder as is_adapter, separate_base};
pub use model::description::Description;
pub use model::export::{export, ExportKind};
pub use model::saved::is_moments;
pub use remote::{look, Answered, ServerStatus};
pub use remote_settings::{RemoteModel, ServeSettings, ServerSettings, StartSettings, TemplateVariables, TrainSettings, VllmServers};
pub use room::{adapters, available, parameters, unfit, LEARNING, PLAYING};
pub use sampling::Sampling;
pub use settings::{
    Act, Base, Dtype, EncoderModel, Head, LoadModel, LoraSettings, ModelSettings, NewKind, NewModel, SharedModel, TokenKind,
};
pub use tally::Tally;
pub use thread::Policy;
pub use tokenizer::{json_text, CallOpening, Message, Omissions, Tokenizer, END, PAD};
pub use update::parallel::Peers;
pub use update::report::{RowReport, RowUse, TokenFigures, UpdateReport};
pub use update::settings::*;

/// Which of the processor's instructions multiply a base in 8 bits: `amx`, `avx512`, `avxvnni`, `avx2` or `plain`. The
/// environment variable `FLOW_ISA` can name a lesser one; the bits are the same.
pub fn instructions() -> String {
    products::isa::Isa::chosen().to_string()
}

/// Sequences and batches are padded to a multiple of this.
pub const PAD_TO: usize = 16;

/// One prompt to answer.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What the policy reads; never empty.
    pub prompt: Vec<u32>,
    /// Decides every draw of this row.
    pub seed: u64,
    /// The answers allowed, each closed by [`Tokenizer::end`]; empty leaves decoding free. After one that [`OPEN`] closes
    /// the answer goes on freely.
    pub choices: Vec<Vec<u32>>,
    /// Tokens that its answer may have at most, where it is less than [`Sampling::max_tokens`].
    pub most: Option<usize>,
    /// What it belongs to: where several servers generate, the requests of one session go to one of them.
    pub session: u64,
}

impl Request {
    /// Tokens that its answer may have: those of the longest choice, or as many as are sampled. After an open choice
    /// there is one more at least.
    pub fn longest(&self, sampling: &Sampling) -> usize {
        let sampled = self.most.map_or(sampling.max_tokens, |most| sampling.max_tokens.min(most.max(1)));
        let longest = self.choices.iter().map(Vec::len).max();
        let open = longest.is_none() || self.choices.iter().any(|choice| choice.last() == Some(&OPEN));
        longest.unwrap_or_default().max(if open { sampled } else { 0 })
    }
}

/// What the policy wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The tokens, the one that closes the answer with them unless the limit cut it off.
    pub tokens: Vec<u32>,
    /// The log-probability of each.
    pub logprobs: Vec<f32>,
}

/// The replies to some requests, and how many tokens were computed for them.
#[derive(Clone, Debug, Default)]
pub struct GenerationOutput {
    /// One a request, in their order; a fault where a server gave none.
    pub replies: Vec<Result<Reply, RowFault>>,
    /// The tokens that were read: prompts, and what was written as far as something had to be chosen after it.
    pub tokens: Tally,
}

/// One training row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Example {
    /// What the policy read; never empty.
    pub prompt: Vec<u32>,
    /// What a teacher reads in its place; empty: the same.
    pub teacher_prompt: Vec<u32>,
    /// What it wrote, or should have written.
    pub response: Vec<u32>,
    /// Log-probability of each response token under the policy that acted; `sft` doesn't read it.
    pub logprobs: Vec<f32>,
    /// The temperature that `logprobs` are at; `None` is 1. `sft` doesn't read it.
    pub temperature: Option<f32>,
    /// As in [`Request`].
    pub choices: Vec<Vec<u32>>,
    /// Which trajectory the row is a turn of, for a mean over trajectories.
    pub trajectory: u64,
    /// How much better the response did than others.
    pub advantage: f32,
    /// The same of each response token; empty: `advantage` counts for all of them.
    pub advantages: Vec<f32>,
    /// The returns that the critic expected: after the prompt, and after each response token but the last; for a row
    /// without a response the first alone. Only the objective `value` reads them.
    pub values: Vec<f32>,
    /// The returns that it should have expected.
    pub targets: Vec<f32>,
}

impl Example {
    /// The advantage of each response token.
    fn each_advantage(&self) -> Vec<f32> {
        if self.advantages.is_empty() {
            vec![self.advantage; self.response.len()]
        } else {
            self.advantages.clone()
        }
    }
}
