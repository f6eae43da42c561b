//! Models on disk: safetensors, folders of Hugging Face and of PEFT, and what flow saves. They are opened and
//! checked, and nothing but headers, configurations and tokenizers is read until their numbers are asked for
//! ([`source::TensorSource`]).

pub mod adapter;
mod description;
pub mod encoder;
mod inspect;
pub mod opened;
pub mod safetensors;
pub mod saved;
pub mod source;
pub mod stored;

pub use adapter::separate_base;
pub use description::Description;
pub use encoder::EncoderDescription;
pub use inspect::{inspect, Inspected};
