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
//! length together, in batches padded to a multiple of [`flow_model::PAD_TO`] rows; a token is drawn from a hash of the row's seed
//! and the token's index. An update reads its rows as tries, too: what it computes depends on all its rows, and on
//! nothing else. Threads share the work by whole batches, each computed on one thread, and gradients are summed in a
//! fixed order, so the number of threads changes no bit. Processes that learn together ([`flow_model::Peers`]) share an update in
//! the same way, and their number changes none either.
//!
//! All of it is computed on one device ([`DeviceChoice`]): the CPU, or a GPU, where the same code runs, tokens are
//! drawn beside the logits, batches are as large as the memory allows, and a row's last digits may follow from its
//! neighbours.
//!
//! An encoder only reads: [`Policy::embed`] gives the vector of a text. A model that a server runs only answers
//! ([`flow_model::RemoteModel`]), and servers may answer for one that learns here ([`flow_model::ServeSettings`]); none of
//! these promises holds for a server's results.
//!
//! A frozen base can be computed by flow's own engine ([`flow_int8`], [`flow_model::Base`]), row by row: nothing is
//! padded, and generated tokens stay cached. [`flow_model::Act`] has it act for a model that is trained whole, while
//! libtorch learns.
//!
//! `backend` has a model as one trait, and who implements it; `model` tensors and networks, `generate` answers, `update`
//! what is learnt and how, `trainer` processes that learn.
#![cfg_attr(not(feature = "torch"), allow(dead_code))]

#[cfg(feature = "torch")]
mod acting;
mod attention;
mod backend;
mod device;
#[cfg(feature = "torch")]
mod encode;
mod export;
#[cfg(feature = "torch")]
mod generate;
mod generators;
#[cfg(feature = "torch")]
mod libtorch;
mod limits;
mod memory;
#[cfg(feature = "torch")]
mod model;
#[cfg(feature = "torch")]
mod moments;
mod numbers;
mod panics;
mod pause;
mod policy;
pub mod rates;
mod state;
#[cfg(any(test, not(feature = "torch")))]
mod tape;
#[cfg(feature = "torch")]
mod tensors;
#[cfg(all(test, feature = "torch"))]
mod tests;
mod thread;
#[cfg(feature = "torch")]
mod threads;
mod trainer;
mod update;
#[cfg(feature = "torch")]
mod versions;
#[cfg(not(feature = "torch"))]
mod without;

pub use device::{DeviceChoice, FoundDevice, Hardware};
pub use export::ExportKind;
#[cfg(feature = "torch")]
pub use libtorch::{gpus, libtorch, on_gpu};
pub use memory::{adapters, available, parameters, unfit, LEARNING, PLAYING};
#[cfg(feature = "torch")]
pub use model::export::export;
pub use policy::Policy;
#[cfg(not(feature = "torch"))]
pub use without::{export, gpus, libtorch, on_gpu};

/// Which of the CPU's instructions multiply a base in 8 bits: `amx`, `avx512`, `avxvnni`, `avx2` or `plain`. The
/// environment variable `FLOW_ISA` can name a lesser one; the bits are the same.
pub fn instructions() -> String {
    flow_int8::products::isa::Isa::chosen().to_string()
}
